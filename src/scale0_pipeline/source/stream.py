"""Following recorded events: `spark.readStream.format("scale0").option("path", …)`.

The offset is a position in the catalogue: of each broker, the number of the last segment that was read. A micro-batch
takes the next ones, within the limits that the options set; with `trigger(availableNow=True)` the stream ends at what
was there when it began. A recorder that was interrupted may deliver rows once more in a later segment: whoever counts
drops duplicates by `broker`, `boot` and `seq`.

Old segments are deleted when their time is over. A stream that names itself (`consumer`) keeps its position in the data
place, and retention waits for it; one that finds segments gone that it had not read fails, unless it is told not to.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from scale0.telemetry import catalogue
from scale0.telemetry.catalogue import Consumer, Entry, Position
from scale0.telemetry.place import Place
from scale0_pipeline.errors import PipelineError
from scale0_pipeline.source import options as told
from scale0_pipeline.source.events import Part, check_columns, read_slices
from scale0_pipeline.source.plan import advance, parts, slices

SEGMENTS_MAX: Final = 256  # of a micro-batch, unless the options say otherwise


class EventsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A catalogue as a stream."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        told.check(options, told.STREAMING)
        self.url = told.need(options, "path", "/var/lib/scale0/data")
        self.names = schema.fieldNames()
        check_columns(self.names)
        self._is_latest = told.choice(options, "startingOffsets", "earliest", "latest") == "latest"
        self._must_fail = told.choice(options, "failOnDataLoss", "true", "false") == "true"
        self._rows_max = told.whole(options, "maxRowsPerTrigger", 0, least=0)
        self._segments_max = told.whole(options, "maxSegmentsPerTrigger", SEGMENTS_MAX)
        self._consumer = options.get("consumer", "")
        self._target: Position | None = None  # where a stream that ends by itself ends

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return self._end() if self._is_latest else {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._rows_max) if self._rows_max else ReadMaxFiles(self._segments_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._end()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        most = {"segments_max": self._segments_max}
        match limit:
            case ReadAllAvailable():
                return advance(start, self._new(start, self._target))
            case ReadMaxRows(max_rows=rows):
                most["rows_max"] = rows
            case ReadMaxBytes(max_bytes=size):
                most["bytes_max"] = size
            case ReadMaxFiles(max_files=files):
                most["segments_max"] = files
            case _:
                pass
        return advance(start, self._new(start, self._target, most["segments_max"]), **most)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [Part(files) for files in parts(slices(self._new(start, end)))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Part)
        return read_slices(self.url, partition.files, self.names)

    def commit(self, end: dict[str, int]) -> None:
        """Everything up to here is done with. Spark does not say so of the last batch: then it is said next time."""
        if self._consumer:
            catalogue.keep_position(Place(self.url), self._consumer, Consumer(end, time.time_ns() // 1_000))

    def _new(self, start: Position, end: Position | None, most: int | None = None) -> Iterable[Entry]:
        """What came after `start`, up to `end` if that is said, and no more than `most` of each broker.

        They are merged as they were sealed. Of one broker they keep the order of their numbers, whatever its clock did.
        """
        place = Place(self.url)
        lists = []
        for broker in catalogue.brokers(place) if end is None else end:
            after = start.get(broker, 0)
            self._check_loss(place, broker, after)
            room = [limit for limit in (most, None if end is None else end[broker] - after) if limit is not None]
            entries = catalogue.read(place, broker, after, min(room, default=None))
            lists.append([entry for entry in entries if end is None or entry.number <= end[broker]])
        return heapq.merge(*lists, key=lambda entry: entry.sealed_us)

    def _check_loss(self, place: Place, broker: str, after: int) -> None:
        gone = catalogue.floor(place, broker)
        if self._must_fail and 0 < after < gone:
            raise PipelineError(
                f"segments {after + 1} to {gone} of {broker} were deleted before this stream had read them",
                'go on without them with .option("failOnDataLoss", "false"); .option("consumer", NAME) keeps them',
            )

    def _end(self) -> Position:
        place = Place(self.url)
        return {broker: catalogue.last_number(place, broker) for broker in catalogue.brokers(place)}
