"""A session that another process goes on with: the same question has the same id, and nothing is given up for both."""

from __future__ import annotations

import pytest

from scale0.core.participant import Settled
from scale0.core.repeatable_session import TASKS_MAX, RepeatableSession
from scale0.errors import Overloaded
from scale0.protocol.codes import Code
from scale0.protocol.ids import sequence_of
from scale0.protocol.limits import PRIORITY_NORMAL
from scale0.protocol.messages import Cancel, Disconnect, Error, Flag, Ping, Task
from tests.core.sessions_kit import HOME, WALL_S, Dice, ack, final, of, sent, settings


def session(*, is_later: bool = False, is_up: bool = True) -> RepeatableSession:
    made = RepeatableSession(settings(HOME), Dice(), is_later=is_later)
    if is_up:
        made.start(0.0, WALL_S)
        made.receive(ack(), 0.0)
    return made


def ask(asker: RepeatableSession, *bodies: bytes) -> list[Task]:
    """What leaves when these are asked."""
    return asker.submit_all("echo", [((body,), b"") for body in bodies], 10.0, 0.0, PRIORITY_NORMAL)[1]


def test_two_processes_ask_the_same_under_the_same_ids_in_any_order() -> None:
    first, second = ask(session(), b"a", b"b", b"c"), ask(session(is_later=True), b"c", b"a", b"b")
    assert {task.body: task.id for task in first} == {task.body: task.id for task in second}
    assert len({task.id for task in first}) == 3


def test_what_is_asked_twice_has_two_ids_and_again_the_same_two() -> None:
    first, second = ask(session(), b"a", b"a"), ask(session(), b"a", b"a")
    assert len({task.id for task in first}) == 2
    assert [task.id for task in first] == [task.id for task in second]


def test_the_id_changes_with_the_service_the_options_and_how_a_body_is_cut() -> None:
    asker = session()
    bodies = [((b"ab", b"c"), b""), ((b"a", b"bc"), b""), ((b"ab", b"c"), b"x")]
    ids = (
        asker.submit_all("echo", bodies, 10.0, 0.0, PRIORITY_NORMAL)[0]
        + asker.submit_all("other", bodies[:1], 10.0, 0.0, PRIORITY_NORMAL)[0]
    )
    assert len(set(ids)) == 4
    assert all(0 < sequence_of(task_id) < 2**63 for task_id in ids)


def test_a_later_process_flags_all_it_sends_and_claims_no_pair() -> None:
    assert [task.flags for task in ask(session(), b"a")] == [0]
    later = session(is_later=True)
    assert [task.flags for task in ask(later, b"a")] == [Flag.RESENT]
    assert later.open_count == 1


def test_what_was_asked_before_the_link_was_up_is_sent_then() -> None:
    asker = session(is_later=True, is_up=False)
    assert ask(asker, b"a") == []
    asker.start(0.0, WALL_S)
    assert [task.flags for task in sent(asker.receive(ack(), 0.0), Task)] == [Flag.RESENT]


def test_outcomes_are_never_acknowledged() -> None:
    asker = session()
    for task in ask(asker, *(b"%d" % number for number in range(200))):
        assert task.behind == 0
        asker.receive(final(task.id), 0.1)
    assert asker.open_count == 0
    now = asker.next_deadline()
    pings = sent(asker.tick(now, WALL_S + now), Ping)
    assert [ping.oldest_unanswered for ping in pings] == [0]


def test_who_gives_up_does_not_cancel_what_a_later_process_may_want() -> None:
    asker = session()
    (task,) = ask(asker, b"a")
    effects = asker.cancel(task.id, 0.1)
    assert not sent(effects, Cancel)
    (settled,) = of(effects, Settled)
    assert isinstance(settled.outcome, Error)
    assert settled.outcome.code == Code.CANCELLED
    assert asker.cancel(task.id, 0.2) == []


def test_a_closed_session_falls_silent_and_takes_its_leave_only_when_told() -> None:
    silent, leaving = session(), session()
    ask(silent, b"a")
    effects = silent.close(0.1)
    assert len(of(effects, Settled)) == 1
    assert not sent(effects, Disconnect)
    leaving.end()
    assert sent(leaving.close(0.1), Disconnect)


def test_a_session_takes_no_more_than_its_broker_should_keep() -> None:
    asker = session()
    for number in range(TASKS_MAX):
        asker.submit("echo", (b"%d" % number,), 10.0, 0.0)
        if number % 500 == 499:
            for task_id in list(asker._open):
                asker.receive(final(task_id), 0.0)
    with pytest.raises(Overloaded, match="10,000 tasks"):
        asker.submit("echo", (b"one more",), 10.0, 0.0)
