"""The catalogue as a stream, without Spark: offsets, limits, ends, and segments that are gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, ReadMaxRows
from pyspark.sql.types import LongType, StringType, StructField, StructType

from scale0.telemetry import catalogue
from scale0_pipeline.errors import PipelineError
from scale0_pipeline.source.events import Part
from scale0_pipeline.source.stream import SEGMENTS_MAX, EventsStreamReader
from tests.pipeline.source.places import add, two_brokers

SCHEMA = StructType([StructField("broker", StringType()), StructField("seq", LongType())])


def reader(folder: Path, **options: str) -> EventsStreamReader:
    return EventsStreamReader({"path": str(folder), **options}, SCHEMA)


def seqs(stream: EventsStreamReader, start: dict[str, int], end: dict[str, int]) -> list[tuple[str, int]]:
    return [
        (row["broker"], row["seq"])
        for part in stream.partitions(start, end)
        for batch in stream.read(part)
        for row in batch.to_pylist()
    ]


def test_batches_follow_one_another_without_a_hole_and_end_at_the_end(tmp_path: Path) -> None:
    two_brokers(tmp_path)
    stream = reader(tmp_path)
    offset: dict[str, int] = stream.initialOffset()
    assert offset == {}
    read: list[tuple[str, int]] = []
    while (end := stream.latestOffset(offset, ReadMaxFiles(2))) != offset:
        read += seqs(stream, offset, end)
        offset = end
    assert offset == {"eu-1": 4, "us-1": 1}
    assert set(read) == {*(("eu-1", seq) for seq in range(1, 301)), *(("us-1", seq) for seq in range(1, 101))}
    assert stream.partitions(offset, offset) == []


def test_rows_that_came_twice_in_one_batch_are_read_once(tmp_path: Path) -> None:
    two_brokers(tmp_path)
    stream = reader(tmp_path)
    end = stream.latestOffset({}, ReadAllAvailable())
    assert len(seqs(stream, {}, end)) == 400


def test_the_limit_comes_from_the_options(tmp_path: Path) -> None:
    assert reader(tmp_path).getDefaultReadLimit() == ReadMaxFiles(SEGMENTS_MAX)
    assert reader(tmp_path, maxSegmentsPerTrigger="3").getDefaultReadLimit() == ReadMaxFiles(3)
    assert reader(tmp_path, maxRowsPerTrigger="9").getDefaultReadLimit() == ReadMaxRows(9)


def test_a_stream_that_takes_what_is_there_does_not_see_what_comes_later(tmp_path: Path) -> None:
    place = two_brokers(tmp_path)
    stream = reader(tmp_path)
    stream.prepareForTriggerAvailableNow()
    add(place, "eu-1", 301, 310)
    add(place, "new", 1, 10)
    end = stream.latestOffset({}, ReadAllAvailable())
    assert end == {"eu-1": 4, "us-1": 1}
    assert stream.latestOffset(end, ReadMaxFiles(5)) == end


def test_a_stream_may_begin_with_what_comes_next(tmp_path: Path) -> None:
    place = two_brokers(tmp_path)
    stream = reader(tmp_path, startingOffsets="latest")
    start = stream.initialOffset()
    assert stream.latestOffset(start, ReadAllAvailable()) == start
    add(place, "us-1", 101, 110)
    end = stream.latestOffset(start, ReadAllAvailable())
    assert seqs(stream, start, end) == [("us-1", seq) for seq in range(101, 111)]


def test_segments_that_were_deleted_unread_are_an_error_unless_that_is_allowed(tmp_path: Path) -> None:
    place = two_brokers(tmp_path)
    catalogue.raise_floor(place, "eu-1", 3)
    with pytest.raises(PipelineError, match="segments 2 to 3 of eu-1 were deleted"):
        reader(tmp_path).latestOffset({"eu-1": 1}, ReadAllAvailable())
    lenient = reader(tmp_path, failOnDataLoss="false")
    assert lenient.latestOffset({"eu-1": 1}, ReadAllAvailable()) == {"eu-1": 4, "us-1": 1}
    assert len(seqs(lenient, {"eu-1": 1}, {"eu-1": 4})) == 150
    assert reader(tmp_path).latestOffset({}, ReadAllAvailable()) == {"eu-1": 4, "us-1": 1}


def test_a_stream_with_a_name_tells_retention_how_far_it_is(tmp_path: Path) -> None:
    place = two_brokers(tmp_path)
    reader(tmp_path).commit({"eu-1": 2})
    assert catalogue.consumers(place) == {}
    reader(tmp_path, consumer="sums").commit({"eu-1": 2})
    assert catalogue.consumers(place)["sums"].position == {"eu-1": 2}


def test_segments_are_read_in_the_order_in_which_they_were_sealed(tmp_path: Path) -> None:
    two_brokers(tmp_path)
    (part,) = reader(tmp_path).partitions({}, {"eu-1": 2, "us-1": 1})
    assert isinstance(part, Part)
    assert [one.path.split("/")[1] for one in part.files] == ["eu-1", "us-1", "eu-1"]
