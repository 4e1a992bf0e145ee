"""Links between brokers: CONNECT both ways, one link a pair, life and silence (rules 2 and 28)."""

from __future__ import annotations

import pytest

from scale0.core import afar
from scale0.core.effects import Alarm, Dial, HangUp, Send
from scale0.core.settings import Limits
from scale0.protocol.dialects import CLIENT, PEER
from scale0.protocol.messages import (
    Cancel,
    Connect,
    Disconnect,
    Error,
    PeerStatus,
    SnapshotReq,
    TableReq,
    Task,
    TaskReply,
)
from tests.core.desk import Desk, codes, route_of
from tests.core.mesh import Mesh, document_of, group_of, id_of, network_of
from tests.core.neighbour import Neighbour, joining, said, status


@pytest.fixture
def desk() -> Desk:
    return Desk(identity="b1", advertise=["tcp://10.0.0.1:5555"])


# --- CONNECT --------------------------------------------------------------------------------------------------------


def test_connect_is_answered_by_connect_and_a_full_status(desk: Desk) -> None:
    desk.worker("w", "echo")
    answer, told = [message for _, message in desk.say("b2", PEER, joining())][:2]
    assert isinstance(answer, Connect)
    assert (answer.identity, answer.network) == ("b1", "scale0")
    assert answer.broker["endpoints"] == ["tcp://10.0.0.1:5555"]
    assert isinstance(told, PeerStatus)
    assert told.is_full
    assert [service.name for service in told.services] == ["echo"]


@pytest.mark.parametrize("takes_bundles", [True, False])
def test_peer_gets_bundles_if_it_takes_them_and_is_told_that_this_broker_does(desk: Desk, takes_bundles: bool) -> None:
    answer = desk.say("b2", PEER, joining(bundles=takes_bundles))[0][1]
    assert isinstance(answer, Connect)
    assert answer.bundles
    assert desk.broker.takes_bundles(route_of("b2")) is takes_bundles


def test_own_identity_is_refused(desk: Desk) -> None:
    (_, error), *_ = desk.say("b2", PEER, joining("b1"))
    assert isinstance(error, Error)
    assert (error.code, error.fatal) == (409, True)
    assert "own identity" in error.text


def test_broker_of_another_network_is_refused(desk: Desk) -> None:
    (_, error), *_ = desk.say("b2", PEER, joining(network="test"))
    assert isinstance(error, Error)
    assert (error.code, error.fatal) == (403, True)
    assert "belongs to network scale0, not to test" in error.text


def test_broker_that_is_neither_listed_nor_joining_is_refused(desk: Desk) -> None:
    (_, error), *_ = desk.say("b2", PEER, joining(is_joining=False))
    assert isinstance(error, Error)
    assert (error.code, error.fatal) == (403, False), "it may be listed later, and tries again"
    assert "not listed" in error.text


def test_network_that_is_closed_refuses_who_is_not_listed() -> None:
    desk = Desk(identity="b1", join="listed")
    assert codes(desk.say("b2", PEER, joining())) == [("b2", 403)]


def test_unlisted_broker_with_a_newer_config_is_heard(desk: Desk) -> None:
    newer = b"\0\0\0\2" + bytes(12)
    said = desk.say("b2", PEER, joining(is_joining=False, config_version=newer))
    assert [type(message).__name__ for _, message in said] == ["Connect", "PeerStatus", "SnapshotReq"]


def test_brokers_over_the_limit_are_refused() -> None:
    desk = Desk(identity="b1", limits=Limits(brokers=2))
    desk.say("b2", PEER, joining("b2"))
    assert codes(desk.say("b3", PEER, joining("b3"))) == [("b3", 429)]


def test_another_process_under_the_same_identity_is_409_while_the_first_one_speaks(desk: Desk) -> None:
    desk.say("b2", PEER, joining())
    desk.pass_time(2.4)
    assert codes(desk.say("thief", PEER, joining(nonce=b"otherone"))) == [("thief", 409)]
    desk.pass_time(0.2)
    answer = desk.say("new", PEER, joining(nonce=b"otherone"))[0][1]
    assert isinstance(answer, Connect)


def test_same_process_on_another_connection_moves_its_link_at_once(desk: Desk) -> None:
    desk.say("b2", PEER, joining())
    assert isinstance(desk.say("new", PEER, joining())[0][1], Connect)
    assert [name for name, message in desk.pass_time(2.6) if isinstance(message, PeerStatus)] == ["new"]
    assert desk.counters["links_up"] == 2


def test_connect_that_comes_twice_on_one_link_changes_nothing(desk: Desk) -> None:
    desk.say("b2", PEER, joining())
    desk.say("b2", PEER, joining())
    assert desk.counters["links_up"] == 1


def test_connection_that_takes_another_identity_ends_the_former_link(desk: Desk) -> None:
    desk.say("x", PEER, joining("b2"))
    desk.say("x", PEER, joining("b3"))
    network = desk.broker.state.network
    assert [peer.identity for peer in network.linked()] == ["b3"]


def test_answer_of_another_network_is_not_taken_and_the_operator_is_told_once() -> None:
    mesh = Mesh()
    b1 = mesh.add("b1", document=document_of({"b1": {}, "b2": {}}, network="test"))
    b2 = mesh.add("b2", document=document_of({"b1": {}, "b2": {}}))
    mesh.run(20.0)
    assert not b2.peer("b1").is_linked
    assert not b1.peer("b2").is_linked
    assert b2.alarm_names() == ["link_refused"]


def test_broker_that_was_taken_out_while_it_was_away_learns_it_when_it_comes_back() -> None:
    mesh, (b1, _, b3) = network_of({"b1": {}, "b2": {}, "b3": {}})
    b3.kill()
    b1.apply(document_of({"b1": {}, "b2": {}}))
    b3.restart()
    mesh.run(10.0)
    assert b3.version == b1.version
    assert b3.mode == "draining"
    assert "not_listed" in b3.alarm_names()
    assert "b3" not in b1.state.network.peers


# --- one link a pair ------------------------------------------------------------------------------------------------


def test_every_pair_has_one_link_and_it_holds() -> None:
    mesh, nodes = group_of(4)
    mesh.run(60.0)
    for node in nodes:
        others = [other.name for other in nodes if other is not node]
        assert {name: mesh.links_between(node.name, name) for name in others} == dict.fromkeys(others, 1)
        assert node.state.counters["links_lost"] == 0


@pytest.mark.parametrize("wait_s", [15.0, 15.7, 16.4, 17.1, 17.8, 18.5])
def test_dials_that_cross_end_in_one_link(wait_s: float) -> None:
    mesh = Mesh()
    document = document_of({"b1": {}, "b2": {}})
    nodes = [mesh.add(name, document=document) for name in ("b1", "b2")]
    mesh.cut("b1", "b2")
    mesh.run(wait_s)
    mesh.heal()
    mesh.run(12.0)
    assert mesh.links_between("b1", "b2") == 1
    assert all(peer.is_linked for node in nodes for peer in node.state.network.peers.values())
    links_up = [node.state.counters["links_up"] for node in nodes]
    mesh.run(20.0)
    assert [node.state.counters["links_up"] for node in nodes] == links_up, "it stays as it is"


def dialing_desk(own: str, other: str) -> tuple[Desk, Dial]:
    """A broker `own` that is dialing `other`."""
    desk = Desk(identity=own, is_settled=False, seeds=["tcp://10.0.0.9:1"])
    desk.say("x", PEER, joining(other, is_joining=False))
    desk.say("x", PEER, Disconnect())
    for _ in range(100):
        desk.pass_time(0.5)
        for effect in desk.others:
            if isinstance(effect, Dial) and effect.endpoint == "tcp://10.0.0.2:5555":
                return desk, effect
    raise AssertionError("it is never dialed")


def test_higher_identity_that_is_dialing_refuses_the_link_of_the_lower_one() -> None:
    desk, dial = dialing_desk("b2", "b1")
    assert codes(desk.say("b1", PEER, joining("b1", is_joining=False))) == [("b1", 409)]
    effects = desk.broker.receive(dial.route, PEER, joining("b1", is_joining=False), desk.now)
    assert desk.broker.state.network.peers["b1"].is_linked
    assert not [effect for effect in effects if isinstance(effect, HangUp)]


def test_connect_of_a_lower_identity_that_comes_after_its_answer_does_not_move_the_link() -> None:
    desk, dial = dialing_desk("b2", "b1")
    desk.broker.receive(dial.route, PEER, joining("b1", is_joining=False, serial=2), desk.now)
    assert not desk.say("b1", PEER, joining("b1", is_joining=False, serial=1)), "it has hung up there"
    assert not [effect for effect in desk.others if isinstance(effect, HangUp)]
    assert desk.broker.state.sessions.by_route[dial.route].identity == "b1"
    assert desk.counters["connects_overtaken"] == 1


def test_each_connect_of_a_broker_has_a_higher_serial(desk: Desk) -> None:
    answers = [said(desk.say(route, PEER, joining()), Connect)[0] for route in ("one", "two")]
    assert [answer.serial for answer in answers] == [1, 2]


def test_lower_identity_that_is_dialing_takes_the_link_of_the_higher_one_and_hangs_up_its_own() -> None:
    desk, dial = dialing_desk("b1", "b2")
    answer = desk.say("b2", PEER, joining("b2", is_joining=False))
    assert isinstance(answer[0][1], Connect)
    assert HangUp(dial.route) in desk.others


# --- life -----------------------------------------------------------------------------------------------------------


def test_silence_for_liveness_intervals_means_lost(desk: Desk) -> None:
    b2 = Neighbour(desk)
    desk.pass_time(7.4, steps=10)
    assert b2.is_linked()
    desk.pass_time(0.17)
    assert not b2.is_linked()
    (alarm,) = [effect for effect in desk.others if isinstance(effect, Alarm)]
    assert alarm.name == "peer_lost"
    assert "b2 has been silent for 7.6 s" in alarm.text


def test_anything_that_a_peer_says_is_a_sign_of_life(desk: Desk) -> None:
    b2 = Neighbour(desk)
    for message in (status(), TableReq(), Cancel(id=b2.id(1)), SnapshotReq(what="config"), status()):
        desk.pass_time(5.0)
        b2.say(message)
    assert b2.is_linked()


def test_peer_with_a_longer_interval_gets_more_time(desk: Desk) -> None:
    b2 = Neighbour(desk)
    b2.say(status(heartbeat_interval_ms=10_000))
    desk.pass_time(29.0, steps=10)
    assert b2.is_linked()
    desk.pass_time(1.05)
    assert not b2.is_linked()


def test_peer_is_not_lost_because_the_broker_stood_still(desk: Desk) -> None:
    b2 = Neighbour(desk)
    b2.offer("echo")
    client = desk.client("ada")
    desk.pass_time(20.0)
    assert b2.is_linked()
    assert said(client.submit("echo"), Task) == [], "it gets nothing until what it said is read"
    assert len(said(b2.say(status()), Task, "b2")) == 1
    desk.pass_time(7.4, steps=10)
    assert b2.is_linked()
    desk.pass_time(0.17)
    assert not b2.is_linked(), "its silence counts as ever"


def test_peer_that_has_no_room_any_more_gets_nothing_when_it_is_heard_again(desk: Desk) -> None:
    b2 = Neighbour(desk)
    b2.offer("echo")
    client = desk.client("ada")
    desk.pass_time(20.0)
    client.submit("echo")
    assert said(b2.offer("echo", workers=0, credit=0), Task) == []


def test_peer_that_says_nothing_for_an_interval_after_the_broker_went_on_is_lost(desk: Desk) -> None:
    b2 = Neighbour(desk)
    desk.pass_time(20.0)
    desk.pass_time(2.4, steps=10)
    assert b2.is_linked()
    desk.pass_time(20.0)
    assert not b2.is_linked(), "it is excused once"


def test_broker_wakes_to_look_at_a_silent_peer(desk: Desk) -> None:
    Neighbour(desk)
    desk.pass_time(6.8, steps=3)
    assert desk.broker.next_deadline() <= desk.now + 0.7


def test_peers_on_both_sides_of_a_cut_are_lost_and_found_again() -> None:
    mesh, (b1, b2, b3) = group_of(3)
    mesh.cut("b1", "b3")
    mesh.run(10.0)
    assert (b1.alarm_names(), b2.alarm_names(), b3.alarm_names()) == (["peer_lost"], [], ["peer_lost"])
    mesh.heal()
    mesh.run(6.0)
    assert mesh.links_between("b1", "b3") == 1
    assert b1.peer("b3").is_linked
    assert b3.peer("b1").is_linked


def test_broker_that_stops_says_so_and_nobody_waits_for_silence() -> None:
    mesh, (b1, b2) = group_of(2)
    b2.do(b2.broker.stop(mesh.now))
    mesh.settle()
    assert not b1.peer("b2").is_linked
    assert b1.alarms == []


def test_peer_that_cannot_be_sent_to_gets_no_tasks_until_it_is_heard(desk: Desk) -> None:
    b2 = Neighbour(desk)
    b2.offer("echo", workers=2, credit=5)
    client = desk.client("ada")
    client.submit("echo")
    (send,) = [send for send in desk.sends if isinstance(send.message, Task)]
    desk.fail(send, "unroutable")
    assert desk.broker.census().queued == 1
    assert said(client.submit("echo"), Task) == []
    assert len(said(b2.say(status()), Task, "b2")) == 2


def test_peer_that_has_moved_to_another_connection_gets_tasks_before_it_tells_its_credit_again(desk: Desk) -> None:
    b2 = Neighbour(desk)
    b2.offer("echo", workers=2, credit=5)
    client = desk.client("ada")
    desk.pass_time(2.3)
    (send,) = [send for send in desk.sends if isinstance(send.message, PeerStatus)]
    desk.fail(send, "unroutable")
    assert said(client.submit("echo"), Task) == []
    assert len(said(b2.say(joining(), route="anew"), Task, "anew")) == 1
    assert len(said(client.submit("echo"), Task, "anew")) == 1


# --- loss -----------------------------------------------------------------------------------------------------------


def test_what_a_lost_peer_granted_does_not_count_when_it_is_back() -> None:
    mesh, (b1, b2) = network_of({"b1": {"group": "eu"}, "b2": {"group": "us"}})
    b2.worker("w", "echo")
    mesh.run(0.5)
    mesh.cut("b1", "b2")
    mesh.run(10.0)
    assert not b1.peer("b2").is_linked
    afar.move_tier(b1.state, b1.peer("b2"), 0)
    assert b1.peer("b2").workers == {}


def test_peer_that_was_started_anew_has_lost_our_tasks_and_is_told_nothing_of_its_own() -> None:
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}})
    b1.worker("w1", "here")
    b2.worker("w2", "there")
    b1.client("ada")
    b2.client("bob")
    mesh.run(0.2)
    b1.submit("ada", 1, "there")
    b2.submit("bob", 1, "here")
    (running,) = b1.heard("w1", Task)
    b2.restart()
    mesh.run(6.0)
    assert b1.codes("ada") == [502]
    assert running.id not in b1.state.ledger.entries, "nobody will hear its outcome"
    assert b1.peer("b2").session.undelivered == []  # type: ignore[union-attr]


def test_tasks_of_a_peer_that_has_left_end_when_another_process_takes_its_place(desk: Desk) -> None:
    b2 = Neighbour(desk)
    desk.worker("w", "echo")
    b2.forward(1, "echo")
    b2.say(Disconnect())
    sent = b2.say(joining(nonce=b"another!"))
    assert [cancel.id for cancel in said(sent, Cancel, "w")] == [b2.id(1)]
    assert not desk.broker.state.ledger.entries


def test_outcome_of_a_lost_peers_task_waits_for_it() -> None:
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}})
    b1.worker("w", "echo")
    b2.client("bob")
    mesh.run(0.2)
    b2.submit("bob", 1, "echo", timeout_s=60.0)
    mesh.sever("b1", "b2")
    b1.answer("w")
    assert b2.bodies("bob") == []
    mesh.run(1.0)
    assert b2.bodies("bob") == [b"done"], "it was delivered when the link was up again"


def test_outcome_waits_while_connect_is_under_way_on_another_connection() -> None:
    desk = Desk(identity="b2")
    b1, worker = Neighbour(desk, "b1"), desk.worker("w", "echo")
    b1.say(Task(b1.id(1), "echo", (b"x",), 30_000))
    (task,) = said(desk.sent, Task, "w")
    desk.fail(Send(route_of("b1"), PEER, status("b2")), "unroutable")
    desk.pass_time(0.2)
    (dial,) = [effect for effect in desk.others if isinstance(effect, Dial)]
    assert said(desk.sent, Connect), "it says that it holds the task"
    worker.reply(task)
    late = b1.say(status("b1"))  # it was read before the connection ended
    assert not said(late, TaskReply), "what is sent there may end with it"
    effects = desk.broker.receive(dial.route, PEER, joining("b1", is_joining=False), desk.now)
    (sent,) = [effect for effect in effects if isinstance(effect, Send) and isinstance(effect.message, TaskReply)]
    assert sent.route == dial.route


def test_what_a_peer_does_not_hold_any_more_after_a_broken_link_is_lost() -> None:
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}})
    b1.worker("w", "echo", capacity=2)
    b2.client("bob")
    mesh.run(0.2)
    b2.submit("bob", 1, "echo")
    mesh.wire.clear()
    task = Task(id_of("bob", 2), "echo", (b"x",), 30_000)
    b2.do(b2.broker.receive(route_of("bob"), CLIENT, task, mesh.now))
    mesh.wire.clear()  # the second one never arrives
    mesh.sever("b1", "b2")
    mesh.run(1.0)
    assert b2.codes("bob") == [502]
    b1.answer("w")
    assert b2.bodies("bob") == [b"done"]


def test_sends_that_fail_are_followed_by_a_full_status(desk: Desk) -> None:
    desk.worker("w", "echo")
    Neighbour(desk)
    (told,) = said(desk.pass_time(2.3), PeerStatus)
    assert not told.is_full
    (send,) = [send for send in desk.sends if isinstance(send.message, PeerStatus)]
    desk.fail(send, "full")
    (told,) = said(desk.pass_time(2.3), PeerStatus)
    assert told.is_full
    assert [service.name for service in told.services] == ["echo"]
