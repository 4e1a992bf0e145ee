"""Names of data files tell what is in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from scale0.telemetry.place import Place
from scale0_pipeline.errors import PipelineError
from scale0_pipeline.tables.delta import Table
from scale0_pipeline.tables.files import batches_of, day_of, new_directory
from tests.pipeline.tables.parquet import MONDAY, TUESDAY, write


def test_a_directory_tells_its_batches_and_is_never_used_twice() -> None:
    directory = new_directory(3, 12)
    assert batches_of(f"{directory}/day=2026-01-05/part-0.parquet") == (3, 12)
    assert directory != new_directory(3, 12)


def test_a_file_of_somebody_else_has_no_batches() -> None:
    assert batches_of("day=2026-01-05/part-0.parquet") == (0, 0)
    assert batches_of("written=yesterday/part-0.parquet") == (0, 0)


def test_a_row_without_a_day_is_refused() -> None:
    assert day_of("written=1-1-a/day=2026-01-05/x.parquet") == MONDAY
    assert day_of("written=1-1-a/x.parquet") is None
    with pytest.raises(PipelineError, match="no day"):
        day_of("written=1-1-a/day=__HIVE_DEFAULT_PARTITION__/x.parquet")


def test_what_was_written_is_found_with_its_rows_and_without_checksums(tmp_path: Path) -> None:
    table = Table(Place(tmp_path), "facts/numbers")
    found = write(table, {MONDAY: [1, 2], TUESDAY: [3], MONDAY.replace(day=7): []}, 4).files
    assert [(file.day, file.rows, file.batch_lo, file.batch_hi) for file in found] == [
        (MONDAY, 2, 4, 4),
        (TUESDAY, 1, 4, 4),
    ]
    assert not list(tmp_path.rglob("*.crc"))
