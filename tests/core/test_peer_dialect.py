"""What peers may say to one another, and what becomes of anything else (rules 4, 25 and 35)."""

from __future__ import annotations

import pytest

from scale0.protocol.dialects import CLIENT, PEER, WORKER
from scale0.protocol.messages import (
    Connect,
    Disconnect,
    Error,
    ForceNegotiate,
    PeerStatus,
    Ping,
    Ready,
    ServiceOffer,
    Snapshot,
    SnapshotReq,
    Status,
    Table,
    TableReq,
    Task,
    TaskReply,
)
from tests.core.desk import NONCE, Desk, codes, only
from tests.core.neighbour import Neighbour, alarms, joining, said, status


@pytest.fixture
def desk() -> Desk:
    return Desk(identity="b1", advertise=["tcp://10.0.0.1:5555"])


def test_peer_without_a_link_is_asked_to_negotiate_once_an_interval(desk: Desk) -> None:
    assert isinstance(only(desk.say("b2", PEER, status()), "b2"), ForceNegotiate)
    assert desk.say("b2", PEER, status()) == []
    desk.pass_time(2.6)
    assert isinstance(only(desk.say("b2", PEER, status()), "b2"), ForceNegotiate)
    assert desk.broker.state.error_clients.records == {}, "it never counts as misbehaviour"


def test_goodbye_of_an_unknown_peer_is_not_answered(desk: Desk) -> None:
    assert desk.say("b2", PEER, Disconnect()) == []


def test_command_that_no_peer_says_is_501_and_the_link_stays(desk: Desk) -> None:
    b2 = Neighbour(desk)
    for message in (Ping(0), Ready(services=[ServiceOffer("echo")])):
        assert codes(b2.say(message)) == [("b2", 501)]
    assert b2.is_linked()


def test_link_whose_other_side_asks_for_connect_and_refuses_it_ends_by_silence(desk: Desk) -> None:
    b2 = Neighbour(desk)
    for _ in range(4):
        b2.say(ForceNegotiate(reason="this broker does not know this connection"))
        b2.say(Error(code=503, text="b2 is a standby and links with b3 only"))
        desk.pass_time(2.5, steps=50)
    assert not b2.is_linked(), "what it says is no sign that it is there for us"


def test_who_refuses_connect_gets_no_task(desk: Desk) -> None:
    b2 = Neighbour(desk)
    b2.offer("echo")
    b2.say(ForceNegotiate(reason="this broker does not know this connection"))
    b2.say(Error(code=503, text="b2 is a standby and links with b3 only"))
    assert not said(desk.client("ada").submit("echo"), Task)
    assert not said(desk.pass_time(0.5), Task)


def test_refusal_that_answers_no_connect_leaves_the_link(desk: Desk) -> None:
    b2 = Neighbour(desk)
    b2.say(Error(code=403, text="not entered: its entry names another identity"))
    assert b2.is_linked()
    assert desk.broker.state.network.peers["b2"].is_linked_now


def test_connection_between_brokers_is_nothing_else(desk: Desk) -> None:
    b2 = Neighbour(desk)
    for dialect in (CLIENT, WORKER):
        assert codes(desk.say("b2", dialect, Connect(identity="x", nonce=NONCE))) == [("b2", 501)]
    assert b2.is_linked()
    assert len(desk.broker.state.sessions) == 0


def test_connection_of_a_participant_is_not_taken_for_a_peers(desk: Desk) -> None:
    desk.client("ada")
    for message in (joining(), status(), Table(seq=1)):
        assert codes(desk.say("ada", PEER, message)) == [("ada", 501)]
    assert desk.broker.state.network.peers == {}


def test_peer_and_participant_may_have_the_same_name(desk: Desk) -> None:
    b2 = Neighbour(desk)
    desk.client("b2", route="other")
    assert b2.is_linked()
    assert list(desk.broker.state.sessions.by_identity) == ["b2"]


def test_questions_are_answered(desk: Desk) -> None:
    desk.worker("w", "echo")
    b2 = Neighbour(desk)
    assert [type(message) for _, message in b2.say(SnapshotReq(what="config"))] == [Snapshot]
    (table,) = said(b2.say(TableReq()), Table)
    assert [row["identity"] for row in table.rows] == ["w"]


def test_fatal_error_of_a_linked_peer_is_told_to_the_operator(desk: Desk) -> None:
    b2 = Neighbour(desk)
    b2.say(Error(code=403, text="not entered: brokers.b1: listed twice", fatal=True))
    assert alarms(desk) == ["link_refused"]
    b2.say(Error(code=501, text="unexpected"))
    assert alarms(desk) == []


def test_disabled_broker_goes_on_hearing_its_peers_and_gives_their_tasks_back(desk: Desk) -> None:
    b2 = Neighbour(desk)
    desk.manage("disable")
    assert desk.broker.state.mode == "disabled"
    (told,) = said(desk.pass_time(0.2), PeerStatus)
    assert told.state == "disabled"
    (reply,) = said(b2.forward(1, "echo"), TaskReply)
    assert reply.status == Status.RETURNED
    for _ in range(5):
        (told,) = said(desk.pass_time(2.3), PeerStatus)
        assert told.state == "disabled"
        b2.say(status())
    assert b2.is_linked()
