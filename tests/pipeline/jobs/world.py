"""A small world for the jobs' tests: segments of made-up tasks, and a registry of four tables.

The tables are as simple as tables can be and still be told apart: rows, sums of them, and sums of sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from scale0.telemetry import catalogue
from scale0.telemetry.catalogue import Entry
from scale0.telemetry.place import Place
from scale0.telemetry.segments import write_segment
from scale0_pipeline.jobs.derive import Deriver
from scale0_pipeline.jobs.writer import Writer
from scale0_pipeline.tables.delta import Table
from scale0_pipeline.tables.lease import Lease
from scale0_pipeline.tables.log import PIPELINE
from scale0_pipeline.transforms import bronze, silver
from scale0_pipeline.transforms.registry import Appended, Copied, Derived, Growing
from scale0_pipeline.transforms.window import Window, floor_to
from scale0_pipeline.units import MINUTE_US

DAY_US: Final = 86_400_000_000
MONDAY_US: Final = 1_767_571_200_000_000  # 5 January 2026
ROWS: Final = "silver/rows"
SUMS: Final = "facts/sums"
MINUTES: Final = "gold/minutes"
DAYS: Final = "gold/days"


def make_rows(rows: pa.Table) -> pa.Table:
    return silver.tasks(rows).select(["day", "broker", "boot", "seq", "ts_us", "service", "landed_us", "batch"])


def make_sums(rows: DataFrame) -> DataFrame:
    minute = floor_to("ts_us", MINUTE_US).alias("minute_us")
    keys = bronze.filed(rows).groupBy("day", minute, "service", "batch")
    return keys.agg(F.count("*").alias("count"), F.sum("seq").alias("seqs"))


def merge_sums(rows: DataFrame) -> DataFrame:
    keys = rows.groupBy("day", "minute_us", "service")
    sums = keys.agg(F.sum("count").alias("count"), F.sum("seqs").alias("seqs"), F.max("batch").alias("batch"))
    return sums.select("day", "minute_us", "service", "batch", "count", "seqs")


def make_minutes(inputs: Mapping[str, DataFrame], window: Window) -> DataFrame:
    rows = inputs[SUMS].where(F.col("day").isin(list(window.days)))
    return rows.groupBy("day", "minute_us").agg(F.sum("count").alias("count"), F.max("batch").alias("revision"))


def make_days(inputs: Mapping[str, DataFrame], window: Window) -> DataFrame:
    return inputs[MINUTES].groupBy("day").agg(F.sum("count").alias("count"))


APPENDED: Final = (Copied(ROWS, make_rows), Appended(SUMS, make_sums, merge_sums))
DERIVED: Final = (Derived(MINUTES, (SUMS,), make_minutes), Derived(DAYS, (MINUTES,), make_days))


def add_segment(
    place: Place,
    broker: str,
    lo: int,
    hi: int,
    *,
    boot: str = "boot",
    start_us: int = MONDAY_US,
    step_us: int = 1_000_000,
) -> Entry:
    """Tasks with the numbers `lo` to `hi`, one a second from `start_us` on by their number."""
    seqs = list(range(lo, hi + 1))
    return write_segment(
        place, events_table(broker, seqs, boot, start_us, step_us), broker, f"{boot}-{broker}", "recorder"
    )


def events_table(broker: str, seqs: list[int], boot: str, start_us: int, step_us: int) -> Any:
    times = [start_us + seq * step_us for seq in seqs]
    return pa.table(
        {
            "v": pa.array([1] * len(seqs), pa.int16()),
            "kind": ["task"] * len(seqs),
            "broker": [broker] * len(seqs),
            "boot": [f"{boot}-{broker}"] * len(seqs),
            "seq": pa.array(seqs, pa.int64()),
            "ts_us": pa.array(times, pa.int64()),
            "role": ["origin"] * len(seqs),
            "service": [f"service-{seq % 3}" for seq in seqs],
            "outcome": ["replied"] * len(seqs),
            "received_us": pa.array([time_us - 1_000 for time_us in times], pa.int64()),
        }
    )


def totals(place: Place | Path) -> dict[str, int]:
    """How many tasks each table tells of; 0 of one that is not there."""
    place = place if isinstance(place, Place) else Place(place)
    found = {}
    for name in (ROWS, SUMS, MINUTES, DAYS):
        table = Table(place, name)
        if table.delta() is None:
            found[name] = 0
        elif name == ROWS:
            found[name] = table.arrow(["seq"]).num_rows
        else:
            found[name] = sum(table.arrow(["count"])["count"].to_pylist())
    return found


def all_at(count: int) -> dict[str, int]:
    """What `totals` says when every table has the same tasks."""
    return dict.fromkeys((ROWS, SUMS, MINUTES, DAYS), count)


def work(
    spark: SparkSession,
    place: Place,
    what: Callable[[Writer], object],
    lease: str = PIPELINE,
    *,
    appended: Sequence[Growing] = APPENDED,
    derived: Sequence[Derived] = DERIVED,
) -> None:
    """What a process does with its lease, from its start on."""
    held = Lease(place, lease)
    held.acquire()
    try:
        what(Writer(spark, place, held, appended, derived))
    finally:
        held.release()


def advance(writer: Writer) -> int:
    """All that the catalogue has, as a run does it; how many derived tables were made."""
    writer.catch_up()
    writer.advance({broker: catalogue.last_number(writer.place, broker) for broker in catalogue.brokers(writer.place)})
    return Deriver(writer).derive()
