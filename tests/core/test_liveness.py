"""Who lives, whose clock is off, who runs an old config (rules 17–19, 24)."""

from __future__ import annotations

from scale0.core.effects import Alarm
from scale0.core.settings import Limits
from scale0.protocol.dialects import CLIENT, MDP2_WORKER, WORKER
from scale0.protocol.majordomo import MdpHeartbeat, MdpReady, MdpTask
from scale0.protocol.messages import (
    NO_VERSION,
    Config,
    Connect,
    Disconnect,
    Error,
    Ping,
    Pong,
    TaskReply,
)
from scale0.protocol.network import Document
from tests.core.desk import NONCE, Desk, bodies, codes, only, only_task, tasks_to


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
    desk.pass_time(0.15)
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
    again = only_task(desk.pass_time(4, steps=80), "w2")
    assert (again.id, again.attempt) == (task.id, 2)


def test_worker_without_heartbeat_lives_in_silence_and_leaves_the_queue_past_a_deadline(desk: Desk) -> None:
    worker = desk.worker("w", "greet", heartbeat=False, capacity=2)
    desk.pass_time(100)
    client = desk.client("ada")
    task = only_task(client.submit("greet", timeout_s=1), "w")
    desk.pass_time(1.1)
    assert tasks_to(client.submit("greet")) == []
    assert tasks_to(worker.reply(task)) == ["w"]


# --- a broker that stood still ------------------------------------------------------------------------------------


def test_worker_is_not_lost_because_the_broker_stood_still(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    task = only_task(client.submit("greet", timeout_s=60), "w")
    assert desk.pass_time(20) == []
    assert worker.state == "full"
    assert bodies(worker.reply(task)) == [], "its client is yet to be heard, too"
    assert bodies(client.ping()) == [("ada", b"done")]
    assert tasks_to(client.submit("greet")) == ["w"]


def test_worker_that_seems_silent_gets_no_task_until_what_it_said_is_read(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    desk.pass_time(20)
    assert tasks_to(desk.client("ada").submit("greet", timeout_s=60)) == []
    assert tasks_to(worker.ping()) == ["w"]
    desk.pass_time(7.4, steps=80)
    assert worker.state == "full"
    desk.pass_time(0.15)
    assert worker.state == "gone", "its silence counts as ever"


def test_worker_that_seemed_silent_and_asks_for_the_config_gets_tasks_again(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    desk.pass_time(20)
    client = desk.client("ada")
    client.submit("greet", timeout_s=60)
    assert tasks_to(worker.connect()) == ["w"]


def test_worker_that_says_nothing_for_an_interval_after_the_broker_went_on_is_gone(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    client.submit("greet", timeout_s=60)
    desk.pass_time(20)
    client.ping()
    desk.pass_time(2.4)
    assert worker.state == "full"
    assert codes(desk.pass_time(0.2)) == [("ada", 502)]


def test_broker_that_stands_still_again_excuses_nobody_twice(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    desk.pass_time(20)
    desk.pass_time(20)
    assert worker.state == "gone"


def test_worker_that_left_while_the_broker_stood_still_gets_no_task(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    desk.pass_time(20)
    desk.client("ada").submit("greet", timeout_s=60)
    assert worker.say(Disconnect(reason="bye")) == []
    assert desk.broker.census().queued == 1


def test_worker_that_leaves_with_its_first_word_after_the_broker_stood_still_gets_no_task(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    desk.pass_time(20)
    desk.client("ada").submit("greet", timeout_s=60)
    assert tasks_to(worker.ready(capacity=0)) == []
    assert worker.state == "draining"


def test_majordomo_worker_is_not_lost_because_the_broker_stood_still(desk: Desk) -> None:
    desk.say("m", MDP2_WORKER, MdpReady("greet"))
    desk.pass_time(20)
    client = desk.client("ada")
    client.submit("greet", timeout_s=60)
    sent = desk.say("m", MDP2_WORKER, MdpHeartbeat())
    assert [(name, type(message)) for name, message in sent] == [("m", MdpTask)]


def test_absent_clients_reply_waits_until_it_is_back(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    task = only_task(client.submit("greet", timeout_s=60), "w")
    for _ in range(4):
        desk.pass_time(2.4)
        worker.ping()
    assert bodies(worker.reply(task)) == []
    assert bodies(client.ping()) == [("ada", b"done")]


def test_client_that_was_absent_before_is_missed_as_soon_when_it_is_silent_again(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    worker.reply(only_task(client.submit("greet", timeout_s=60), "w"))
    session = desk.broker.state.sessions.by_identity["ada"]
    for come_back in (client.ping, client.connect):
        desk.pass_time(7.7)
        assert session.is_absent
        come_back()
        assert not session.is_absent
    desk.pass_time(7.7)
    assert session.is_absent


def test_silent_client_is_forgotten_when_nothing_of_it_is_left(desk: Desk) -> None:
    desk.client("ada")
    desk.pass_time(8, steps=160)
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


def test_who_agrees_with_any_of_the_brokers_former_clocks_is_not_sent_away(desk: Desk) -> None:
    """The clock was put right, and then jumped to where it is wrong again: who was right all the time stays."""
    worker = desk.worker("w", "echo")
    desk.pass_time(1, wall_jump_s=100)
    desk.pass_time(1, wall_jump_s=100)
    for _ in range(5):
        offset_us = -100 * 1_000_000
        sent = worker.say(Ping(round(desk.wall_s * 1e6) + offset_us, offset_us=offset_us, has_offset=True))
        assert codes(sent) == []
        desk.pass_time(1)


def test_jump_of_the_brokers_own_clock_raises_an_alarm_and_kills_nobody(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    for jump_s in (3600, -7200):
        desk.pass_time(1, wall_jump_s=jump_s)
        assert [effect.name for effect in desk.others if isinstance(effect, Alarm)] == ["clock_jumped"]
    right_us = round((desk.wall_s + 3600) * 1e6)
    for offset_us in (3_600_000_000, -3_600_000_000, 3_600_000_000) * 2:  # stale ones among them
        worker.say(Ping(right_us, has_offset=True, offset_us=offset_us))
        desk.pass_time(1)
    assert worker.state == "ready"


def test_stale_measurement_is_told_by_the_messages_own_time(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    for _ in range(5):
        worker.say(Ping(round(desk.wall_s * 1e6), has_offset=True, offset_us=99_000_000))
    assert worker.state == "ready"


def test_client_whose_session_ends_for_its_clock_hears_of_its_tasks(desk: Desk) -> None:
    desk.worker("w", "greet")
    client = desk.client("ada")
    client.submit("greet")
    ahead_us = round((desk.wall_s + 100) * 1e6)
    for _ in range(3):
        sent = client.say(Ping(ahead_us, has_offset=True, offset_us=100_000_000))
    assert codes(sent) == [("ada", 499), ("ada", 498)]


def test_client_whose_session_ends_for_its_clock_gets_what_was_held_for_it(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    task = only_task(client.submit("greet"), "w")
    ahead = Ping(round((desk.wall_s + 100) * 1e6), has_offset=True, offset_us=100_000_000)
    client.say(ahead)
    client.say(ahead)
    worker.reply(task, b"done")
    desk.fail(next(send for send in desk.sends if isinstance(send.message, TaskReply)), "full")
    sent = client.say(ahead)
    assert (bodies(sent), codes(sent)) == ([("ada", b"done")], [("ada", 498)])


# --- config -------------------------------------------------------------------------------------------------------


def test_new_settings_are_pushed_and_426_comes_once_two_intervals_later(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    old = desk.broker.state.config.packed_version
    desk.broker.configure(Document(liveness=4), desk.now)
    pushed = only(desk.pass_time(0.1), "w")
    assert isinstance(pushed, Config)
    assert pushed.config_version > old
    assert codes(worker.ping(config_version=old)) == [], "it may not have taken it yet"
    desk.pass_time(5.1, steps=3)
    assert codes(worker.ping(config_version=old)) == [("w", 426)]
    assert codes(worker.ping(config_version=old)) == [], "once per session and version"


def test_426_that_did_not_leave_comes_again(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    old = desk.broker.state.config.packed_version
    desk.broker.configure(Document(liveness=4), desk.now)
    desk.pass_time(0.1)
    desk.pass_time(5.1, steps=3)
    worker.ping(config_version=old)
    for send in [send for send in desk.sends if isinstance(send.message, Error)]:
        desk.fail(send, "full")
    assert codes(worker.ping(config_version=old)) == [("w", 426)]


def test_pong_and_426_leave_before_what_was_held_fills_the_pipe(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    old = desk.broker.state.config.packed_version
    desk.broker.configure(Document(liveness=4), desk.now)
    desk.pass_time(0.1)
    desk.pass_time(5.1, steps=3)
    worker.reply(only_task(client.submit("greet"), "w"), b"done")
    desk.fail(next(send for send in desk.sends if isinstance(send.message, TaskReply)), "full")
    client.ping(config_version=old)
    assert [type(send.message) for send in desk.sends] == [Pong, Error, TaskReply]


def test_same_settings_again_are_no_new_version(desk: Desk) -> None:
    desk.worker("w", "greet")
    version = desk.broker.state.config.packed_version
    desk.broker.configure(Document(), desk.now)
    assert desk.pass_time(0.1) == []
    assert desk.broker.state.config.packed_version == version


def test_pushes_are_paced() -> None:
    desk = Desk(limits=Limits(sessions=2000))
    for n in range(1_500):
        desk.say(f"c{n}", CLIENT, Connect(identity=f"c{n}", nonce=NONCE))
    desk.broker.configure(Document(liveness=5, limits=Limits(sessions=2000)), desk.now)
    assert [len(desk.pass_time(0.01)) for _ in range(3)] == [6, 6, 6]


def test_version_that_was_never_named_is_not_behind(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    desk.pass_time(6, steps=3)
    assert codes(worker.ping(config_version=NO_VERSION)) == []


def test_outcome_that_comes_late_is_held_for_a_grace_all_the_same(desk: Desk) -> None:
    desk.worker("w", "greet")
    client = desk.client("ada")
    client.submit("greet", timeout_s=10)
    desk.pass_time(100)  # the broker itself stood still
    (late,) = [send for send in desk.sends if isinstance(send.message, Error)]
    desk.fail(late, "unroutable")
    desk.pass_time(4)
    assert codes(client.connect(route="ada-again")) == [("ada-again", 504)]
