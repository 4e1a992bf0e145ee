"""From frames to rows: nothing is mixed up, nothing is told twice, and what is missing is told."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from scale0.events import NEVER_S, UNKNOWN_US, Attempt, Note, Records
from scale0.telemetry import frames, segments
from scale0.telemetry.frames import Goodbye, Hello, Kind
from scale0.telemetry.unpack import Unpacker
from tests.telemetry.rows import ANCHOR_US, HELLO, NAMES, note, task, tasks


def rows_of(unpacker: Unpacker, *told: Records) -> list[dict[str, Any]]:
    table = unpacker.table([frames.encode(records) for records in told])
    return [] if table is None else plain(table)


def plain(table: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = segments.complete(table).to_pylist()
    return rows


def test_a_task_has_all_that_its_record_says() -> None:
    (row,) = rows_of(Unpacker(HELLO), Records(NAMES, [], [], [task(1)]))
    assert row == {
        "v": 1,
        "kind": "task",
        "broker": "eu-1",
        "boot": "boot-1",
        "group": "eu",
        "seq": 1,
        "ts_us": ANCHOR_US + 10_005_000,
        "role": "origin",
        "service": "echo",
        "client": "client-1",
        "nonce": "0123456789abcdef",
        "sequence": 7,
        "worker": "worker-1",
        "via": None,
        "dialect": "native",
        "epoch": 1,
        "hops": 0,
        "priority": 1,
        "attempt": 1,
        "attempts": None,
        "outcome": "replied",
        "code": 200,
        "request_bytes": 11,
        "reply_bytes": 12,
        "parts": 0,
        "config_version": "1.2.abc",
        "worker_version": None,
        "trace_id": None,
        "sent_us": ANCHOR_US + 9_999_000,
        "received_us": ANCHOR_US + 10_000_000,
        "dispatched_us": ANCHOR_US + 10_001_000,
        "worker_us": ANCHOR_US + 10_004_000,
        "wait_us": 100,
        "work_us": 2_000,
        "client_offset_us": -25,
        "worker_offset_us": None,
        "client_error_us": 16,
        "worker_error_us": None,
        "free": 3,
        "queued": 2,
        "workers": 4,
        "weight": 1,
        "subject": None,
        "what": None,
        "value": None,
        "detail": None,
    }


def test_what_is_not_known_is_null() -> None:
    undispatched = {"dispatched_s": NEVER_S, "wait_us": UNKNOWN_US, "work_us": UNKNOWN_US, "worker_us": 0, "sent_us": 0}
    (row,) = rows_of(
        Unpacker(HELLO), Records(NAMES, [], [], [task(1, worker_no=0, outcome=2, code=408, **undispatched)])
    )
    unknown = ("dispatched_us", "wait_us", "work_us", "worker_us", "sent_us", "worker", "free", "queued")
    assert [row[name] for name in unknown] == [None] * 8
    assert (row["outcome"], row["code"]) == ("error", 408)


def test_a_refused_task_tells_how_many_waited() -> None:
    (row,) = rows_of(Unpacker(HELLO), Records(NAMES, [], [], [task(1, dispatched_s=NEVER_S, outcome=3)]))
    assert (row["outcome"], row["free"], row["queued"]) == ("refused", None, 2)


def test_notes_and_tasks_stand_in_the_order_of_their_numbers() -> None:
    detail = {"a": [1, {"b": None}]}
    notes = [note(4, "gauge"), note(1, "boot", subject="eu-1", what="x", value=5, detail=detail, at_s=3.0)]
    rows = rows_of(Unpacker(HELLO), Records(NAMES, [], notes, [task(2), task(3), task(5)]))
    assert [(row["seq"], row["kind"]) for row in rows] == [
        (1, "boot"),
        (2, "task"),
        (3, "task"),
        (4, "gauge"),
        (5, "task"),
    ]
    boot = rows[0]
    assert (boot["subject"], boot["what"], boot["value"], boot["ts_us"]) == ("eu-1", "x", 5, ANCHOR_US + 3_000_000)
    assert json.loads(boot["detail"]) == detail
    told = {"v", "kind", "broker", "boot", "group", "seq", "ts_us"}
    assert {name for name, value in rows[3].items() if value is not None} == told, "a note has nothing of a task's"
    assert rows[4]["service"] == "echo"


def test_earlier_attempts_are_joined_to_their_task() -> None:
    attempts = [Attempt(3, "w2", "", 1.0, 2.0, "lost"), Attempt(3, "", "eu-2", 2.0, 3.0, "returned")]
    rows = rows_of(Unpacker(HELLO), Records(NAMES, attempts, [note(2)], [task(1), task(3)]))
    assert [row["attempts"] for row in rows[:2]] == [None, None]
    first, second = rows[2]["attempts"]
    assert first == {
        "worker": "w2",
        "via": None,
        "dispatched_us": ANCHOR_US + 1_000_000,
        "ended_us": ANCHOR_US + 2_000_000,
        "outcome": "lost",
    }
    assert (second["worker"], second["via"]) == (None, "eu-2")


def test_a_missing_number_is_a_dropped_row() -> None:
    rows = rows_of(Unpacker(HELLO), tasks(1, 2), tasks(6, 6), Records([], [], [note(9)], []))
    assert [row["seq"] for row in rows] == [1, 2, 5, 6, 8, 9]
    lost = [row for row in rows if row["kind"] == "dropped"]
    assert [(row["seq"], row["value"]) for row in lost] == [(5, 3), (8, 2)]
    assert json.loads(lost[0]["detail"]) == {"seq_lo": 3, "seq_hi": 5, "why": "dropped"}


def test_a_row_that_was_told_before_is_left_out() -> None:
    unpacker = Unpacker(Hello("eu-1", "boot-1", ANCHOR_US, seq=2))
    assert [row["seq"] for row in rows_of(unpacker, tasks(1, 3), Records([], [], [note(2), note(4)], []))] == [3, 4]
    assert rows_of(unpacker, tasks(1, 4)) == []
    assert [row["seq"] for row in rows_of(unpacker, tasks(3, 5))] == [5]


def test_numbers_of_names_are_void_after_the_reader_is_told_to_forget() -> None:
    before = Records(NAMES, [], [], [task(1)], is_forgetting=True)
    after = Records([(1, "other-service"), (2, "c")], [], [], [task(2, worker_no=0, dialect_no=0, config_version_no=0)])
    rows = rows_of(Unpacker(HELLO), before, after)
    assert [row["service"] for row in rows] == ["echo", "other-service"]
    assert [row["client"] for row in rows] == ["client-1", "c"]


def test_a_name_that_was_never_told_is_another() -> None:
    rows = rows_of(Unpacker(HELLO), Records([(1, "echo")], [], [], [task(1), task(2, service_no=4_000_000)]))
    assert [row["client"] for row in rows] == ["other", "other"]
    assert [row["service"] for row in rows] == ["echo", "other"]


def test_rows_after_the_clock_was_set_have_the_new_time() -> None:
    unpacker = Unpacker(HELLO)
    anchor = Note(2, 10.0, "anchor", value=7_000_000)
    rows = rows_of(unpacker, Records(NAMES, [], [anchor], [task(1), task(3)]))
    assert [row["ts_us"] - ANCHOR_US for row in rows] == [10_005_000, 17_000_000, 17_005_000]
    assert rows[2]["received_us"] - ANCHOR_US == 17_000_000, "durations of one row stay what they were"
    assert rows_of(unpacker, Records([], [], [], [task(4)]))[0]["ts_us"] - ANCHOR_US == 17_005_000


def test_a_hello_on_the_way_sets_the_clock() -> None:
    unpacker = Unpacker(HELLO)
    chunks = [
        frames.encode(tasks(1, 1)),
        frames.frame(Kind.HELLO, Hello("eu-1", "boot-1", ANCHOR_US + 5, "eu")),
        frames.encode(Records([], [], [], [task(2)])),
    ]
    rows = plain(unpacker.table(chunks))
    assert rows[1]["ts_us"] - ANCHOR_US == 10_005_005
    assert rows[1]["service"] == "echo"


def test_a_goodbye_is_the_last_row_and_tells_what_is_missing() -> None:
    unpacker = Unpacker(HELLO)
    chunks = [frames.encode(tasks(1, 2)), frames.frame(Kind.GOODBYE, Goodbye(4, 11.0))]
    rows = plain(unpacker.table(chunks))
    assert [(row["seq"], row["kind"], row["value"]) for row in rows[2:]] == [(4, "dropped", 2), (5, "boot_end", 4)]
    assert json.loads(rows[3]["detail"]) == {"clean": True}
    assert unpacker.is_over
    assert unpacker.table(chunks) is None, "told again it is no news"


def test_a_reader_that_begins_with_the_preamble_knows_what_the_other_knew() -> None:
    first = Unpacker(HELLO)
    rows_of(first, Records(NAMES, [], [Note(1, 1.0, "anchor", value=9)], []))
    ((_, hello), (_, names)) = frames.split(first.preamble())
    second = Unpacker(frames.read_hello(hello))
    assert second.seq == 1
    assert frames.read_names(names) == NAMES
    chunks = [first.preamble(), frames.encode(Records([], [], [], [task(1), task(2)]))]
    rows = plain(second.table(chunks))
    assert [(row["seq"], row["service"], row["ts_us"] - ANCHOR_US) for row in rows] == [(2, "echo", 10_005_009)]


def test_sampled_tasks_weigh_as_much_as_all() -> None:
    unpacker = Unpacker(HELLO, {"echo": 10})
    rows = rows_of(unpacker, Records(NAMES, [], [note(1)], []), tasks(2, 101, received_s=10.0))
    sampled = [row for row in rows if row["kind"] == "task"]
    assert sum(row["weight"] for row in sampled) == 100
    assert len(sampled) < 15
    assert not [row for row in rows if row["kind"] == "dropped"], "what is sampled out is not lost"
    assert unpacker.seq == 101


@given(
    kinds=st.lists(st.sampled_from(["task", "note", "lost"]), min_size=1, max_size=30),
    cuts=st.lists(st.integers(0, 30), max_size=4),
)
def test_every_number_is_a_row_or_told_as_lost(kinds: list[str], cuts: list[int]) -> None:
    told = [Records(NAMES, [], [], [])]
    for seq, kind in enumerate(kinds, 1):
        if seq - 1 in cuts:
            told.append(Records([], [], [], []))
        if kind == "task":
            told[-1].tasks += [task(seq)]
        elif kind == "note":
            told[-1].notes.append(note(seq))
    rows = rows_of(Unpacker(HELLO), *told)
    covered: list[int] = []
    for row in rows:
        lost = row["value"] if row["kind"] == "dropped" else 1
        covered += range(row["seq"] - lost + 1, row["seq"] + 1)
    last = max([seq for seq, kind in enumerate(kinds, 1) if kind != "lost"], default=0)
    assert covered == list(range(1, last + 1))


def test_the_schema_is_the_same_whatever_the_rows_are() -> None:
    with_all = Unpacker(HELLO).table([frames.encode(Records(NAMES, [], [note(2)], [task(1)]))])
    of_notes = Unpacker(HELLO).table([frames.encode(Records([], [], [note(1)], []))])
    assert with_all is not None
    assert of_notes is not None
    assert with_all.schema == of_notes.schema
    assert pa.concat_tables([with_all, of_notes]).num_rows == 3
