"""MANAGEMENTREQ and the commands that every door has."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scale0.core.askers import ASKERS_MAX
from scale0.core.effects import Alarm, Answered, Cut, FromFiles, Heal, Reload
from scale0.core.management import CUT_S_MAX
from scale0.errors import ProtocolError
from scale0.protocol.dialects import CLIENT, PEER, REQ_CLIENT
from scale0.protocol.messages import (
    Connect,
    Disconnect,
    Error,
    ManagementRep,
    ManagementReq,
)
from scale0.protocol.network import Document
from tests.core.desk import Desk, Sent, codes
from tests.core.mesh import network_of, pair_of

USERS = {"root": "secret"}


@pytest.fixture
def desk() -> Desk:
    return Desk(users=USERS)


def ask(desk: Desk, command: str, password: str = "secret", **arguments: Any) -> Sent:
    request = ManagementReq(auth_id="root", auth_password=password, seq=7, command=command, arguments=arguments)
    return desk.say("admin", CLIENT, request)


def test_request_is_authenticated_run_and_answered(desk: Desk) -> None:
    desk.worker("w", "greet")
    (_, answer), *_ = ask(desk, "list", what="workers")
    assert isinstance(answer, ManagementRep)
    assert answer.seq == 7
    assert [row["identity"] for row in answer.result["rows"]] == ["w"]


def test_manager_may_use_a_req_socket(desk: Desk) -> None:
    desk.client("admin", dialect=REQ_CLIENT)
    request = ManagementReq(auth_id="root", auth_password="secret", seq=8, command="list")
    (answer,) = [message for _, message in desk.say("admin", REQ_CLIENT, request)]
    assert isinstance(answer, ManagementRep)
    assert answer.seq == 8


def test_wrong_password_is_401_and_repeated_ones_are_ignored(desk: Desk) -> None:
    for _ in range(6):
        assert codes(ask(desk, "disable", password="guess")) == [("admin", 401)]
    assert ask(desk, "disable") == [], "while the penalty lasts even the right one is not heard"
    assert desk.broker.state.mode == "active"


def test_without_passwords_management_is_off() -> None:
    assert codes(ask(Desk(), "list")) == [("admin", 403)]


def test_unknown_command_and_bad_argument_say_what_there_is(desk: Desk) -> None:
    (_, error), *_ = ask(desk, "explode")
    assert isinstance(error, Error)
    assert (error.code, error.seq) == (501, 7)
    assert "disable, enable, drain" in error.text
    assert codes(ask(desk, "list", what="secrets")) == [("admin", 400)]
    assert codes(ask(desk, "clear_error_client", connection="zz")) == [("admin", 400)]


def test_reload_config_asks_the_shell_and_tells_what_came_of_it(desk: Desk) -> None:
    later = desk.manage("reload_config")
    assert desk.others == [Reload(later.key)]
    (answered,) = desk.broker.configure(Document(liveness=7), desk.now, key=later.key)[-1:]
    assert isinstance(answered, Answered)
    assert answered.key == later.key
    assert isinstance(answered.message, ManagementRep)
    assert answered.message.result == {"version": str(desk.broker.state.config.version), "changed": True}


def test_reload_that_is_passed_on_is_answered_with_the_word_of_the_sequencer() -> None:
    mesh, (_, b2) = network_of({"b1": {}, "b2": {}})
    later, (asked,) = b2.broker.manage("reload_config", {}, mesh.now)
    assert asked == Reload(later.key)
    b2.do(b2.broker.configure(msgspec.structs.replace(b2.document, liveness=9), mesh.now, key=later.key))
    mesh.run(1.0)
    assert b2.document.liveness == 9
    assert getattr(b2.answers[later.key], "result", None) == {"version": b2.version, "changed": True}


def test_file_without_a_word_on_the_network_proposes_nothing_unless_its_broker_is_alone() -> None:
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}}, liveness=9)
    for node in (b1, b2):
        before = node.version
        later, _ = node.broker.manage("reload_config", {}, mesh.now)
        node.do(node.broker.configure(Document(), mesh.now, key=later.key))
        mesh.run(1.0)
        note = "the file says nothing of the network's config"
        told = {"version": before, "changed": False, "note": note}
        assert getattr(node.answers[later.key], "result", None) == told
        assert node.document.liveness == 9
    alone = Desk()
    alone.broker.configure(Document(liveness=9), alone.now)
    alone.broker.configure(Document(), alone.now)
    assert alone.broker.state.config.document.liveness == 3


def test_file_that_a_signal_had_read_and_the_sequencer_refuses_is_an_alarm() -> None:
    mesh, (_, b2) = network_of({"b1": {}, "b2": {}})
    b2.do(b2.broker.configure(msgspec.structs.replace(b2.document, liveness=9), mesh.now))
    (sent,) = b2.state.network.askers
    b2.do(b2.broker.answer(sent, ProtocolError(400, "liveness: too long"), mesh.now))
    assert b2.alarm_names() == ["config_refused"]


def test_dead_letters_and_error_clients_can_be_seen_and_cleared(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    desk.client("ada").submit("greet")
    worker.say(Disconnect())
    desk.garble("bad", CLIENT, ProtocolError(400, "no such thing"))
    assert len(desk.manage("list", what="dead_letters")["rows"]) == 1
    rows = desk.manage("list", what="error_clients")["rows"]
    assert [row["reason"] for row in rows] == ["no such thing"]
    assert desk.manage("clear_error_client", connection=rows[0]["connection"]) == {"cleared": 1}
    assert desk.manage("clear_error_client") == {"cleared": 0}
    assert desk.manage("clear_dead_letters") == {"cleared": 1}


def test_every_listing_can_be_asked_for(desk: Desk) -> None:
    for what in ("services", "workers", "clients", "brokers", "network", "network_workers", "config", "config_history"):
        document = desk.manage("list", what=what)
        assert document["schema"] == f"scale0.{what}/1"
        assert document["complete"]


def test_change_of_config_is_signed_with_the_managers_name(desk: Desk) -> None:
    (_, answer), *_ = ask(desk, "config_apply", document='{"liveness": 4}', comment="more patience")
    assert isinstance(answer, ManagementRep)
    assert answer.result == {"version": str(desk.broker.state.config.version), "changed": True}
    record = desk.broker.state.config.record
    assert (record.author, record.comment) == ("root", "more patience")


def test_refused_change_says_why(desk: Desk) -> None:
    (_, error), *_ = ask(desk, "config_apply", document='{"livenes": 4}')
    assert isinstance(error, Error)
    assert (error.code, error.seq) == (400, 7)
    assert "liveness" in error.text, "did you mean"
    assert codes(ask(desk, "config_apply", document='{"liveness": 4}', base="1.9.00000000")) == [("admin", 409)]
    assert codes(ask(desk, "config_rollback", version="77")) == [("admin", 400)]
    assert codes(ask(desk, "forget_broker", broker="nobody")) == [("admin", 400)]
    assert codes(ask(desk, "failback", broker="nobody")) == [("admin", 400)]


def test_lone_broker_has_nothing_to_balance(desk: Desk) -> None:
    desk.worker("w", "greet")
    assert desk.manage("balance") == {"workers": 1}
    assert desk.manage("failback") == {"brokers": []}


@pytest.mark.parametrize(
    ("lost", "is_outbound", "is_inbound"), [("both", True, True), ("sent", True, False), ("received", False, True)]
)
def test_partition_is_left_to_the_shell_and_raises_an_alarm(
    desk: Desk, lost: str, is_outbound: bool, is_inbound: bool
) -> None:
    desk.say("eu-2", PEER, Connect(identity="eu-2", nonce=bytes(8), is_joining=True))
    assert desk.manage("partition", peer="eu-2", for_s=5, lost=lost) == {"peer": "eu-2", "for_s": 5, "lost": lost}
    alarm, cut = desk.others
    assert isinstance(alarm, Alarm)
    assert alarm.name == "drill"
    assert cut == Cut("eu-2", 5.0, is_outbound, is_inbound)
    desk.manage("heal", peer="eu-2")
    assert desk.others == [Heal("eu-2")]
    desk.manage("heal")
    assert desk.others == [Heal()]


@pytest.mark.parametrize(
    "arguments",
    [
        {"peer": "nobody", "for_s": 5},
        {"peer": "eu-2"},
        {"peer": "eu-2", "for_s": 0},
        {"peer": "eu-2", "for_s": CUT_S_MAX + 1},
        {"peer": "eu-2", "for_s": 5, "lost": "everything"},
    ],
    ids=str,
)
def test_partition_without_end_or_peer_is_refused(desk: Desk, arguments: dict[str, Any]) -> None:
    desk.say("eu-2", PEER, Connect(identity="eu-2", nonce=bytes(8), is_joining=True))
    assert codes(ask(desk, "partition", **arguments)) == [("admin", 400)]
    assert codes(ask(desk, "heal", peer="nobody")) == [("admin", 400)]
    assert desk.others == []


def test_broker_whose_fallback_is_forgotten_has_none_from_then_on() -> None:
    mesh, primary, _ = pair_of()
    primary.manage("forget_broker", broker="back")
    mesh.run(1.0)
    assert [(entry.identity, entry.fallback_broker) for entry in primary.document.brokers] == [("prim", "")]
    assert (primary.mode, primary.state.pair) == ("active", None)


@pytest.mark.parametrize("named", [{}, {"broker": "prim"}])
def test_failback_is_done_by_the_fallback_that_serves_and_by_nobody_else(named: dict[str, str]) -> None:
    mesh, primary, fallback = pair_of()
    assert primary.manage("failback") == {"brokers": []}, "there is nothing to do"
    primary.manage("handover")
    mesh.run(3.0)
    assert (primary.mode, fallback.mode) == ("passive", "active")
    with pytest.raises(ProtocolError, match="ask back"):
        primary.manage("failback", **named)
    fallback.manage("failback", **named)
    mesh.run(3.0)
    assert (primary.mode, fallback.mode) == ("active", "passive")


def test_standby_that_drains_reads_no_stream_any_more() -> None:
    mesh, primary, fallback = pair_of()
    primary.worker("w", "echo")
    primary.client("ada")
    mesh.run(1.0)
    fallback.manage("drain")
    primary.submit("ada", 1, "echo")
    mesh.run(3.0)
    assert "stream_unread" not in fallback.alarm_names()
    primary.answer("w", b"done")
    assert primary.bodies("ada") == [b"done"], "what waited for its word goes on"


def test_what_was_recorded_is_asked_of_the_shell_and_its_answer_passed_on() -> None:
    desk = Desk(users=USERS, boot="run")
    assert ask(desk, "segments", after=3) == []
    (asked,) = [effect for effect in desk.others if isinstance(effect, FromFiles)]
    assert (asked.command, asked.arguments) == ("segments", {"after": 3, "author": "root"})
    assert desk.answer(asked.key, {"entries": []}) == [("admin", ManagementRep(seq=7, result={"entries": []}))]
    assert desk.answer(asked.key, {}) == [], "it was answered"


def test_files_that_cannot_be_read_are_an_error_for_who_asked() -> None:
    desk = Desk(users=USERS, boot="run")
    ask(desk, "segment", path="x")
    (asked,) = [effect for effect in desk.others if isinstance(effect, FromFiles)]
    answered = desk.answer(asked.key, ProtocolError(404, "not there"))
    assert answered == [("admin", Error(code=404, text="not there", seq=7))]


def test_a_broker_that_records_nothing_has_nothing_to_fetch(desk: Desk) -> None:
    ((_, answer),) = ask(desk, "segments")
    assert isinstance(answer, Error)
    assert "--telemetry" in answer.text


def test_requests_for_files_that_wait_have_a_limit() -> None:
    desk = Desk(users=USERS, boot="run")
    for _ in range(ASKERS_MAX // 2):  # the gate waits for the files, and who asked for the gate
        assert ask(desk, "segments") == []
    ((_, answer),) = ask(desk, "segments")
    assert isinstance(answer, Error)
    assert answer.code == 429
