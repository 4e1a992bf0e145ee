"""Generated days: the same for the same seed, whole where they should be, and with every fault that is promised."""

from __future__ import annotations

from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scale0 import events
from scale0.telemetry import catalogue
from scale0.telemetry.place import Place
from scale0.telemetry.segments import ARROW_SCHEMA
from scale0_pipeline.errors import PipelineError
from scale0_pipeline.generate import Summary, generate
from scale0_pipeline.generate.lines import BAD, lines

UNTIL = date(2026, 3, 4)


def _entries(place: Place) -> list[catalogue.Entry]:
    return [entry for broker in catalogue.brokers(place) for entry in catalogue.read(place, broker)]


def _rows(place: Place) -> list[dict[str, Any]]:
    tables = [pq.read_table(pa.BufferReader(place.read_bytes(entry.path))) for entry in _entries(place)]
    assert all(table.schema.equals(ARROW_SCHEMA) for table in tables)
    return [row for table in tables for row in table.to_pylist()]


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, Summary, list[dict[str, Any]]]:
    place = Place(tmp_path_factory.mktemp("generated"))
    summary = generate(place.url, 3_000, 1, seed=5, until=UNTIL)
    return place, summary, _rows(place)


def test_the_same_seed_gives_the_same_rows(day: tuple[Place, Summary, list[dict[str, Any]]], tmp_path: Path) -> None:
    _place, summary, rows = day
    again = Place(tmp_path)
    assert generate(again.url, 3_000, 1, seed=5, until=UNTIL) == summary
    assert _rows(again) == rows


def test_rows_are_in_the_vocabulary(day: tuple[Place, Summary, list[dict[str, Any]]]) -> None:
    _place, summary, rows = day
    assert {row["kind"] for row in rows} <= set(events.KINDS)
    tasks = [row for row in rows if row["kind"] == "task"]
    assert {row["outcome"] for row in tasks} == set(events.OUTCOMES)
    assert {row["role"] for row in tasks} == set(events.ROLES)
    assert all(row["received_us"] <= row["ts_us"] for row in tasks)
    assert all(summary.from_us <= row["ts_us"] < summary.to_us for row in rows)


def test_every_fault_is_in_the_record(day: tuple[Place, Summary, list[dict[str, Any]]]) -> None:
    place, summary, rows = day
    keys = Counter((row["broker"], row["boot"], row["seq"]) for row in rows)
    assert sum(count - 1 for count in keys.values()) == summary.repeated > 0
    assert len(keys) == summary.rows
    settled = Counter(
        (row["client"], row["sequence"])
        for row in {(row["broker"], row["boot"], row["seq"]): row for row in rows}.values()
        if row["role"] == "origin" and row["outcome"] != "refused"
    )
    assert sum(count - 1 for count in settled.values()) == summary.doubled > 0
    assert summary.crashed > 0
    assert summary.dropped > 0
    assert {429, 408, 502, 404} <= {row["code"] for row in rows if row["kind"] == "task"}
    assert any(row["attempts"] for row in rows)
    late = [entry for entry in catalogue.read(place, "us-1") if entry.number > 1]
    assert [entry.seq_lo for entry in late] != sorted(entry.seq_lo for entry in late)


def test_without_faults_nothing_is_missing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    summary = generate(place.url, 500, 2, seed=1, until=UNTIL, with_faults=False)
    rows = _rows(place)
    assert (summary.doubled, summary.dropped, summary.crashed, summary.repeated) == (0, 0, 0, 0)
    for broker in catalogue.brokers(place):
        seqs = [row["seq"] for row in rows if row["broker"] == broker]
        assert seqs == list(range(1, len(seqs) + 1))
    assert sum(row["kind"] == "task" for row in rows) == summary.tasks == 500


def test_nothing_is_not_generated(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="at least one event"):
        generate(str(tmp_path), 0, 1, seed=1)


def test_progress_is_told_to_the_end(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    generate(str(tmp_path), 200, 1, 1, lambda what, done, of: told.append((what, done, of)), until=UNTIL)
    assert told[-1] == ("generate", 200, 200)


def test_one_line_in_ten_is_no_event() -> None:
    made = list(lines(100, seed=1, from_us=1_772_500_000_000_000))
    assert made == list(lines(100, seed=1, from_us=1_772_500_000_000_000))
    assert sum(line in BAD for line in made) == 10
    assert {line for line in made if line in BAD} == set(BAD)
    good = [msgspec.json.decode(line) for line in made if line not in BAD]
    assert set(good[0]) <= {column.name for column in events.COLUMNS}
