"""Wherever the pipeline dies, the next run leaves every table with every task once.

A reader of another kind looks at the tables all the time. What it sees of any table is always a number of whole
batches, and never less than before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from scale0.telemetry.place import Place
from scale0_pipeline.jobs.backfill import BACKFILL, backfill
from scale0_pipeline.jobs.compaction import compact
from scale0_pipeline.jobs.writer import Writer
from scale0_pipeline.tables import crash_points
from scale0_pipeline.tables.crash_points import (
    AFTER_FIRST_COMMIT,
    AFTER_LAST_COMMIT,
    AFTER_WRITE,
    BEFORE_WRITE,
    IN_BACKFILL,
    IN_COMPACTION,
    IN_DERIVE,
)
from scale0_pipeline.tables.lease import Lease
from tests.pipeline.jobs.reader import Reader
from tests.pipeline.jobs.world import APPENDED, DERIVED, add_segment, advance, all_at, totals, work

pytestmark = pytest.mark.spark

MONDAY = date(2026, 1, 5)


class Crash(Exception):
    """Here it ended."""


@pytest.fixture
def crash_at() -> Iterator[Callable[[str], None]]:
    """Die at a point, once."""

    def arm(point: str) -> None:
        def hook(reached: str) -> None:
            if reached == point:
                crash_points.hook = None
                raise Crash(point)

        crash_points.hook = hook

    yield arm
    crash_points.hook = None


def test_after_a_crash_anywhere_nothing_is_lost_and_nothing_is_twice(
    spark: SparkSession, tmp_path: Path, crash_at: Callable[[str], None]
) -> None:
    place = Place(tmp_path)
    points = (BEFORE_WRITE, AFTER_WRITE, AFTER_FIRST_COMMIT, AFTER_LAST_COMMIT, IN_DERIVE)
    with Reader(place) as reader:
        for number, point in enumerate(points, 1):
            add_segment(place, "eu-1", number * 100 - 99, number * 100)
            crash_at(point)
            with pytest.raises(Crash):
                work(spark, place, advance)
            work(spark, place, advance)
            assert totals(place) == all_at(number * 100), point
        crash_at(IN_COMPACTION)
        with pytest.raises(Crash):
            work(spark, place, compact)
        work(spark, place, compact)
        crash_at(IN_BACKFILL)
        with pytest.raises(Crash):
            work(spark, place, lambda writer: backfill(writer, MONDAY), BACKFILL)
        work(spark, place, lambda writer: backfill(writer, MONDAY), BACKFILL)
    assert totals(place) == all_at(len(points) * 100)
    reader.check(100, len(points) * 100)


def test_a_writer_that_was_taken_for_dead_adds_nothing_to_what_the_next_one_did(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path)
    add_segment(place, "eu-1", 1, 100)
    old = Lease(place)
    old.acquire()
    sleeper = Writer(spark, place, old, APPENDED, DERIVED)

    def meanwhile(point: str) -> None:
        """While the first one sleeps, with its files written, another one does the whole work."""
        if point == crash_points.AFTER_WRITE:
            crash_points.hook = None
            old.release()
            add_segment(place, "eu-1", 101, 150)
            work(spark, place, advance)

    crash_points.hook = meanwhile
    try:
        with pytest.raises(Exception, match="taken the lease"):
            advance(sleeper)
    finally:
        crash_points.hook = None
    assert totals(place) == all_at(150)
