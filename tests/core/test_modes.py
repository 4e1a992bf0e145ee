"""What state a broker is in, how it gets from one to another, and the process's end (rule 25)."""

from __future__ import annotations

from typing import Any

import pytest

from scale0.core.effects import Persist, Stopped
from scale0.errors import ProtocolError
from scale0.protocol.dialects import CLIENT, MDP1_CLIENT, MDP1_WORKER, WORKER
from scale0.protocol.majordomo import MdpDisconnect, MdpReady, MdpRequest
from scale0.protocol.messages import (
    Cancel,
    ChangeBroker,
    Connect,
    Disconnect,
    ForceNegotiate,
    ManagementRep,
    ManagementReq,
    NeedBroker,
    PeerStatus,
    Ping,
    Task,
)
from tests.core.desk import NONCE, Desk, Sent, bodies, codes, only_task, tasks_to
from tests.core.mesh import Mesh, endpoint_of, network_of
from tests.core.neighbour import Neighbour, said

USERS = {"root": "secret"}
SHORTLY_S = 0.3


@pytest.fixture
def desk() -> Desk:
    return Desk(users=USERS)


def ask(desk: Desk, command: str, password: str = "secret", **arguments: Any) -> Sent:
    request = ManagementReq(auth_id="root", auth_password=password, seq=7, command=command, arguments=arguments)
    return desk.say("admin", CLIENT, request)


# --- joining --------------------------------------------------------------------------------------------------------


def test_joining_broker_answers_with_503() -> None:
    desk = Desk(seeds=["tcp://127.0.0.1:5555"])
    assert codes(desk.say("c", CLIENT, Connect(identity="c", nonce=NONCE))) == [("c", 503)]


def test_joining_broker_names_nobody_and_lets_nobody_in() -> None:
    desk = Desk(seeds=["tcp://127.0.0.1:5555"], advertise=["tcp://127.0.0.1:5556"])
    assert codes(desk.say("c", CLIENT, NeedBroker(identity="c"))) == [("c", 503)]
    desk.say("m", MDP1_WORKER, MdpReady("echo"))
    assert [type(message) for _, message in desk.sent] == [MdpDisconnect]


def test_broker_that_was_disabled_before_it_joined_goes_on_joining_when_it_is_enabled() -> None:
    mesh = Mesh()
    b1 = mesh.add("b1")
    b2 = mesh.add("b2", seeds=[endpoint_of(9)])
    b2.kept.state = "disabled"
    b2.restart(seeds=[b1.endpoint])
    assert b2.mode == "disabled"
    mesh.run(3.0)
    assert b2.mode == "disabled"
    b2.manage("enable")
    assert b2.mode in ("active", "joining")
    mesh.run(3.0)
    assert b2.mode == "active"


def test_broker_that_joins_again_gives_out_nothing_of_what_it_still_holds() -> None:
    mesh = Mesh()
    b1 = mesh.add("b1")
    b2 = mesh.add("b2", seeds=[b1.endpoint])
    mesh.run(12.0)
    b2.worker("w1", "echo", idempotent=True)
    b2.client("ada")
    b2.submit("ada", 1, "echo")
    b2.worker("w2", "echo", idempotent=True)
    assert len(b2.heard("w1", Task)) == 1
    b1.manage("forget_broker", broker="b2")
    mesh.cut("b1", "b2")  # nobody enters it again
    b2.manage("disable")
    assert b2.manage("enable") == {"state": "joining"}
    b2.say("w1", WORKER, Disconnect())
    assert b2.mode == "joining"
    assert b2.heard("w2", Task) == []


# --- disabling ------------------------------------------------------------------------------------------------------


def test_disabling_refuses_what_is_queued_and_waits_for_what_is_in_flight(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    task = only_task(client.submit("greet"), "w")
    client.submit("greet")
    assert desk.manage("disable") == {"state": "disabling"}
    assert codes(desk.sent) == [("ada", 503)]
    assert desk.others == [Persist("disabled")]
    assert codes(client.submit("greet")) == [("ada", 503)]
    assert bodies(worker.reply(task)) == [("ada", b"done")]
    assert desk.broker.state.mode == "disabled"


def test_disabling_ends_after_grace_with_outcome_unknown(desk: Desk) -> None:
    desk.worker("w", "greet", idempotent=True)
    desk.client("ada").submit("greet", timeout_s=60)
    desk.manage("disable")
    assert desk.broker.next_deadline() <= desk.now + 5
    sent = desk.pass_time(5.1)
    assert codes(sent) == [("ada", 502)]
    assert [name for name, message in sent if isinstance(message, Cancel)] == ["w"], "nobody waits for it any more"
    assert desk.broker.state.mode == "disabled"


def test_disabled_broker_is_silent_and_dispatches_nothing(desk: Desk) -> None:
    desk.worker("w", "greet")
    client = desk.client("ada")
    desk.manage("disable")
    assert client.submit("greet") == []
    assert client.connect() == []
    assert desk.say("x", WORKER, Ping(0)) == []
    assert desk.say("m", MDP1_CLIENT, MdpRequest("greet", (b"",))) == []
    assert desk.garble("y", CLIENT, ProtocolError(400, "bad")) == []
    assert ask(desk, "list") == []
    assert ask(desk, "enable", password="wrong") == []


def test_authorised_enable_wakes_it_and_everybody_negotiates_again(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    desk.manage("disable")
    assert [type(message) for _, message in ask(desk, "enable")] == [ManagementRep]
    assert desk.others == [Persist("active")]
    assert [type(message) for _, message in client.ping()] == [ForceNegotiate]
    client.connect()
    assert codes(client.submit("greet")) == [], "soon after the enable services wait for their workers"
    worker.connect()
    assert tasks_to(worker.ready()) == ["w"]


def test_disabled_is_a_starting_state() -> None:
    desk = Desk(state="disabled", users=USERS)
    assert desk.say("c", CLIENT, Connect(identity="c", nonce=NONCE)) == []
    assert desk.manage("enable") == {"state": "active"}


def test_disabling_forwards_what_is_queued_if_a_fallback_group_has_room() -> None:
    brokers: dict[str, Any] = {"eu-1": {"group": "eu", "fallback_groups": ["us"]}, "us-1": {"group": "us"}}
    mesh, (eu, us) = network_of(brokers, fallback_after_s=20.0)
    eu.worker("own", "echo")
    us.worker("far", "echo")
    mesh.run(SHORTLY_S)
    eu.client("ada")
    for sequence in (1, 2, 3):
        eu.submit("ada", sequence, "echo")
    assert eu.broker.census().queued == 2
    eu.manage("disable")
    assert len(us.answer("far")) == 1
    assert eu.bodies("ada") == [b"done"]
    assert eu.codes("ada") == [503], "there was room for one"
    eu.answer("own")
    assert eu.bodies("ada") == [b"done"]


def test_disabling_broker_moves_workers_and_clients_to_others_within_its_grace() -> None:
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}})
    b1.worker("w", "echo")
    b1.client("ada")
    b1.manage("disable")
    mesh.run(SHORTLY_S)
    assert [told.identity for told in b1.heard("w", ChangeBroker)] == ["b2"]
    assert [told.identity for told in b1.heard("ada", ChangeBroker)] == ["b2"]
    assert b1.mode == "disabling"
    mesh.run(5.0)
    assert b1.mode == "disabled"
    assert b2.mode == "active"


def test_peers_hear_that_it_is_disabled_and_it_hears_of_the_config() -> None:
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}})
    b2.manage("disable")
    mesh.run(20.0)
    told = mesh.between("b2", "b1", PeerStatus)[-1]
    assert told.state == "disabled"
    assert b1.peer("b2").is_linked
    b1.apply(liveness=4)
    mesh.run(SHORTLY_S)
    assert b2.version == b1.version
    assert b2.mode == "disabled"


def test_what_runs_at_a_broker_that_is_being_disabled_comes_back_to_its_origin() -> None:
    mesh, (b1, b2, b3) = network_of({"b1": {}, "b2": {}, "b3": {}})
    b2.worker("w2", "pure", idempotent=True)
    mesh.run(SHORTLY_S)
    b1.client("ada")
    b1.submit("ada", 1, "pure")
    b3.worker("w3", "pure", idempotent=True)
    mesh.run(SHORTLY_S)
    b2.manage("disable")
    mesh.run(6.0)
    assert b2.mode == "disabled"
    assert [task.attempt for task in b3.answer("w3")] == [2]
    assert b1.bodies("ada") == [b"done"]


def test_enabled_broker_uses_its_peers_at_once() -> None:
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}})
    b2.worker("w", "echo")
    mesh.run(SHORTLY_S)
    b1.manage("disable")
    mesh.run(SHORTLY_S)
    b1.manage("enable")
    b1.client("ada")
    b1.submit("ada", 1, "echo")
    b2.answer("w")
    assert b1.bodies("ada") == [b"done"]


def test_disabled_state_is_kept_over_a_restart() -> None:
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}})
    b2.manage("disable")
    b2.restart()
    mesh.run(8.0)
    assert b2.mode == "disabled"
    assert b1.rows("network")[1]["state"] == "disabled"
    b2.manage("enable")
    b2.restart()
    assert b2.mode == "active"


def test_word_that_says_what_is_already_so_changes_nothing(desk: Desk) -> None:
    assert desk.manage("enable") == {"state": "active"}
    assert desk.others == []
    desk.worker("w", "greet")
    desk.client("ada").submit("greet")
    desk.manage("disable")
    assert desk.manage("disable") == {"state": "disabling"}
    assert desk.others == []


# --- draining -------------------------------------------------------------------------------------------------------


def test_draining_finishes_what_it_holds_takes_nothing_new_and_then_stops(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    first = only_task(client.submit("greet"), "w")
    client.submit("greet")
    desk.manage("drain")
    assert codes(client.submit("greet")) == [("ada", 503)]
    second = only_task(worker.reply(first), "w")
    worker.reply(second)
    assert desk.others == [Stopped()]
    assert desk.broker.census().replied == 2


def test_drain_of_an_idle_broker_stops_at_once(desk: Desk) -> None:
    desk.manage("drain")
    assert desk.others == [Stopped()]


def test_drain_of_a_disabled_broker_is_refused(desk: Desk) -> None:
    desk.manage("disable")
    with pytest.raises(ProtocolError, match="enable it first"):
        desk.manage("drain")


def test_draining_broker_takes_no_sessions_and_finishes_what_peers_gave_it() -> None:
    desk = Desk(identity="b1")
    worker = desk.worker("w", "echo", capacity=2)
    b2 = Neighbour(desk)
    task = only_task(b2.forward(1, "echo"), "w")
    desk.manage("drain")
    assert codes(desk.say("c", CLIENT, Connect(identity="c", nonce=NONCE))) == [("c", 301)]
    assert Stopped() not in desk.others
    assert bodies(worker.reply(task)) == [("b2", b"done")]


def test_what_waits_while_a_drain_is_taken_back_has_not_been_tried() -> None:
    desk = Desk(is_settled=False)
    desk.client("ada").submit("greet")
    desk.manage("drain")
    desk.manage("enable")
    desk.worker("w", "greet", idempotent=True)
    assert only_task(desk.sent, "w").attempt == 1


def test_drain_that_is_taken_back_by_enable_goes_on_as_before() -> None:
    mesh, (b1, _) = network_of({"b1": {}, "b2": {}})
    b1.worker("w", "echo")
    b1.client("ada")
    b1.submit("ada", 1, "echo")
    b1.manage("drain")
    mesh.run(SHORTLY_S)
    assert b1.manage("enable") == {"state": "active"}
    mesh.run(SHORTLY_S)
    b1.answer("w")
    b1.submit("ada", 2, "echo")
    assert len(b1.heard("w", Task)) == 1
    assert not b1.is_stopped


# --- the end --------------------------------------------------------------------------------------------------------


def test_goodbye_goes_to_everybody_who_can_hear_it(desk: Desk) -> None:
    desk.worker("w", "greet")
    desk.client("ada")
    desk.say("m", MDP1_WORKER, MdpReady("echo"))
    effects = desk.broker.stop(desk.now)
    said = {getattr(effect, "route", b"")[1:].decode(): type(getattr(effect, "message", None)) for effect in effects}
    assert said == {"w": Disconnect, "ada": Disconnect, "m": MdpDisconnect}


def test_peers_are_told_of_the_end_and_whether_anything_of_theirs_was_running() -> None:
    desk = Desk(identity="b1")
    desk.worker("w", "echo")
    b2, b3 = Neighbour(desk, "b2"), Neighbour(desk, "b3")
    b2.forward(1, "echo")
    sends = [(effect.route[1:].decode(), effect.message) for effect in desk.broker.stop(desk.now)]  # type: ignore[union-attr]
    farewells = {name: message.is_drained for name, message in sends if isinstance(message, Disconnect) and name != "w"}
    assert farewells == {"b2": False, "b3": True}
    assert b3.is_linked()


def test_task_that_crossed_the_farewell_of_a_drained_peer_never_started_and_goes_elsewhere() -> None:
    desk = Desk(identity="b1")
    b2, b3 = Neighbour(desk, "b2"), Neighbour(desk, "b3")
    b2.offer("once")
    b3.offer("once")
    task = only_task(desk.client("ada").submit("once"), "b2")
    again = only_task(b2.say(Disconnect(is_drained=True)), "b3")
    assert (again.id, again.attempt) == (task.id, 1)
    assert said(desk.sent, PeerStatus) == []
