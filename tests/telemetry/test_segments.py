"""Segments: sealed, verified, and told to the catalogue once."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scale0.events import COLUMNS
from scale0.telemetry import catalogue, segments
from scale0.telemetry.place import Place


def table(*seqs: int) -> Any:
    return pa.table(
        {
            "kind": ["task" if seq % 2 else "gauge" for seq in seqs],
            "seq": list(seqs),
            "ts_us": [seq * 10 for seq in seqs],
            "service": pa.array(["s"] * len(seqs)).dictionary_encode(),
        }
    )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_segment_is_complete_sorted_and_in_the_catalogue(place: Place) -> None:
    entry = segments.write_segment(place, table(3, 1, 2), "eu/1", "boot", "generate")
    assert (entry.number, entry.seq_lo, entry.seq_hi, entry.rows, entry.tasks) == (1, 1, 3, 3, 2)
    assert (entry.ts_lo_us, entry.ts_hi_us, entry.source) == (10, 30, "generate")
    assert entry.path == "segments/eu%2F1/boot-1-3.parquet"
    read = pq.ParquetFile(place.path(entry.path)).read()
    assert read["seq"].to_pylist() == [1, 2, 3]
    assert read["service"].to_pylist() == ["s", "s", "s"]
    assert read["worker"].null_count == 3
    assert catalogue.read(place, "eu/1") == [entry]
    assert hashlib.sha256(place.read_bytes(entry.path)).hexdigest() == entry.sha256


def test_a_segment_has_the_columns_of_the_vocabulary_with_plain_types(place: Place) -> None:
    entry = segments.write_segment(place, table(1), "b", "boot", "generate")
    schema = pq.read_schema(place.path(entry.path))
    assert schema.names == [column.name for column in COLUMNS]
    assert schema.field("service").type == pa.string()
    assert schema.field("attempts").type.value_type.num_fields == 5


def test_a_segment_that_is_published_again_is_in_the_catalogue_once(place: Place) -> None:
    entry, content = segments.seal(table(1, 2), "b", "boot", "recorder")
    assert segments.publish(place, entry, content) == segments.publish(place, entry, content)
    assert len(catalogue.read(place, "b")) == 1


def test_a_sealed_file_tells_its_own_entry() -> None:
    entry, content = segments.seal(table(1, 2), "b", "boot", "recorder")
    assert segments.entry_of(content) == entry


def test_a_segment_that_does_not_read_back_is_in_no_catalogue(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "read_bytes", lambda *parts: b"rot")
    monkeypatch.setattr(catalogue, "last_number", lambda place, broker: 0)
    with pytest.raises(segments.Damaged, match="does not read back"):
        segments.write_segment(place, table(1), "b", "boot", "recorder")
    monkeypatch.undo()
    assert catalogue.read(place, "b") == []


def test_an_empty_segment_is_refused(place: Place) -> None:
    with pytest.raises(ValueError, match="at least one row"):
        segments.write_segment(place, table(), "b", "boot", "recorder")
