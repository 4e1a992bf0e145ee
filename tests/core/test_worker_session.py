"""A worker's session: what it offers, holds and answers, and how it leaves. Inputs in, effects out."""

from __future__ import annotations

import math
from typing import Any

import pytest

from scale0.core.held_tasks import COVERED_MAX, FLUSH_MAX
from scale0.core.kept_replies import RECENT_MAX
from scale0.core.participant import Abort, Connected, Failed, Left, Note, Open, ParticipantEffect, Ready, Run, Transmit
from scale0.core.worker_session import STALL_S, WorkerSession
from scale0.errors import SessionRefused, UsageError
from scale0.protocol import messages
from scale0.protocol.limits import SERVICES_PER_WORKER_MAX
from scale0.protocol.messages import (
    Cancel,
    ChangeBroker,
    Connect,
    Disconnect,
    Error,
    ForceNegotiate,
    NeedBroker,
    Ping,
    Pong,
    ServiceOffer,
    Status,
    Task,
    TaskReply,
)
from tests.core.sessions_kit import (
    HOME,
    SPARE,
    WALL_S,
    Dice,
    ack,
    all_sent,
    config,
    of,
    ready_ok,
    sent,
    settings,
    task,
    version,
    worker,
)


def fresh(**changes: Any) -> WorkerSession:
    """A worker that has only started."""
    offers = [ServiceOffer("echo", True, 5), ServiceOffer("sum")]
    given: dict[str, Any] = {"capacity": 2, "offers": offers} | changes
    session = WorkerSession(settings(heartbeat_interval_s=given.pop("interval_s", 2.5)), Dice(), **given)
    session.start(0.0, WALL_S)
    return session


def readies(effects: list[ParticipantEffect]) -> list[messages.Ready]:
    return sent(effects, messages.Ready)


def reply(session: WorkerSession, to: Task, now: float, **changes: Any) -> list[ParticipantEffect]:
    return session.reply(to.id, to.attempt, (b"done",), now=now, **changes)


def tick(session: WorkerSession, now: float) -> list[ParticipantEffect]:
    return session.tick(now, WALL_S + now)


def run(session: WorkerSession, until_s: float) -> list[tuple[float, list[ParticipantEffect]]]:
    """Tick exactly when the session asks for it."""
    steps = []
    while (now := session.next_deadline()) <= until_s:
        steps.append((now, tick(session, now)))
    return steps


# --- READY ----------------------------------------------------------------------------------------------------------


def test_connect_is_followed_by_ready_and_readyok() -> None:
    session = fresh()
    effects = session.receive(config(3), 0.1)
    assert of(effects, Connected) == [Connected(HOME, 1)]
    assert readies(effects) == [
        messages.Ready(
            services=[ServiceOffer("echo", True, 5), ServiceOffer("sum")],
            capacity=2,
            time_us=int((WALL_S + 0.1) * 1e6),
            config_version=version(3),
        )
    ]
    assert not session.is_ready
    assert session.receive(ready_ok(2), 0.2) == [Ready({})]
    assert session.is_ready


def test_connect_names_the_services() -> None:
    session = WorkerSession(settings(), Dice(), offers=[ServiceOffer("echo"), ServiceOffer("sum")])
    assert sent(session.start(0.0, WALL_S), Connect)[0].services == ["echo", "sum"]


def test_refused_services_are_told() -> None:
    session = fresh()
    session.receive(ack(), 0.1)
    effects = session.receive(ready_ok(2, refused={"sum": "not managed"}), 0.2)
    assert of(effects, Ready) == [Ready({"sum": "not managed"})]
    assert "sum" in of(effects, Note)[0].text


def test_the_agreed_interval_holds() -> None:
    session = fresh(interval_s=10.0)
    assert readies(session.receive(ack(), 0.1))[0].heartbeat_interval_ms == 10_000
    session.receive(ready_ok(2, heartbeat_interval_ms=10_000), 0.2)
    assert session.link.heartbeat.interval_s == 10.0


def test_an_interval_that_is_not_longer_is_left_to_the_broker() -> None:
    session = fresh(interval_s=0.5)
    assert readies(session.receive(ack(), 0.1))[0].heartbeat_interval_ms == 0
    assert session.link.heartbeat.interval_s == 2.5


def test_a_worker_without_heartbeat_says_so() -> None:
    session = fresh(heartbeat=False)
    assert not readies(session.receive(ack(), 0.1))[0].heartbeat


def test_ready_is_said_again_while_it_is_not_answered() -> None:
    session = fresh()
    session.receive(ack(), 0.0)
    session.receive(Pong(0, 0, epoch=1), 2.0)
    steps = [(now, len(readies(effects))) for now, effects in run(session, 2.6) if readies(effects)]
    assert steps == [(2.5, 1)]
    session.receive(ready_ok(2), 2.6)
    assert not any(readies(effects) for _, effects in run(session, 9.0))


def test_a_ready_that_met_a_full_pipe_is_said_a_little_later() -> None:
    session = fresh()
    ready = readies(session.receive(ack(), 0.0))[0]
    session.send_failed(ready, 0.0)
    assert session.next_deadline() == STALL_S
    assert readies(tick(session, STALL_S))


def test_426_for_ready_leads_to_connect_and_ready() -> None:
    session = fresh()
    session.receive(ack(), 0.0)
    effects = session.receive(Error(code=426, text="config version differs"), 0.1)
    assert [type(message) for message in all_sent(effects)] == [Connect, messages.Ready]


def test_426_for_ping_leads_to_connect_alone_and_nothing_held_is_touched() -> None:
    session = worker()
    held = task()
    session.receive(held, 1.0)
    effects = session.receive(Error(code=426, text="config version differs"), 1.1)
    assert [type(message) for message in all_sent(effects)] == [Connect]
    assert sent(effects, Connect)[0].in_flight == [held.id]
    assert session.receive(config(2), 1.2) == [Note("the broker sent a new config", is_usual=True)]
    assert sent(reply(session, held, 1.3), TaskReply)[0].config_version == version(2)


def test_301_because_all_services_are_refused_asks_needbroker() -> None:
    session = fresh()
    session.receive(ack(), 0.0)
    effects = session.receive(Error(code=301, text="manages none of these"), 0.1)
    assert sent(effects, NeedBroker)[0].services == ["echo", "sum"]


def test_services_and_capacity_change_at_run_time() -> None:
    session = worker()
    assert [offer.name for offer in readies(session.offer(ServiceOffer("sum"), 1.0))[0].services] == ["echo", "sum"]
    assert [offer.name for offer in readies(session.withdraw("echo", 1.1))[0].services] == ["sum"]
    assert session.withdraw("echo", 1.2) == []
    assert readies(session.set_capacity(5, 1.3))[0].capacity == 5


def test_changes_without_a_link_are_said_when_there_is_one() -> None:
    session = worker()
    session.link_failed("disconnected", 1.0)
    assert session.offer(ServiceOffer("sum"), 1.05) == []
    assert session.set_capacity(7, 1.06) == []
    effects = tick(session, session.next_deadline())
    assert sent(effects, Connect)[0].services == ["echo", "sum"]
    assert readies(session.receive(ack(), 1.3))[0].capacity == 7


def test_a_capacity_out_of_range_is_refused() -> None:
    with pytest.raises(UsageError):
        WorkerSession(settings(), Dice(), capacity=-1)
    with pytest.raises(UsageError):
        worker().set_capacity(5000, 1.0)


def test_the_number_of_services_is_bounded() -> None:
    session = worker()
    for number in range(SERVICES_PER_WORKER_MAX - 1):
        session.offer(ServiceOffer(f"service-{number}"), 1.0)
    with pytest.raises(UsageError):
        session.offer(ServiceOffer("one more"), 1.0)
    assert session.offer(ServiceOffer("echo", idempotent=True), 1.0), "a known one may change"


# --- tasks ----------------------------------------------------------------------------------------------------------


def test_a_task_runs_with_its_deadline_on_our_own_clock() -> None:
    session = worker()
    given = task(remaining_ms=1500)
    assert session.receive(given, 10.0) == [Run(given, 11.5)]
    assert session.held_count == 1


def test_a_final_reply_frees_the_slot() -> None:
    session = worker()
    given = task(attempt=2)
    session.receive(given, 1.0)
    effects = session.reply(given.id, 2, (b"r",), now=1.5, status=Status.FAILED, wait_us=3, work_us=4)
    assert effects == [
        Transmit(
            TaskReply(given.id, (b"r",), 2, Status.FAILED, time_us=int((WALL_S + 1.5) * 1e6), wait_us=3, work_us=4)
        )
    ]
    assert session.held_count == 0
    assert reply(session, given, 1.6) == []
    assert session.discarded == 1


def test_parts_keep_the_slot() -> None:
    session = worker()
    given = task()
    session.receive(given, 1.0)
    (message,) = sent(reply(session, given, 1.1, part=0, final=False), TaskReply)
    assert not message.final
    assert session.held_count == 1
    (message,) = sent(reply(session, given, 1.2, part=1), TaskReply)
    assert (message.part, message.final) == (1, True)


@pytest.mark.parametrize(
    "unfit", [task(b"new", service="other"), task(b"new", remaining_ms=0), task(b"new", service="echo")]
)
def test_a_task_that_cannot_be_started_is_returned(unfit: Task) -> None:
    session = worker()
    session.receive(task(b"one"), 1.0)
    if unfit.service == "echo" and unfit.remaining_ms:
        session.receive(task(b"two"), 1.0)  # now both slots are taken
    before = session.held_count
    effects = session.receive(unfit, 1.1)
    assert not of(effects, Run)
    (message,) = sent(effects, TaskReply)
    assert (message.id, message.attempt, message.status, message.final) == (unfit.id, 1, Status.RETURNED, True)
    assert session.held_count == before


def test_the_same_attempt_runs_once() -> None:
    session = worker()
    given = task()
    session.receive(given, 1.0)
    assert session.receive(given, 1.1) == []
    assert sent(reply(session, given, 1.2), TaskReply)


def test_another_attempt_of_the_same_task_is_another_run() -> None:
    session = worker()
    session.receive(task(attempt=1), 1.0)
    assert of(session.receive(task(attempt=2), 1.1), Run)
    assert session.held_count == 2
    assert sent(reply(session, task(attempt=1), 1.2), TaskReply)[0].attempt == 1


def test_cancel_aborts_what_is_held() -> None:
    session = worker()
    given = task()
    session.receive(given, 1.0)
    assert session.receive(Cancel(id=given.id), 1.1) == [Abort(given.id, 1, "cancelled")]
    assert session.held_count == 1, "it is held until it is answered"
    assert session.receive(Cancel(id=b"unknown"), 1.2) == []


def test_a_withdrawn_service_finishes_what_is_held() -> None:
    session = worker()
    given = task()
    session.receive(given, 1.0)
    session.withdraw("echo", 1.1)
    assert sent(reply(session, given, 1.2), TaskReply)


# --- lost links -----------------------------------------------------------------------------------------------------


def back(session: WorkerSession, now: float) -> tuple[list[ParticipantEffect], list[ParticipantEffect]]:
    """The link comes back after a pause: effects of the reopening, and of CONFIGACK."""
    opened = tick(session, session.next_deadline())
    return opened, session.receive(ack(), now)


def test_connect_and_ready_list_what_is_held() -> None:
    session = worker()
    given = task()
    session.receive(given, 1.0)
    session.link_failed("disconnected", 1.1)
    opened, taken = back(session, 1.5)
    assert sent(opened, Connect)[0].in_flight == [given.id]
    assert readies(taken)[0].in_flight == [given.id]


def test_a_reply_without_a_link_is_kept_listed_and_sent_after_readyok() -> None:
    session = worker()
    given, other = task(b"one"), task(b"two")
    session.receive(given, 1.0)
    session.receive(other, 1.0)
    session.link_failed("disconnected", 1.1)
    assert reply(session, given, 1.15) == []
    opened, taken = back(session, 1.5)
    assert sent(opened, Connect)[0].in_flight == [other.id, given.id]
    assert sent(taken, TaskReply) == []
    assert reply(session, other, 1.55) == [], "not before READYOK"
    effects = session.receive(ready_ok(2), 1.6)
    assert [message.id for message in sent(effects, TaskReply)] == [given.id, other.id]
    assert session.link_in_flight() == []


def test_kept_replies_are_bounded_and_a_drop_is_noted() -> None:
    session = worker(capacity=3, kept_max=2)
    given = [task(name) for name in (b"a", b"b", b"c")]
    for one in given:
        session.receive(one, 1.0)
    session.link_failed("disconnected", 1.1)
    effects = [reply(session, one, 1.15) for one in given]
    assert [len(of(step, Note)) for step in effects] == [0, 0, 1]
    assert session.link_in_flight() == [given[1].id, given[2].id]


def test_parts_and_final_stay_in_order_over_a_lost_link() -> None:
    session = worker()
    given = task()
    session.receive(given, 1.0)
    reply(session, given, 1.05, part=0, final=False)
    session.link_failed("disconnected", 1.1)
    reply(session, given, 1.11, part=1, final=False)
    reply(session, given, 1.12, part=2)
    back(session, 1.5)
    replies = sent(session.receive(ready_ok(2), 1.6), TaskReply)
    assert [message.part for message in replies] == [0, 1, 2], "nobody knows whether part 0 arrived"


def test_a_reply_that_left_shortly_before_a_loss_leaves_again() -> None:
    session = worker()
    early, late = task(b"early"), task(b"late")
    session.receive(early, 1.0)
    session.receive(late, 1.0)
    reply(session, early, 1.0)
    reply(session, late, 20.0)
    session.receive(ready_ok(2), 20.0)  # the broker was heard until then
    session.link_failed("disconnected", 20.1)
    opened, taken = back(session, 20.5)
    assert sent(opened, Connect)[0].in_flight == [late.id], "the broker may not have it"
    assert sent(taken, TaskReply) == []
    (again,) = sent(session.receive(ready_ok(2), 20.6), TaskReply)
    assert (again.id, again.attempt) == (late.id, 1)


def test_a_reply_that_left_again_and_whose_link_was_lost_again_leaves_a_third_time() -> None:
    session = worker()
    given = task()
    session.receive(given, 1.0)
    reply(session, given, 1.1)
    for now in (1.2, 2.2):
        session.link_failed("disconnected", now)
        back(session, now + 0.4)
        assert [message.id for message in sent(session.receive(ready_ok(2), now + 0.5), TaskReply)] == [given.id]


def test_a_fatal_301_is_followed_at_once_with_what_is_held() -> None:
    session = worker()
    given = task()
    session.receive(given, 1.0)
    detail = {"identity": "b2", "endpoints": [SPARE]}
    effects = session.receive(Error(code=301, text="another serves", detail=detail, fatal=True), 1.1)
    assert of(effects, Open) == [Open(SPARE)]
    assert sent(effects, Connect)[0].in_flight == [given.id]


def covers_ms(session: WorkerSession, now: float) -> int:
    """The link is lost; what CONNECT says of its list then."""
    session.link_failed("disconnected", now)
    return sent(tick(session, session.next_deadline()), Connect)[0].covers_ms


def test_connect_after_a_loss_says_for_how_long_back_its_list_is_whole() -> None:
    assert covers_ms(worker(), 20.0) >= 7500, "as long as a loss may go unnoticed"


def test_connect_after_a_standstill_says_nothing_of_what_may_still_be_unread() -> None:
    session = worker()
    said = sent(tick(session, 100.0), Connect)[0]
    assert (said.in_flight, said.covers_ms) == ([], 0)
    given = task()
    assert [run.task for run in of(session.receive(given, 100.0), Run)] == [given], "it came before the standstill"


def test_first_connect_says_nothing_of_what_was_before() -> None:
    session = WorkerSession(settings(), Dice(), offers=[ServiceOffer("echo")])
    assert sent(session.start(0.0, WALL_S), Connect)[0].covers_ms == 0


def test_list_is_whole_only_since_the_last_reply_that_was_forgotten() -> None:
    session = worker(capacity=RECENT_MAX + 2)
    given = [task(b"%d" % number) for number in range(RECENT_MAX + 2)]
    for one in given:
        session.receive(one, 1.0)
    for number, one in enumerate(given):
        reply(session, one, 18.0 if number < 2 else 19.0)
    assert 0 < covers_ms(session, 20.0) < 3000


def test_list_of_a_worker_that_had_to_drop_a_reply_is_never_whole() -> None:
    session = worker(capacity=3, kept_max=2)
    for name in (b"a", b"b", b"c"):
        given = task(name)
        session.receive(given, 1.0)
        reply(session, given, 1.0)
    assert covers_ms(session, 1.1) == 0


def test_list_that_may_have_been_cut_is_not_whole() -> None:
    session = worker(capacity=COVERED_MAX + 1)
    for number in range(COVERED_MAX + 1):
        session.receive(task(b"%d" % number), 1.0)
    assert covers_ms(session, 1.1) == 0


def test_many_kept_replies_are_sent_some_at_a_time() -> None:
    session = worker(capacity=FLUSH_MAX + 5)
    given = [task(b"%d" % number) for number in range(FLUSH_MAX + 5)]
    for one in given:
        session.receive(one, 1.0)
    session.link_failed("disconnected", 1.1)
    for one in given:
        reply(session, one, 1.15)
    back(session, 1.5)
    assert len(sent(session.receive(ready_ok(2), 1.6), TaskReply)) == FLUSH_MAX
    assert session.next_deadline() == 1.6
    assert len(sent(tick(session, 1.6), TaskReply)) == 5
    assert session.next_deadline() > 1.6


def test_a_reply_that_met_a_full_pipe_is_sent_a_little_later_and_before_the_next() -> None:
    session = worker()
    one, two = task(b"one"), task(b"two")
    session.receive(one, 1.0)
    session.receive(two, 1.0)
    (message,) = sent(reply(session, one, 1.1), TaskReply)
    session.send_failed(message, 1.1)
    assert reply(session, two, 1.11) == []
    assert session.next_deadline() == 1.1 + STALL_S
    assert [sent_.id for sent_ in sent(tick(session, 1.1 + STALL_S), TaskReply)] == [one.id, two.id]


def test_forcenegotiate_leads_to_connect_and_ready_with_what_is_held() -> None:
    session = worker()
    given = task()
    session.receive(given, 1.0)
    effects = session.receive(ForceNegotiate(reason="restarted"), 1.1)
    assert sent(effects, Connect)[0].in_flight == [given.id]
    assert not of(effects, Open)
    assert not session.is_ready
    assert readies(session.receive(ack(), 1.2))[0].in_flight == [given.id]


def test_disconnect_from_the_broker_leads_back_to_it() -> None:
    session = worker()
    session.receive(Disconnect(reason="stopping"), 1.0)
    assert not session.is_ready
    assert of(tick(session, session.next_deadline()), Open) == [Open(HOME)]


def test_a_task_that_was_under_way_when_the_link_broke_is_run_and_listed() -> None:
    session = worker()
    session.link_failed("disconnected", 1.0)
    given = task()
    assert of(session.receive(given, 1.01), Run)
    opened, _ = back(session, 1.5)
    assert sent(opened, Connect)[0].in_flight == [given.id]


def test_a_blocked_shell_connects_again_when_it_wakes() -> None:
    session = worker(heartbeat=False)
    assert sent(tick(session, 500.0), Connect)


def test_a_refused_worker_fails() -> None:
    session = fresh()
    effects = session.receive(Error(code=403, text="not allowed", fatal=True), 0.1)
    assert isinstance(of(effects, Failed)[0].error, SessionRefused)
    assert session.next_deadline() == math.inf


def test_pings_leave_in_every_interval() -> None:
    session = worker()
    for _ in range(10):
        now = session.next_deadline()
        assert sent(tick(session, now), Ping)
        session.receive(Pong(0, 0, epoch=1), now)
    assert session.is_ready


# --- leaving --------------------------------------------------------------------------------------------------------


def test_an_idle_worker_leaves_after_readyok() -> None:
    session = worker()
    effects = session.leave(1.0)
    assert readies(effects)[0].capacity == 0
    assert not of(effects, Left)
    assert of(session.receive(ready_ok(0), 1.1), Left) == []
    assert session.next_deadline() == 1.1
    effects = tick(session, 1.1)
    assert [type(effect) for effect in effects] == [Transmit, Left]
    assert sent(effects, Disconnect)
    assert session.next_deadline() == math.inf


def test_what_is_held_is_finished_or_returned_before_leaving() -> None:
    session = worker()
    one, two = task(b"one"), task(b"two")
    session.receive(one, 1.0)
    session.receive(two, 1.0)
    session.leave(1.1)
    returned = sent(session.reply(two.id, 1, (), now=1.15, status=Status.RETURNED), TaskReply)[0]
    assert returned.status == Status.RETURNED
    session.receive(ready_ok(0), 1.2)
    assert not any(of(effects, Left) for _, effects in run(session, 3.0))
    assert sent(reply(session, one, 3.1), TaskReply)
    assert of(tick(session, session.next_deadline()), Left)


def test_a_task_that_crosses_the_leave_is_returned() -> None:
    session = worker()
    session.leave(1.0)
    assert sent(session.receive(task(), 1.05), TaskReply)[0].status == Status.RETURNED


def test_an_older_readyok_does_not_confirm_the_leave() -> None:
    session = worker()
    session.set_capacity(4, 1.0)
    session.leave(1.01)
    session.receive(ready_ok(4), 1.1)
    assert not of(tick(session, 1.1), Left)
    session.receive(ready_ok(0), 1.2)
    assert of(tick(session, 1.2), Left)


def test_a_last_reply_that_met_a_full_pipe_is_not_lost() -> None:
    session = worker()
    given = task()
    session.receive(given, 1.0)
    session.leave(1.1)
    session.receive(ready_ok(0), 1.2)
    (message,) = sent(reply(session, given, 1.3), TaskReply)
    session.send_failed(message, 1.3)
    assert not of(tick(session, 1.3), Left)
    effects = tick(session, 1.3 + STALL_S)
    assert sent(effects, TaskReply) == [message]
    assert not of(effects, Left)
    assert of(tick(session, 1.3 + STALL_S), Left)


def test_leaving_without_a_link_is_done_at_once() -> None:
    session = worker()
    session.receive(task(), 1.0)
    session.link_failed("disconnected", 1.1)
    effects = session.leave(1.15)
    assert of(effects, Left)
    assert of(effects, Note)[0].text == "leaving with 1 task unfinished: no broker is there to take the replies"


def test_a_link_lost_while_leaving_ends_it() -> None:
    session = worker()
    session.receive(task(), 1.0)
    session.leave(1.1)
    effects = session.link_failed("disconnected", 1.2)
    assert of(effects, Left)
    assert "1 task unfinished: no broker is there" in of(effects, Note)[-1].text
    assert session.next_deadline() == math.inf


def test_leaving_has_a_limit() -> None:
    session = worker()
    session.receive(task(), 1.0)
    session.leave(1.1, leave_timeout_s=2.0)
    session.receive(ready_ok(0), 1.2)
    now, effects = run(session, 10.0)[-1]
    assert now == pytest.approx(3.1)
    assert of(effects, Left)
    assert "1 task unfinished" in of(effects, Note)[0].text


def test_leaving_twice_is_leaving_once() -> None:
    session = worker()
    session.leave(1.0)
    assert session.leave(1.1) == []


def test_close_leaves_at_once() -> None:
    session = worker()
    session.receive(task(), 1.0)
    effects = session.close(1.1)
    assert sent(effects, Disconnect)
    assert of(effects, Left)
    assert session.close(1.2) == []


# --- moving ---------------------------------------------------------------------------------------------------------


def test_a_pushed_changebroker_is_followed_when_nothing_is_held_any_more() -> None:
    session = worker()
    given = task()
    session.receive(given, 1.0)
    effects = session.receive(ChangeBroker(identity="b2", endpoints=[SPARE]), 1.1)
    assert readies(effects)[0].capacity == 0
    assert not of(effects, Open)
    assert sent(session.receive(task(b"two"), 1.15), TaskReply)[0].status == Status.RETURNED
    session.receive(ready_ok(0), 1.2)
    reply(session, given, 1.24)
    effects = tick(session, session.next_deadline())
    assert [ready.capacity for ready in readies(effects)] == [0], "its answer shows that the reply has arrived"
    assert not of(effects, Open)
    session.receive(ready_ok(0), 1.24)
    effects = tick(session, session.next_deadline())
    assert of(effects, Open) == [Open(SPARE)]
    assert [type(message) for message in all_sent(effects)] == [Disconnect, Connect]
    assert readies(session.receive(ack(), 2.1))[0].capacity == 2, "at the new broker it offers everything again"


def test_an_idle_worker_moves_after_readyok() -> None:
    session = worker()
    session.receive(ChangeBroker(identity="b2", endpoints=[SPARE]), 1.0)
    session.receive(ready_ok(0), 1.1)
    assert of(tick(session, 1.1), Open) == [Open(SPARE)]


def test_a_last_reply_that_met_a_full_pipe_is_not_lost_by_a_move() -> None:
    session = worker()
    given = task()
    session.receive(given, 1.0)
    session.receive(ChangeBroker(identity="b2", endpoints=[SPARE]), 1.1)
    session.receive(ready_ok(0), 1.2)
    (message,) = sent(reply(session, given, 1.3), TaskReply)
    session.send_failed(message, 1.3)
    assert sent(tick(session, 1.3 + STALL_S), TaskReply) == [message]
    effects = tick(session, session.next_deadline())
    assert readies(effects)
    assert not of(effects, Open)
    session.receive(ready_ok(0), 1.5)
    assert of(tick(session, session.next_deadline()), Open) == [Open(SPARE)]


def test_a_link_lost_before_the_move_leads_to_the_other_broker_with_all_that_is_held() -> None:
    session = worker()
    given = task()
    session.receive(given, 1.0)
    session.receive(ChangeBroker(identity="b2", endpoints=[SPARE]), 1.1)
    session.link_failed("disconnected", 1.2)
    effects = tick(session, session.next_deadline())
    assert of(effects, Open) == [Open(SPARE)]
    assert sent(effects, Connect)[0].in_flight == [given.id]
    assert readies(session.receive(ack(), 1.5))[0].capacity == 2


def test_301_to_a_later_ready_is_followed_when_nothing_is_held_any_more() -> None:
    session = worker()
    given = task()
    session.receive(given, 1.0)
    session.offer(ServiceOffer("sum"), 1.1)
    assert session.receive(Error(code=301, text="manages none of these"), 1.2) == []
    assert not any(sent(effects, NeedBroker) for _, effects in run(session, 2.0))
    assert sent(reply(session, given, 2.1), TaskReply)
    assert readies(tick(session, session.next_deadline()))[0].capacity == 0
    effects = session.receive(Error(code=301, text="manages none of these"), 2.2)
    assert sent(effects, NeedBroker)


def test_a_worker_that_moves_can_still_leave() -> None:
    session = worker()
    session.receive(ChangeBroker(identity="b2", endpoints=[SPARE]), 1.0)
    session.leave(1.05)
    session.receive(ready_ok(0), 1.1)
    session.receive(ready_ok(0), 1.1)
    assert of(tick(session, 1.1), Left)


# --- overload -------------------------------------------------------------------------------------------------------


def test_an_overloaded_worker_asks_for_less_and_later_for_more() -> None:
    session = worker(capacity=8)
    session.receive(task(), 1.0)
    assert session.report_backlog(1.0, 1.0) == []
    assert readies(session.report_backlog(5.1, 1.1))[0].capacity == 4
    session.receive(ready_ok(4), 1.2)
    assert session.report_backlog(5.2, 1.3) == [], "one step an interval"
    assert readies(session.report_backlog(7.0, 3.7))[0].capacity == 2
    session.receive(ready_ok(2), 3.8)
    assert readies(session.report_backlog(0.0, 7.0))[0].capacity == 4


def test_an_idle_worker_recovers_without_a_report() -> None:
    session = worker(capacity=1)
    given = task()
    session.receive(given, 1.0)
    assert readies(session.report_backlog(9.0, 1.0))[0].capacity == 0
    session.receive(ready_ok(0), 1.1)
    reply(session, given, 1.2)
    steps = [(now, ready.capacity) for now, effects in run(session, 4.0) for ready in readies(effects)]
    assert steps == [(3.5, 1)]


def test_the_switch_turns_it_off() -> None:
    session = worker(capacity=8, adapt=False)
    assert session.report_backlog(1000.0, 1.0) == []


def test_a_leaving_worker_does_not_ask_for_more() -> None:
    session = worker(capacity=8)
    session.receive(task(), 1.0)
    session.report_backlog(9.0, 1.0)
    session.leave(1.1)
    session.receive(ready_ok(0), 1.2)
    assert session.report_backlog(0.0, 5.0) == []
    assert session.capacity == 0


def test_batch_of_tasks_over_the_capacity_is_taken_as_far_as_it_goes() -> None:
    session = worker(capacity=2)
    tasks = [task(b"one"), task(b"two"), task(b"two"), task(b"three")]
    out: list[ParticipantEffect] = []
    assert session.receive_tasks(tasks, 1.0, out) == tasks[:2]
    (returned,) = sent(out, TaskReply)
    assert (returned.id, returned.status) == (tasks[3].id, messages.Status.RETURNED)


def test_batch_of_answers_leaves_in_order_and_only_for_what_is_held() -> None:
    session = worker(capacity=2)
    tasks = [task(b"one"), task(b"two")]
    out: list[ParticipantEffect] = []
    session.receive_tasks(tasks, 1.0, out)
    answers = [(one.id, one.attempt, (b"done",), 0, 0, True, 1, 2) for one in (*tasks, tasks[0])]
    assert [reply.id for reply in session.reply_all(answers, 1.5, out)] == [one.id for one in tasks]
    assert session.discarded == 1
