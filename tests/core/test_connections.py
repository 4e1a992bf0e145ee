"""How sessions begin, move and end (rules 2, 4, 9)."""

from __future__ import annotations

import pytest

from scale0.core.settings import Limits
from scale0.protocol.dialects import CLIENT, REQ_CLIENT, WORKER, Dialect
from scale0.protocol.messages import (
    Config,
    ConfigAck,
    Connect,
    Error,
    ForceNegotiate,
    Ping,
    Task,
)
from tests.core.desk import NONCE, Desk, bodies, codes, only, only_task, route_of

# --- beginning ----------------------------------------------------------------------------------------------------


def test_connect_is_answered_by_config_and_by_configack_when_it_is_current(desk: Desk) -> None:
    config = only(desk.say("w", WORKER, Connect(identity="w", nonce=NONCE)), "w")
    assert isinstance(config, Config)
    assert config.config_type == "JSON"
    assert b'"identity":"w"' in config.config
    again = Connect(identity="w", nonce=NONCE, config_version=config.config_version)
    ack = only(desk.say("w", WORKER, again), "w")
    assert isinstance(ack, ConfigAck)
    assert ack.config_version == config.config_version


def test_another_config_type_is_refused_with_what_is_served(desk: Desk) -> None:
    error = only(desk.say("w", WORKER, Connect(identity="w", nonce=NONCE, config_type="INI")), "w")
    assert isinstance(error, Error)
    assert (error.code, error.fatal) == (501, True)
    assert "JSON" in error.text


def test_who_takes_bundles_is_told_that_the_broker_does_too(desk: Desk) -> None:
    config = only(desk.say("w", WORKER, Connect(identity="w", nonce=NONCE, bundles=True)), "w")
    assert isinstance(config, Config)
    assert config.bundles
    assert desk.broker.takes_bundles(route_of("w"))
    again = Connect(identity="w", nonce=NONCE, config_version=config.config_version, bundles=True)
    ack = only(desk.say("w2", WORKER, again), "w2")
    assert isinstance(ack, ConfigAck)
    assert ack.bundles
    assert desk.broker.takes_bundles(route_of("w2"))
    assert not desk.broker.takes_bundles(route_of("w")), "the session has moved"


@pytest.mark.parametrize(("dialect", "bundles"), [(CLIENT, False), (REQ_CLIENT, True)])
def test_who_does_not_ask_for_bundles_or_has_a_req_socket_gets_none(
    desk: Desk, dialect: Dialect, bundles: bool
) -> None:
    config = only(desk.say("c", dialect, Connect(identity="c", nonce=NONCE, bundles=bundles)), "c")
    assert isinstance(config, Config)
    assert not config.bundles
    assert not desk.broker.takes_bundles(route_of("c"))
    assert not desk.broker.takes_bundles(route_of("nobody"))


@pytest.mark.parametrize("identity", ["", "x" * 129, "a\nb"])
def test_unfit_identity_is_refused(desk: Desk, identity: str) -> None:
    assert codes(desk.say("c", CLIENT, Connect(identity=identity, nonce=NONCE))) == [("c", 400)]


def test_unknown_connection_is_asked_to_negotiate_once_an_interval(desk: Desk) -> None:
    assert isinstance(only(desk.say("w", WORKER, Ping(0)), "w"), ForceNegotiate)
    assert desk.say("w", WORKER, Ping(0)) == []
    desk.pass_time(2.6)
    assert isinstance(only(desk.say("w", WORKER, Ping(0)), "w"), ForceNegotiate)
    assert desk.broker.state.error_clients.records == {}, "it never counts as misbehaviour"


def test_task_of_a_stranger_is_not_accepted(desk: Desk) -> None:
    desk.worker("w", "greet")
    sent = desk.say("c", CLIENT, Task(b"12345678ada00000001", "greet", (b"x",), 1000))  # type: ignore[arg-type]
    assert isinstance(only(sent, "c"), ForceNegotiate)
    assert desk.broker.census().accepted == 0


def test_strangers_are_remembered_within_a_limit() -> None:
    desk = Desk(limits=Limits(strangers=10))
    for n in range(50):
        desk.say(f"s{n}", CLIENT, Ping(0))
    assert len(desk.broker.state.strangers) == 10


def test_sessions_are_limited() -> None:
    desk = Desk(limits=Limits(sessions=2))
    desk.client("a")
    desk.client("b")
    assert codes(desk.say("c", CLIENT, Connect(identity="c", nonce=NONCE))) == [("c", 503)]


# --- moving -------------------------------------------------------------------------------------------------------


def test_same_nonce_moves_the_session_with_its_tasks(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    task = only_task(client.submit("greet"), "w")
    client.connect(route="ada-new")
    assert bodies(worker.reply(task)) == [("ada-new", b"done")]
    assert desk.counters["sessions_moved"] == 1


def test_old_connection_of_a_moved_session_is_a_stranger(desk: Desk) -> None:
    client = desk.client("ada")
    client.connect(route="new")
    assert isinstance(only(desk.say("ada", CLIENT, Ping(0)), "ada"), ForceNegotiate)


def test_other_nonce_is_409_while_the_old_process_speaks(desk: Desk) -> None:
    desk.client("ada")
    desk.pass_time(2.0)
    sent = desk.say("thief", CLIENT, Connect(identity="ada", nonce=b"otherone"))
    assert codes(sent) == [("thief", 409)]


def test_other_nonce_replaces_a_process_that_fell_silent(desk: Desk) -> None:
    desk.client("ada")
    desk.pass_time(2.6)
    sent = desk.say("new", CLIENT, Connect(identity="ada", nonce=b"otherone"))
    assert isinstance(only(sent, "new"), Config)


def test_replaced_worker_loses_its_tasks(desk: Desk) -> None:
    desk.worker("w", "greet")
    client = desk.client("ada")
    only_task(client.submit("greet"), "w")
    desk.pass_time(2.6)
    sent = desk.say("new", WORKER, Connect(identity="w", nonce=b"otherone"))
    assert codes(sent) == [("ada", 502)]


def test_moved_worker_keeps_what_it_lists_and_loses_the_rest(desk: Desk) -> None:
    worker = desk.worker("w", "greet", capacity=2)
    client = desk.client("ada")
    kept, _lost = (only_task(client.submit("greet"), "w") for _ in range(2))
    sent = worker.connect(route="w-new", in_flight=[kept.id])
    assert codes(sent) == [("ada", 502)]
    worker.ready(capacity=2, in_flight=[kept.id])
    assert bodies(worker.reply(kept)) == [("ada", b"done")]


def test_task_that_never_reached_a_worker_that_moved_waits_again(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    only_task(desk.client("ada").submit("greet"), "w")
    desk.pass_time(1.0)
    assert codes(worker.connect(route="w2", in_flight=[], covers_ms=2000)) == []
    again = only_task(worker.ready(), "w2")
    assert again.attempt == 1, "the first one was none"


def test_slot_is_freed_by_the_reply_to_an_attempt_before_the_one_that_was_lost_on_the_way(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    sent = only_task(desk.client("ada").submit("greet"), "w")
    worker.connect(
        route="w-new", in_flight=[sent.id]
    )  # another attempt of it, of which it has not heard that it counted
    worker.ready(in_flight=[sent.id])
    sent.attempt = 2
    assert codes(worker.reply(sent)) == [("ada", 502)]
    held = desk.broker.state.sessions.by_identity["w"].worker
    assert held is not None
    assert held.slots == {}


def test_task_that_was_sent_before_what_the_workers_list_covers_is_lost(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    only_task(desk.client("ada").submit("greet"), "w")
    desk.pass_time(1.0)
    assert codes(worker.connect(route="w2", in_flight=[], covers_ms=500)) == [("ada", 502)]


def test_connect_that_was_overtaken_by_a_later_one_is_not_heard(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    worker.connect(route="w2", serial=2)
    worker.ready()
    task = only_task(desk.client("ada").submit("greet"), "w2")
    late = Connect(identity="w", nonce=worker.nonce, services=["greet"], covers_ms=2000, serial=1)
    assert not desk.say("w", WORKER, late)
    assert desk.counters["connects_overtaken"] == 1
    assert bodies(worker.reply(task)) == [("ada", b"done")]


def test_unknown_ids_that_a_worker_holds_take_slots(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    worker.connect(route="w-new", in_flight=[b"n" * 8 + b"x" + b"s" * 8])
    worker.ready(capacity=1, in_flight=[b"n" * 8 + b"x" + b"s" * 8])
    assert worker.state == "full"
    unknown = Task(b"n" * 8 + b"x" + b"s" * 8, "greet", (), 0, attempt=7)  # type: ignore[arg-type]
    worker.reply(unknown)
    assert worker.state == "ready", "its final reply, of whatever attempt, frees the slot"


def test_connect_for_a_new_config_changes_neither_place_nor_tasks(desk: Desk) -> None:
    worker = desk.worker("w", "greet", capacity=2)
    task = only_task(desk.client("ada").submit("greet"), "w")
    worker.connect()
    assert worker.state == "ready"
    assert bodies(worker.reply(task)) == [("ada", b"done")]


def test_connection_that_takes_another_identity_ends_its_session(desk: Desk) -> None:
    desk.client("ada")
    desk.say("ada", CLIENT, Connect(identity="bob", nonce=NONCE))
    assert list(desk.broker.state.sessions.by_identity) == ["bob"]
