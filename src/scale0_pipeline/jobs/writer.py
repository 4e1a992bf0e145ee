"""Carrying out plans: the appended tables get their rows, and then the derived ones are made anew.

Each table says for itself how far it is: its log holds the number of the last batch that it has. So there is no state
to lose between a plan and its end. Whatever happened, the next step is the same: give every table the plans that it
lacks, then make the days of derived tables anew that have changed since they were made. A table that a new version
of Scale0 brings along lacks them all, and gets them the same way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from scale0.telemetry import catalogue
from scale0.telemetry.catalogue import Consumer, Entry, Position
from scale0.telemetry.place import Place
from scale0_pipeline.jobs import copies
from scale0_pipeline.jobs.checks import Checks
from scale0_pipeline.jobs.rows import missing_segments, rows_of, without
from scale0_pipeline.jobs.together import Job, side_by_side
from scale0_pipeline.progress import Progress, silent
from scale0_pipeline.tables import crash_points
from scale0_pipeline.tables.covered import Interval
from scale0_pipeline.tables.delta import STREAM, Stamp, Table, Written
from scale0_pipeline.tables.files import DAY
from scale0_pipeline.tables.lease import Lease
from scale0_pipeline.tables.log import BatchLog
from scale0_pipeline.tables.plans import BATCH_BYTES_MAX, Plan, admit, make_plan
from scale0_pipeline.transforms.registry import Copied, Derived, Growing

CONSUMER: Final = "pipeline"
CACHED_ROWS_MAX: Final = 200_000  # a batch up to this size is read once and kept while its tables are made
PLANS_MAX: Final = 5_000  # that one job carries out


class Writer:
    """Writes the tables of a data place, under a lease."""

    def __init__(
        self,
        spark: SparkSession,
        place: Place,
        lease: Lease,
        appended: Sequence[Growing],
        derived: Sequence[Derived],
        progress: Progress = silent,
    ) -> None:
        self.spark = spark
        self.place = place
        self.lease = lease
        self.appended = appended
        self.derived = derived
        self.progress = progress
        self.log = BatchLog(place)
        snapshots = {one.name for one in derived if one.is_snapshot}
        names = [one.name for one in appended] + [one.name for one in derived]
        self.tables = {name: Table(place, name, is_by_day=name not in snapshots) for name in names}
        self.checks = Checks(spark, place)
        self.rows_done = 0
        self._position = Position()

    # --- plans

    def advance(self, until: Position) -> int:
        """Plan and carry out what the catalogue has up to `until`; how many batches that were."""
        batches = 0
        while entries := admit(self._new_entries(until)):
            self._plan(entries)
            self.catch_up()
            batches += 1
        return batches

    def _new_entries(self, until: Position) -> Iterable[Entry]:
        position = self.log.state().position
        for broker, last in sorted(until.items()):
            done = position.get(broker, 0)
            if last > done:
                yield from catalogue.read(self.place, broker, done, limit=last - done)

    def _plan(self, entries: Sequence[Entry]) -> None:
        """Decide the next batch."""
        state = self.log.state()
        plan = make_plan(
            entries,
            batch=state.batch + 1,
            fence=self.lease.fence,
            now_us=time.time_ns() // 1_000,
            position=state.position,
            covered=state.covered,
            is_there=lambda entry: self.place.exists(entry.path),
        )
        self.log.add(plan)

    # --- appended tables

    def catch_up(self) -> None:
        """Give every appended table the plans that it lacks."""
        last = self.log.last()
        lagging: dict[int, list[Growing]] = {}
        for one in self.appended:
            version = self.tables[one.name].version()
            if version < last:
                lagging.setdefault(version, []).append(one)
        for version in sorted(lagging):
            for plans in in_chunks(self.log.plans(version + 1, last)):
                self._append(plans, lagging[version])
        self.keep_position()

    def _append(self, plans: Sequence[Plan], wanted: Sequence[Growing]) -> None:
        """Carry out some plans for some tables."""
        crash_points.reach(crash_points.BEFORE_WRITE)
        plans = without(plans, missing_segments(self.place, plans))
        rows = rows_of(self.spark, self.place, plans)
        count = sum(plan.rows for plan in plans)
        is_cached = count <= CACHED_ROWS_MAX and len(wanted) > 1
        if is_cached:
            rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
        done = 0
        try:
            for name in side_by_side([Job(one.name, self._appending(one, rows, plans)) for one in wanted]):
                done += 1
                self.progress(f"batch {plans[-1].batch}: {name}", done, len(wanted))
                if done == 1:
                    crash_points.reach(crash_points.AFTER_FIRST_COMMIT)
        finally:
            if is_cached:
                rows.unpersist()
        self.rows_done += count
        crash_points.reach(crash_points.AFTER_LAST_COMMIT)

    def _appending(self, one: Growing, rows: DataFrame, plans: Sequence[Plan]) -> Callable[[], bool]:
        def append() -> bool:
            table, batch = self.tables[one.name], plans[-1].batch
            written = self.write(one, rows, plans, (plans[0].batch, batch))
            crash_points.reach(crash_points.AFTER_WRITE)
            if table.append(written, self.stamp(batch, position=plans[-1].position)):
                self.checks.note(table, batch, written.files)
            return True

        return append

    def write(
        self, one: Growing, rows: DataFrame, plans: Sequence[Plan], batches: Interval, only: date | None = None
    ) -> Written:
        """Write what some plans bring to a table, as these batches'; with `only`, for one day. Nobody counts it yet."""
        table = self.tables[one.name]
        if isinstance(one, Copied):
            return copies.write(self.spark, table, one.make, plans, batches, only)
        made = one.make(rows)
        return table.write(made if only is None else made.where(F.col(DAY) == F.lit(only)), *batches)

    # --- what both kinds share

    def stamp(self, batch: int, app: str = STREAM, **metadata: object) -> Stamp:
        """Ours, after a look whether we still hold the lease."""
        self.lease.check()
        return Stamp(app, batch, self.lease.name, self.lease.fence, metadata)

    def keep_position(self) -> None:
        """Say how far all tables are: segments up to there may go when their time is over."""
        have = min((self.tables[one.name].version() for one in self.appended), default=0)
        plans = self.log.plans(have, have)
        self._position = plans[0].position if plans else Position()
        self.tell()

    def tell(self) -> None:
        """Say that somebody follows; recorders seal more often for that."""
        catalogue.keep_position(self.place, CONSUMER, Consumer(self._position, time.time_ns() // 1_000))


def in_chunks(plans: Sequence[Plan]) -> Iterable[list[Plan]]:
    """Runs of plans, each of a size that one job may have."""
    chunk: list[Plan] = []
    size = 0
    for plan in plans:
        if chunk and (len(chunk) >= PLANS_MAX or size + plan.bytes > BATCH_BYTES_MAX):
            yield chunk
            chunk, size = [], 0
        chunk.append(plan)
        size += plan.bytes
    if chunk:
        yield chunk
