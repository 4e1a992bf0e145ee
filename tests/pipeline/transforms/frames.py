"""Small frames: one row that is right in every column, and what differs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from scale0.telemetry.segments import ARROW_SCHEMA
from scale0_pipeline.schema import EVENTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SECOND_US = 1_000_000
HOUR_US = 3_600 * SECOND_US
DAY_US = 24 * HOUR_US
DAY = date(2026, 3, 3)
START_US = int(datetime(2026, 3, 3, tzinfo=UTC).timestamp()) * SECOND_US
BATCH = 7

TASK: dict[str, Any] = {
    "v": 1,
    "kind": "task",
    "broker": "eu-1",
    "boot": "boot-1",
    "role": "origin",
    "service": "score",
    "client": "ann",
    "nonce": "00",
    "worker": "w-1",
    "attempt": 1,
    "outcome": "replied",
    "code": 200,
    "request_bytes": 10,
    "reply_bytes": 20,
    "epoch": 1,
    "config_version": "1.1",
    "wait_us": 100,
    "work_us": 5_000,
    "weight": 1,
}


def task(seq: int, ts_us: int, **other: Any) -> dict[str, Any]:
    """A task's row: 6,000 µs from received to settled, 500 of them in the queue and 400 on the way."""
    times = {"received_us": ts_us - 6_000, "dispatched_us": ts_us - 5_500, "sequence": seq}
    return {**TASK, "seq": seq, "ts_us": ts_us, **times, **other}


def note(seq: int, ts_us: int, kind: str, **other: Any) -> dict[str, Any]:
    """Any other row; `detail` is given as a dictionary."""
    detail = other.pop("detail", None)
    base = {"v": 1, "kind": kind, "broker": "eu-1", "boot": "boot-1", "seq": seq, "ts_us": ts_us}
    return {**base, "detail": None if detail is None else msgspec.json.encode(detail).decode(), **other}


def bronze(spark: SparkSession, rows: Iterable[dict[str, Any]], landed_us: int | None = None) -> DataFrame:
    """Rows of one batch."""
    from scale0_pipeline.transforms.bronze import event_schema, landed

    names = [field.name for field in EVENTS]
    values = [tuple(row.get(name) for name in names) for row in rows]
    return landed(spark.createDataFrame(values, event_schema()), BATCH, landed_us)


def table(rows: Iterable[dict[str, Any]], landed_us: int | None = None) -> pa.Table:
    """The same, for Arrow."""
    columns = pa.Table.from_pylist(list(rows), ARROW_SCHEMA)
    for name, value in (("batch", BATCH), ("landed_us", landed_us)):
        columns = columns.append_column(name, pa.array([value] * columns.num_rows, pa.int64()))
    return columns


def dicts(frame: DataFrame) -> list[dict[str, Any]]:
    """A frame's rows."""
    return [row.asDict(recursive=True) for row in frame.collect()]
