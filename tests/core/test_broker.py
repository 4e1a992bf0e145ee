"""The broker's verbs: who may say what, bad input, and when it wants to be woken."""

from __future__ import annotations

import math

from scale0.core.settings import Limits
from scale0.errors import ProtocolError
from scale0.protocol.dialects import CLIENT, MDP1_WORKER, WORKER
from scale0.protocol.majordomo import MdpReady
from scale0.protocol.messages import (
    Connect,
    Error,
    Ping,
    Pong,
    Ready,
    ServiceOffer,
    TaskReply,
)
from tests.core.desk import NONCE, Desk, codes


def test_command_of_another_role_is_501(desk: Desk) -> None:
    client = desk.client("ada")
    worker = desk.worker("w", "greet")
    assert codes(client.say(Ready(services=[ServiceOffer("greet")]))) == [("ada", 501)]
    assert codes(client.say(TaskReply(client.id(1), ()))) == [("ada", 501)]
    assert codes(worker.say(Pong(0, 0))) == [("w", 501)]


def test_session_that_speaks_as_another_role_is_not_believed(desk: Desk) -> None:
    desk.client("ada")
    assert codes(desk.say("ada", WORKER, Ready(services=[]))) == [("ada", 501)]


def test_malformed_message_is_answered_and_counted(desk: Desk) -> None:
    (_, error), *_ = desk.garble("c", CLIENT, ProtocolError(413, "too large"))
    assert isinstance(error, Error)
    assert (error.code, error.text) == (413, "too large")
    assert desk.counters["malformed"] == 1


def test_sender_in_no_dialect_cannot_be_answered(desk: Desk) -> None:
    assert desk.garble("c", None, ProtocolError(400, "garbage")) == []
    assert desk.counters["malformed"] == 1


def test_penalty_grows_with_each_bad_message_and_decays(desk: Desk) -> None:
    for _ in range(6):
        desk.garble("c", CLIENT, ProtocolError(400, "bad"))
    assert desk.say("c", CLIENT, Connect(identity="c", nonce=NONCE)) == [], "444 is never sent"
    desk.pass_time(1.1)
    assert desk.say("c", CLIENT, Connect(identity="c", nonce=NONCE)) != []
    desk.garble("c", CLIENT, ProtocolError(400, "bad"))
    desk.pass_time(1.1)
    assert desk.say("c", CLIENT, Ping(0)) == [], "the second penalty is longer"
    desk.pass_time(1)
    assert desk.say("c", CLIENT, Ping(0)) != []
    desk.pass_time(600)
    for _ in range(5):
        desk.garble("c", CLIENT, ProtocolError(400, "bad"))
    assert desk.say("c", CLIENT, Ping(0)) != [], "old sins are forgotten"


def test_penalty_is_of_the_connection_and_never_of_the_claimed_identity(desk: Desk) -> None:
    ada = desk.client("ada")
    for _ in range(10):
        desk.garble("eve", CLIENT, ProtocolError(400, "bad"))
        desk.say("eve", CLIENT, Connect(identity="ada", nonce=b"stolen!!"))
    assert ada.ping() != []


def test_penalties_are_limited_in_number() -> None:
    desk = Desk(limits=Limits(error_clients=10))
    for n in range(100):
        desk.garble(f"c{n}", CLIENT, ProtocolError(400, "bad"))
    assert len(desk.broker.state.error_clients.records) == 10


def test_failed_send_to_somebody_unknown_does_nothing(desk: Desk) -> None:
    client = desk.client("ada")
    client.ping()
    send = desk.sends[0]
    desk.pass_time(10)
    assert desk.fail(send, "unroutable") == []
    assert desk.counters["sends_unroutable"] == 1


def test_idle_broker_wants_nothing() -> None:
    assert Desk().broker.next_deadline() == math.inf


def test_broker_wakes_for_the_next_thing_that_is_due(desk: Desk) -> None:
    desk.worker("w", "greet")
    assert desk.now + 7 < desk.broker.next_deadline() <= desk.now + 8
    desk.client("ada").submit("greet", timeout_s=1)
    desk.pass_time(0.2)  # a young task is looked at once, and its deadline filed
    assert desk.now + 0.7 < desk.broker.next_deadline() <= desk.now + 0.9
    desk.say("m", MDP1_WORKER, MdpReady("echo"))
    desk.pass_time(2)
    assert desk.broker.next_deadline() <= desk.now + 1


def test_tick_that_comes_early_does_nothing(desk: Desk) -> None:
    desk.worker("w", "greet")
    desk.client("ada").submit("greet", timeout_s=1)
    assert desk.pass_time(0.5) == []
