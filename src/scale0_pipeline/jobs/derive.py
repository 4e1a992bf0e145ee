"""Derived tables: which of their days have changed, and making those anew.

A derived table remembers the last batch that it was made from. The files of its inputs say in their names which batches
they hold. So the days that must be made anew are those with a file newer than the table: no list of them is kept, a
crash loses nothing, and a day that did not change is never read. A table that looks back over days before changes on
the days after as well.

What a day is made of is read from its own files alone: the cost of a batch does not grow with the history.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from typing import Final

import msgspec

from scale0_pipeline.errors import PipelineError
from scale0_pipeline.jobs.together import Job, side_by_side
from scale0_pipeline.jobs.writer import Writer
from scale0_pipeline.tables import crash_points
from scale0_pipeline.tables.delta import STREAM
from scale0_pipeline.tables.files import DataFile, days_of
from scale0_pipeline.transforms.registry import Derived
from scale0_pipeline.transforms.window import Window

DAYS_MAX: Final = 4_000  # that are derived at a time
TRIES_MAX: Final = 5  # to make a table while its inputs are replaced


class Known(msgspec.Struct):
    """What is known of a table while others are made from it: the batch that it has, and its files."""

    version: int
    files: list[DataFile]


class Task(msgspec.Struct, frozen=True):
    """A table that must be made anew: on which days, from which days of its inputs, through which batch."""

    table: Derived
    days: tuple[date, ...]
    input_days: tuple[date, ...]
    through: int


class Deriver:
    """Makes derived tables anew where they have changed."""

    def __init__(self, writer: Writer, clock: Callable[[], float] = time.monotonic) -> None:
        self.writer = writer
        self._clock = clock
        self._made_s: dict[str, float] = {}

    def derive(self, *, is_final: bool = True) -> int:
        """Make what has changed; how many tables that were. Unless `is_final`, those that may wait do."""
        made = 0
        known = {name: Known(table.version(), table.files()) for name, table in self.writer.tables.items()}
        due = [one for one in self.writer.derived if is_final or self._is_due(one)]
        for name in side_by_side([Job(one.name, self._making(one, known), one.inputs) for one in due]):
            made += 1
            table = self.writer.tables[name]
            known[name] = Known(table.version(), table.files())
            self.writer.progress(f"derived: {name}", made, 0)
            crash_points.reach(crash_points.IN_DERIVE)
        return made

    def _is_due(self, one: Derived) -> bool:
        made_s = self._made_s.get(one.name)
        return made_s is None or self._clock() - made_s >= one.refresh_s

    def _task(self, one: Derived, known: Mapping[str, Known]) -> Task | None:
        inputs = [known[name] for name in one.inputs]
        # A table is made from what all of its inputs have; one that has that already is as it should be.
        through = min(each.version for each in inputs)
        version = known[one.name].version
        if through <= version:
            return None
        return plan_days(one, [each.files for each in inputs], version, through)

    def _making(self, one: Derived, known: Mapping[str, Known]) -> Callable[[], bool]:
        def make() -> bool:
            task = self._task(one, known)
            if task is None:
                return False
            self.make(task)
            self._made_s[one.name] = self._clock()
            return True

        return make

    def make(self, task: Task, app: str = STREAM) -> None:
        """Replace a table's days, in one commit.

        A backfill may replace a day of an input while we read it. Then what we have made is outdated already, and is
        made again; whichever comes last has read all that there is.
        """
        for attempt in range(TRIES_MAX):
            read = self._make_once(task, app, is_repeatable=attempt > 0 or app != STREAM)
            if all(paths <= self._paths(name) for name, paths in read.items()):
                return
        raise PipelineError(f"the inputs of {task.table.name} keep changing", "run one backfill at a time")

    def _make_once(self, task: Task, app: str, *, is_repeatable: bool) -> dict[str, set[str]]:
        """One attempt; which files of each input were read."""
        writer, one = self.writer, task.table
        frames, read = {}, {}
        for name in one.inputs:
            files = writer.tables[name].files(task.input_days)
            frames[name] = writer.tables[name].frame_of(writer.spark, files)
            read[name] = {file.path for file in files}
        table = writer.tables[one.name]
        made = one.make(frames, Window(task.days, time.time_ns() // 1_000))
        written = table.write(made, task.through, task.through)
        # Rows of a day that is not replaced would stand beside those that are there.
        strays = days_of(written.files) - set(task.days)
        if strays and not one.is_snapshot:
            raise PipelineError(f"{one.name} made rows of {min(strays)}, which was not asked for", "this is a fault")
        days = None if one.is_snapshot else task.days
        table.replace_days(written, days, writer.stamp(task.through, app), is_repeatable=is_repeatable)
        writer.checks.note(table, task.through, written.files, is_replaced=True)
        return read

    def _paths(self, name: str) -> set[str]:
        return {file.path for file in self.writer.tables[name].files()}


def plan_days(one: Derived, inputs: Sequence[list[DataFile]], version: int, through: int) -> Task:
    """Which days of a table that has batch `version` are outdated, and what they are made of."""
    existing = {day for files in inputs for day in days_of(files)}
    if one.is_snapshot:
        newest = max(existing, default=None)
        since = newest - timedelta(one.lookback_days) if newest is not None and one.lookback_days else date.min
        days = {newest} if newest is not None else set()
        return Task(one, tuple(sorted(days)), tuple(sorted(day for day in existing if day >= since)), through)
    changed = {file.day for files in inputs for file in files if file.batch_hi > version and file.day is not None}
    return day_task(one, changed, existing, through)


def day_task(one: Derived, changed: set[date], existing: set[date], through: int) -> Task:
    """Make these days anew, and those that look back on them."""
    after = {day + timedelta(ahead) for day in changed for ahead in range(one.lookback_days + 1)}
    days = changed | (after & existing)
    if len(days) > DAYS_MAX:
        raise PipelineError(f"{len(days)} days of {one.name} are outdated", "are the clocks of your brokers right?")
    before = {day - timedelta(back) for day in days for back in range(one.lookback_days + 1)}
    return Task(one, tuple(sorted(days)), tuple(sorted(before & existing)), through)
