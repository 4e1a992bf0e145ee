"""How sessions begin, move, change and end (rules 1, 2, 4, 5, 9, 17–19, 24, 29)."""

from __future__ import annotations

import pytest

from scale0.core.effects import Alarm
from scale0.core.settings import BrokerSettings, Limits
from scale0.protocol.dialects import CLIENT, WORKER
from scale0.protocol.messages import (
    NO_VERSION,
    Config,
    ConfigAck,
    Connect,
    Disconnect,
    Error,
    ForceNegotiate,
    Ping,
    Pong,
    Ready,
    ReadyOk,
    ServiceOffer,
    Task,
)
from tests.core.desk import NONCE, Desk, Sent, bodies, codes, only_task, tasks_to


@pytest.fixture
def desk() -> Desk:
    return Desk()


def only(sent: Sent, to: str) -> object:
    assert [name for name, _ in sent] == [to], sent
    return sent[0][1]


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
    error = only(desk.say("w", WORKER, Connect(identity="w", nonce=NONCE, config_type="XML")), "w")
    assert isinstance(error, Error)
    assert (error.code, error.fatal) == (501, True)
    assert "JSON" in error.text


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


# --- READY and PING -----------------------------------------------------------------------------------------------


def test_heartbeat_interval_is_raised_to_the_floor_and_may_be_longer(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    for asked_ms, agreed_ms in ((100, 2500), (0, 2500), (7000, 7000)):
        ok = only(worker.ready(heartbeat_interval_ms=asked_ms), "w")
        assert isinstance(ok, ReadyOk)
        assert ok.heartbeat_interval_ms == agreed_ms


def test_reserved_and_unmanaged_services_are_refused_one_by_one() -> None:
    desk = Desk(services=["greet"])
    worker = desk.worker("w", "greet")
    worker.offers = [ServiceOffer(name) for name in ("greet", "other", "mmi.x", "scale0.x", "")]
    ok = only(worker.ready(), "w")
    assert isinstance(ok, ReadyOk)
    assert set(ok.refused) == {"other", "mmi.x", "scale0.x", ""}


def test_worker_of_which_all_services_are_unmanaged_is_moved() -> None:
    desk = Desk(services=["greet"])
    worker = desk.worker("w", "other")
    assert codes(worker.ready()) == [("w", 301)]


def test_too_many_services_or_slots_are_refused(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    assert codes(worker.ready(capacity=5000)) == [("w", 400)]
    worker.offers = [ServiceOffer(f"s{n}") for n in range(257)]
    assert codes(worker.ready()) == [("w", 400)]


def test_ping_of_a_worker_that_sent_no_ready_gives_it_one_slot(desk: Desk) -> None:
    desk.say("w", WORKER, Connect(identity="w", nonce=NONCE, services=["greet"]))
    client = desk.client("ada")
    assert isinstance(desk.say("w", WORKER, Ping(5))[0][1], Pong)
    assert tasks_to(client.submit("greet")) == ["w"]
    assert tasks_to(client.submit("greet")) == []


def test_pong_tells_both_clocks(desk: Desk) -> None:
    client = desk.client("ada")
    pong = only(client.say(Ping(12345)), "ada")
    assert isinstance(pong, Pong)
    assert (pong.echo_us, pong.time_us) == (12345, round(desk.wall_s * 1e6))
    assert pong.epoch == 1


# --- life and death -----------------------------------------------------------------------------------------------


def test_silent_worker_is_gone_after_liveness_intervals(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    desk.pass_time(7.4)
    assert worker.state == "ready"
    desk.pass_time(0.3)
    assert worker.state == "gone"


def test_any_traffic_counts_as_life(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    for _ in range(5):
        task = only_task(client.submit("greet"), "w")
        desk.pass_time(5)
        worker.reply(task)
    assert worker.state == "ready"


def test_silent_workers_task_is_repeated_elsewhere(desk: Desk) -> None:
    desk.worker("w1", "greet", idempotent=True)
    task = only_task(desk.client("ada").submit("greet", timeout_s=30), "w1")
    desk.pass_time(4)
    desk.worker("w2", "greet", idempotent=True)
    again = only_task(desk.pass_time(4), "w2")
    assert (again.id, again.attempt) == (task.id, 2)


def test_worker_without_heartbeat_lives_in_silence_and_leaves_the_queue_past_a_deadline(desk: Desk) -> None:
    worker = desk.worker("w", "greet", heartbeat=False, capacity=2)
    desk.pass_time(100)
    client = desk.client("ada")
    task = only_task(client.submit("greet", timeout_s=1), "w")
    desk.pass_time(1.1)
    assert tasks_to(client.submit("greet")) == []
    assert tasks_to(worker.reply(task)) == ["w"]


def test_absent_clients_reply_waits_until_it_is_back(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    task = only_task(client.submit("greet", timeout_s=60), "w")
    for _ in range(4):
        desk.pass_time(2.4)
        worker.ping()
    assert bodies(worker.reply(task)) == []
    assert bodies(client.ping()) == [("ada", b"done")]


def test_silent_client_is_forgotten_when_nothing_of_it_is_left(desk: Desk) -> None:
    desk.client("ada")
    desk.pass_time(8)
    assert len(desk.broker.state.sessions) == 0


def test_silent_client_is_forgotten_with_its_outcomes_after_their_deadlines(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    worker.reply(only_task(desk.client("ada").submit("greet", timeout_s=20), "w"))
    desk.pass_time(20)
    assert "ada" in desk.broker.state.sessions.by_identity
    desk.pass_time(10)
    assert "ada" not in desk.broker.state.sessions.by_identity
    assert desk.broker.state.outcomes.count == 0


def test_client_that_leaves_has_its_tasks_cancelled(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    task = only_task(client.submit("greet"), "w")
    client.submit("greet")
    client.say(Disconnect())
    assert [(name, type(message).__name__) for name, message in desk.sent] == [("w", "Cancel")]
    assert worker.reply(task) == []
    census = desk.broker.census()
    assert (census.accepted, census.errored) == (2, 2)


# --- clocks -------------------------------------------------------------------------------------------------------


def test_clock_that_is_off_three_times_in_a_row_ends_the_session(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    for other in ("a", "b", "c"):
        desk.client(other).ping(has_offset=True, offset_us=1000)
    off = {"has_offset": True, "offset_us": 31_000_000}
    assert codes(worker.ping(**off)) == []
    assert codes(worker.ping(**off)) == []
    (_, error), *_ = worker.ping(**off)
    assert isinstance(error, Error)
    assert (error.code, error.fatal) == (498, True)
    assert "31.0 s ahead" in error.text
    assert worker.state == "gone"


def test_one_good_measurement_starts_the_count_again(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    for offset_us in (40_000_000, 40_000_000, 0, 40_000_000, 40_000_000):
        worker.ping(has_offset=True, offset_us=offset_us)
    assert worker.state == "ready"


def test_many_clocks_off_together_raise_an_alarm_and_end_nothing(desk: Desk) -> None:
    workers = [desk.worker(f"w{n}", "greet") for n in range(3)]
    alarms = []
    for _ in range(4):
        for worker in workers:
            worker.ping(has_offset=True, offset_us=-50_000_000)
            alarms += [effect for effect in desk.others if isinstance(effect, Alarm)]
        desk.pass_time(1.1)
    assert {worker.state for worker in workers} == {"ready"}
    assert {alarm.name for alarm in alarms} == {"clock"}


def test_jump_of_the_brokers_own_clock_raises_an_alarm_and_kills_nobody(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    desk.pass_time(1, wall_jump_s=3600)
    assert [effect.name for effect in desk.others if isinstance(effect, Alarm)] == ["clock_jumped"]
    for _ in range(5):
        worker.ping(has_offset=True, offset_us=-3_600_000_000)
    assert worker.state == "ready"


# --- config -------------------------------------------------------------------------------------------------------


def test_new_settings_are_pushed_and_426_comes_once_two_intervals_later(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    old = desk.broker.state.config.packed_version
    desk.broker.configure(BrokerSettings(liveness=4), desk.now)
    pushed = only(desk.pass_time(0.1), "w")
    assert isinstance(pushed, Config)
    assert pushed.config_version > old
    assert codes(worker.ping(config_version=old)) == [], "it may not have taken it yet"
    desk.pass_time(5.1, steps=3)
    assert codes(worker.ping(config_version=old)) == [("w", 426)]
    assert codes(worker.ping(config_version=old)) == [], "once per session and version"


def test_same_settings_again_are_no_new_version(desk: Desk) -> None:
    desk.worker("w", "greet")
    version = desk.broker.state.config.packed_version
    desk.broker.configure(BrokerSettings(), desk.now)
    assert desk.pass_time(0.1) == []
    assert desk.broker.state.config.packed_version == version


def test_pushes_are_paced() -> None:
    desk = Desk(limits=Limits(sessions=2000))
    for n in range(700):
        desk.say(f"c{n}", CLIENT, Connect(identity=f"c{n}", nonce=NONCE))
    desk.broker.configure(BrokerSettings(liveness=5), desk.now)
    assert [len(desk.pass_time(0.01)) for _ in range(3)] == [500, 200, 0]


def test_version_that_was_never_named_is_not_behind(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    desk.pass_time(6, steps=3)
    assert codes(worker.ping(config_version=NO_VERSION)) == []


def test_ready_before_connect_is_a_strangers(desk: Desk) -> None:
    sent = desk.say("w", WORKER, Ready(services=[ServiceOffer("greet")]))
    assert isinstance(only(sent, "w"), ForceNegotiate)
