"""Commands and the broker's states (rule 25), MANAGEMENTREQ, and the process's end."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from scale0.core.effects import Persist, Reload, Stopped
from scale0.core.settings import ManagementSettings
from scale0.errors import ProtocolError
from scale0.protocol.dialects import CLIENT, MDP1_CLIENT, MDP1_WORKER, WORKER
from scale0.protocol.majordomo import MdpDisconnect, MdpReady, MdpRequest
from scale0.protocol.messages import (
    Connect,
    Disconnect,
    Error,
    ForceNegotiate,
    ManagementRep,
    ManagementReq,
    NeedBroker,
    Ping,
)
from tests.core.desk import NONCE, Desk, Sent, bodies, codes, only_task, tasks_to

PASSWORDS = ManagementSettings(passwords={"root": hashlib.sha256(b"secret").hexdigest()})


@pytest.fixture
def desk() -> Desk:
    return Desk(management=PASSWORDS)


def ask(desk: Desk, command: str, password: str = "secret", **arguments: Any) -> Sent:
    request = ManagementReq(auth_id="root", auth_password=password, seq=7, command=command, arguments=arguments)
    return desk.say("admin", CLIENT, request)


# --- states -------------------------------------------------------------------------------------------------------


def test_joining_broker_answers_with_503() -> None:
    desk = Desk(state="joining")
    assert codes(desk.say("c", CLIENT, Connect(identity="c", nonce=NONCE))) == [("c", 503)]


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
    assert codes(desk.pass_time(5.1)) == [("ada", 502)]
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
    desk = Desk(state="disabled", management=PASSWORDS)
    assert desk.say("c", CLIENT, Connect(identity="c", nonce=NONCE)) == []
    assert desk.manage("enable") == {"state": "active"}


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


def test_goodbye_goes_to_everybody_who_can_hear_it(desk: Desk) -> None:
    desk.worker("w", "greet")
    desk.client("ada")
    desk.say("m", MDP1_WORKER, MdpReady("echo"))
    effects = desk.broker.stop(desk.now)
    said = {getattr(effect, "route", b"")[1:].decode(): type(getattr(effect, "message", None)) for effect in effects}
    assert said == {"w": Disconnect, "ada": Disconnect, "m": MdpDisconnect}


# --- MANAGEMENTREQ ------------------------------------------------------------------------------------------------


def test_request_is_authenticated_run_and_answered(desk: Desk) -> None:
    desk.worker("w", "greet")
    (_, answer), *_ = ask(desk, "list", what="workers")
    assert isinstance(answer, ManagementRep)
    assert answer.seq == 7
    assert [row["identity"] for row in answer.result["rows"]] == ["w"]


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


def test_reload_config_asks_the_shell(desk: Desk) -> None:
    desk.manage("reload_config")
    assert desk.others == [Reload()]


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


# --- NEEDBROKER ---------------------------------------------------------------------------------------------------


def test_needbroker_names_this_broker_unless_it_was_tried() -> None:
    desk = Desk(advertise=["tcp://127.0.0.1:5555"])
    (_, answer), *_ = desk.say("c", CLIENT, NeedBroker(identity="c"))
    assert getattr(answer, "endpoints", None) == ["tcp://127.0.0.1:5555"]
    asked = NeedBroker(identity="c", tried=["tcp://127.0.0.1:5555"])
    assert codes(desk.say("c", CLIENT, asked)) == [("c", 503)]
    desk.manage("drain")
    assert codes(desk.say("c", CLIENT, NeedBroker(identity="c"))) == [("c", 503)]
