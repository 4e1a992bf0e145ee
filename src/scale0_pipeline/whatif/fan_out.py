"""Cells side by side: here, or spread over Spark.

Cells know nothing of one another, so each is a Spark task of its own; what is recorded travels with them, as Arrow. A
JVM takes as long to start as a few hundred thousand tasks take to replay: what is smaller than that is done here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from scale0_pipeline import connect
from scale0_pipeline.progress import Progress
from scale0_pipeline.whatif.cells import DEFAULT_TIMEOUT_S, Cell
from scale0_pipeline.whatif.recorded import Recorded
from scale0_pipeline.whatif.replay import replay

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL: Final = 300_000  # replays of tasks, over all cells
POLL_S: Final = 0.5
WHAT: Final = "cells"


class Job(msgspec.Struct, frozen=True):
    """One cell to fill."""

    workers: int
    slots: int = 1
    policy: str = "lru"
    timeout_s: float = DEFAULT_TIMEOUT_S


def fill(recorded: Recorded, jobs: Sequence[Job], master: str, progress: Progress) -> list[Cell]:
    """The cells of these jobs, in their order."""
    is_small = len(recorded.came_s) * len(jobs) <= SMALL and master.startswith("local")
    return here(recorded, jobs, progress) if is_small else over_spark(recorded, jobs, master, progress)


def here(recorded: Recorded, jobs: Sequence[Job], progress: Progress) -> list[Cell]:
    cells = []
    for done, job in enumerate(jobs):
        progress(WHAT, done, len(jobs))
        cells.append(one(recorded, job))
    progress(WHAT, len(jobs), len(jobs))
    return cells


def one(recorded: Recorded, job: Job) -> Cell:
    return replay(recorded, job.workers, job.slots, job.policy, job.timeout_s)


def over_spark(recorded: Recorded, jobs: Sequence[Job], master: str, progress: Progress) -> list[Cell]:
    from scale0_pipeline.session import running_session

    with running_session(master) as spark:
        numbers = spark.range(0, len(jobs), 1, len(jobs))  # a partition each
        frame = numbers.mapInArrow(_task(recorded.to_ipc(), list(jobs)), "id long, cell binary")
        with ThreadPoolExecutor(1) as pool:
            rows = _watch(spark, pool.submit(_collect, frame), len(jobs), progress)
    by_id = {row["id"]: msgspec.json.decode(row["cell"], type=Cell) for row in rows}
    return [by_id[number] for number in range(len(jobs))]


def _task(data: bytes, jobs: list[Job]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What runs in Spark's Python processes."""

    def fill_some(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        recorded = Recorded.from_ipc(data)
        for batch in batches:
            numbers = batch.column("id").to_pylist()
            cells = [msgspec.json.encode(one(recorded, jobs[number])) for number in numbers]
            yield pa.record_batch([pa.array(numbers, pa.int64()), pa.array(cells, pa.binary())], names=["id", "cell"])

    return fill_some


def _collect(frame: DataFrame) -> list[Any]:
    return frame.collect()


def _watch(spark: SparkSession, found: Future[list[Any]], of: int, progress: Progress) -> list[Any]:
    """Wait, and tell how many cells are filled; a Spark Connect server does not say."""
    tracker = None if connect.is_remote(spark) else spark.sparkContext.statusTracker()
    progress(WHAT, 0, of)
    while True:
        try:
            rows = found.result(timeout=POLL_S)
        except NotYet:
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()] if tracker else []
            progress(WHAT, min(of, sum(stage.numCompletedTasks for stage in stages if stage)), of)
        else:
            progress(WHAT, of, of)
            return rows
