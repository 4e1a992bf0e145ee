"""MANAGEMENTREQ in the core: handed to the gate, answered by it, passed on to peers; silence while it is disabled."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scale0.core.askers import DISTANT_MAX
from scale0.core.broker import Broker
from scale0.core.effects import Asked, Effect, Route, Send
from scale0.core.management_door import GATE_S, PEERS_S
from scale0.core.settings import BrokerSettings, ManagementSettings
from scale0.errors import ProtocolError
from scale0.protocol.dialects import CLIENT, PEER, WORKER, Dialect
from scale0.protocol.messages import Connect, Error, ManagementRep, ManagementReq
from scale0.protocol.network import BrokerEntry, Document
from tests.core.desk import Desk, route_of
from tests.core.mesh import Mesh, Node, document_of

ADMIN = route_of("admin")


def request(command: str = "drain", **more: Any) -> ManagementReq:
    told = {"auth_id": "root", "auth_password": "secret", "seq": 7, "command": command, **more}
    return ManagementReq(**told)


class Bare:
    """A broker whose gate is the test."""

    def __init__(self, state: str = "active", document: Document | None = None, **settings: Any) -> None:
        self.now = 1000.0
        self.broker = Broker(
            BrokerSettings(identity="b1", **settings), now=self.now, wall_s=1e9, state=state, document=document
        )
        self.broker.tick(self.now, 1e9)

    def say(self, message: Any, route: Route = ADMIN, dialect: Dialect = CLIENT) -> list[Effect]:
        return self.broker.receive(route, dialect, message, self.now)

    def ask(self, message: ManagementReq, route: Route = ADMIN, dialect: Dialect = CLIENT) -> Asked:
        (asked,) = self.say(message, route, dialect)
        assert isinstance(asked, Asked)
        return asked

    def answer(self, asked: Asked, result: Any) -> list[Any]:
        """What is sent."""
        effects = self.broker.answer(asked.key, result, self.now)
        return [effect.message for effect in effects if isinstance(effect, Send)]


# --- the gate is asked ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", [CLIENT, WORKER])
def test_what_was_asked_goes_to_the_gate_and_its_answer_back(dialect: Dialect) -> None:
    bare = Bare()
    asked = bare.ask(request(arguments={"x": 1}, command_id="c-1", brokers="all"), dialect=dialect)
    assert (asked.user, asked.password, asked.command, asked.arguments) == ("root", "secret", "drain", {"x": 1})
    assert (asked.command_id, asked.brokers, asked.peer, asked.route) == ("c-1", "all", "", ADMIN)
    assert not asked.is_encrypted
    assert bare.broker.state.mode == "active", "nothing was done"
    assert bare.answer(asked, {"state": "draining"}) == [ManagementRep(seq=7, result={"state": "draining"})]
    assert bare.answer(asked, {}) == [], "once"


def test_no_password_is_shown_where_messages_and_effects_are() -> None:
    bare = Bare()
    message = request()
    assert "secret" not in repr(message)
    assert "secret" not in repr(bare.ask(message))


def test_a_refusal_of_the_gate_is_an_error_and_a_wrong_password_counts_as_bad() -> None:
    bare = Bare()
    for _ in range(6):
        asked = bare.ask(request())
        assert bare.answer(asked, ProtocolError(401, "no")) == [Error(code=401, text="no", seq=7)]
    assert bare.say(request()) == [], "it is ignored for a while"
    other = bare.ask(request(), route_of("another"))
    for _ in range(3):
        assert bare.answer(other, ProtocolError(403, "not your role")) != []
        other = bare.ask(request(), route_of("another"))


def test_the_gate_is_not_waited_for_for_ever() -> None:
    bare = Bare()
    bare.ask(request())
    assert bare.broker.next_deadline() <= bare.now + GATE_S
    (sent,) = [effect for effect in bare.broker.tick(bare.now + GATE_S, 1e9) if isinstance(effect, Send)]
    assert isinstance(sent.message, Error)
    assert (sent.message.code, sent.message.seq) == (504, 7)


def test_only_so_many_can_wait_for_the_gate() -> None:
    bare = Bare()
    for _ in range(DISTANT_MAX):
        bare.ask(request())
    (sent,) = bare.say(request())
    assert isinstance(sent, Send)
    assert isinstance(sent.message, Error)
    assert (sent.message.code, sent.message.seq) == (429, 7)


# --- disabled ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["list", "drain", "disable", "config_apply", "explode"])
def test_a_disabled_broker_does_not_even_ask_its_gate(command: str) -> None:
    assert Bare("disabled").say(request(command)) == []


@pytest.mark.parametrize("code", [400, 401, 403, 429])
def test_a_disabled_broker_is_silent_to_an_enable_that_is_refused(code: int) -> None:
    bare = Bare("disabled")
    assert bare.answer(bare.ask(request("enable")), ProtocolError(code, "no")) == []


def test_an_authorised_enable_that_fails_is_answered_all_the_same() -> None:
    bare = Bare("disabled")
    answer = bare.answer(bare.ask(request("enable")), ProtocolError(503, "the audit log cannot be written"))
    assert [error.code for error in answer] == [503]


def test_a_disabled_broker_answers_an_authorised_enable() -> None:
    bare = Bare("disabled")
    asked = bare.ask(request("enable"))
    result, _ = bare.broker.manage("enable", {}, bare.now)
    assert bare.answer(asked, result) == [ManagementRep(seq=7, result={"state": "active"})]


def test_a_disabled_broker_is_silent_when_too_many_wait() -> None:
    bare = Bare("disabled")
    for _ in range(DISTANT_MAX):
        bare.ask(request("enable"))
    assert bare.say(request("enable")) == []


def test_who_disabled_it_is_answered() -> None:
    desk = Desk(users={"root": "secret"})
    ((_, answer),) = desk.say("admin", CLIENT, request("disable"))
    assert answer == ManagementRep(seq=7, result={"state": "disabled"})


# --- peers ------------------------------------------------------------------------------------------------------------

PAIR = Document(brokers=[BrokerEntry(identity="b1"), BrokerEntry(identity="b2", max_role="admin")])
LINK = route_of("link")


def linked(**management: Any) -> Bare:
    bare = Bare(document=PAIR, management=ManagementSettings(**management))
    bare.say(Connect(identity="b2", nonce=bytes(8)), LINK, PEER)
    return bare


@pytest.mark.parametrize("granted", ["none", "view", "operate", "admin"])
def test_a_peer_without_a_key_is_believed_as_far_as_this_broker_says(granted: str) -> None:
    bare = linked(plain_peers=granted)
    asked = bare.ask(request(auth_password="", role="admin"), LINK, PEER)
    assert (asked.peer, asked.user, asked.password) == ("b2", "root", "")
    assert (asked.role, asked.role_max, asked.is_proven) == ("admin", granted, False)


def test_a_peer_that_proved_its_key_is_believed_as_far_as_the_document_says() -> None:
    bare = linked(plain_peers="none")
    bare.broker.state.network.peers["b2"].is_proven = True
    asked = bare.ask(request(auth_password="", role="operate"), LINK, PEER)
    assert (asked.role, asked.role_max, asked.is_proven) == ("operate", "admin", True)


def test_who_speaks_as_a_peer_without_a_link_is_401() -> None:
    bare = Bare()
    (sent,) = bare.say(request(auth_password="", role="admin"), LINK, PEER)
    assert isinstance(sent, Send)
    assert isinstance(sent.message, Error)
    assert (sent.message.code, sent.message.seq) == (401, 7)


# --- for several brokers ----------------------------------------------------------------------------------------------


def trio() -> tuple[Mesh, list[Node]]:
    mesh = Mesh()
    document = document_of({"b1": {}, "b2": {}, "b3": {}})
    nodes = [mesh.add(name, document=document) for name in ("b1", "b2", "b3")]
    mesh.run(3.0)
    return mesh, nodes


def pass_on(mesh: Mesh, node: Node, brokers: Any, command: str = "list") -> tuple[dict[str, Any], dict[str, str]]:
    """The answers that came by the deadline, and who could not be asked."""
    message = ManagementReq(auth_id="ann", auth_password="", seq=0, command=command, role="view")
    passed, effects = node.broker.pass_on(message, brokers, 0.0, mesh.now)
    node.do(effects)
    mesh.run(PEERS_S + 0.5)
    return {name: node.answers[key] for name, key in passed.keys.items()}, passed.failed


def test_a_command_goes_to_all_peers_and_each_answers() -> None:
    mesh, nodes = trio()
    answers, failed = pass_on(mesh, nodes[0], "all")
    assert {name: answer.result["broker"]["identity"] for name, answer in answers.items()} == {"b2": "b2", "b3": "b3"}
    assert failed == {}


def test_what_a_peer_refuses_is_its_answer() -> None:
    mesh, nodes = trio()
    answers, _ = pass_on(mesh, nodes[0], ["b2"], "drain")
    assert answers["b2"].code == 403
    assert nodes[1].mode == "active"


def test_who_cannot_be_reached_is_told_with_the_reason() -> None:
    mesh, nodes = trio()
    nodes[1].kill()
    mesh.run(10.0)
    answers, failed = pass_on(mesh, nodes[0], ["b2", "b3", "nobody", "b1"])
    assert list(answers) == ["b3"]
    assert failed["b2"].startswith("silent for 1")
    assert failed["nobody"] == "no broker 'nobody' in this network"


def test_a_peer_that_does_not_answer_in_time_is_504() -> None:
    mesh, nodes = trio()
    mesh.cut("b1", "b2")
    answers, _ = pass_on(mesh, nodes[0], ["b2"])
    assert answers["b2"].code == 504
    assert "b2" in answers["b2"].text


def test_a_disabled_peer_is_silent_to_others() -> None:
    mesh, nodes = trio()
    nodes[1].manage("disable")
    mesh.run(1.0)
    answers, failed = pass_on(mesh, nodes[0], ["b2"])
    assert [answer.code for answer in answers.values()] == [504] or "b2" in failed


def test_unknown_fields_of_a_newer_manager_are_passed_over() -> None:
    told = msgspec.msgpack.encode({**msgspec.structs.asdict(request()), "newer": 1})
    assert msgspec.msgpack.decode(told, type=ManagementReq).command == "drain"
