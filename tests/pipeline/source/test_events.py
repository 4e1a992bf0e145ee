"""Reading segments as record batches, without Spark: columns, times, old files, and what Spark's conditions prune."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import DataSourceReader, EqualTo, GreaterThan, In, LessThanOrEqual
from pyspark.sql.types import LongType, ShortType, StringType, StructField, StructType

from scale0.telemetry.place import Place
from scale0.telemetry.segments import ARROW_SCHEMA, write_segment
from scale0_pipeline.errors import NothingRecorded, PipelineError
from scale0_pipeline.source.events import EventsReader, Part, schema_of
from tests.pipeline.source.places import SECOND_US, START_US, rows, two_brokers

TYPES: dict[str, Any] = {"seq": LongType(), "service": StringType(), "code": ShortType(), "trace_id": StringType()}


def reader(folder: Path, *names: str, **options: str) -> EventsReader:
    schema = StructType([StructField(name, TYPES[name]) for name in names or ("seq",)])
    return EventsReader({"path": str(folder), **options}, schema)


def read(source: EventsReader) -> list[dict[str, Any]]:
    return [row for part in source.partitions() for batch in source.read(part) for row in batch.to_pylist()]


def files(source: EventsReader) -> int:
    return sum(len(part.files) for part in source.partitions() if isinstance(part, Part))


def test_every_row_is_read_once_with_the_columns_that_are_asked_for(tmp_path: Path) -> None:
    two_brokers(tmp_path)
    found = read(reader(tmp_path, "service", "seq"))
    assert len(found) == 400
    assert list(found[0]) == ["service", "seq"]
    assert sum(row["seq"] for row in found) == sum(range(301)) + sum(range(101))


def test_times_leave_out_segments_and_rows(tmp_path: Path) -> None:
    two_brokers(tmp_path)
    late = reader(tmp_path, since=str(START_US + 290 * SECOND_US), until="2026-03-01T00:04:55Z")
    assert files(late) == 1
    assert sorted(row["seq"] for row in read(late)) == [290, 291, 292, 293, 294]


def test_conditions_of_the_query_prune_like_options(tmp_path: Path) -> None:
    two_brokers(tmp_path)
    source = reader(tmp_path)
    at = ("ts_us",)
    conditions = [GreaterThan(at, START_US + 150 * SECOND_US), LessThanOrEqual(at, START_US + 200 * SECOND_US)]
    assert list(source.pushFilters([*conditions, EqualTo(("service",), "x")])) != [], "Spark looks at each row again"
    assert files(source) == 2
    source = reader(tmp_path)
    source.pushFilters([In(at, (START_US + 5 * SECOND_US, START_US + 7 * SECOND_US))])
    assert sorted({row["seq"] for row in read(source)}) == [5, 6, 7]


def test_a_session_that_tells_no_conditions_takes_the_reader_all_the_same(tmp_path: Path) -> None:
    offered = reader(tmp_path).pushFilters
    assert getattr(offered, "__func__", None) is DataSourceReader.pushFilters


def test_columns_that_an_old_segment_lacks_are_null_and_dictionaries_are_strings(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    table = rows("eu-1", 1, 3)
    table = table.set_column(6, "service", table["service"].dictionary_encode())
    write_segment(place, table, "eu-1", "boot", "generate")
    old = pa.table({name: table[name] for name in ("seq", "ts_us", "kind", "service")})
    path = place.path("segments", "eu-1", "boot-1-3.parquet")
    pq.write_table(old, path)
    source = reader(tmp_path, "service", "code", "trace_id")
    batches = [batch for part in source.partitions() for batch in source.read(part)]
    assert batches[0].schema == pa.schema([ARROW_SCHEMA.field(name) for name in ("service", "code", "trace_id")])
    assert batches[0].to_pylist()[0] == {"service": "service-1", "code": None, "trace_id": None}


def test_a_place_without_events_is_an_error_and_one_without_matches_is_empty(tmp_path: Path) -> None:
    with pytest.raises(NothingRecorded, match="no events in"):
        reader(tmp_path).partitions()
    two_brokers(tmp_path)
    assert read(reader(tmp_path, since="2030-01-01")) == []


def test_the_schema_is_the_vocabulary_or_what_the_option_names() -> None:
    assert schema_of({}).startswith("`v` smallint, `kind` string, `broker` string")
    assert schema_of({"columns": "code, seq"}) == "`code` smallint, `seq` bigint"
    with pytest.raises(PipelineError, match="no column cost"):
        schema_of({"columns": "seq,cost"})
