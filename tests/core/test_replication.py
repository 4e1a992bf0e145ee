"""The active end of the stream: copies, acknowledgements, a follower that lags, and tasks that wait for its word."""

from __future__ import annotations

import pytest

from scale0.core import replication
from scale0.core.effects import Send
from scale0.core.star import Star
from scale0.core.stream import Reset, unpacked
from scale0.errors import ProtocolError
from scale0.protocol.dialects import CLIENT, MDP2_WORKER, PEER, WORKER
from scale0.protocol.majordomo import MdpReady, MdpTask
from scale0.protocol.messages import (
    Cancel,
    Disconnect,
    PeerStatus,
    Ready,
    ServiceOffer,
    SnapshotReq,
    Stream,
    StreamAck,
    Task,
)
from tests.core.mesh import INTERVAL_S, SETTLED_S, Mesh, Node, id_of, pair_of
from tests.core.star_kit import SEEN, SHORTLY_S, TAKEOVER_S, copy_of, pair_and_third
from tests.core.test_binary_star import star


def held_task(**worker: bool) -> tuple[Mesh, Node, Node]:
    """Ada's task was given to w, and the follower's word on it is under way."""
    mesh, primary, fallback = pair_of()
    primary.worker("w", "echo", **worker)
    primary.client("ada")
    mesh.cut("prim", "back")
    primary.submit("ada", 1, "echo")
    return mesh, primary, fallback


def held(node: Node) -> int:
    return len(node.state.stream.held) if node.state.stream is not None else 0


# --- the stream -------------------------------------------------------------------------------------------------------


def test_changes_of_one_burst_leave_in_one_message_and_are_acknowledged() -> None:
    mesh, primary, _ = pair_of()
    primary.worker("w", "echo")
    mesh.passed.clear()
    primary.client("ada")
    (message,) = mesh.between("prim", "back", Stream)
    (answer,) = mesh.between("back", "prim", StreamAck)
    assert answer.seq == message.seq
    assert primary.state.stream is not None
    assert primary.state.stream.is_in_sync


def test_numbers_of_the_stream_have_no_gap() -> None:
    mesh, primary, _ = pair_of()
    for number in range(5):
        primary.client(f"c{number}")
    numbers = [message.seq for message in mesh.between("prim", "back", Stream)]
    assert numbers == list(range(numbers[0], numbers[0] + 5))


def test_long_copy_leaves_in_several_messages_and_only_the_first_resets(monkeypatch: pytest.MonkeyPatch) -> None:
    mesh, primary, fallback = pair_of()
    primary.worker("w", "echo", capacity=0)
    primary.client("ada")
    for sequence in range(1, 30):
        primary.submit("ada", sequence, "echo")
    mesh.passed.clear()
    monkeypatch.setattr(replication, "TOGETHER_MAX", 4)
    fallback.restart()
    mesh.run(SETTLED_S)
    copies = [unpacked(message.changes) for message in mesh.between("prim", "back", Stream)]
    assert len(copies) > 5
    assert [index for index, copy in enumerate(copies) if isinstance(copy[0], Reset)] == [0]
    assert all(len(copy) <= 6 for copy in copies), "a task and where it is stay together"
    assert copy_of(fallback.state) == copy_of(primary.state)


def test_acknowledgement_of_the_last_copy_is_none_of_the_next() -> None:
    mesh, primary, _ = held_task()
    session = primary.peer("back").session
    assert session is not None
    assert primary.state.stream is not None
    seq = primary.state.stream.seq
    primary.do(primary.broker.receive(session.route, PEER, SnapshotReq(what="state"), mesh.now))
    primary.do(primary.broker.receive(session.route, PEER, StreamAck(seq=seq), mesh.now))
    assert primary.heard("w", Task) == []
    mesh.heal()
    mesh.settle()
    assert len(primary.heard("w", Task)) == 1


def test_only_the_partner_gets_a_copy() -> None:
    mesh, primary, _, third = pair_and_third()
    session = third.peer("prim").session
    assert session is not None
    primary_side = primary.peer("third").session
    assert primary_side is not None
    begun = primary.state.counters["copies_begun"]
    primary.do(primary.broker.receive(primary_side.route, PEER, SnapshotReq(what="state"), mesh.now))
    assert primary.state.counters["copies_begun"] == begun


def test_standby_gives_no_copy() -> None:
    mesh, _, fallback = pair_of()
    session = fallback.peer("prim").session
    assert session is not None
    fallback.do(fallback.broker.receive(session.route, PEER, SnapshotReq(what="state"), mesh.now))
    assert fallback.state.stream is None


# --- a follower that lags ---------------------------------------------------------------------------------------------


def test_follower_that_acknowledges_nothing_for_takeover_timeout_is_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mesh, primary, fallback = pair_of()
    monkeypatch.setattr(replication, "acknowledged", lambda state, message: None)
    primary.client("ada")
    mesh.run(TAKEOVER_S - SHORTLY_S)
    assert "fallback_behind" not in primary.alarm_names()
    mesh.run(SHORTLY_S + 0.1)
    assert primary.alarm_names() == ["fallback_behind"]
    monkeypatch.undo()
    primary.client("bob")
    mesh.run(SETTLED_S)
    assert copy_of(fallback.state) == copy_of(primary.state), "it asked for a new copy"


def test_changes_without_an_acknowledgement_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replication, "UNACKED_MAX", 20)
    mesh, primary, fallback = pair_of()
    primary.worker("w", "echo", capacity=0)
    primary.client("ada")
    mesh.cut("prim", "back")
    for sequence in range(1, 30):
        primary.submit("ada", sequence, "echo")
    assert primary.alarm_names() == ["fallback_behind"]
    assert primary.state.stream is not None
    assert primary.state.stream.is_lost
    assert not primary.state.stream.changes, "nothing is gathered for nobody"
    mesh.heal()
    mesh.run(2 * SETTLED_S)
    assert copy_of(fallback.state) == copy_of(primary.state), "it asked for a new copy"


def test_follower_whose_link_was_lost_gets_a_new_copy() -> None:
    mesh, primary, fallback = pair_of()
    primary.worker("w", "echo", capacity=0)
    primary.client("ada")
    mesh.sever("prim", "back")
    primary.submit("ada", 1, "echo")
    mesh.run(SETTLED_S)
    assert copy_of(fallback.state) == copy_of(primary.state)
    assert primary.state.stream is not None
    assert primary.state.stream.is_in_sync


def test_follower_to_whom_the_stream_could_not_be_sent_gets_a_new_copy() -> None:
    mesh, primary, fallback = pair_of()
    primary.worker("w", "echo", capacity=0)
    primary.client("ada")
    mesh.cut("prim", "back")
    primary.submit("ada", 1, "echo")
    mesh.delayed.clear()
    (session,) = [peer.session for peer in primary.state.network.linked() if peer.session is not None]
    assert primary.state.stream is not None
    unsent = Send(session.route, PEER, Stream(primary.state.stream.seq, ()))
    primary.do(primary.broker.send_failed(unsent, "full", mesh.now))
    mesh.heal()
    with pytest.raises(ProtocolError):
        primary.manage("handover")
    mesh.run(SETTLED_S)
    assert copy_of(fallback.state) == copy_of(primary.state)


# --- the commit rule --------------------------------------------------------------------------------------------------


def test_task_that_must_not_run_twice_leaves_when_the_follower_knows_of_it() -> None:
    mesh, primary, fallback = held_task()
    assert primary.heard("w", Task) == []
    mesh.heal()
    mesh.settle()
    assert [task.id for task in primary.heard("w", Task)] == [id_of("ada", 1)]
    assert list(fallback.state.ledger.entries) == [id_of("ada", 1)]


def test_task_that_may_be_repeated_leaves_at_once() -> None:
    _, primary, _ = held_task(idempotent=True)
    assert len(primary.heard("w", Task)) == 1


def test_held_tasks_leave_in_the_order_in_which_they_came() -> None:
    mesh, primary, _ = pair_of()
    primary.worker("w", "echo", capacity=3)
    primary.client("ada")
    mesh.cut("prim", "back")
    for sequence in (1, 2, 3):
        primary.submit("ada", sequence, "echo")
    mesh.heal()
    mesh.settle()
    assert [task.id for task in primary.heard("w", Task)] == [id_of("ada", sequence) for sequence in (1, 2, 3)]


def test_acknowledgement_of_an_earlier_message_releases_nothing_later() -> None:
    mesh, primary, _ = held_task()
    assert primary.state.stream is not None
    session = primary.peer("back").session
    assert session is not None
    early = StreamAck(seq=primary.state.stream.seq - 1)
    primary.do(primary.broker.receive(session.route, PEER, early, mesh.now))
    assert (held(primary), primary.heard("w", Task)) == (1, [])
    late = StreamAck(seq=primary.state.stream.seq)
    primary.do(primary.broker.receive(session.route, PEER, late, mesh.now))
    assert (held(primary), len(primary.heard("w", Task))) == (0, 1)


def test_word_of_a_broker_that_does_not_follow_releases_nothing() -> None:
    mesh, primary, _, _ = pair_and_third()
    primary.worker("w", "echo")
    primary.client("ada")
    mesh.cut("prim", "back")
    primary.submit("ada", 1, "echo")
    session = primary.peer("third").session
    assert session is not None
    primary.do(primary.broker.receive(session.route, PEER, StreamAck(seq=10**6), mesh.now))
    assert primary.heard("w", Task) == []


def test_what_leaves_late_has_the_time_that_remains() -> None:
    mesh, primary, _ = held_task()
    mesh.run(4.0)
    mesh.heal()
    mesh.settle()
    (task,) = primary.heard("w", Task)
    assert task.remaining_ms <= 26_000
    assert task.broker_time_us == pytest.approx(mesh.now * 1e6, abs=1000)


def test_majordomo_worker_waits_for_the_followers_word_too() -> None:
    mesh, primary, _ = pair_of()
    primary.say("m", MDP2_WORKER, MdpReady("echo"))
    primary.client("ada")
    mesh.cut("prim", "back")
    primary.submit("ada", 1, "echo")
    assert primary.heard("m", MdpTask) == []
    mesh.heal()
    mesh.settle()
    assert len(primary.heard("m", MdpTask)) == 1


def test_majordomo_worker_may_not_be_silent_while_its_task_waits_for_the_followers_word() -> None:
    mesh, primary, fallback = pair_of()
    primary.say("m", MDP2_WORKER, MdpReady("echo"))
    primary.client("ada")
    fallback.kill()
    primary.submit("ada", 1, "echo", timeout_s=60.0)
    mesh.run(2 * 3 * INTERVAL_S + SHORTLY_S)
    assert held(primary) == 0
    assert primary.heard("m", MdpTask) == []
    assert primary.broker.census().queued == 1, "the worker is gone, and the task never left"


def test_majordomo_worker_may_be_silent_while_it_works() -> None:
    mesh, primary, _ = pair_of()
    primary.say("m", MDP2_WORKER, MdpReady("echo"))
    primary.client("ada")
    primary.submit("ada", 1, "echo", timeout_s=60.0)
    assert len(primary.heard("m", MdpTask)) == 1
    mesh.run(2 * 3 * INTERVAL_S + SHORTLY_S)
    assert primary.broker.census().in_flight == 1


# --- a follower that is gone ------------------------------------------------------------------------------------------


def test_held_task_leaves_at_once_when_the_followers_process_has_ended() -> None:
    mesh, primary, fallback = held_task()
    mesh.wire.clear()
    mesh.delayed.clear()
    mesh.heal()
    fallback.restart()
    mesh.run(3.0)
    assert len(primary.heard("w", Task)) == 1


@pytest.mark.parametrize("word", ["backup", "primary", ""])
def test_held_task_leaves_at_once_when_the_follower_says_that_it_has_no_copy(word: str) -> None:
    mesh, primary, _ = held_task()
    session = primary.peer("back").session
    assert session is not None
    told = PeerStatus(identity="back", state="passive", epoch=1, config_version=bytes(16), star=word)
    primary.do(primary.broker.receive(session.route, PEER, told, mesh.now))
    assert len(primary.heard("w", Task)) == 1


def test_held_task_waits_as_long_as_the_copy_of_a_lost_follower_could_be_used() -> None:
    mesh, primary, _ = held_task()
    mesh.run(TAKEOVER_S + 2 * TAKEOVER_S - SHORTLY_S)
    assert (held(primary), primary.heard("w", Task)) == (1, [])
    mesh.run(2 * SHORTLY_S + 2.5)
    assert len(primary.heard("w", Task)) == 1
    assert primary.state.stream is None


def test_task_that_came_after_the_follower_was_lost_waits_as_long() -> None:
    mesh, primary, _ = pair_of()
    primary.worker("w", "echo", capacity=2)
    primary.client("ada")
    mesh.cut("prim", "back")
    primary.submit("ada", 1, "echo")
    mesh.run(TAKEOVER_S + SHORTLY_S)
    assert primary.state.stream is not None
    assert primary.state.stream.is_lost
    primary.submit("ada", 2, "echo")
    assert primary.heard("w", Task) == [], "a copy that does not know it would take it for new"
    mesh.run(2 * TAKEOVER_S)
    assert [task.id for task in primary.heard("w", Task)] == [id_of("ada", 1), id_of("ada", 2)]


def test_task_that_waited_in_the_copy_of_a_lost_follower_is_held_when_it_is_its_turn() -> None:
    mesh, primary, _ = pair_of()
    primary.worker("w", "echo", capacity=0)
    primary.client("ada")
    primary.submit("ada", 1, "echo")
    mesh.cut("prim", "back")
    mesh.run(TAKEOVER_S + SHORTLY_S)
    primary.say("w", WORKER, Ready(services=[ServiceOffer("echo")]))
    assert (held(primary), primary.heard("w", Task)) == (1, []), "the fallback may serve by now, and has it too"
    mesh.run(2 * TAKEOVER_S)
    assert len(primary.heard("w", Task)) == 1


def test_unknown_service_is_not_404_when_the_broker_has_settled_as_long_as_the_follower_may_run_it_yet() -> None:
    mesh, primary, fallback = pair_of(run_s=1.0)
    primary.client("ada")
    primary.submit("ada", 1, "later", timeout_s=20.0)
    mesh.cut("prim", "back")
    mesh.run(SETTLED_S)
    assert (primary.state.has_settled, primary.codes("ada")) == (True, [])
    fallback.worker("w", "later", epochs=SEEN)
    assert [task.id for task in fallback.heard("w", Task)] == [id_of("ada", 1)]


def test_held_task_waits_for_the_new_copy_of_a_follower_that_came_back() -> None:
    mesh, primary, fallback = held_task()
    mesh.run(TAKEOVER_S + SHORTLY_S)
    assert primary.heard("w", Task) == []
    mesh.heal()
    mesh.run(2 * SETTLED_S)
    assert len(primary.heard("w", Task)) == 1
    assert (star(primary), star(fallback)) == (Star.ACTIVE, Star.PASSIVE)
    assert copy_of(fallback.state) == copy_of(primary.state)


# --- what happens while it is held ------------------------------------------------------------------------------------


def test_worker_that_leaves_while_its_task_is_held_has_never_had_it() -> None:
    mesh, primary, _ = held_task()
    primary.say("w", WORKER, Disconnect())
    mesh.heal()
    mesh.run(SHORTLY_S)
    assert primary.codes("ada") == [], "it is not lost: it never left"
    primary.worker("v", "echo")
    assert [(task.id, task.attempt) for task in primary.heard("v", Task)] == [(id_of("ada", 1), 1)]


def test_worker_that_takes_its_capacity_back_while_a_task_is_held_does_not_get_it() -> None:
    mesh, primary, _ = held_task()
    primary.say("w", WORKER, Ready(services=[ServiceOffer("echo")], capacity=0))
    mesh.heal()
    mesh.run(SHORTLY_S)
    assert primary.heard("w", Task) == []
    assert primary.state.ledger.queued == 1


def test_slot_of_a_held_task_that_is_too_late_is_not_given_to_another_that_is_too_late() -> None:
    mesh, primary, _ = pair_of()
    primary.worker("w", "echo")
    primary.say("w", WORKER, Ready(services=[ServiceOffer("echo"), ServiceOffer("again", True)], capacity=1))
    primary.client("ada")
    mesh.cut("prim", "back")
    primary.submit("ada", 1, "echo", timeout_s=0.1)
    primary.submit("ada", 2, "again", timeout_s=0.1)
    mesh.run(SHORTLY_S)
    assert (primary.codes("ada"), primary.heard("w", Task)) == ([408, 408], [])


def test_deadline_that_passes_while_a_task_is_held_settles_it_and_frees_the_slot() -> None:
    mesh, primary, fallback = pair_of()
    primary.worker("w", "echo")
    primary.client("ada")
    mesh.cut("prim", "back")
    primary.submit("ada", 1, "echo", timeout_s=1.0)
    mesh.run(1.5)
    assert len(primary.codes("ada")) == 1
    mesh.heal()
    mesh.run(SHORTLY_S)
    assert primary.heard("w", Task) == []
    primary.submit("ada", 2, "echo")
    assert [task.id for task in primary.heard("w", Task)] == [id_of("ada", 2)]
    assert copy_of(fallback.state) == copy_of(primary.state)


def test_cancel_of_a_held_task_ends_it_without_a_word_to_the_worker() -> None:
    mesh, primary, fallback = held_task()
    primary.say("ada", CLIENT, Cancel(id=id_of("ada", 1)))
    assert primary.codes("ada") == [499]
    mesh.heal()
    mesh.run(SHORTLY_S)
    assert primary.heard("w", Task) == []
    assert primary.heard("w", Cancel) == []
    primary.submit("ada", 2, "echo")
    assert len(primary.heard("w", Task)) == 1, "its slot is free"
    assert copy_of(fallback.state) == copy_of(primary.state)


def test_client_that_leaves_takes_its_held_task_with_it() -> None:
    mesh, primary, fallback = held_task()
    primary.say("ada", CLIENT, Disconnect())
    mesh.heal()
    mesh.run(SHORTLY_S)
    assert primary.heard("w", Task) == []
    assert (list(primary.state.ledger.entries), list(fallback.state.ledger.entries)) == ([], [])
    session = primary.state.sessions.by_identity["w"]
    assert session.worker is not None
    assert session.worker.slots == {}
