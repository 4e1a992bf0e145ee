"""A backfill makes the same rows as the stream did, while the stream goes on."""

from __future__ import annotations

from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from scale0.telemetry.place import Place
from scale0_pipeline.errors import NothingRecorded, PipelineError
from scale0_pipeline.jobs.backfill import BACKFILL, backfill
from scale0_pipeline.jobs.compaction import compact
from scale0_pipeline.tables import crash_points
from scale0_pipeline.tables.delta import Table
from tests.pipeline.jobs.world import (
    DAY_US,
    DAYS,
    MINUTES,
    MONDAY_US,
    ROWS,
    SUMS,
    add_segment,
    advance,
    all_at,
    totals,
    work,
)

pytestmark = pytest.mark.spark

MONDAY = date(2026, 1, 5)


def rows(place: Place, name: str) -> Counter[tuple[Any, ...]]:
    """All rows of a table, whatever their order."""
    table = Table(place, name).arrow()
    columns = sorted(table.column_names)
    return Counter(zip(*(table[column].to_pylist() for column in columns), strict=True))


def sums(place: Place) -> Counter[tuple[Any, ...]]:
    """Partial sums, added up."""
    added: Counter[tuple[Any, ...]] = Counter()
    for row in Table(place, SUMS).arrow().to_pylist():
        added[row["day"], row["minute_us"], row["service"]] += row["count"]
    return added


@pytest.mark.slow
@pytest.mark.timeout(900)  # minutes, where the machine has other work
def test_a_backfill_equals_the_stream_row_for_row_while_the_stream_runs(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path)
    # Two days, a segment that overlaps, one that comes twice, and late rows.
    add_segment(place, "eu-1", 1, 100)
    add_segment(place, "eu-2", 1, 50, start_us=MONDAY_US + DAY_US)
    work(spark, place, advance)
    add_segment(place, "eu-1", 60, 160)
    add_segment(place, "eu-1", 1, 100)
    work(spark, place, advance)
    add_segment(place, "eu-3", 1, 30)
    work(spark, place, advance)
    before, sums_before = rows(place, ROWS), sums(place)
    assert totals(place) == all_at(240)

    def stream(point: str) -> None:
        """A late batch for the same day comes in the middle, and its files are merged across the line."""
        if point == crash_points.IN_BACKFILL:
            crash_points.hook = None
            add_segment(place, "eu-3", 31, 40)
            work(spark, place, lambda writer: (advance(writer), compact(writer)))

    crash_points.hook = stream
    try:
        work(spark, place, lambda writer: backfill(writer, MONDAY), BACKFILL)
    finally:
        crash_points.hook = None
    after = rows(place, ROWS)
    assert before <= after
    late = after - before
    assert (late.total(), {row[0] for row in late}) == (10, {4})
    assert (sums(place) - sums_before).total() == 10
    assert totals(place) == all_at(250)

    streamed = {name: rows(place, name) for name in (MINUTES, DAYS)}
    work(spark, place, lambda writer: backfill(writer, MONDAY), BACKFILL)
    assert rows(place, ROWS) == after
    assert {name: rows(place, name) for name in (MINUTES, DAYS)} == streamed


def test_a_day_whose_segments_are_gone_is_left_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path)
    entry = add_segment(place, "eu-1", 1, 100)
    work(spark, place, advance)
    place.delete(entry.path)
    with pytest.raises(PipelineError, match="1 segments of 2026-01-05 are gone"):
        work(spark, place, lambda writer: backfill(writer, MONDAY), BACKFILL)
    with pytest.raises(NothingRecorded, match="2026-01-09"):
        work(spark, place, lambda writer: backfill(writer, date(2026, 1, 9)), BACKFILL)
    assert totals(place) == all_at(100)
