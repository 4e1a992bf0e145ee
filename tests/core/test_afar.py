"""Peers as workers: who may get a task, when a fallback group is asked, and what a lost peer means (rule 28)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scale0.core import handover, modes
from scale0.core.afar import split_options
from scale0.protocol import codec
from scale0.protocol.dialects import PEER
from scale0.protocol.limits import OPTIONS_BYTES_MAX
from scale0.protocol.messages import Cancel, Connect, Disconnect, PeerStatus, Status, Task, TaskReply
from scale0.protocol.network import GroupEntry
from tests.core.desk import Desk, bodies, codes, only_task, tasks_to
from tests.core.mesh import Mesh, Node, network_of
from tests.core.neighbour import Neighbour, joining, said, status

SHORTLY_S = 0.5


@pytest.fixture
def desk() -> Desk:
    return Desk(identity="b1", advertise=["tcp://10.0.0.1:5555"])


def two_groups(**document: object) -> tuple[Mesh, list[Node]]:
    """eu-1 and eu-2, whose group falls back to that of us-1, and then to that of ap-1."""
    brokers = {"eu-1": {"group": "eu"}, "eu-2": {"group": "eu"}, "us-1": {"group": "us"}, "ap-1": {"group": "ap"}}
    return network_of(brokers, groups=[GroupEntry(name="eu", fallback_groups=["us", "ap"])], **document)


# --- choosing -------------------------------------------------------------------------------------------------------


def test_own_workers_come_first(desk: Desk) -> None:
    b2 = Neighbour(desk)
    b2.offer("echo", credit=5)
    desk.worker("w", "echo")
    client = desk.client("ada")
    assert tasks_to(client.submit("echo")) == ["w"]
    assert tasks_to(client.submit("echo")) == ["b2"], "only when none of them has a free slot"


def test_peers_of_the_group_take_turns(desk: Desk) -> None:
    for name in ("b2", "b3"):
        Neighbour(desk, name).offer("echo", credit=2)
    client = desk.client("ada")
    assert [tasks_to(client.submit("echo")) for _ in range(5)] == [["b2"], ["b3"], ["b2"], ["b3"], []]


def test_peer_gets_no_more_than_its_credit(desk: Desk) -> None:
    b2 = Neighbour(desk)
    b2.offer("echo", credit=2)
    client = desk.client("ada")
    sent = [only_task(client.submit("echo"), "b2") for _ in range(2)]
    assert tasks_to(client.submit("echo")) == []
    assert desk.broker.census().queued == 1
    assert tasks_to(b2.reply(sent[0])) == ["b2"], "a reply frees a place"
    assert tasks_to(b2.offer("echo", credit=2)) == []


def test_more_credit_is_used_at_once(desk: Desk) -> None:
    b2 = Neighbour(desk)
    b2.offer("echo", credit=0)
    client = desk.client("ada")
    for _ in range(5):
        assert tasks_to(client.submit("echo")) == []
    assert tasks_to(b2.offer("echo", credit=3)) == ["b2"] * 3


def test_credit_that_shrinks_recalls_nothing(desk: Desk) -> None:
    b2 = Neighbour(desk)
    b2.offer("echo", credit=2)
    client = desk.client("ada")
    tasks = [only_task(client.submit("echo"), "b2") for _ in range(2)]
    assert b2.offer("echo", credit=1) == []
    assert [bodies(b2.reply(task)) for task in tasks] == [[("ada", b"done")], [("ada", b"done")]]


def test_credit_of_one_service_is_not_used_for_another(desk: Desk) -> None:
    b2 = Neighbour(desk)
    b2.offer("echo", credit=1)
    b2.offer("render", credit=0)
    client = desk.client("ada")
    assert tasks_to(client.submit("render")) == []
    assert tasks_to(client.submit("echo")) == ["b2"]


def test_full_status_ends_what_it_does_not_name(desk: Desk) -> None:
    b2 = Neighbour(desk)
    b2.offer("echo", credit=1)
    b2.say(status(is_full=True))
    assert tasks_to(desk.client("ada").submit("echo")) == []
    assert desk.broker.census().queued == 1, "the service stays known: its tasks wait"


def test_own_worker_that_becomes_free_takes_what_waits_before_peers_are_asked(desk: Desk) -> None:
    b2 = Neighbour(desk)
    b2.offer("echo", credit=0)
    client = desk.client("ada")
    client.submit("echo")
    desk.worker("w", "echo")
    assert desk.broker.census().queued == 0
    assert tasks_to(b2.offer("echo", credit=1)) == []


def test_peer_outside_our_groups_is_never_asked() -> None:
    desk = Desk(identity="b1", group="eu")
    Neighbour(desk, group="us").offer("echo", credit=5)
    assert codes(desk.client("ada").submit("echo")) == [("ada", 404)]


# --- fallback groups ------------------------------------------------------------------------------------------------


def test_fallback_group_is_asked_at_once_when_nobody_in_the_group_serves() -> None:
    mesh, (eu1, _, us1, _) = two_groups()
    us1.worker("w", "echo")
    mesh.run(SHORTLY_S)
    eu1.client("ada")
    eu1.submit("ada", 1, "echo")
    us1.answer("w")
    assert eu1.bodies("ada") == [b"done"]


def test_group_is_asked_before_its_fallback_group() -> None:
    mesh, (eu1, eu2, us1, _) = two_groups()
    us1.worker("far", "echo", capacity=10)
    eu2.worker("near", "echo", capacity=3)
    mesh.run(SHORTLY_S)
    eu1.client("ada")
    for sequence in (1, 2, 3):
        eu1.submit("ada", sequence, "echo")
    assert len(eu2.heard("near", Task)) == 3


def test_busy_group_is_given_fallback_after_before_the_fallback_group_is_asked() -> None:
    mesh, (eu1, eu2, us1, _) = two_groups(fallback_after_s=2.0)
    us1.worker("far", "echo", capacity=10)
    eu2.worker("near", "echo")
    mesh.run(SHORTLY_S)
    eu1.client("ada")
    eu1.submit("ada", 1, "echo")
    mesh.run(SHORTLY_S)
    eu1.submit("ada", 2, "echo")
    mesh.run(1.8)
    assert us1.heard("far", Task) == []
    assert eu1.broker.next_deadline() <= mesh.now + 0.25
    mesh.run(0.4)
    assert len(us1.heard("far", Task)) == 1
    assert len(eu2.heard("near", Task)) == 1


def test_own_workers_that_are_busy_count_as_the_group_too() -> None:
    mesh, (eu1, _, us1, _) = two_groups()
    us1.worker("far", "echo")
    eu1.worker("own", "echo")
    mesh.run(SHORTLY_S)
    eu1.client("ada")
    eu1.submit("ada", 1, "echo")
    eu1.submit("ada", 2, "echo")
    mesh.run(0.8)
    assert us1.heard("far", Task) == []
    mesh.run(0.4)
    assert len(us1.heard("far", Task)) == 1


def test_fallback_groups_are_asked_in_their_order() -> None:
    mesh, (eu1, _, us1, ap1) = two_groups()
    ap1.worker("w3", "echo")
    us1.worker("w2", "echo")
    mesh.run(SHORTLY_S)
    eu1.client("ada")
    eu1.submit("ada", 1, "echo")
    assert len(us1.heard("w2", Task)) == 1
    eu1.submit("ada", 2, "echo")
    assert len(ap1.heard("w3", Task)) == 1, "the next one when the first has no room"


def test_what_has_waited_goes_to_the_fallback_groups_in_their_order_too() -> None:
    mesh, (eu1, eu2, us1, ap1) = two_groups(fallback_after_s=2.0)
    eu2.worker("near", "echo")
    ap1.worker("w3", "echo")
    mesh.run(SHORTLY_S)
    us1.worker("w2", "echo")
    mesh.run(SHORTLY_S)
    eu1.client("ada")
    eu1.submit("ada", 1, "echo")
    eu1.submit("ada", 2, "echo")
    mesh.run(2.2)
    assert (len(us1.heard("w2", Task)), len(ap1.heard("w3", Task))) == (1, 0)


def test_what_waited_until_a_broker_may_dispatch_again_goes_to_the_nearest_first() -> None:
    brokers = {"us-1": {"group": "us"}, "eu-1": {"group": "eu"}, "eu-2": {"group": "eu"}}
    mesh, (us1, eu1, eu2) = network_of(brokers, groups=[GroupEntry(name="eu", fallback_groups=["us"])])
    us1.worker("far", "echo", capacity=10)
    eu2.worker("near", "echo")
    eu1.worker("own", "echo")
    eu1.client("ada")
    mesh.run(SHORTLY_S)
    handover.hold(eu1.state)
    for sequence in (1, 2, 3):
        eu1.submit("ada", sequence, "echo")
    mesh.run(3.0)
    assert eu1.heard("own", Task) == []
    modes.enter(eu1.state, "active")
    eu1.do(eu1.state.take_effects())
    mesh.settle()
    heard = [len(node.heard(name, Task)) for node, name in ((eu1, "own"), (eu2, "near"), (us1, "far"))]
    assert heard == [1, 1, 1]


def test_fallback_is_not_mutual_unless_it_is_written_so() -> None:
    mesh, (eu1, _, us1, _) = two_groups()
    eu1.worker("w", "echo")
    mesh.run(SHORTLY_S)
    us1.client("ada")
    us1.submit("ada", 1, "echo")
    assert us1.codes("ada") == [404]


def test_brokers_own_fallback_groups_win_over_those_of_its_group() -> None:
    eu: dict[str, Any] = {"group": "eu", "fallback_groups": ["ap"]}
    brokers = {"b1": eu, "b2": {"group": "us"}, "b3": {"group": "ap"}}
    mesh, (b1, b2, b3) = network_of(brokers, groups=[GroupEntry(name="eu", fallback_groups=["us"])])
    b2.worker("w2", "echo")
    b3.worker("w3", "echo")
    mesh.run(SHORTLY_S)
    b1.client("ada")
    b1.submit("ada", 1, "echo")
    b1.submit("ada", 2, "echo")
    assert (len(b2.heard("w2", Task)), len(b3.heard("w3", Task))) == (0, 1)


# --- what is sent ---------------------------------------------------------------------------------------------------


def test_forwarded_task_carries_its_remaining_time_its_options_and_where_it_was(desk: Desk) -> None:
    b2 = Neighbour(desk)
    b2.offer("echo", credit=0)
    client = desk.client("ada")
    options = msgspec.msgpack.encode({"trace": "7"})
    client.submit("echo", timeout_s=10.0, priority=2, options=options)
    desk.pass_time(1.0)
    task = only_task(b2.offer("echo", credit=1), "b2")
    assert task.remaining_ms == pytest.approx(9000, abs=1)
    assert (task.attempt, task.priority, task.body) == (1, 2, (b"body",))
    assert split_options(task.options) == (["b1"], options)


def test_options_of_the_greatest_length_travel_too(desk: Desk) -> None:
    Neighbour(desk).offer("echo")
    options = b"\x81" + b"x" * (OPTIONS_BYTES_MAX - 1)
    task = only_task(desk.client("ada").submit("echo", options=options), "b2")
    assert codec.decode(codec.encode(PEER, task)) == (PEER, task)
    assert split_options(task.options)[1] == options


@settings(deadline=None)
@given(st.lists(st.text(min_size=1, max_size=40), max_size=15), st.dictionaries(st.text(), st.integers(0, 1000)))
def test_visited_brokers_and_options_are_told_apart(visited: list[str], options: dict[str, int]) -> None:
    packed = msgspec.msgpack.encode(options) if options else b""
    assert split_options(msgspec.msgpack.encode(visited) + packed) == (visited, packed)


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_any_options_are_split_without_loss(options: bytes) -> None:
    visited, rest = split_options(options)
    assert options.endswith(rest)
    assert visited == [] or len(rest) < len(options)


def test_options_that_only_look_like_visited_brokers_are_the_clients_own() -> None:
    assert split_options(b"\x91\xa1\xff") == ([], b"\x91\xa1\xff"), "a name that is no text"


# --- sends that fail ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["full", "unroutable"])
def test_task_that_could_not_be_sent_goes_back_to_its_queue_and_counts_no_attempt(desk: Desk, reason: str) -> None:
    b2 = Neighbour(desk)
    b2.offer("echo", credit=2)
    client = desk.client("ada")
    client.submit("echo")
    desk.fail(desk.sends[-1], reason)
    assert desk.broker.census().queued == 1
    assert tasks_to(client.submit("echo")) == []
    first, second = said(b2.say(status()), Task, "b2")
    assert (first.id, first.attempt) == (client.id(1), 1)
    assert second.id == client.id(2)


def test_task_that_could_not_be_sent_goes_to_another_peer(desk: Desk) -> None:
    for name in ("b2", "b3"):
        Neighbour(desk, name).offer("echo")
    desk.client("ada").submit("echo")
    assert tasks_to(desk.fail(desk.sends[-1], "full")) == ["b3"]


# --- a lost peer is a lost worker -----------------------------------------------------------------------------------


def test_task_at_a_lost_peer_is_repeated_if_its_service_is_idempotent(desk: Desk) -> None:
    b2, b3 = Neighbour(desk, "b2"), Neighbour(desk, "b3")
    for peer in (b2, b3):
        peer.offer("echo", idempotent=True, max_attempts=3)
    task = only_task(desk.client("ada").submit("echo"), "b2")
    again = only_task(b2.say(Disconnect()), "b3")
    assert (again.id, again.attempt) == (task.id, 2)
    assert bodies(b3.reply(again)) == [("ada", b"done")]


def test_task_at_a_lost_peer_is_502_if_its_service_is_not_idempotent(desk: Desk) -> None:
    b2 = Neighbour(desk)
    b2.offer("echo")
    desk.client("ada").submit("echo")
    sent = b2.say(Disconnect(reason="stopped"))
    assert codes(sent) == [("ada", 502)]
    assert "broker b2 is gone" in str(sent)


def test_task_whose_parts_reached_the_client_is_not_repeated(desk: Desk) -> None:
    b2, b3 = Neighbour(desk, "b2"), Neighbour(desk, "b3")
    for peer in (b2, b3):
        peer.offer("echo", idempotent=True, max_attempts=3)
    task = only_task(desk.client("ada").submit("echo"), "b2")
    assert bodies(b2.reply(task, b"part", final=False)) == [("ada", b"part")]
    assert codes(b2.say(Disconnect())) == [("ada", 502)]


def test_attempts_over_several_brokers_are_limited(desk: Desk) -> None:
    client = desk.client("ada")
    for attempt, name in enumerate(("b2", "b3", "b4"), 1):
        peer = Neighbour(desk, name)
        sent = peer.offer("echo", idempotent=True, max_attempts=2)
        if attempt == 1:
            sent = client.submit("echo", timeout_s=60.0)
        if attempt < 3:
            assert only_task(sent, name).attempt == attempt
            last = peer.say(Disconnect())
        else:
            assert tasks_to(sent) == []
    assert codes(last) == [("ada", 502)]
    assert "attempt 2 was the last one allowed" in str(last)


def test_cancelled_task_at_a_lost_peer_is_499(desk: Desk) -> None:
    b2 = Neighbour(desk)
    b2.offer("echo", idempotent=True, max_attempts=3)
    client = desk.client("ada")
    client.submit("echo")
    assert [type(message) for _, message in client.cancel(1)] == [Cancel]
    assert codes(b2.say(Disconnect())) == [("ada", 499)]


def test_peer_that_came_back_on_another_connection_keeps_what_it_lists_and_loses_the_rest(desk: Desk) -> None:
    b2 = Neighbour(desk)
    b2.offer("echo", credit=2)
    client = desk.client("ada")
    kept, lost = (only_task(client.submit("echo"), "b2") for _ in range(2))
    sent = b2.say(joining(in_flight=[kept.id]), route="again")
    assert codes(sent) == [("ada", 502)]
    assert lost.id != kept.id
    assert bodies(b2.say(TaskReply(kept.id, (b"done",), kept.attempt), route="again")) == [("ada", b"done")]


def test_peer_of_which_nothing_is_left_is_not_counted_as_serving(desk: Desk) -> None:
    b2 = Neighbour(desk)
    b2.offer("echo", credit=1)
    b2.say(Disconnect())
    assert tasks_to(desk.client("ada").submit("echo")) == []
    answer = said(b2.say(joining()), Connect)
    assert answer, "it comes back"
    assert said(desk.sent, PeerStatus)
    assert only_task(b2.offer("echo", credit=1), "b2")


def test_returned_task_goes_elsewhere_and_its_peer_gets_nothing_until_it_is_heard(desk: Desk) -> None:
    b2, b3 = Neighbour(desk, "b2"), Neighbour(desk, "b3")
    b2.offer("echo", credit=2)
    b3.offer("echo", credit=1)
    client = desk.client("ada")
    task = only_task(client.submit("echo"), "b2")
    again = only_task(b2.reply(task, b"", status=Status.RETURNED), "b3")
    assert (again.id, again.attempt) == (task.id, 1), "no attempt is counted"
    assert tasks_to(client.submit("echo")) == []
    assert tasks_to(b2.offer("echo", credit=2)) == ["b2"]
