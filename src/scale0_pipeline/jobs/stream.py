"""The stream: Spark follows the catalogue, and each micro-batch carries out what is new.

Whoever only catches up needs no stream: `stretches` gives the same batches in the same order, from the catalogue
itself, and spares the starting of Spark's Python for a source.

The source emits no events, only how far each broker's catalogue has come; segments are read by Spark's own Parquet
reader once a batch is planned. That costs little, needs no memory of files seen, and does not care how old a file is.

Where the pipeline stands is in its log of batches, not in Spark's checkpoint. So each holder of the lease begins with a
checkpoint of its own, at the position that the log has: one that is lost, old, torn or from another version of Spark
cannot be wrong, because nobody reads it. Within a run it does what it is for: a batch that failed is tried again.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from scale0.telemetry import catalogue
from scale0.telemetry.catalogue import Entry, Position
from scale0.telemetry.place import Place
from scale0_pipeline.errors import PipelineError
from scale0_pipeline.progress import Progress
from scale0_pipeline.tables.plans import SEGMENTS_MAX, admit

FORMAT: Final = "scale0_catalogue"
CHECKPOINTS: Final = ("pipeline", "checkpoint")
LATE: Final = "Python worker failed to connect back"  # in Spark's own words
STARTS_MAX: Final = 6
CHECKPOINTS_MAX: Final = 2  # ours, and the last one's, who may still be ending


class CatalogueSource(DataSource):
    """How far each broker's catalogue has come, as a stream."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return "broker string, number bigint"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        return CatalogueReader(self.options["place"], json.loads(self.options["position"]))


class Stretch(InputPartition):
    """From one position of the catalogue to another."""

    def __init__(self, end: Position) -> None:
        super().__init__(None)
        self.end = end


class CatalogueReader(DataSourceStreamReader):
    """Reads the catalogue. Its offset is a position."""

    def __init__(self, place_url: str, position: Position) -> None:
        self.place_url = place_url
        self.position = position

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self.position

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        return one_batch(Place(self.place_url), start)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [Stretch(end)] if start != end else []

    def read(self, partition: InputPartition) -> Iterator[tuple[str, int]]:
        assert isinstance(partition, Stretch)
        yield from partition.end.items()


def reached(place: Place) -> Position:
    """Where the catalogue is now."""
    return {broker: catalogue.last_number(place, broker) for broker in catalogue.brokers(place)}


def one_batch(place: Place, start: Position, until: Position | None = None) -> Position:
    """As far as one batch may go. The limits are the plan's own, in segments and bytes together."""
    brokers = catalogue.brokers(place) if until is None else sorted(until)
    end = dict(start)
    for entry in admit(waiting(place, brokers, start, until)):
        end[entry.broker] = entry.number
    return end


def stretches(place: Place, start: Position, until: Position) -> Iterator[Position]:
    """The ends of the batches that lead from one position to another."""
    end = one_batch(place, start, until)
    while end != start:
        yield end
        start, end = end, one_batch(place, end, until)


def waiting(place: Place, brokers: Iterable[str], start: Position, until: Position | None) -> Iterator[Entry]:
    """What is new, the oldest first across brokers, so that none of them waits behind another's backlog."""
    lists = []
    for broker in brokers:
        after = start.get(broker, 0)
        most = SEGMENTS_MAX if until is None else min(SEGMENTS_MAX, until[broker] - after)
        if most > 0:
            lists.append(catalogue.read(place, broker, after, limit=most))
    return heapq.merge(*lists, key=lambda entry: entry.sealed_us)


def start_stream(
    spark: SparkSession,
    place: Place,
    position: Position,
    fence: int,
    on_batch: Callable[[Position], None],
    *,
    interval_s: float,
) -> StreamingQuery:
    """Follow the catalogue from `position` on, and look for news every `interval_s`."""
    spark.dataSource.register(CatalogueSource)
    source = spark.readStream.format(FORMAT).option("place", place.url).option("position", json.dumps(position))

    def carry_out(frame: DataFrame, batch_id: int) -> None:
        on_batch({row["broker"]: row["number"] for row in frame.collect()})

    sink = source.load().writeStream.queryName("scale0").foreachBatch(carry_out)
    sink = sink.option("checkpointLocation", _checkpoint(place, fence))
    return sink.trigger(processingTime=f"{interval_s} seconds").start()


def patiently(work: Callable[[], None], progress: Progress) -> None:
    """Do what starts a stream, and again if Spark lost patience with it.

    Spark gives the Python of a source ten seconds to start, whatever is set; a machine that has other work may need
    more. Nothing is lost with the stream: the log of batches says where the next one begins.
    """
    for again in range(1, STARTS_MAX + 1):
        try:
            return work()
        except Exception as error:
            if LATE not in str(error):
                raise
            progress("Spark's Python starts slowly: once more", again, STARTS_MAX)
    text = f"Spark's Python did not start within ten seconds, {STARTS_MAX} times"
    raise PipelineError(text, "this machine is too busy: try again later, or elsewhere; nothing is lost")


def wait_for(query: StreamingQuery, timeout_s: float) -> bool:
    """Wait for the end of a stream; False if it goes on. Raises what ended it."""
    return bool(query.awaitTermination(timeout_s))  # type: ignore[arg-type]


def _checkpoint(place: Place, fence: int) -> str:
    """A directory for Spark's notes of this run; those of runs long over are deleted."""
    names = [name for name in place.list(*CHECKPOINTS) if name.isdigit()]
    for name in sorted(names, key=int)[: max(0, len(names) - CHECKPOINTS_MAX + 1)]:
        place.fs.delete_dir(place.path(*CHECKPOINTS, name))
    return place.uri(*CHECKPOINTS, str(fence))
