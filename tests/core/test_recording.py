"""What a broker records of tasks, sessions and itself."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from scale0.core import journal as journal_module
from scale0.core.task_rows import ERROR, FAILED, ORIGIN, REFUSED, RELAY, REPLIED
from scale0.events import KINDS, NEVER_S, UNKNOWN_OFFSET
from scale0.protocol.dialects import REQ_CLIENT
from scale0.protocol.messages import Disconnect, Status
from tests.core.desk import NONCE, Desk, only_task
from tests.core.neighbour import Neighbour
from tests.core.record_reader import Reader


@pytest.fixture
def desk() -> Desk:
    return Desk(boot="boot-1", default_heartbeat_interval_s=2.5)


@pytest.fixture
def reader(desk: Desk) -> Reader:
    return Reader(desk.broker)


def test_without_a_boot_nothing_is_recorded() -> None:
    desk = Desk()
    worker, client = desk.worker("w", "greet"), desk.client("c")
    worker.reply(only_task(client.submit("greet"), "w"))
    assert desk.broker.take_records() is None


def test_replied_task_leaves_one_row_with_its_whole_life(desk: Desk, reader: Reader) -> None:
    worker, client = desk.worker("w", "greet", capacity=2), desk.client("c")
    worker.ping(has_offset=True, offset_us=1500, offset_bits=9)
    task = only_task(client.submit("greet", b"12345", send_time_us=77), "w")
    desk.now += 0.25
    worker.reply(task, b"hello", wait_us=10, work_us=200, time_us=99)
    (row,) = reader.read()
    expected = {
        "service": "greet",
        "client": "c",
        "worker": "w",
        "via": "",
        "dialect": "client",
        "sequence": 1,
        "nonce": NONCE,
        "role": ORIGIN,
        "outcome": REPLIED,
        "code": 200,
        "attempt": 1,
        "earlier": 0,
        "request_bytes": 5,
        "reply_bytes": 5,
        "sent_us": 77,
        "worker_us": 99,
        "wait_us": 10,
        "work_us": 200,
        "worker_offset_us": 1500,
        "worker_error_bits": 9,
        "client_offset_us": UNKNOWN_OFFSET,
        "free": 1,
        "queued": 0,
        "workers": 1,
        "hops": 0,
    }
    assert {name: row[name] for name in expected} == expected
    assert row["settled_s"] - row["received_s"] == pytest.approx(0.25)
    assert row["dispatched_s"] == row["received_s"]


def test_a_peer_that_sends_tasks_and_takes_some_is_named_as_each(desk: Desk, reader: Reader) -> None:
    worker, client, peer = desk.worker("w", "greet", capacity=2), desk.client("c"), Neighbour(desk)
    peer.offer("far")
    worker.reply(only_task(peer.forward(1, "greet"), "w"))
    for number in (2, 3):
        peer.reply(only_task(client.submit("far"), "b2"))
        worker.reply(only_task(peer.forward(number, "greet"), "w"))
        peer.offer("far")
    rows = reader.read()
    assert [(row["role"], row["worker"], row["via"]) for row in rows[:2]] == [(RELAY, "w", ""), (ORIGIN, "", "b2")]
    assert [row["via"] for row in rows if row["role"] == ORIGIN] == ["b2", "b2"]


def test_rows_say_what_was_known_of_the_clocks_when_the_task_ended(desk: Desk, reader: Reader) -> None:
    worker, client = desk.worker("w", "greet"), desk.client("c")
    for offset_us in (1500, -700):
        worker.ping(has_offset=True, offset_us=offset_us, offset_bits=9)
        client.ping(has_offset=True, offset_us=offset_us + 1, offset_bits=4)
        worker.reply(only_task(client.submit("greet"), "w"))
    told = [(row["worker_offset_us"], row["client_offset_us"], row["client_error_bits"]) for row in reader.read()]
    assert told == [(1500, 1501, 4), (-700, -699, 4)]


def test_rows_say_how_a_client_speaks_now(desk: Desk, reader: Reader) -> None:
    worker, client = desk.worker("w", "greet"), desk.client("c")
    worker.reply(only_task(client.submit("greet"), "w"))
    client.dialect = REQ_CLIENT
    client.connect(route="c2")
    worker.reply(only_task(client.submit("greet"), "w"))
    assert [row["dialect"] for row in reader.read()] == ["client", "req client"]


def test_handlers_failure_is_told_from_a_reply(desk: Desk, reader: Reader) -> None:
    worker, client = desk.worker("w", "greet"), desk.client("c")
    worker.reply(only_task(client.submit("greet"), "w"), status=Status.FAILED)
    (row,) = reader.read()
    assert (row["outcome"], row["code"]) == (FAILED, 500)


def test_task_that_waits_is_told_with_the_time_of_its_dispatch(desk: Desk, reader: Reader) -> None:
    worker, client = desk.worker("w", "greet"), desk.client("c")
    first = only_task(client.submit("greet"), "w")
    client.submit("greet")
    client.submit("greet")
    desk.now += 1
    second = only_task(worker.reply(first), "w")
    worker.reply(second)
    row = reader.read()[1]
    assert row["dispatched_s"] - row["received_s"] == pytest.approx(1)
    assert (row["free"], row["queued"]) == (1, 1)


def test_lost_attempts_stand_beside_the_row_of_a_repeated_task(desk: Desk, reader: Reader) -> None:
    desk.worker("w1", "greet", idempotent=True)
    client = desk.client("c")
    only_task(client.submit("greet", timeout_s=60), "w1")
    w2 = desk.worker("w2", "greet", idempotent=True)
    sent = []
    for _ in range(80):
        sent += desk.pass_time(0.25)
        w2.ping()
    w2.reply(only_task(sent, "w2"))
    (row,) = reader.read()
    assert (row["worker"], row["attempt"], row["earlier"]) == ("w2", 2, 1)
    (attempt,) = reader.attempts
    assert (attempt.seq, attempt.worker, attempt.outcome) == (row["seq"], "w1", "lost")
    assert attempt.dispatched_s < attempt.ended_s <= row["dispatched_s"]


def test_attempt_whose_loss_ends_the_task_is_its_last_one(desk: Desk, reader: Reader) -> None:
    worker, client = desk.worker("w", "greet"), desk.client("c")
    client.submit("greet", timeout_s=60)
    worker.say(Disconnect())
    (row,) = reader.read()
    assert (row["outcome"], row["code"], row["worker"], row["earlier"]) == (ERROR, 502, "w", 0)
    assert row["dispatched_s"] != NEVER_S


def test_task_that_was_never_dispatched_names_no_worker(desk: Desk, reader: Reader) -> None:
    worker, client = desk.worker("w", "greet", capacity=1), desk.client("c")
    client.submit("greet", timeout_s=60)
    client.submit("greet", timeout_s=1)
    for _ in range(3):
        desk.pass_time(0.5)
        worker.ping()
    (row,) = reader.read()
    assert (row["code"], row["worker"], row["dispatched_s"], row["attempt"]) == (408, "", NEVER_S, 0)


def test_refused_task_is_recorded_and_counted(desk: Desk, reader: Reader) -> None:
    client = desk.client("c")
    client.submit("nobody")
    (row,) = reader.read()
    assert (row["outcome"], row["code"], row["service"]) == (REFUSED, 404, "nobody")
    desk.pass_time(1.1)
    assert reader.of("gauge")[-1].detail["refused"] == 1


def test_duration_that_only_a_liar_could_tell_is_recorded_as_it_came(desk: Desk, reader: Reader) -> None:
    worker, client = desk.worker("w", "greet"), desk.client("c")
    worker.reply(only_task(client.submit("greet"), "w"), wait_us=-(1 << 63), work_us=(1 << 63) - 1)
    (row,) = reader.read()
    assert (row["wait_us"], row["work_us"]) == (-(1 << 63), (1 << 63) - 1)


def test_gauge_tells_each_second_what_the_rows_must_add_up_to(desk: Desk, reader: Reader) -> None:
    worker, client = desk.worker("w", "greet", capacity=2), desk.client("c")
    done = only_task(client.submit("greet"), "w")
    client.submit("greet")
    worker.reply(done)
    desk.pass_time(1.0)
    gauge = reader.of("gauge")[-1]
    told = {name: gauge.detail[name] for name in ("accepted", "replied", "errored", "in_flight", "queued")}
    assert told == {"accepted": 2, "replied": 1, "errored": 0, "in_flight": 1, "queued": 0}
    assert gauge.detail["last_seq"] == gauge.seq - 1


def test_question_that_the_broker_answers_itself_is_neither_recorded_nor_counted(desk: Desk, reader: Reader) -> None:
    desk.client("c").submit("scale0.services")
    desk.pass_time(1.0)
    assert reader.read() == []
    gauge = reader.of("gauge")[-1].detail
    assert (gauge["accepted"], gauge["replied"]) == (0, 0)


def test_rows_are_numbered_without_a_hole(desk: Desk, reader: Reader) -> None:
    worker, client = desk.worker("w", "greet"), desk.client("c")
    for _ in range(3):
        worker.reply(only_task(client.submit("greet"), "w"))
        desk.pass_time(1.0)
        worker.ping()
    numbers = sorted([row["seq"] for row in reader.read()] + [note.seq for note in reader.notes])
    assert numbers[0] == 1
    assert all(after - before == 1 for before, after in pairwise(numbers))


def test_sessions_are_told_from_their_beginning_to_their_end(desk: Desk, reader: Reader) -> None:
    desk.worker("w", "greet", capacity=4)
    desk.pass_time(20, steps=200)
    told = [(note.what, note.detail.get("capacity")) for note in reader.of("session") if note.subject == "w"]
    assert told == [("opened", None), ("ready", 4), ("closed", None)]
    closed = reader.of("session")[-1]
    assert "silent" in closed.detail["why"]


def test_every_worker_is_summed_up_within_a_minute(desk: Desk, reader: Reader) -> None:
    workers = [desk.worker(f"w{number}", "greet") for number in range(90)]
    for _ in range(62):
        desk.pass_time(1.0)
        for worker in workers:
            worker.ping()
    assert {note.subject for note in reader.of("worker")} == {f"w{number}" for number in range(90)}


def test_jump_of_the_wall_clock_moves_the_anchor(desk: Desk, reader: Reader) -> None:
    desk.pass_time(0.1, wall_jump_s=3600)
    (anchor,) = reader.of("anchor")
    assert anchor.value == pytest.approx(3600e6, abs=1000)
    assert anchor.detail["wall_offset_s"] == pytest.approx(desk.wall_s - desk.now)


def test_mode_config_and_alarms_are_noted(desk: Desk, reader: Reader) -> None:
    desk.manage("drain")
    desk.broker.state.alarm("drill", "a drill is on")
    assert [note.what for note in reader.of("state")] == ["draining"]
    assert reader.of("alarm")[-1].subject == "drill"


def test_every_kind_that_the_core_notes_is_in_the_vocabulary(desk: Desk, reader: Reader) -> None:
    worker, client = desk.worker("w", "greet"), desk.client("c")
    worker.reply(only_task(client.submit("greet"), "w"))
    desk.pass_time(120, steps=120)
    reader.read()
    assert {note.kind for note in reader.notes} <= set(KINDS)


def test_full_table_of_names_is_forgotten_and_told_again(
    desk: Desk, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = desk.worker("w", "greet")
    monkeypatch.setattr(journal_module, "NAMES_MAX", 8)
    for number in range(12):
        client = desk.client(f"c{number}")
        worker.reply(only_task(client.submit("greet"), "w"))
        reader.read()
    assert [row["client"] for row in reader.tasks] == [f"c{number}" for number in range(12)]
    assert len(desk.broker.state.journal.numbers) <= 9  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("options", "trace"),
    [
        ({"traceparent": f"00-{'4bf92f3577b34da6' * 2}-00f067aa0ba902b7-01"}, "4bf92f3577b34da6" * 2),
        ({"traceparent": "nonsense"}, ""),
        ({"traceparent": 5}, ""),
        ({"other": 1}, ""),
    ],
)
def test_trace_is_taken_from_the_tasks_options(options: dict[str, object], trace: str) -> None:
    assert journal_module.trace_of(msgspec.msgpack.encode(options)) == trace


def test_options_that_are_no_map_have_no_trace() -> None:
    assert journal_module.trace_of(b"traceparent \xff\xff") == ""
