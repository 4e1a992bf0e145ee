"""The following end: gaps, what cannot be read, and how a copy becomes the state of the one that took over."""

from __future__ import annotations

from typing import Any

import pytest

from scale0.core import replication
from scale0.core.star import Star
from scale0.core.stream import Accepted, Announced, AnyChange, Closed, Opened, Parted, Replied, Reset, Sent, packed
from scale0.protocol import native
from scale0.protocol.dialects import CLIENT, MDP2_WORKER, PEER, WORKER
from scale0.protocol.majordomo import MdpReady
from scale0.protocol.messages import (
    Cancel,
    Connect,
    Disconnect,
    Flag,
    PeerStatus,
    Ping,
    Ready,
    ServiceOffer,
    SnapshotReq,
    Status,
    Stream,
    StreamAck,
    Task,
    TaskReply,
)
from tests.core.mesh import CLIENT_NONCE, SETTLED_S, WORKER_NONCE, Mesh, Node, id_of, pair_of
from tests.core.star_kit import SEEN, SHORTLY_S, TAKEOVER_S, come_to, copy_of, die_and_be_asked_for, pair_and_third
from tests.core.test_binary_star import star

BOTH = int(Flag.RESENT | Flag.SAME_PAIR)


def stream_to(fallback: Node, seq: int, *changes: AnyChange, frames: tuple[bytes, ...] = ()) -> None:
    """STREAM from the partner, by hand."""
    session = fallback.peer("prim").session
    assert session is not None
    message = Stream(seq, frames or packed(list(changes)))
    fallback.do(fallback.broker.receive(session.route, PEER, message, fallback.mesh.now))


def following() -> tuple[Mesh, Node]:
    """A standby whose partner says nothing more; what is said to that one can be read."""
    mesh, primary, fallback = pair_of()
    primary.is_up = False
    return mesh, fallback


def seq_of(fallback: Node) -> int:
    assert fallback.state.pair is not None
    return fallback.state.pair.seq


def fetched(mesh: Mesh) -> int:
    """How often a copy was asked for, whether it arrived or not."""
    waiting = [native.decode(frames) for _, _, _, frames in mesh.wire]
    return sum(isinstance(message, SnapshotReq) for message in waiting)


def busy(*, idempotent: bool = False, capacity: int = 1, tasks: int = 2) -> tuple[Mesh, Node, Node]:
    """w works on the first of ada's tasks, the others wait."""
    mesh, primary, fallback = pair_of()
    primary.worker("w", "echo", idempotent=idempotent, capacity=capacity)
    primary.client("ada")
    for sequence in range(1, tasks + 1):
        primary.submit("ada", sequence, "echo")
    return mesh, primary, fallback


# --- reading --------------------------------------------------------------------------------------------------------


def test_gap_in_the_stream_makes_it_ask_for_a_new_copy() -> None:
    mesh, fallback = following()
    mesh.run(3.0)
    mesh.wire.clear()
    stream_to(fallback, seq_of(fallback) + 2, Closed("nobody"))
    assert fetched(mesh) == 1
    stream_to(fallback, seq_of(fallback) + 1, Opened("eve", b"eeeeeeee", "client", 2.5, [], "", "JSON", 1, 0))
    assert "eve" not in fallback.state.sessions.by_identity, "nothing is taken before the copy"


def test_copy_is_asked_for_at_most_once_an_interval() -> None:
    mesh, fallback = following()
    mesh.run(3.0)
    mesh.wire.clear()
    for _ in range(5):
        stream_to(fallback, seq_of(fallback) + 2, Closed("nobody"))
    assert fetched(mesh) == 1


def test_copy_begins_anew_whatever_was_known() -> None:
    _, primary, fallback = pair_of()
    primary.client("ada")
    assert "ada" in fallback.state.sessions.by_identity
    stream_to(fallback, 77, Reset(), Opened("eve", b"eeeeeeee", "client", 2.5, [], "", "JSON", 1, 0))
    assert (set(fallback.state.sessions.by_identity), seq_of(fallback)) == ({"eve"}, 77)


def test_each_message_is_acknowledged_with_its_number() -> None:
    mesh, fallback = following()
    mesh.wire.clear()
    stream_to(fallback, seq_of(fallback) + 1, Closed("nobody"))
    answers = [native.decode(frames) for _, _, _, frames in mesh.wire]
    assert [message for message in answers if isinstance(message, StreamAck)] == [StreamAck(seq=seq_of(fallback))]


OF_ADA = id_of("ada", 1)


@pytest.mark.parametrize(
    "changes",
    [
        [Accepted(OF_ADA, "echo", (), b"", 1, 0, 0, 1000, 0)],
        [Sent(OF_ADA, "w", 1)],
        [Parted(OF_ADA, 1)],
        [Announced("w", [], 1, True, 2.5)],
        [Replied(())],
        [Replied((b"SC0W01\x06",))],
        [Replied(tuple(native.encode(b"SC0W01", TaskReply(id_of("nobody", 1), ()))))],
        [Opened("ada", b"aaaaaaaa", "client", 2.5, [], "", "JSON", 1, 0), Announced("ada", [], 1, True, 2.5)],
    ],
    ids=["no client", "no task", "no part", "no worker", "no frames", "no reply", "nobody's", "a client"],
)
def test_stream_that_makes_no_sense_is_given_up_with_an_alarm(changes: list[Any]) -> None:
    mesh, fallback = following()
    mesh.wire.clear()
    stream_to(fallback, seq_of(fallback) + 1, *changes)
    assert fallback.alarm_names() == ["stream_unread"]
    assert fallback.state.pair is not None
    assert not fallback.state.pair.is_whole
    assert not fallback.state.sessions.by_identity, "a copy that is not whole is none"
    assert not any(isinstance(native.decode(frames), StreamAck) for _, _, _, frames in mesh.wire)


def test_bytes_that_are_no_changes_are_given_up_with_an_alarm() -> None:
    _, fallback = following()
    stream_to(fallback, seq_of(fallback) + 1, frames=(b"\xc1",))
    assert fallback.alarm_names() == ["stream_unread"]


def test_stream_of_a_broker_that_is_not_the_partner_is_ignored() -> None:
    mesh, primary, _, third = pair_and_third()
    primary.client("ada")
    session = primary.peer("third").session
    assert session is not None
    primary.do(primary.broker.receive(session.route, PEER, Stream(1, packed([Reset()])), mesh.now))
    assert "ada" in primary.state.sessions.by_identity
    assert primary.state.counters["streams_ignored"] == 1
    assert third.mode == "active"


def test_one_that_serves_takes_no_stream() -> None:
    mesh, primary, _ = pair_of()
    primary.client("ada")
    session = primary.peer("back").session
    assert session is not None
    primary.do(primary.broker.receive(session.route, PEER, Stream(1, packed([Reset()])), mesh.now))
    assert "ada" in primary.state.sessions.by_identity


def test_deadlines_in_the_copy_are_the_originals_to_count() -> None:
    mesh, primary, fallback = pair_of()
    primary.worker("w", "echo", capacity=0)
    primary.client("ada")
    primary.submit("ada", 1, "echo", timeout_s=2.0)
    primary.kill()
    mesh.run(TAKEOVER_S + SHORTLY_S)
    assert len(fallback.state.ledger.entries) == 1, "it may have been answered there"
    fallback.client("ada", epochs=SEEN)
    mesh.run(SHORTLY_S)
    assert (fallback.codes("ada"), len(fallback.state.ledger.entries)) == ([408], 0)


def test_task_whose_deadline_passed_before_the_takeover_is_given_to_nobody() -> None:
    mesh, primary, fallback = pair_of()
    primary.worker("w", "echo", capacity=0)
    primary.client("ada")
    primary.submit("ada", 1, "echo", timeout_s=2.0)
    primary.kill()
    mesh.run(TAKEOVER_S + SHORTLY_S)
    come_to(fallback, "w", "echo")
    assert (fallback.mode, fallback.heard("w", Task)) == ("active", [])


def test_task_that_was_long_under_way_to_the_copy_has_no_more_time_there_than_its_client_gives_it() -> None:
    mesh, primary, fallback = pair_of()
    primary.worker("w", "echo", capacity=0)
    primary.client("ada")
    mesh.cut("prim", "back")
    primary.submit("ada", 1, "echo", timeout_s=4.0)
    mesh.run(3.0)
    mesh.heal()
    mesh.run(0.1)
    assert [entry.deadline_s - mesh.now for entry in fallback.state.ledger.entries.values()] == [
        pytest.approx(0.9, abs=0.01)
    ]
    primary.kill()
    mesh.run(TAKEOVER_S + SHORTLY_S)
    come_to(fallback, "w", "echo")
    mesh.run(SHORTLY_S)
    assert fallback.heard("w", Task) == []


@pytest.mark.parametrize("slept_s", [-60.0, 60.0])
def test_task_is_not_taken_for_late_when_the_other_clock_has_lost_time_or_gained_it(slept_s: float) -> None:
    mesh, fallback = following()
    pair = fallback.state.pair
    assert pair is not None
    stream_to(fallback, seq_of(fallback) + 1, Opened("ada", CLIENT_NONCE, "client", 2.5, [], "", "JSON", 0, 0))
    told_ms = int((mesh.now - slept_s) * 1000)
    stream_to(fallback, seq_of(fallback) + 1, Accepted(OF_ADA, "echo", (), b"", 1, 0, 0, 50_000, 0, 0, told_ms))
    answered_s = mesh.now - pair.synced_s
    assert answered_s < TAKEOVER_S / 2
    (entry,) = fallback.state.ledger.entries.values()
    assert 50.0 - answered_s <= entry.deadline_s - mesh.now <= 50.0


# --- taking over ----------------------------------------------------------------------------------------------------


def test_what_a_worker_still_holds_goes_on() -> None:
    mesh, primary, fallback = busy()
    die_and_be_asked_for(mesh, primary, fallback)
    come_to(fallback, "w", "echo", held=[id_of("ada", 1)])
    assert fallback.heard("w", Task) == [], "its slot is taken"
    fallback.client("ada", epochs=SEEN)
    fallback.say("w", WORKER, TaskReply(id_of("ada", 1), (b"done",), 1))
    assert fallback.bodies("ada") == [b"done"]
    assert [(task.id, task.attempt) for task in fallback.heard("w", Task)] == [(id_of("ada", 2), 1)]


def test_reply_of_before_the_loss_that_comes_again_settles_it_here() -> None:
    mesh, primary, fallback = busy(tasks=1)
    die_and_be_asked_for(mesh, primary, fallback)
    fallback.client("ada", epochs=SEEN)
    come_to(fallback, "w", "echo", held=[id_of("ada", 1)])
    fallback.say("w", WORKER, TaskReply(id_of("ada", 1), (b"done",), 1))
    fallback.say("w", WORKER, TaskReply(id_of("ada", 1), (b"done",), 1))
    assert fallback.bodies("ada") == [b"done"], "once"


def test_task_that_a_worker_that_came_does_not_hold_is_repeated_if_it_may_be() -> None:
    mesh, primary, fallback = busy(idempotent=True, tasks=1)
    die_and_be_asked_for(mesh, primary, fallback)
    come_to(fallback, "w", "echo", idempotent=True)
    assert [(task.id, task.attempt) for task in fallback.heard("w", Task)] == [(id_of("ada", 1), 2)]


def test_task_that_never_reached_the_worker_before_the_takeover_waits_again() -> None:
    mesh, primary, fallback = busy(tasks=1)
    die_and_be_asked_for(mesh, primary, fallback)
    fallback.client("ada", epochs=SEEN)
    connect = Connect(identity="w", nonce=WORKER_NONCE, services=["echo"], covers_ms=20_000, epochs=SEEN)
    fallback.say("w", WORKER, connect)
    fallback.say("w", WORKER, Ready(services=[ServiceOffer("echo")]))
    assert fallback.codes("ada") == []
    assert [(task.id, task.attempt) for task in fallback.heard("w", Task)] == [(id_of("ada", 1), 1)]


def test_task_that_had_left_before_the_copy_was_made_is_not_taken_for_one_that_never_did() -> None:
    mesh, primary, fallback = busy(tasks=1)
    replication.begin(primary.state)  # a whole copy, long after the task left for its worker
    primary.do(primary.state.take_effects())
    mesh.run(0.1)
    die_and_be_asked_for(mesh, primary, fallback)
    fallback.client("ada", epochs=SEEN)
    connect = Connect(identity="w", nonce=WORKER_NONCE, services=["echo"], covers_ms=20_000, epochs=SEEN)
    fallback.say("w", WORKER, connect)
    fallback.say("w", WORKER, Ready(services=[ServiceOffer("echo")]))
    assert fallback.heard("w", Task) == [], "the worker may have run it, and forgotten it"
    assert fallback.codes("ada") == [502]


def test_task_of_a_worker_that_never_comes_is_502_if_it_must_not_be_repeated() -> None:
    mesh, primary, fallback = busy(tasks=1)
    die_and_be_asked_for(mesh, primary, fallback)
    fallback.client("ada", epochs=SEEN)
    mesh.run(SETTLED_S)
    assert fallback.codes("ada") == [502]


def test_kept_outcome_answers_a_resend_at_the_successor() -> None:
    mesh, primary, fallback = busy(tasks=1)
    primary.answer("w")
    die_and_be_asked_for(mesh, primary, fallback)
    fallback.client("ada", epochs=SEEN)
    fallback.submit("ada", 1, "echo", flags=BOTH)
    assert fallback.bodies("ada") == [b"done"]
    assert fallback.state.ledger.accepted == fallback.state.ledger.replied


def test_waiting_tasks_keep_their_order_and_their_priority() -> None:
    mesh, primary, fallback = pair_of()
    primary.worker("w", "echo", capacity=0)
    for client in ("ada", "bob"):
        primary.client(client)
        for sequence in (1, 2):
            primary.submit(client, sequence, "echo")
    primary.submit("bob", 3, "echo", priority=3)
    die_and_be_asked_for(mesh, primary, fallback)
    come_to(fallback, "w", "echo", capacity=5)
    got = [task.id for task in fallback.heard("w", Task)]
    assert got == [id_of("bob", 3), id_of("ada", 1), id_of("bob", 1), id_of("ada", 2), id_of("bob", 2)]


def test_task_of_a_service_whose_workers_are_gone_waits_at_the_successor_too() -> None:
    mesh, primary, fallback = busy(tasks=0)
    primary.say("w", WORKER, Disconnect())
    primary.submit("ada", 1, "echo", timeout_s=100.0)
    fallback.restart()
    mesh.run(SETTLED_S)
    die_and_be_asked_for(mesh, primary, fallback)
    fallback.client("ada", epochs=SEEN)
    mesh.run(SETTLED_S)
    assert fallback.codes("ada") == [], "the service is not unknown"
    come_to(fallback, "w", "echo")
    assert len(fallback.heard("w", Task)) == 1


def test_task_that_waits_in_the_copy_has_been_tried_also_if_its_service_is_known_later() -> None:
    mesh, primary, fallback = busy(tasks=0)
    primary.say("w", WORKER, Disconnect())
    primary.submit("ada", 1, "echo", timeout_s=100.0)
    fallback.restart()
    mesh.run(SETTLED_S)
    die_and_be_asked_for(mesh, primary, fallback)
    come_to(fallback, "w", "echo", idempotent=True)
    assert [task.attempt for task in fallback.heard("w", Task)] == [2], "it may have left without its knowing"


def test_attempt_that_is_counted_later_is_told_to_who_follows_by_then() -> None:
    mesh, primary, fallback = busy(tasks=0)
    primary.say("w", WORKER, Disconnect())
    primary.submit("ada", 1, "echo", timeout_s=100.0)
    fallback.restart()
    mesh.run(SETTLED_S)
    die_and_be_asked_for(mesh, primary, fallback)
    primary.restart()
    mesh.run(SETTLED_S)
    assert star(primary) is Star.PASSIVE
    come_to(fallback, "w", "echo", idempotent=True, capacity=0)
    mesh.run(SHORTLY_S)
    assert [entry.attempt for entry in primary.state.ledger.entries.values()] == [1]
    assert copy_of(primary.state) == copy_of(fallback.state)


def test_task_that_was_returned_is_first_in_its_line_at_the_successor_too() -> None:
    mesh, primary, fallback = busy(tasks=3)
    primary.say("w", WORKER, Ready(services=[ServiceOffer("echo")], capacity=0, in_flight=[id_of("ada", 1)]))
    primary.say("w", WORKER, TaskReply(id_of("ada", 1), (), 1, int(Status.RETURNED)))
    assert copy_of(fallback.state)["queues"] == {"echo": [id_of("ada", sequence) for sequence in (1, 2, 3)]}
    die_and_be_asked_for(mesh, primary, fallback)
    come_to(fallback, "w", "echo")
    assert [(task.id, task.attempt) for task in fallback.heard("w", Task)] == [(id_of("ada", 1), 1)]


def test_least_recently_used_worker_comes_first_after_a_takeover() -> None:
    mesh, primary, fallback = pair_of()
    primary.client("ada")
    for name in ("w1", "w2", "w3"):
        primary.worker(name, "echo")
    primary.submit("ada", 1, "echo")
    primary.answer("w1")
    primary.submit("ada", 2, "echo")
    primary.answer("w2")
    die_and_be_asked_for(mesh, primary, fallback)
    fallback.client("ada", epochs=SEEN)
    for name in ("w1", "w2", "w3"):
        come_to(fallback, name, "echo")
    order = []
    for sequence in (3, 4, 5):
        fallback.submit("ada", sequence, "echo")
        order += [name for name in ("w1", "w2", "w3") if fallback.heard(name, Task)]
    assert order == ["w3", "w1", "w2"]


def test_parts_that_have_gone_to_the_client_are_not_sent_again() -> None:
    mesh, primary, fallback = busy(tasks=1)
    for part in (0, 1):
        primary.say("w", WORKER, TaskReply(id_of("ada", 1), (b"%d" % part,), 1, part=part, final=False))
    die_and_be_asked_for(mesh, primary, fallback)
    fallback.client("ada", epochs=SEEN)
    come_to(fallback, "w", "echo", held=[id_of("ada", 1)])
    for part in (0, 1, 2):
        fallback.say("w", WORKER, TaskReply(id_of("ada", 1), (b"%d" % part,), 1, part=part, final=False))
    fallback.say("w", WORKER, TaskReply(id_of("ada", 1), (b"end",), 1, part=3))
    assert fallback.bodies("ada") == [b"2", b"end"]


def test_cancelled_task_stays_cancelled() -> None:
    mesh, primary, fallback = busy(tasks=1)
    primary.say("ada", CLIENT, Cancel(id=id_of("ada", 1)))
    before = copy_of(primary.state)
    assert copy_of(fallback.state) == before
    die_and_be_asked_for(mesh, primary, fallback)
    fallback.client("ada", epochs=SEEN)
    come_to(fallback, "w", "echo")
    assert fallback.heard("w", Task) == []


def test_what_was_with_a_majordomo_worker_is_lost_with_it() -> None:
    mesh, primary, fallback = pair_of()
    primary.say("m", MDP2_WORKER, MdpReady("echo"))
    primary.client("ada")
    primary.submit("ada", 1, "echo")
    die_and_be_asked_for(mesh, primary, fallback)
    fallback.client("ada", epochs=SEEN)
    assert fallback.codes("ada") == [502], "it does not come back as the one that it was"


def test_what_was_with_another_broker_is_lost_with_the_origin() -> None:
    mesh, primary, fallback, third = pair_and_third()
    third.worker("w", "echo")
    mesh.run(SHORTLY_S)
    primary.client("ada")
    primary.submit("ada", 1, "echo")
    mesh.run(SHORTLY_S)
    assert len(third.heard("w", Task)) == 1
    die_and_be_asked_for(mesh, primary, fallback)
    fallback.client("ada", epochs=SEEN)
    assert fallback.codes("ada") == [502]


def test_client_that_does_not_come_is_forgotten_after_the_usual_time() -> None:
    mesh, primary, fallback = pair_of()
    primary.client("ada")
    die_and_be_asked_for(mesh, primary, fallback)
    mesh.run(SETTLED_S)
    assert "ada" not in fallback.state.sessions.by_identity


def test_stranger_at_a_successor_that_pings_is_asked_to_negotiate() -> None:
    mesh, primary, fallback = pair_of()
    primary.client("ada")
    die_and_be_asked_for(mesh, primary, fallback)
    fallback.say("ada", CLIENT, Ping(0))
    assert fallback.state.counters["forced_negotiations"] == 1


# --- a copy that is not trusted -------------------------------------------------------------------------------------


def old_copy() -> tuple[Mesh, Node, Node]:
    """The link was cut for so long that the primary may have dispatched what waits in the copy."""
    mesh, primary, fallback = pair_of()
    primary.worker("w", "once", capacity=0)
    primary.worker("v", "again", capacity=0, idempotent=True)
    primary.client("ada")
    primary.submit("ada", 1, "once", timeout_s=100.0)
    primary.submit("ada", 2, "again", timeout_s=100.0)
    mesh.cut("prim", "back")
    mesh.run(2 * TAKEOVER_S + SHORTLY_S)
    return mesh, primary, fallback


def test_what_waits_in_an_old_copy_is_502_unless_it_may_be_repeated() -> None:
    _, _, fallback = old_copy()
    fallback.client("ada", epochs=SEEN)
    assert star(fallback) is Star.ACTIVE
    assert fallback.codes("ada") == [502]
    come_to(fallback, "v", "again", idempotent=True)
    assert [task.id for task in fallback.heard("v", Task)] == [id_of("ada", 2)]


def test_what_an_old_copy_does_not_know_may_have_run_also_for_who_follows_from_there() -> None:
    mesh, primary, fallback = old_copy()
    primary.kill()
    fallback.client("eve", epochs=SEEN)
    primary.restart()
    mesh.heal()
    mesh.run(2.0)
    assert star(primary) is Star.PASSIVE
    fallback.manage("handover")
    mesh.run(SHORTLY_S)
    assert star(primary) is Star.ACTIVE
    come_to(primary, "w", "once")
    primary.client("ada", epochs=SEEN)
    primary.codes("ada")
    primary.submit("ada", 7, "once", flags=BOTH)
    assert (primary.codes("ada"), primary.heard("w", Task)) == ([502], [])


def test_what_the_other_was_sent_while_both_served_may_have_run_also_for_who_follows_from_there() -> None:
    mesh, primary, fallback = pair_of()
    primary.client("ada")
    mesh.cut("prim", "back")
    mesh.run(TAKEOVER_S + SHORTLY_S)
    come_to(fallback, "w", "once")
    fallback.client("ada", epochs=SEEN)
    fallback.submit("ada", 7, "once")
    assert [task.id for task in fallback.heard("w", Task)] == [id_of("ada", 7)]
    lost = fallback.state.epoch
    fallback.kill()
    fallback.restart()
    mesh.heal()
    mesh.run(TAKEOVER_S)
    assert (star(primary), star(fallback)) == (Star.ACTIVE, Star.PASSIVE)
    assert primary.state.epoch > lost
    primary.manage("handover")
    mesh.run(SHORTLY_S)
    assert star(fallback) is Star.ACTIVE
    come_to(fallback, "w", "once")
    fallback.client("ada", epochs=SEEN)
    fallback.codes("ada")
    fallback.submit("ada", 7, "once", flags=BOTH)
    assert (fallback.codes("ada"), fallback.heard("w", Task)) == ([502], [])


def test_what_comes_back_from_the_worker_that_had_it_in_an_old_copy_may_have_run_elsewhere() -> None:
    mesh, primary, fallback = busy(tasks=2, capacity=2)
    mesh.cut("prim", "back")
    mesh.run(2 * TAKEOVER_S + SHORTLY_S)
    primary.is_up = False
    fallback.client("ada", epochs=SEEN)
    services, held = ["echo"], [bytes(id_of("ada", 2))]
    connect = Connect(
        identity="w", nonce=WORKER_NONCE, services=services, in_flight=held, covers_ms=100_000, epochs=dict(SEEN)
    )
    fallback.say("w", WORKER, connect)
    assert fallback.codes("ada") == [502], "the first never reached it, which the other one may have heard, too"
    fallback.say("w", WORKER, Ready(services=[ServiceOffer("echo")], capacity=2, in_flight=held))
    fallback.say("w", WORKER, TaskReply(id_of("ada", 2), (), 1, int(Status.RETURNED)))
    assert fallback.codes("ada") == [502]
    assert fallback.heard("w", Task) == []


def test_what_an_old_copy_does_not_know_may_have_run() -> None:
    _, _, fallback = old_copy()
    fallback.client("ada", epochs=SEEN)
    come_to(fallback, "w", "once")
    fallback.codes("ada")
    fallback.submit("ada", 3, "once", flags=BOTH)
    assert (fallback.codes("ada"), fallback.heard("w", Task)) == ([502], [])


def test_what_a_fresh_copy_does_not_know_has_not_run() -> None:
    mesh, primary, fallback = busy(tasks=1)
    die_and_be_asked_for(mesh, primary, fallback)
    fallback.client("ada", epochs=SEEN)
    come_to(fallback, "w", "echo", held=[id_of("ada", 1)], capacity=2)
    fallback.submit("ada", 2, "echo", flags=BOTH)
    assert [(task.id, task.flags) for task in fallback.heard("w", Task)] == [(id_of("ada", 2), 0)]
    fallback.submit("ada", 3, "echo", flags=int(Flag.RESENT))
    assert fallback.codes("ada") == [502], "that one was at another broker"


def test_what_the_copy_does_not_know_may_have_run_when_a_silent_partner_waits_for_it_no_longer() -> None:
    mesh, primary, fallback = busy(tasks=1)
    primary.answer("w")
    mesh.cut("prim", "back")
    mesh.run(TAKEOVER_S + SHORTLY_S)
    fallback.client("eve", epochs=SEEN)
    assert (star(primary), star(fallback)) == (Star.ACTIVE, Star.ACTIVE)
    mesh.run(2 * TAKEOVER_S)
    primary.submit("ada", 2, "echo")
    assert [task.id for task in primary.heard("w", Task)] == [id_of("ada", 2)]
    fallback.client("ada", epochs=SEEN)
    come_to(fallback, "v", "echo")
    fallback.submit("ada", 2, "echo", flags=BOTH)
    assert (fallback.codes("ada"), fallback.heard("v", Task)) == ([502], [])


def test_what_the_copy_does_not_know_has_not_run_however_late_it_comes_if_the_partner_gave_way() -> None:
    mesh, primary, fallback = busy(tasks=1)
    primary.answer("w")
    primary.manage("handover")
    mesh.run(3 * TAKEOVER_S)
    assert (star(primary), star(fallback)) == (Star.PASSIVE, Star.ACTIVE)
    fallback.client("ada", epochs=SEEN)
    come_to(fallback, "w", "echo")
    fallback.submit("ada", 2, "echo", flags=BOTH)
    assert [(task.id, task.flags) for task in fallback.heard("w", Task)] == [(id_of("ada", 2), 0)]


def test_what_a_fresh_copy_does_not_know_may_have_run_if_the_partner_has_served_in_a_later_epoch() -> None:
    mesh, primary, fallback = busy(tasks=1)
    primary.answer("w")
    mesh.cut("prim", "back")
    primary.restart()
    primary.manage("takeover")
    come_to(primary, "w", "echo")
    primary.client("ada", epochs=SEEN)
    primary.submit("ada", 2, "echo")
    assert [task.id for task in primary.heard("w", Task)][-1] == id_of("ada", 2)
    primary.restart()
    mesh.heal()
    mesh.run(SHORTLY_S)
    assert (star(primary), star(fallback)) == (Star.PASSIVE, Star.ACTIVE)
    fallback.client("ada", epochs={"prim": 3})
    come_to(fallback, "v", "echo")
    fallback.submit("ada", 2, "echo", flags=BOTH)
    assert (fallback.codes("ada"), fallback.heard("v", Task)) == ([502], [])


def test_what_a_fresh_copy_does_not_know_has_not_run_if_the_partner_was_started_anew_and_has_not_served() -> None:
    mesh, primary, fallback = busy(tasks=1)
    primary.answer("w")
    primary.restart()
    mesh.run(SHORTLY_S)
    assert (star(primary), star(fallback)) == (Star.PASSIVE, Star.ACTIVE)
    fallback.client("ada", epochs=SEEN)
    come_to(fallback, "w", "echo")
    fallback.submit("ada", 2, "echo", flags=BOTH)
    assert [(task.id, task.flags) for task in fallback.heard("w", Task)] == [(id_of("ada", 2), 0)]


def test_what_a_fresh_copy_does_not_know_may_have_run_if_its_client_was_here_before_the_copys_time() -> None:
    mesh, primary, fallback = pair_of()
    primary.worker("w", "echo")
    primary.client("ada", epochs=SEEN)  # of a former life of both: this one knows nothing of it
    die_and_be_asked_for(mesh, primary, fallback)
    fallback.client("ada", epochs=SEEN)
    come_to(fallback, "w", "echo", capacity=2)
    fallback.submit("ada", 7, "echo", flags=BOTH)
    assert (fallback.codes("ada"), fallback.heard("w", Task)) == ([502], [])
    fallback.submit("ada", 8, "echo")
    assert [task.id for task in fallback.heard("w", Task)] == [id_of("ada", 8)], "a new one is as ever"


def test_copy_of_a_standby_that_stood_still_is_as_old_as_the_last_answer_before() -> None:
    mesh, primary, fallback = pair_of()
    primary.worker("w", "once", capacity=0)
    primary.client("ada")
    primary.submit("ada", 1, "once", timeout_s=100.0)
    mesh.cut("prim", "back")
    fallback.is_up = False
    mesh.run(TAKEOVER_S - SHORTLY_S)
    said = [frames for sender, _, _, frames in mesh.delayed if sender is primary]
    mesh.run(TAKEOVER_S)
    fallback.is_up = True
    session = fallback.peer("prim").session
    assert said
    assert session is not None
    for frames in said:  # it reads what was said while it stood still, and then nothing more
        fallback.do(fallback.broker.receive(session.route, PEER, native.decode(frames), mesh.now))
    mesh.run(TAKEOVER_S + SHORTLY_S)
    fallback.client("ada", epochs=SEEN)
    assert (star(fallback), fallback.codes("ada")) == (Star.ACTIVE, [502])


def test_copy_is_not_the_younger_for_an_answer_to_an_earlier_question() -> None:
    mesh, primary, fallback = pair_of()
    pair, session = fallback.state.pair, fallback.peer("prim").session
    assert pair is not None
    assert session is not None
    begun_s = mesh.now
    mesh.run(TAKEOVER_S)
    told = [status for status in mesh.between("prim", "back", PeerStatus) if status.echo]
    assert len(told) > 1, "it asks, and is answered, all the time"
    assert pair.synced_s > begun_s
    synced_s, primary.is_up = pair.synced_s, False
    mesh.run(SHORTLY_S)
    fallback.do(fallback.broker.receive(session.route, PEER, told[0], mesh.now))
    assert pair.synced_s == synced_s


@pytest.mark.parametrize("intervals", [1.0, 1.5, 3.0, 5.0])
def test_copy_is_trusted_at_a_takeover_however_short_the_timeout_is(intervals: float) -> None:
    mesh, primary, fallback = pair_of(takeover_timeout_s=intervals * 2.5)
    primary.worker("w", "once", capacity=0)
    primary.client("ada")
    primary.submit("ada", 1, "once", timeout_s=100.0)
    mesh.run(SETTLED_S)
    primary.kill()
    mesh.run(intervals * 2.5 + SHORTLY_S)
    fallback.client("ada", epochs=SEEN)
    assert (star(fallback), fallback.codes("ada")) == (Star.ACTIVE, [])
    assert fallback.state.ledger.queued == 1


def test_copy_that_is_not_whole_is_not_trusted() -> None:
    mesh, primary, fallback = pair_of()
    primary.worker("w", "echo", capacity=0)
    primary.client("ada")
    primary.submit("ada", 1, "echo")
    primary.is_up = False
    stream_to(fallback, seq_of(fallback) + 5, Closed("nobody"))
    primary.kill()
    mesh.run(TAKEOVER_S + SHORTLY_S)
    fallback.client("ada", epochs=SEEN)
    assert (star(fallback), fallback.codes("ada")) == (Star.ACTIVE, [502])


def test_ids_of_the_copy_name_the_process_that_made_them() -> None:
    _, primary, fallback = busy(tasks=1)
    assert list(fallback.state.ledger.entries) == [id_of("ada", 1)]
    assert fallback.state.sessions.by_identity["ada"].nonce == CLIENT_NONCE
    assert copy_of(fallback.state) == copy_of(primary.state)
