"""Rows of tasks whose lives are known: what brokers would have recorded of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from scale0 import events
from scale0.telemetry.catalogue import Entry
from scale0.telemetry.place import Place
from scale0.telemetry.segments import ARROW_SCHEMA, write_segment
from tests.pipeline.report.sample import START_US
from tests.pipeline.report.sample import write as write_table

S = 1_000_000
AT_US = START_US + 14 * 3_600 * S
NONCE = "7f3a000000000001"

Row = dict[str, Any]


def task(**changes: Any) -> Row:
    """A task that was received at 14:00, dispatched after 3 ms to w-15, and replied to after 40 ms."""
    row: Row = {column.name: None for column in events.COLUMNS}
    row.update(
        v=1, kind="task", broker="eu-1", boot="boot-1", seq=10, role="origin", service="render", client="web-1",
        nonce=NONCE, sequence=118, worker="w-15", hops=0, attempt=1, outcome="replied", code=200, weight=1,
        sent_us=AT_US - 2_000 + 50_000, client_offset_us=50_000, client_error_us=512, received_us=AT_US,
        dispatched_us=AT_US + 3_000, ts_us=AT_US + 40_000, wait_us=1_000, work_us=30_000,
        worker_us=AT_US + 38_000 - 7_000, worker_offset_us=-7_000, worker_error_us=256, free=2, queued=0, workers=4,
    )  # fmt: skip
    row.update(changes)
    return row


def attempt(worker: str | None, since_s: float, until_s: float, outcome: str = "lost", via: str | None = None) -> Row:
    times = {"dispatched_us": AT_US + round(since_s * S), "ended_us": AT_US + round(until_s * S)}
    return {"worker": worker, "via": via, "outcome": outcome, **times}


UNTOLD = {"wait_us": None, "work_us": None, "worker_us": None}


def lost_and_late() -> Row:
    """w-12 was lost after 3.4 s; the second attempt waited, and had not answered when the deadline came."""
    return task(
        attempt=2, attempts=[attempt("w-12", 0.003, 3.412)], outcome="error", code=504, ts_us=AT_US + 10 * S,
        dispatched_us=AT_US + 6_532_000, free=1, queued=3, **UNTOLD,
    )  # fmt: skip


def forwarded() -> list[Row]:
    """eu-1 forwarded it to us-1, whose clock is an hour ahead, and which had it for 20 of the 30 ms."""
    ahead = AT_US + 3_600 * S
    origin = task(via="us-1", worker=None, dispatched_us=AT_US + 5_000, ts_us=AT_US + 35_000, worker_us=None)
    relay = task(
        broker="us-1", boot="boot-2", seq=4, role="relay", worker="w-us", hops=1, received_us=ahead, sent_us=None,
        dispatched_us=ahead + 2_000, ts_us=ahead + 20_000, worker_us=ahead + 19_000, worker_offset_us=0, wait_us=1_000,
        work_us=15_000,
    )  # fmt: skip
    origin.update(wait_us=1_000, work_us=15_000)
    return [origin, relay]


def refused() -> Row:
    return task(
        outcome="refused",
        code=429,
        worker=None,
        dispatched_us=None,
        ts_us=AT_US,
        attempt=0,
        free=None,
        queued=None,
        **UNTOLD,
    )


def failed_over() -> list[Row]:
    """eu-1 settled it and died; eu-1b, which had not heard of that, settled it again."""
    again = task(broker="eu-1b", boot="boot-3", seq=7, ts_us=AT_US + 2 * S, received_us=AT_US + S)
    return [task(), again]


def note(kind: str, subject: str, what: str, at_s: float, value: int | None = None, **detail: Any) -> Row:
    row: Row = {column.name: None for column in events.COLUMNS}
    row.update(
        v=1, kind=kind, broker="eu-1", boot="boot-1", seq=900 + round(at_s), ts_us=AT_US + round(at_s * S),
        subject=subject, what=what, value=value, detail=json.dumps(detail),
    )  # fmt: skip
    return row


def seal(place: Path, rows: list[Row]) -> list[Entry]:
    """Segments of these rows, one of each run."""
    runs: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        runs.setdefault((row["broker"], row["boot"]), []).append(row)
    return [
        write_segment(Place(str(place)), pa.Table.from_pylist(some, ARROW_SCHEMA), *run, "recorder")
        for run, some in runs.items()
    ]


def file(place: Path, rows: list[Row]) -> None:
    """The rows as the tables `silver/tasks` and `silver/notes` have them."""
    write_table(place, "silver/tasks", [row for row in rows if row["kind"] == "task"])
    others = [row for row in rows if row["kind"] != "task"]
    if others:
        write_table(place, "silver/notes", others)
