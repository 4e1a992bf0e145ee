"""Copies: each row that is new, once, in a file of its day; and nothing that an attempt left behind."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from scale0.telemetry.catalogue import Entry
from scale0.telemetry.place import Place
from scale0_pipeline.jobs import copies
from scale0_pipeline.jobs.copies import Source, Target
from scale0_pipeline.tables.delta import Stamp, Table
from scale0_pipeline.tables.plans import Piece, Plan
from scale0_pipeline.transforms import silver
from scale0_pipeline.transforms.registry import APPENDED, Copied
from tests.pipeline.jobs.world import DAY_US, MONDAY_US, add_segment, make_rows

MONDAY, TUESDAY = date(2026, 1, 5), date(2026, 1, 6)
NAME = "silver/tasks"


def piece(entry: Entry, *keep: tuple[int, int], size: int = 1) -> Piece:
    return Piece(entry.path, entry.broker, entry.boot, entry.seq_lo, entry.seq_hi, entry.rows, size, 0, 0, list(keep))


def target(place: Place, day: date | None = None) -> Target:
    return Target(place.url, f"tables/{NAME}", "written=000000000001-000000000001-ab", day)


def rows_in(place: Place, path: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(place.path(f"tables/{NAME}", path)).to_pylist()
    return rows


def test_a_segment_that_reaches_into_the_next_day_becomes_a_file_for_each(tmp_path: Path) -> None:
    place = Place(tmp_path)
    entry = add_segment(place, "eu-1", 1, 10, start_us=MONDAY_US + DAY_US - 6_000_000)
    source = Source(piece(entry), 1, MONDAY_US + 2 * DAY_US)
    found = copies.copy(target(place), make_rows, [source])
    seqs = {file.day: [row["seq"] for row in rows_in(place, file.path)] for file in found}
    assert seqs == {MONDAY: [1, 2, 3, 4, 5], TUESDAY: [6, 7, 8, 9, 10]}
    assert [(file.rows, file.size) for file in found] == [
        (5, place.size(f"tables/{NAME}", file.path)) for file in found
    ]
    (only,) = copies.copy(target(place, TUESDAY), make_rows, [source])
    assert (only.day, only.rows) == (TUESDAY, 5)


def test_of_a_segment_that_overlaps_only_what_is_new_is_taken(tmp_path: Path) -> None:
    place = Place(tmp_path)
    entry = add_segment(place, "eu-1", 1, 10)
    (file,) = copies.copy(target(place), make_rows, [Source(piece(entry, (2, 3), (7, 7), (10, 12)), 4, MONDAY_US)])
    assert [(row["seq"], row["batch"]) for row in rows_in(place, file.path)] == [(2, 4), (3, 4), (7, 4), (10, 4)]


def test_every_segment_is_in_one_part_and_parts_are_alike(tmp_path: Path) -> None:
    entry = add_segment(Place(tmp_path), "eu-1", 1, 1)
    sources = [Source(piece(entry, size=size), number, 0) for number, size in enumerate([9, 1, 1, 1, 4, 4, 8, 2])]
    parts = copies.in_parts(sources, 3)
    assert [source for part in parts for source in part] == sources
    assert [sum(source.piece.bytes for source in part) for part in parts] == [10, 10, 10]
    assert copies.in_parts([], 3) == []


def test_a_table_can_be_read_by_the_names_and_types_of_its_contract(tmp_path: Path) -> None:
    place = Place(tmp_path)
    entry = add_segment(place, "eu-1", 1, 3)
    (file,) = copies.copy(target(place), silver.tasks, [Source(piece(entry), 1, MONDAY_US)])
    stored = pq.read_schema(place.path(f"tables/{NAME}", file.path))
    assert not [field for field in stored if pa.types.is_dictionary(field.type)], "readers know strings"
    assert [one.name for one in APPENDED if isinstance(one, Copied)] == [NAME]


@pytest.mark.spark
def test_what_a_task_that_failed_has_written_is_not_counted(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path / "data")
    pieces = [piece(add_segment(place, "eu-1", lo, lo + 9)) for lo in (1, 11, 21)]
    was_here = tmp_path / "was-here"

    def fails_once(rows: pa.Table) -> pa.Table:
        made = make_rows(rows)
        if 15 in made["seq"].to_pylist() and not was_here.exists():
            was_here.touch()
            raise OSError("the disk is full")
        return made

    table = Table(place, NAME)
    written = copies.write(spark, table, fails_once, [Plan(1, 1, MONDAY_US, {}, pieces, {})], (1, 1))
    assert table.append(written, Stamp("scale0", 1))
    assert was_here.exists(), "one attempt did fail"
    assert sorted(table.arrow(["seq"])["seq"].to_pylist()) == list(range(1, 31))
