"""A client's session: one outcome for each task, whatever happens. Inputs in, effects out."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from scale0.core.client_session import FLUSH_MAX, MOVE_WAIT_S, STALL_S, ClientSession
from scale0.core.participant import Connected, Failed, Note, Open, Part, ParticipantEffect, Settled, Transmit
from scale0.errors import Overloaded, PayloadTooLarge, Unreachable, UsageError
from scale0.protocol.ids import make_id, sequence_of
from scale0.protocol.limits import FRAME_BYTES_MAX
from scale0.protocol.messages import (
    Cancel,
    ChangeBroker,
    Connect,
    Disconnect,
    Error,
    Flag,
    ForceNegotiate,
    NeedBroker,
    Ping,
    Pong,
    Status,
    Task,
    TaskId,
    TaskReply,
)
from tests.core.sessions_kit import (
    HOME,
    SPARE,
    WALL_S,
    Dice,
    ack,
    all_sent,
    client,
    final,
    of,
    part,
    sent,
    settings,
)

UNKNOWN = TaskId(b"noncenonme" + bytes(7) + b"\xff")


def submit(session: ClientSession, now: float, timeout_s: float = 10.0, service: str = "echo") -> TaskId:
    return session.submit(service, (b"body",), timeout_s, now)[0]


def outcome(effects: list[ParticipantEffect]) -> TaskReply | Error:
    settled = of(effects, Settled)
    assert len(settled) == 1, effects
    return settled[0].outcome


def error(effects: list[ParticipantEffect]) -> Error:
    said = outcome(effects)
    assert isinstance(said, Error)
    return said


def run(session: ClientSession, until_s: float) -> list[tuple[float, list[ParticipantEffect]]]:
    """Tick exactly when the session asks for it."""
    steps = []
    while (now := session.next_deadline()) <= until_s:
        steps.append((now, session.tick(now, WALL_S + now)))
    return steps


def run_answering(session: ClientSession, until_s: float) -> list[tuple[float, list[ParticipantEffect]]]:
    """The same, with a broker that answers each PING."""
    steps = []
    while (now := session.next_deadline()) <= until_s:
        steps.append((now, session.tick(now, WALL_S + now)))
        for ping in sent(steps[-1][1], Ping):
            session.receive(Pong(ping.time_us, ping.time_us, epoch=1), now)
    return steps


def settled_by(session: ClientSession, until_s: float) -> list[tuple[float, Settled]]:
    return [(now, settled) for now, effects in run(session, until_s) for settled in of(effects, Settled)]


def reconnect(session: ClientSession, now: float, pair: str = "") -> list[ParticipantEffect]:
    """The link breaks and comes back to the same address."""
    session.link_failed("disconnected", now)
    session.tick(session.next_deadline(), WALL_S + now)
    return session.receive(ack(pair=pair), now + 0.3)


# --- a task ---------------------------------------------------------------------------------------------------------


def test_a_task_leaves_at_once_with_what_the_broker_needs() -> None:
    session = client()
    task_id, effects = session.submit("echo", (b"a", b"b"), 2.5, 1.0, priority=3, options=b"\x80")
    assert effects == [
        Transmit(
            Task(task_id, "echo", (b"a", b"b"), 2500, 1, 3, 0, int((WALL_S + 1.0) * 1e6), 0, options=b"\x80"),
        )
    ]
    assert task_id == make_id(b"noncenonme", 1)


def test_a_reply_settles_its_task() -> None:
    session = client()
    task_id = submit(session, 1.0)
    reply = final(task_id)
    assert session.receive(reply, 1.1) == [Settled(task_id, reply)]
    assert session.open_count == 0


def test_a_failed_reply_is_an_outcome_too() -> None:
    session = client()
    task_id = submit(session, 1.0)
    reply = TaskReply(task_id, (b"why",), status=Status.FAILED)
    assert session.receive(reply, 1.1) == [Settled(task_id, reply)]


@pytest.mark.parametrize("code", [400, 404, 408, 413, 429, 499, 502, 503, 504])
def test_an_error_settles_its_task(code: int) -> None:
    session = client()
    task_id = submit(session, 1.0)
    said = Error(code=code, text="no", id=task_id)
    assert session.receive(said, 1.1) == [Settled(task_id, said)]


def test_a_second_outcome_is_dropped() -> None:
    session = client()
    task_id = submit(session, 1.0)
    session.receive(final(task_id), 1.1)
    assert session.receive(final(task_id), 1.2) == []
    assert session.receive(Error(code=504, text="late", id=task_id), 1.3) == []
    assert session.receive(final(UNKNOWN), 1.4) == []
    assert session.discarded == 3


def test_sequences_count_from_one() -> None:
    session = client()
    assert [sequence_of(submit(session, 1.0)) for _ in range(3)] == [1, 2, 3]


def test_behind_never_promises_to_forget_an_open_task() -> None:
    session = client()
    opened: list[TaskId] = []
    for number in range(300):
        task_id, effects = session.submit("echo", (b"",), 10.0, 1.0)
        opened.append(task_id)
        if number % 3:
            session.receive(final(opened.pop(0)), 1.0)
        oldest = sequence_of(sent(effects, Task)[0].id) - sent(effects, Task)[0].behind
        assert oldest <= min(map(sequence_of, opened), default=math.inf)


def test_with_nothing_else_open_a_task_is_behind_nothing() -> None:
    session = client()
    for _ in range(5):
        task_id, effects = session.submit("echo", (b"",), 10.0, 1.0)
        assert sent(effects, Task)[0].behind == 0
        session.receive(final(task_id), 1.0)


def test_ping_says_the_oldest_unanswered() -> None:
    session = client()
    submit(session, 0.1, 60.0)
    session.receive(final(submit(session, 0.1, 60.0)), 0.2)
    pings = [ping for _, effects in run(session, 2.5) for ping in sent(effects, Ping)]
    assert pings[0].oldest_unanswered == 1


def test_ping_with_nothing_open_lets_the_broker_forget_all() -> None:
    session = client()
    session.receive(final(submit(session, 0.1)), 0.2)
    pings = [ping for _, effects in run(session, 2.5) for ping in sent(effects, Ping)]
    assert pings[0].oldest_unanswered == 2


# --- parts ----------------------------------------------------------------------------------------------------------


def test_parts_come_in_order_and_the_final_reply_settles() -> None:
    session = client()
    task_id = submit(session, 1.0)
    assert session.receive(part(task_id, 0), 1.1) == [Part(part(task_id, 0))]
    assert session.receive(part(task_id, 1), 1.2) == [Part(part(task_id, 1))]
    last = final(task_id, part=2)
    assert session.receive(last, 1.3) == [Settled(task_id, last)]


def test_no_part_comes_twice() -> None:
    session = client()
    task_id = submit(session, 1.0)
    session.receive(part(task_id, 0), 1.1)
    assert session.receive(part(task_id, 0), 1.2) == []
    assert of(session.receive(part(task_id, 1), 1.3), Part)


@pytest.mark.parametrize("is_final", [False, True])
def test_a_lost_part_makes_the_outcome_unknown(is_final: bool) -> None:
    session = client()
    task_id = submit(session, 1.0)
    session.receive(part(task_id, 0), 1.1)
    effects = session.receive(final(task_id, part=2) if is_final else part(task_id, 2), 1.2)
    assert error(effects).code == 502
    assert "part 1" in error(effects).text
    assert bool(sent(effects, Cancel)) is not is_final


@pytest.mark.parametrize("is_final", [False, True])
def test_parts_of_two_runs_are_never_mixed(is_final: bool) -> None:
    session = client()
    task_id = submit(session, 1.0)
    session.receive(part(task_id, 0), 1.1)
    again = final(task_id, part=1) if is_final else part(task_id, 1)
    again.attempt = 2
    effects = session.receive(again, 1.2)
    assert error(effects).code == 502
    assert "run again" in error(effects).text


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("is_final", [False, True])
def test_parts_of_two_brokers_that_were_both_sent_the_task_are_never_mixed(number: int, is_final: bool) -> None:
    session = client(up_at=None)
    session.receive(ack(pair="first"), 0.0)
    task_id = submit(session, 1.0)
    reconnect(session, 2.0, pair="second")
    assert of(session.receive(part(task_id, 0), 2.5), Part)
    reconnect(session, 3.0, pair="first")
    effects = session.receive(final(task_id, part=number) if is_final else part(task_id, number), 3.5)
    assert error(effects).code == 502, "each of them calls its run attempt 1"
    assert bool(sent(effects, Cancel)) is not is_final


def test_parts_of_one_run_go_on_at_the_broker_that_it_was_forwarded_to() -> None:
    session = client(up_at=None)
    session.receive(ack(pair="origin"), 0.0)
    task_id = submit(session, 1.0)
    session.receive(part(task_id, 0), 1.5)
    (again,) = sent(reconnect(session, 2.0, pair="taker"), Task)
    assert again.flags & Flag.PARTLY_ANSWERED, "so the other one begins no run of its own"
    assert of(session.receive(part(task_id, 1), 2.5), Part)
    assert outcome(session.receive(final(task_id, part=2), 2.6)) == final(task_id, part=2)


def test_task_that_was_at_two_brokers_goes_on_where_its_reply_has_begun() -> None:
    session = client(up_at=None)
    session.receive(ack(pair="first"), 0.0)
    task_id = submit(session, 1.0)
    reconnect(session, 2.0, pair="second")
    session.receive(part(task_id, 0), 2.5)
    reconnect(session, 3.0, pair="second")
    assert outcome(session.receive(final(task_id, part=1), 3.5)) == final(task_id, part=1)


def test_a_reply_that_follows_fewer_parts_than_were_received_is_of_another_run() -> None:
    session = client(up_at=None)
    session.receive(ack(pair="prim"), 0.0)
    task_id = submit(session, 1.0)
    session.receive(part(task_id, 0), 1.1)
    session.receive(part(task_id, 1), 1.2)
    reconnect(session, 2.0, pair="prim")
    told = error(session.receive(final(task_id, part=1), 2.5))
    assert (told.code, "run again" in told.text) == (502, True)


# --- before and between links ---------------------------------------------------------------------------------------


def test_tasks_submitted_before_a_broker_is_there_leave_when_it_is() -> None:
    session = client(up_at=None)
    task_id, effects = session.submit("echo", (b"x",), 10.0, 0.5)
    assert effects == []
    tasks = sent(session.receive(ack(), 2.0), Task)
    assert [(task.id, task.remaining_ms, task.flags) for task in tasks] == [(task_id, 8500, 0)]


def test_unanswered_tasks_are_sent_again_and_say_so() -> None:
    session = client()
    first, second = submit(session, 1.0), submit(session, 1.0)
    session.receive(final(second), 1.5)
    session.link_failed("disconnected", 2.0)
    late, effects = session.submit("echo", (b"x",), 10.0, 2.05)
    assert effects == []
    session.tick(session.next_deadline(), WALL_S + 2.2)
    tasks = sent(session.receive(ack(), 3.0), Task)
    assert [(task.id, task.flags, task.remaining_ms) for task in tasks] == [(first, Flag.RESENT, 8000), (late, 0, 9050)]
    assert tasks[1].behind == 2


def test_after_forcenegotiate_tasks_that_left_are_flagged() -> None:
    session = client()
    task_id = submit(session, 1.0)
    assert sent(session.receive(ForceNegotiate(reason="restarted"), 1.1), Connect)
    tasks = sent(session.receive(ack(), 1.2), Task)
    assert [(task.id, task.flags) for task in tasks] == [(task_id, Flag.RESENT)]


def test_a_task_that_was_at_one_pair_of_brokers_only_says_so() -> None:
    session = client(up_at=None)
    session.receive(ack(pair="prim"), 0.0)
    task_id = submit(session, 1.0)
    (again,) = sent(reconnect(session, 2.0, pair="prim"), Task)
    assert (again.id, again.flags) == (task_id, Flag.RESENT | Flag.SAME_PAIR)


def test_a_task_that_was_at_another_broker_too_is_of_no_pair_any_more() -> None:
    session = client(up_at=None)
    session.receive(ack(pair="prim"), 0.0)
    submit(session, 1.0)
    for now, pair in ((2.0, "other"), (4.0, "prim"), (6.0, "prim")):
        (again,) = sent(reconnect(session, now, pair=pair), Task)
        assert again.flags == Flag.RESENT, "who has it now may have dispatched it"


def test_a_task_that_waited_for_a_link_belongs_to_the_pair_that_it_was_sent_to_first() -> None:
    session = client(up_at=None)
    submit(session, 0.0)
    (first,) = sent(session.receive(ack(pair="prim"), 0.1), Task)
    (again,) = sent(reconnect(session, 2.0, pair="prim"), Task)
    assert (first.flags, again.flags) == (0, Flag.RESENT | Flag.SAME_PAIR)


def test_a_task_at_a_broker_without_a_partner_is_of_no_pair() -> None:
    session = client()
    submit(session, 1.0)
    (again,) = sent(reconnect(session, 2.0), Task)
    assert again.flags == Flag.RESENT


def test_a_task_whose_reply_has_begun_is_not_to_be_repeated() -> None:
    session = client()
    task_id = submit(session, 1.0)
    session.receive(part(task_id, 0), 1.1)
    tasks = sent(reconnect(session, 1.2), Task)
    assert [(task.id, task.flags) for task in tasks] == [(task_id, Flag.RESENT | Flag.PARTLY_ANSWERED)]
    assert of(session.receive(part(task_id, 1), 1.6), Part)


@pytest.mark.parametrize(("code", "told"), [(404, 502), (408, 408), (429, 502), (503, 502), (504, 504)])
def test_a_refusal_of_a_resent_task_does_not_claim_that_nothing_ran(code: int, told: int) -> None:
    session = client()
    task_id = submit(session, 1.0)
    reconnect(session, 1.2)
    assert error(session.receive(Error(code=code, text="why", id=task_id), 1.6)).code == told


def test_a_reply_between_links_still_counts() -> None:
    session = client()
    task_id = submit(session, 1.0)
    session.link_failed("disconnected", 2.0)
    assert of(session.receive(final(task_id), 2.01), Settled)


def test_a_task_whose_deadline_has_passed_is_not_sent_again() -> None:
    session = client()
    submit(session, 1.0, 0.5)
    session.link_failed("disconnected", 1.1)
    session.tick(session.next_deadline(), WALL_S + 1.3)
    assert sent(session.receive(ack(), 1.6), Task) == []
    assert settled_by(session, 4.0)[0][1].outcome.code == 504  # type: ignore[union-attr]


def test_many_tasks_are_sent_again_some_at_a_time() -> None:
    session = client(up_at=None)
    ids = [submit(session, 0.1, 60.0) for _ in range(FLUSH_MAX + 10)]
    tasks = sent(session.receive(ack(), 1.0), Task)
    assert len(tasks) == FLUSH_MAX
    newest, effects = session.submit("echo", (b"x",), 60.0, 1.0)
    assert effects == [], "it waits for its turn"
    assert session.next_deadline() == 1.0
    tasks += sent(session.tick(1.0, WALL_S), Task)
    assert [task.id for task in tasks] == [*ids, newest]
    assert session.next_deadline() > 1.0
    assert session.submit("echo", (b"x",), 60.0, 1.0)[1]


def test_after_a_standstill_a_task_waits_for_the_new_link() -> None:
    session = client()
    task_id, effects = session.submit("echo", (b"x",), 10.0, 100.0)
    assert effects == []
    assert sent(session.tick(100.0, WALL_S + 100.0), Connect)
    tasks = sent(session.receive(ack(), 100.1), Task)
    assert [(task.id, task.flags) for task in tasks] == [(task_id, 0)]


def test_each_new_link_is_told() -> None:
    session = client()
    assert of(reconnect(session, 1.0), Connected) == [Connected(HOME, 1)]


# --- a full pipe ----------------------------------------------------------------------------------------------------


def test_a_task_that_met_a_full_pipe_is_sent_a_little_later_and_not_flagged() -> None:
    session = client()
    task_id, effects = session.submit("echo", (b"x",), 10.0, 1.0)
    assert session.send_failed(sent(effects, Task)[0], 1.0) == []
    second, effects = session.submit("echo", (b"x",), 10.0, 1.0)
    assert effects == [], "those after it wait, too"
    assert session.next_deadline() == 1.0 + STALL_S
    tasks = sent(session.tick(1.0 + STALL_S, WALL_S + 1.0), Task)
    assert [(task.id, task.flags) for task in tasks] == [(task_id, 0), (second, 0)]


def test_a_cancel_that_met_a_full_pipe_is_sent_a_little_later() -> None:
    session = client()
    task_id = submit(session, 1.0)
    cancel = sent(session.cancel(task_id, 1.1), Cancel)[0]
    session.send_failed(cancel, 1.1)
    assert all_sent(session.tick(1.1 + STALL_S, WALL_S + 1.1)) == [Cancel(id=task_id)]


def test_a_failed_send_of_a_settled_task_is_nobodys_business() -> None:
    session = client()
    _, effects = session.submit("echo", (b"x",), 10.0, 1.0)
    message = sent(effects, Task)[0]
    session.receive(final(message.id), 1.1)
    session.send_failed(message, 1.15)
    assert session.tick(1.2, WALL_S + 1.2) == []


# --- deadlines ------------------------------------------------------------------------------------------------------


def test_without_an_outcome_a_task_ends_a_grace_after_its_deadline() -> None:
    session = client()
    task_id = submit(session, 1.0, 2.0)
    ((now, settled),) = settled_by(session, 10.0)
    assert settled.id == task_id
    assert isinstance(settled.outcome, Error)
    assert settled.outcome.code == 504
    assert 4.0 <= now <= 4.051
    assert session.receive(final(task_id), 5.0) == []


def test_the_brokers_word_within_the_grace_counts() -> None:
    session = client()
    task_id = submit(session, 1.0, 2.0)
    assert settled_by(session, 3.5) == []
    assert error(session.receive(Error(code=504, text="no reply", id=task_id), 3.6)).text == "no reply"


def test_a_task_that_no_broker_took_ends_at_its_deadline_and_names_the_broker() -> None:
    session = client(up_at=None, retry_forever=True)
    session.link_failed("nothing listens on that port", 0.1)
    submit(session, 0.5, 2.0)
    ((now, settled),) = settled_by(session, 10.0)
    assert 2.5 <= now <= 2.551
    assert isinstance(settled.outcome, Error)
    assert settled.outcome.code == 503
    assert f"{HOME}: nothing listens on that port" in settled.outcome.text


def test_every_task_gets_its_outcome_even_if_every_broker_is_gone() -> None:
    session = client()
    ids = {submit(session, 1.0 + number / 100, number / 50) for number in range(200)}
    session.link_failed("disconnected", 3.0)
    ids |= {submit(session, 3.5, 1.0) for _ in range(10)}
    settled = settled_by(session, 30.0)
    assert sorted(one.id for _, one in settled) == sorted(ids)
    assert session.open_count == 0


def test_the_shell_never_spins() -> None:
    session = client()
    for number in range(50):
        submit(session, number / 7, 3.0)
    ticks = run(session, 60.0)
    assert len(ticks) < 400
    for (earlier, _), (later, _) in pairwise(ticks):
        assert later > earlier


def test_a_settled_task_leaves_no_timer() -> None:
    session = client()
    before = session.next_deadline()
    session.receive(final(submit(session, 0.0, 0.1)), 0.0)
    session.tick(0.2, WALL_S + 0.2)
    assert session.next_deadline() == before


# --- cancelling -----------------------------------------------------------------------------------------------------


def test_cancel_is_sent_and_the_brokers_word_settles() -> None:
    session = client()
    task_id = submit(session, 1.0)
    assert session.cancel(task_id, 1.1) == [Transmit(Cancel(id=task_id))]
    assert session.cancel(task_id, 1.2) == []
    assert error(session.receive(Error(code=499, text="cancelled", id=task_id), 1.3)).code == 499


def test_a_reply_that_was_final_before_the_cancel_counts() -> None:
    session = client()
    task_id = submit(session, 1.0)
    session.cancel(task_id, 1.1)
    assert outcome(session.receive(final(task_id), 1.2)) == final(task_id)


def test_a_cancel_that_nobody_confirms_ends_after_the_grace() -> None:
    session = client()
    submit_id = submit(session, 1.0, 60.0)
    session.cancel(submit_id, 1.5)
    ((now, settled),) = settled_by(session, 10.0)
    assert 2.5 <= now <= 2.551
    assert isinstance(settled.outcome, Error)
    assert settled.outcome.code == 499


def test_a_cancel_after_the_deadline_puts_nothing_off() -> None:
    session = client()
    session_id = submit(session, 1.0, 1.0)
    assert settled_by(session, 2.5) == []
    session.cancel(session_id, 2.6)
    ((now, _),) = settled_by(session, 10.0)
    assert 3.0 <= now <= 3.051


def test_502_in_answer_to_cancel_does_not_claim_that_nothing_ran() -> None:
    session = client()
    task_id = submit(session, 1.0)
    session.cancel(task_id, 1.1)
    assert error(session.receive(Error(code=502, text="no such task", id=task_id), 1.2)).code == 499


def test_a_task_that_never_left_is_cancelled_at_once() -> None:
    session = client(up_at=None)
    task_id = submit(session, 0.1)
    assert error(session.cancel(task_id, 0.2)).code == 499
    assert sent(session.receive(ack(), 1.0), Task) == []


def test_a_cancelled_task_is_not_sent_again_but_its_cancel_is() -> None:
    session = client()
    task_id = submit(session, 1.0)
    session.link_failed("disconnected", 1.1)
    assert session.cancel(task_id, 1.15) == []
    session.tick(session.next_deadline(), WALL_S + 1.3)
    effects = session.receive(ack(), 1.4)
    assert sent(effects, Task) == []
    assert sent(effects, Cancel) == [Cancel(id=task_id)]


def test_cancelling_what_is_not_open_does_nothing() -> None:
    assert client().cancel(UNKNOWN, 1.0) == []


# --- redirects ------------------------------------------------------------------------------------------------------


def test_301_for_a_task_leads_it_to_the_other_broker_as_if_for_the_first_time() -> None:
    session = client()
    refused = submit(session, 1.0)
    moved = Error(code=301, text="moved", id=refused, detail={"endpoints": [SPARE]})
    effects = session.receive(moved, 1.1)
    assert of(effects, Settled) == []
    assert of(effects, Open) == [Open(SPARE)]
    tasks = sent(session.receive(ack(), 1.2), Task)
    assert [(task.id, task.flags) for task in tasks] == [(refused, 0)]


def test_301_for_one_task_waits_for_the_others_that_were_accepted() -> None:
    session = client()
    refused, accepted = submit(session, 1.0), submit(session, 1.0)
    moved = Error(code=301, text="moved", id=refused, detail={"endpoints": [SPARE]})
    assert not of(session.receive(moved, 1.1), Open)
    effects = session.receive(final(accepted), 1.2)
    assert of(effects, Open) == [Open(SPARE)]
    tasks = sent(session.receive(ack(), 1.3), Task)
    assert [(task.id, task.flags) for task in tasks] == [(refused, 0)]


def test_301_without_a_target_asks_which_broker_to_use() -> None:
    session = client()
    task_id = submit(session, 1.0)
    assert sent(session.receive(Error(code=301, text="moved", id=task_id), 1.1), NeedBroker)
    assert session.receive(Error(code=301, text="moved", id=task_id), 1.1) == []
    assert session.open_count == 1


def test_a_pushed_changebroker_is_followed_at_once_with_nothing_in_flight() -> None:
    session = client()
    effects = session.receive(ChangeBroker(identity="b2", endpoints=[SPARE]), 1.0)
    assert of(effects, Open) == [Open(SPARE)]
    assert sent(effects, Disconnect)


def test_before_a_move_what_is_in_flight_may_be_answered() -> None:
    session = client()
    task_id = submit(session, 1.0)
    assert session.receive(ChangeBroker(identity="b2", endpoints=[SPARE]), 1.1) == []
    waiting, effects = session.submit("echo", (b"x",), 10.0, 1.2)
    assert effects == []
    effects = session.receive(final(task_id), 1.3)
    assert of(effects, Settled)
    assert of(effects, Open) == [Open(SPARE)]
    tasks = sent(session.receive(ack(), 1.4), Task)
    assert [(task.id, task.flags) for task in tasks] == [(waiting, 0)]


def test_a_move_waits_for_what_is_in_flight_but_not_for_ever() -> None:
    session = client()
    task_id = submit(session, 1.0, 60.0)
    session.receive(ChangeBroker(identity="b2", endpoints=[SPARE]), 1.1)
    session.receive(ChangeBroker(identity="b2", endpoints=[SPARE]), 2.0)
    steps = run_answering(session, 1.1 + MOVE_WAIT_S)
    assert steps[-1][0] == pytest.approx(1.1 + MOVE_WAIT_S)
    assert of(steps[-1][1], Open) == [Open(SPARE)]
    tasks = sent(session.receive(ack(), 31.2), Task)
    assert [(task.id, task.flags) for task in tasks] == [(task_id, Flag.RESENT)]


def test_a_task_that_waits_for_the_move_too_long_says_so() -> None:
    session = client()
    submit(session, 1.0, 60.0)
    session.receive(ChangeBroker(identity="b2", endpoints=[SPARE]), 1.1)
    waiting = submit(session, 1.2, 5.0)
    settled = [one for _, effects in run_answering(session, 7.0) for one in of(effects, Settled)]
    assert [one.id for one in settled] == [waiting]
    assert isinstance(settled[0].outcome, Error)
    assert settled[0].outcome.code == 503
    assert "left for another broker" in settled[0].outcome.text


def test_a_link_lost_before_the_move_is_mended_at_the_other_broker() -> None:
    session = client()
    task_id = submit(session, 1.0, 60.0)
    session.receive(ChangeBroker(identity="b2", endpoints=[SPARE]), 1.1)
    waiting = submit(session, 1.15, 60.0)
    session.link_failed("disconnected", 1.2)
    assert of(session.tick(session.next_deadline(), WALL_S + 1.4), Open) == [Open(SPARE)]
    tasks = sent(session.receive(ack(), 1.5), Task)
    assert [(task.id, task.flags) for task in tasks] == [(task_id, Flag.RESENT), (waiting, 0)]


# --- a broker that takes no tasks -----------------------------------------------------------------------------------


def refuse(session: ClientSession, task_id: TaskId, now: float, text: str = "draining") -> list[ParticipantEffect]:
    return session.receive(Error(code=503, text=text, id=task_id), now)


def go_to(session: ClientSession, endpoint: str, now: float) -> list[ParticipantEffect]:
    """The broker names another one, which takes the session."""
    session.receive(ChangeBroker(identity="other", endpoints=[endpoint]), now)
    return session.receive(ack(), now)


def test_a_task_that_a_broker_does_not_take_goes_to_another_as_if_for_the_first_time() -> None:
    session = client(HOME, SPARE)
    task_id = submit(session, 1.0)
    effects = refuse(session, task_id, 1.1)
    assert of(effects, Settled) == []
    assert sent(effects, NeedBroker)[0].tried == [HOME]
    tasks = sent(go_to(session, SPARE, 1.2), Task)
    assert [(task.id, task.flags, task.remaining_ms) for task in tasks] == [(task_id, 0, 9800)]
    assert outcome(session.receive(final(task_id), 1.3)) == final(task_id)


def test_what_the_broker_had_accepted_before_is_waited_for() -> None:
    session = client(HOME, SPARE)
    accepted, refused = submit(session, 1.0), submit(session, 1.0)
    refuse(session, refused, 1.1)
    assert not of(session.receive(ChangeBroker(identity="b2", endpoints=[SPARE]), 1.2), Open)
    effects = session.receive(final(accepted), 1.3)
    assert of(effects, Open) == [Open(SPARE)]
    assert [task.id for task in sent(session.receive(ack(), 1.4), Task)] == [refused]


def test_a_task_refused_while_the_move_is_waited_for_is_not_waited_for() -> None:
    session = client(HOME, SPARE)
    first, second = submit(session, 1.0), submit(session, 1.0)
    refuse(session, first, 1.1)
    session.receive(ChangeBroker(identity="b2", endpoints=[SPARE]), 1.2)
    assert of(refuse(session, second, 1.3), Open) == [Open(SPARE)]
    assert [(task.id, task.flags) for task in sent(session.receive(ack(), 1.4), Task)] == [(first, 0), (second, 0)]


def test_once_a_broker_takes_no_tasks_new_ones_wait_for_another() -> None:
    session = client(HOME, SPARE)
    refused = submit(session, 1.0)
    refuse(session, refused, 1.1)
    waiting, effects = session.submit("echo", (b"x",), 10.0, 1.15)
    assert effects == []
    assert sent(session.tick(1.2, WALL_S + 1.2), Task) == []
    tasks = sent(go_to(session, SPARE, 1.3), Task)
    assert [(task.id, task.flags) for task in tasks] == [(refused, 0), (waiting, 0)]
    assert session.submit("echo", (b"x",), 10.0, 1.4)[1], "and then all is as before"


def test_what_waited_in_vain_goes_to_the_one_broker_that_is_left() -> None:
    session = client()
    refused = submit(session, 1.0)
    session.receive(Error(code=301, text="moved", id=refused), 1.1)
    waiting = submit(session, 1.2)
    effects = session.receive(Error(code=503, text="no broker to name"), 1.3)
    assert error(effects).code == 503
    assert of(effects, Settled)[0].id == refused
    assert [task.id for task in sent(effects, Task)] == [waiting]
    assert session.submit("echo", (b"x",), 10.0, 1.4)[1]


def test_the_shell_never_spins_while_another_broker_is_sought() -> None:
    session = client(HOME, SPARE, connect_timeout_s=60.0)
    submit(session, 1.0, 100.0)
    refuse(session, submit(session, 1.0, 100.0), 1.1)
    steps = run_answering(session, 55.0)
    assert all(later > earlier for (earlier, _), (later, _) in pairwise(steps))
    assert len(steps) < 60


def test_with_no_other_broker_known_the_caller_has_the_503_at_once() -> None:
    session = client()
    assert error(refuse(session, submit(session, 1.0), 1.1)).text == "draining"


def test_when_each_broker_was_asked_in_vain_the_caller_has_the_503() -> None:
    session = client(HOME, SPARE)
    task_id = submit(session, 1.0)
    refuse(session, task_id, 1.1)
    assert of(session.receive(Error(code=503, text="no broker to name"), 1.2), Open) == [Open(SPARE)]
    said = error(session.link_failed("nothing listens on that port", 1.3))
    assert said.code == 503
    assert "503 draining" in said.text
    assert f"{SPARE}: nothing listens on that port" in said.text


def test_when_each_broker_has_refused_it_the_caller_has_the_503() -> None:
    session = client(HOME, SPARE)
    task_id = submit(session, 1.0)
    refuse(session, task_id, 1.1)
    go_to(session, SPARE, 1.2)
    refuse(session, task_id, 1.3, "joining")
    go_to(session, HOME, 1.4)
    assert error(refuse(session, task_id, 1.5, "still draining")).text == "still draining"
    assert session.open_count == 0


def test_a_resent_task_that_no_broker_takes_does_not_claim_that_nothing_ran() -> None:
    session = client(HOME, SPARE)
    task_id = submit(session, 1.0)
    reconnect(session, 1.2)
    assert of(refuse(session, task_id, 1.6), Settled) == []
    session.receive(Error(code=503, text="no broker to name"), 1.7)
    said = error(session.link_failed("nothing listens on that port", 1.8))
    assert said.code == 502
    assert "503 draining" in said.text


def test_a_refused_task_ends_at_its_deadline_if_nobody_takes_it() -> None:
    session = client(HOME, SPARE)
    submit(session, 1.0, 60.0)
    refuse(session, submit(session, 1.0, 2.0), 1.1)
    session.receive(ChangeBroker(identity="b2", endpoints=[SPARE]), 1.2)
    ((now, settled),) = settled_by(session, 5.0)
    assert 3.0 <= now <= 3.051
    assert isinstance(settled.outcome, Error)
    assert (settled.outcome.code, "503 draining" in settled.outcome.text) == (503, True)


def test_a_refused_task_can_be_cancelled() -> None:
    session = client(HOME, SPARE)
    task_id = submit(session, 1.0)
    refuse(session, task_id, 1.1)
    assert error(session.cancel(task_id, 1.2)).code == 499


def test_a_task_whose_reply_has_begun_does_not_go_elsewhere() -> None:
    session = client(HOME, SPARE)
    task_id = submit(session, 1.0)
    session.receive(part(task_id, 0), 1.1)
    assert error(refuse(session, task_id, 1.2)).code == 503


# --- limits ---------------------------------------------------------------------------------------------------------


def test_open_tasks_are_bounded_in_number() -> None:
    session = client(open_max=2)
    first = submit(session, 1.0)
    submit(session, 1.0)
    with pytest.raises(Overloaded, match="2 tasks"):
        submit(session, 1.0)
    session.receive(final(first), 1.1)
    submit(session, 1.2)


def test_open_tasks_are_bounded_in_bytes() -> None:
    session = client(open_bytes_max=10)
    task_id, _ = session.submit("echo", (b"12345678",), 10.0, 1.0)
    with pytest.raises(Overloaded):
        session.submit("echo", (b"123",), 10.0, 1.0)
    session.receive(final(task_id), 1.1)
    session.submit("echo", (b"123",), 10.0, 1.2)


def test_what_no_broker_would_take_is_refused_before_it_is_sent() -> None:
    session = client()
    with pytest.raises(PayloadTooLarge):
        session.submit("echo", (bytes(FRAME_BYTES_MAX + 1),), 10.0, 1.0)
    with pytest.raises(UsageError):
        session.submit("", (b"",), 10.0, 1.0)
    with pytest.raises(UsageError):
        session.submit("echo", (b"",), 10.0, 1.0, priority=4)
    with pytest.raises(UsageError):
        session.submit("echo", (b"",), 10.0, 1.0, options=bytes(5000))
    assert session.open_count == 0


def test_thousands_of_names_do_not_pile_up() -> None:
    session = client()
    for number in range(3000):
        session.receive(final(submit(session, 1.0, service=f"service-{number}")), 1.0)
    assert session.open_count == 0


# --- the end --------------------------------------------------------------------------------------------------------


def test_close_settles_what_is_open_and_tells_the_broker() -> None:
    session = client()
    task_id = submit(session, 1.0)
    effects = session.close(1.1)
    assert error(effects).code == 499
    assert of(effects, Settled)[0].id == task_id
    assert sent(effects, Disconnect)
    assert session.next_deadline() == math.inf
    with pytest.raises(UsageError, match="closed"):
        submit(session, 1.2)


def test_a_failed_start_settles_what_was_submitted_and_says_why() -> None:
    session = client(up_at=None)
    session.link_failed("nothing listens on that port", 0.1)
    submit(session, 0.2)
    effects = run(session, 10.0)[-1][1]
    assert error(effects).code == 503
    assert "nothing listens on that port" in error(effects).text
    assert isinstance(effects[-1], Failed), "outcomes come first"
    with pytest.raises(Unreachable):
        submit(session, 4.0)


def test_a_fatal_error_for_a_task_settles_it_and_ends_the_link() -> None:
    session = client()
    task_id = submit(session, 1.0)
    effects = session.receive(Error(code=413, text="too large", id=task_id, fatal=True), 1.1)
    assert [type(effect) for effect in effects] == [Settled, Note]


def test_services_that_the_client_will_ask_for_are_named() -> None:
    session = ClientSession(settings(services=["echo"]), Dice())
    assert sent(session.start(0.0, WALL_S), Connect)[0].services == ["echo"]


def test_batch_is_taken_whole_or_not_at_all() -> None:
    session = client(open_max=3)
    request = (b"body",), b""
    with pytest.raises(Overloaded):
        session.submit_all("echo", [request] * 4, 10.0, 1.0, 1)
    assert session.open_count == 0
    ids, leaving = session.submit_all("echo", [request] * 3, 10.0, 1.0, 1)
    assert [task.id for task in leaving] == ids
    assert [sequence_of(task_id) for task_id in ids] == [1, 2, 3]


def test_batch_with_a_body_that_is_too_large_sends_none_of_it() -> None:
    session = client()
    requests = [((b"small",), b""), ((bytes(FRAME_BYTES_MAX + 1),), b"")]
    with pytest.raises(PayloadTooLarge):
        session.submit_all("echo", requests, 10.0, 1.0, 1)
    assert session.open_count == 0


def test_part_and_final_of_one_batch_come_in_order() -> None:
    session = client()
    (task_id, other_id), _ = session.submit_all("count", [((b"a",), b""), ((b"b",), b"")], 10.0, 1.0, 1)
    replies = [
        TaskReply(task_id, (b"0",), part=0, final=False),
        TaskReply(other_id, (b"whole",)),
        TaskReply(task_id, (b"1",), part=1),
        TaskReply(task_id, (b"late",), part=2),
    ]
    out: list[ParticipantEffect] = []
    assert session.receive_replies(replies, 1.5, out) == [replies[1], replies[2]]
    assert out == [Part(replies[0])]
    assert (session.open_count, session.discarded) == (0, 1)
