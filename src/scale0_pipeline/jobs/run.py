"""The pipeline's runs: catch up once, follow, make a day anew, compact, import.

Each of them is a plain function that needs a data place and a Spark master, and tells of its progress. Those that write
what the stream writes hold the lease; a backfill and an import have their own ways not to get in the stream's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date
from itertools import cycle
from pathlib import Path
from typing import Final

import msgspec

from scale0.telemetry import catalogue
from scale0.telemetry.catalogue import Position
from scale0.telemetry.place import Place
from scale0_pipeline import compiling
from scale0_pipeline.errors import NothingRecorded
from scale0_pipeline.jobs import backfill as backfilling
from scale0_pipeline.jobs import compaction, imports
from scale0_pipeline.jobs.derive import Deriver
from scale0_pipeline.jobs.stream import patiently, reached, start_stream, stretches, wait_for
from scale0_pipeline.jobs.writer import Writer
from scale0_pipeline.progress import Progress, silent
from scale0_pipeline.session import current_session, is_on_this_machine, running_session
from scale0_pipeline.tables import crash_points
from scale0_pipeline.tables.lease import Lease
from scale0_pipeline.transforms.registry import APPENDED, DERIVED, Derived, Growing

INTERVAL_S: Final = 2.0  # between two looks at the catalogue
IDLE_S: Final = 1.0  # between two looks whether a table that could wait has waited long enough
LOOK_S: Final = 60.0  # between two looks at the rules of quality
QUIET_S: Final = 10.0  # after so long without a batch there is time to merge files
MERGE_BYTES_MAX: Final = 256 * 1024**2  # that a stream merges at a time
BRIEF_ROWS_MAX: Final = 20_000_000  # after so many, what is derived of them runs for so long that good code pays


class Summary(msgspec.Struct):
    """What a run did."""

    batches: int = 0
    rows: int = 0
    derived: int = 0
    rules: int = 0
    merged: int = 0
    deleted: int = 0
    quarantined: int = 0
    last_batch: int = 0
    seconds: float = 0.0


class Run:
    """A run of the stream: what its batches share."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.deriver = Deriver(writer)
        self.summary = Summary()
        self.error: BaseException | None = None
        self._started_s = self._quiet_s = self._looked_s = time.monotonic()
        self._tables = cycle(compaction.all_tables(writer))
        self._lock = threading.Lock()  # of the tables: a batch, or what is done between batches

    def catch_up(self) -> None:
        """Carry out what the catalogue has now."""
        writer = self.writer
        writer.catch_up()
        for end in stretches(writer.place, writer.log.state().position, reached(writer.place)):
            self._advance(end)

    def stream(self, *, interval_s: float, stop: threading.Event) -> None:
        """Carry out what the catalogue has and gets, until `stop` is set."""
        patiently(lambda: self._stream(interval_s, stop), self.writer.progress)

    def _stream(self, interval_s: float, stop: threading.Event) -> None:
        writer = self.writer
        writer.catch_up()
        position = writer.log.state().position
        fence = writer.lease.fence
        on_batch = self._advance_and_derive
        query = start_stream(writer.spark, writer.place, position, fence, on_batch, interval_s=interval_s)
        try:
            while not wait_for(query, IDLE_S):
                if stop.is_set():
                    break
                self._idle()
        except Exception as error:
            raise self.error or error from None
        finally:
            query.stop()

    def finish(self) -> Summary:
        """Make all derived tables as new as the others.

        What was appended is looked at meanwhile: cores wait while one table is planned that others wait for.
        """
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="scale0-checks") as pool:
            looked_at = pool.submit(self._look)
            self.summary.derived += self.deriver.derive()
        self.summary.rules += looked_at.result() + self._look()
        self._keep_files_few()
        self.summary.rows = self.writer.rows_done
        self.summary.last_batch = self.writer.log.last()
        self.summary.seconds = time.monotonic() - self._started_s
        return self.summary

    def _look(self) -> int:
        return self.writer.checks.look(self.writer.stamp)

    def _advance(self, until: Position) -> None:
        """A batch of one run: all of it first; what is derived is derived once, at the end."""
        with self._lock:
            self.summary.batches += self.writer.advance(until)

    def _advance_and_derive(self, until: Position) -> None:
        """A batch of a stream: what somebody watches is made at once."""
        with self._noting():
            self._quiet_s = time.monotonic()
            self.summary.batches += self.writer.advance(until)
            self.summary.derived += self.deriver.derive(is_final=False)
            self._keep_files_few()
            self._look_after()
            crash_points.reach(crash_points.BEFORE_CHECKPOINT)

    def _idle(self) -> None:
        """Between batches: tables that could wait, once they have; and closed days become one file."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            self.summary.derived += self.deriver.derive(is_final=False)
            if time.monotonic() - self._quiet_s > QUIET_S:
                merged = compaction.compact(self.writer, merges_max=1, bytes_max=MERGE_BYTES_MAX)
                self.summary.merged += merged
        finally:
            self._lock.release()

    def _keep_files_few(self) -> None:
        few = compaction.FILES_MAX
        merged = compaction.compact(self.writer, merges_max=1, bytes_max=MERGE_BYTES_MAX, closed_files_max=few)
        self.summary.merged += merged

    def _look_after(self) -> None:
        """Once a minute: look at the rules, and free one table of files that nobody needs.

        Derived tables leave a file behind with every batch.
        """
        if time.monotonic() - self._looked_s > LOOK_S:
            self._looked_s = time.monotonic()
            self.summary.rules += self._look()
            compaction.sweep(next(self._tables), orphans_h=None)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Keep an error as it was: Spark's words for it are long."""
        try:
            with self._lock:
                yield
        except BaseException as error:
            self.error = error
            raise


def once(
    place_url: str,
    *,
    master: str = "local[*]",
    progress: Progress = silent,
    appended: Sequence[Growing] = APPENDED,
    derived: Sequence[Derived] = DERIVED,
) -> Summary:
    """Bring all tables to where the catalogue is now."""
    place = Place(place_url)
    if not catalogue.brokers(place):
        cure = "start a broker with --telemetry; one that runs brings its first segment here within half a minute"
        raise NothingRecorded(f"there are no segments at {place.uri()}", cure)
    is_ours = current_session() is None and is_on_this_machine(master)
    with _writer(place, master, progress, appended, derived) as writer:
        run = Run(writer)
        run.catch_up()
        if is_ours and writer.rows_done <= BRIEF_ROWS_MAX:
            compiling.be_brief(writer.spark)
        return run.finish()


def follow(
    place_url: str,
    *,
    stop: threading.Event,
    master: str = "local[*]",
    progress: Progress = silent,
    interval_s: float = INTERVAL_S,
    appended: Sequence[Growing] = APPENDED,
    derived: Sequence[Derived] = DERIVED,
) -> Summary:
    """Keep all tables fresh until `stop` is set."""
    with _writer(Place(place_url), master, progress, appended, derived, is_brief=False) as writer:
        run = Run(writer)
        writer.lease.on_renew = writer.tell
        run.stream(interval_s=interval_s, stop=stop)
        return run.finish()


def compact(
    place_url: str,
    *,
    master: str = "local[*]",
    progress: Progress = silent,
    appended: Sequence[Growing] = APPENDED,
    derived: Sequence[Derived] = DERIVED,
) -> Summary:
    """Merge small files, and delete those that nobody needs."""
    with _writer(Place(place_url), master, progress, appended, derived) as writer:
        merged = compaction.compact(writer)
        return Summary(merged=merged, deleted=compaction.vacuum(writer), last_batch=writer.log.last())


def backfill(
    place_url: str,
    day: date,
    *,
    master: str = "local[*]",
    progress: Progress = silent,
    appended: Sequence[Growing] = APPENDED,
    derived: Sequence[Derived] = DERIVED,
) -> Summary:
    """Make one day of every table anew from its segments; a stream may go on meanwhile."""
    with _writer(Place(place_url), master, progress, appended, derived, lease=backfilling.BACKFILL) as writer:
        rows = backfilling.backfill(writer, day)
        return Summary(rows=rows, derived=len(derived), last_batch=writer.log.last())


def import_lines(place_url: str, file: Path, *, master: str = "local[*]", progress: Progress = silent) -> Summary:
    """Bring a file of JSON lines into the catalogue, as segments; the next run takes them like any others."""
    with running_session(master) as spark:
        rows, quarantined = imports.import_lines(spark, Place(place_url), file, progress)
        return Summary(rows=rows, quarantined=quarantined)


@contextmanager
def _writer(
    place: Place,
    master: str,
    progress: Progress,
    appended: Sequence[Growing],
    derived: Sequence[Derived],
    lease: str = "pipeline",
    *,
    is_brief: bool = True,
) -> Iterator[Writer]:
    """A writer with a session and a lease. The lease comes first: to be refused should not take a JVM's start."""
    settings = {"spark.driver.extraJavaOptions": compiling.java_options()} if is_brief else {}
    with Lease(place, lease) as held, running_session(master, settings=settings) as spark:
        yield Writer(spark, place, held, appended, derived, progress)
