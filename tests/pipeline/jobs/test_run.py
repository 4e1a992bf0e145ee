"""Whole runs: that catch up, and through Spark's streaming."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from scale0.telemetry import catalogue
from scale0.telemetry.place import Place
from scale0.telemetry.segments import write_segment
from scale0_pipeline import compiling
from scale0_pipeline.errors import LeaseHeld, NothingRecorded
from scale0_pipeline.jobs import run
from scale0_pipeline.jobs.compaction import sweep
from scale0_pipeline.tables import crash_points
from scale0_pipeline.tables.delta import Table
from scale0_pipeline.tables.lease import Lease
from scale0_pipeline.transforms import bronze
from scale0_pipeline.transforms.registry import Appended, Copied, Derived, Window
from tests.pipeline.jobs.world import (
    APPENDED,
    DAY_US,
    DERIVED,
    MINUTES,
    MONDAY_US,
    ROWS,
    SUMS,
    add_segment,
    advance,
    all_at,
    events_table,
    make_rows,
    totals,
    work,
)

pytestmark = pytest.mark.spark

TABLES: Mapping[str, Any] = {"appended": APPENDED, "derived": DERIVED}

RUNS_ONCE = """
import sys
from scale0_pipeline.jobs import run
from scale0_pipeline.session import spark_session
from tests.pipeline.jobs.world import APPENDED, DERIVED
spark_session("local[2]", is_test=True)
run.once(sys.argv[1], appended=APPENDED, derived=DERIVED)
"""


def wait_until(is_so: Callable[[], bool], *, while_alive: threading.Thread) -> None:
    """Look again and again; the test's own limit ends it."""
    pause = threading.Event()
    while not is_so():
        assert while_alive.is_alive()
        pause.wait(0.05)


def test_a_run_catches_up_without_a_stream_and_the_next_one_goes_on_where_it_ended(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path)
    add_segment(place, "eu-1", 1, 100)
    add_segment(place, "eu/2", 1, 50, start_us=MONDAY_US + DAY_US)
    first = run.once(place.url, **TABLES)
    assert (first.batches, first.rows, first.last_batch) == (1, 150, 1)
    assert totals(place) == all_at(150)
    assert catalogue.consumers(place)["pipeline"].position == {"eu-1": 1, "eu/2": 1}

    assert not (tmp_path / "pipeline" / "checkpoint").exists()
    add_segment(place, "eu-1", 51, 120)
    again = run.once(place.url, **TABLES)
    assert (again.batches, again.last_batch) == (1, 2)
    assert totals(place) == all_at(170)
    idle = run.once(place.url, **TABLES)
    assert (idle.batches, idle.derived, idle.last_batch) == (0, 0, 2)


def test_a_late_row_raises_its_days_revision_and_touches_no_other_day(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path)
    add_segment(place, "eu-1", 1, 10)
    add_segment(place, "eu-2", 1, 10, start_us=MONDAY_US + DAY_US)
    work(spark, place, advance)
    before = {file.path for file in Table(place, MINUTES).files()}
    add_segment(place, "eu-1", 11, 12)
    work(spark, place, advance)
    table = Table(place, MINUTES)
    assert [row["revision"] for row in sorted(table.arrow().to_pylist(), key=lambda row: row["day"])] == [2, 1]
    assert len(before & {file.path for file in table.files()}) == 1


def test_old_and_new_brokers_are_read_in_one_run_and_a_table_gains_a_column(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path)
    old = events_table("eu-1", [1, 2, 3], "boot", MONDAY_US, 1)
    write_segment(
        place, old.select(["kind", "broker", "boot", "seq", "ts_us", "service"]), "eu-1", "boot-eu-1", "recorder"
    )
    run.once(place.url, **TABLES)

    new = old.append_column("later", pa.array(["x"] * 3)).set_column(4, "seq", pa.array([4, 5, 6], pa.int64()))
    pa.parquet.write_table(new, tmp_path / "segments" / "eu-1" / "boot-eu-1-4-6.parquet")
    entry = catalogue.get(place, "eu-1", 1)
    assert entry is not None
    later = msgspec.structs.replace(entry, path="segments/eu-1/boot-eu-1-4-6.parquet", seq_lo=4, seq_hi=6)
    catalogue.append(place, later)

    def wider(rows: pa.Table) -> pa.Table:
        made = make_rows(rows)
        return made.append_column("twice", pc.multiply(made["seq"], 2))

    def bigger(rows: DataFrame) -> DataFrame:
        return bronze.filed(rows).select("day", "seq", "batch")

    # A new version brings a wider table and a new one, over tables that are there.
    appended = (Copied(ROWS, wider), APPENDED[1], Appended("silver/new", bigger))
    work(spark, place, advance, appended=appended)
    assert totals(place) == all_at(6)
    rows = {row["seq"]: row["twice"] for row in Table(place, ROWS).arrow().to_pylist()}
    assert rows == {1: None, 2: None, 3: None, 4: 8, 5: 10, 6: 12}
    caught_up = {(row["seq"], row["batch"]) for row in Table(place, "silver/new").arrow().to_pylist()}
    assert caught_up == {(1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (6, 2)}

    # And after a rollback the older version goes on.
    add_segment(place, "eu-1", 7, 8)
    work(spark, place, advance)
    assert totals(place) == all_at(8)


def test_a_session_that_somebody_else_has_started_stays_as_it_is(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[SparkSession] = []
    monkeypatch.setattr(compiling, "be_brief", told.append)
    place = Place(tmp_path)
    add_segment(place, "eu-1", 1, 5)
    assert run.once(place.url, **TABLES).rows == 5
    assert not told, "what else it does may last"


def test_a_gap_and_a_segment_that_is_gone_are_told_and_stop_nothing(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path)
    gone = add_segment(place, "eu-1", 1, 10)
    place.delete(gone.path)
    catalogue.append(place, msgspec.structs.replace(gone, path="", gap=True))
    add_segment(place, "eu-1", 11, 15)

    def notes(rows: DataFrame) -> DataFrame:
        told = bronze.filed(rows).where(F.col("kind") == "dropped")
        return told.select("day", "broker", "value", "detail", "batch")

    work(spark, place, advance, appended=(*APPENDED, Appended("silver/notes", notes)))
    (note,) = Table(place, "silver/notes").arrow().to_pylist()
    assert (note["value"], note["detail"]) == (10, '{"seq_lo":1,"seq_hi":10,"why":"forced"}')
    assert totals(place) == {**all_at(6), ROWS: 5}, "five tasks, and the row that tells of the gap"


def test_a_stream_keeps_the_tables_fresh_and_holds_the_lease(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path)
    stop = threading.Event()
    summaries: list[run.Summary] = []
    thread = threading.Thread(
        target=lambda: summaries.append(run.follow(place.url, stop=stop, interval_s=0.2, **TABLES))
    )
    thread.start()
    try:
        for number in range(1, 4):
            add_segment(place, "eu-1", number * 10 - 9, number * 10)
            wait_until(lambda count=number * 10: totals(place) == all_at(count), while_alive=thread)  # type: ignore[misc]
        with pytest.raises(LeaseHeld, match=f"process {os.getpid()} on"):
            run.once(place.url, **TABLES)
    finally:
        stop.set()
        thread.join()
    assert (summaries[0].rows, summaries[0].last_batch) == (30, 3)
    assert Lease(place).holder().is_released  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_snapshot_is_replaced_as_a_whole_and_a_table_that_may_wait_is_made_at_the_end(
    spark: SparkSession, tmp_path: Path
) -> None:
    def newest(inputs: Mapping[str, DataFrame], window: Window) -> DataFrame:
        return inputs[SUMS].agg(F.sum("count").alias("count"), F.countDistinct("day").alias("days"))

    place = Place(tmp_path)
    snapshot = Derived("gold/newest", (SUMS,), newest, lookback_days=1, is_snapshot=True, refresh_s=600)
    for day in range(3):
        add_segment(place, "eu-1", day * 10 + 1, day * 10 + 10, start_us=MONDAY_US + day * DAY_US)
        work(spark, place, advance, derived=(*DERIVED, snapshot))
    table = Table(place, "gold/newest", is_by_day=False)
    assert table.arrow().to_pylist() == [{"count": 20, "days": 2}]


def test_compaction_merges_closed_days_and_deletes_what_nobody_needs(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path)
    for number in range(1, 4):
        add_segment(place, "eu-1", number * 10 - 9, number * 10)
        work(spark, place, advance)
    assert len(Table(place, SUMS).files()) == 3
    assert run.compact(place.url, **TABLES).merged == 2
    (file,) = Table(place, SUMS).files()
    assert (file.batch_lo, file.batch_hi, file.rows) == (1, 3, 3), "partial sums of one key have become one"
    assert totals(place) == all_at(30)
    assert len(sweep(Table(place, SUMS), readers_h=0, orphans_h=0)) == 3
    assert len(list((tmp_path / "tables" / "facts" / "sums").glob("written=*"))) == 1
    assert totals(place) == all_at(30)
    made: list[int] = []
    work(spark, place, lambda writer: made.append(advance(writer)))
    assert made == [0], "a merge changes no day"


def test_a_place_without_segments_says_what_comes_first(tmp_path: Path) -> None:
    with pytest.raises(NothingRecorded, match="telemetry"):
        run.once(str(tmp_path), **TABLES)


def test_a_stream_that_ends_before_its_checkpoint_is_told_in_its_own_words_and_nothing_is_done_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path)
    add_segment(place, "eu-1", 1, 10)

    def fail(point: str) -> None:
        if point == crash_points.BEFORE_CHECKPOINT:
            raise ZeroDivisionError("the disk has no bottom")

    crash_points.hook = fail
    try:
        with pytest.raises(ZeroDivisionError, match="no bottom"):
            run.follow(place.url, stop=threading.Event(), interval_s=0.1, **TABLES)
    finally:
        crash_points.hook = None
    assert run.once(place.url, **TABLES).batches == 0
    assert totals(place) == all_at(10)


@pytest.mark.slow
@pytest.mark.timeout(900)  # minutes, where the machine has other work
def test_a_process_that_is_killed_leaves_work_that_the_next_one_ends(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path)
    for number in range(1, 4):
        add_segment(place, f"eu-{number}", 1, 100)
    killed = kill_at(place, crash_points.AFTER_FIRST_COMMIT)
    assert killed.returncode == -9
    halfway = totals(place)
    assert (halfway[ROWS], halfway[MINUTES]) == (300, 0)
    run.once(place.url, **TABLES)
    assert totals(place) == all_at(300)


def kill_at(place: Place, point: str) -> subprocess.CompletedProcess[bytes]:
    """A run that ends at a crash point as `kill -9` ends it."""
    root = Path(__file__).parents[3]
    environment = {**os.environ, crash_points.VARIABLE: point, "PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}"}
    return subprocess.run(
        [sys.executable, "-c", RUNS_ONCE, place.url], env=environment, cwd=root, check=False, capture_output=True
    )
