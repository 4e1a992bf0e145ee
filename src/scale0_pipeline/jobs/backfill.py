"""Backfill: whole days made anew from their segments, while the stream goes on.

A day is made from the plans up to a fixed one, P: the same segments, cut in the same way, each row with the number and
the time of the batch that first brought it. One commit for each table then takes away all files of the day that hold
batches up to P, and adds the new ones. What the stream adds meanwhile holds later batches, and stays. So the day has
the same rows as before, unless the functions that make them have changed, which is what a backfill is for.

A merge may put batches before and after P into one file. Then there is no line to cut along, and the day is made again
with a later P.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Final

import msgspec

from scale0_pipeline.errors import NothingRecorded, PipelineError
from scale0_pipeline.jobs.derive import Deriver, day_task, plan_days
from scale0_pipeline.jobs.rows import missing_segments, rows_of
from scale0_pipeline.jobs.writer import Writer
from scale0_pipeline.tables import crash_points
from scale0_pipeline.tables.delta import Choice
from scale0_pipeline.tables.files import DataFile, days_of
from scale0_pipeline.tables.plans import Plan, may_touch
from scale0_pipeline.transforms.registry import Derived
from scale0_pipeline.transforms.window import day_us

BACKFILL: Final = "backfill"  # its lease, and the application id of its commits
TRIES_MAX: Final = 5  # while a stream merges files under it


class Crossed(Exception):
    """A file holds batches before and after P."""


def backfill(writer: Writer, day: date) -> int:
    """Make a day of all tables anew; how many rows its segments have."""
    for _ in range(TRIES_MAX):
        try:
            rows = _append(writer, day)
        except Crossed:
            continue
        _derive(writer, day)
        return rows
    raise PipelineError(f"the files of {day} are merged faster than the day is made", "try again later")


def _append(writer: Writer, day: date) -> int:
    """The appended tables' part of the day."""
    through = min(writer.tables[one.name].version() for one in writer.appended)
    plans = plans_of_day(writer.log.plans(1, through), day)
    if not plans:
        raise NothingRecorded(f"nothing was recorded on {day}", "see what there is: scale0 pipeline report")
    gone = missing_segments(writer.place, plans)
    if gone:
        raise PipelineError(
            f"{len(gone)} segments of {day} are gone, {gone[0]} for one",
            "what was made of them stays as it is; to make it anew, bring them back, or keep segments for longer",
        )
    rows = rows_of(writer.spark, writer.place, plans)
    for number, one in enumerate(writer.appended, 1):
        table = writer.tables[one.name]
        written = writer.write(one, rows, plans, (1, through), day)
        table.commit(written, _up_to(through, day), writer.stamp(through, BACKFILL), is_repeatable=True)
        writer.progress(f"backfill of {day}: {one.name}", number, len(writer.appended) + len(writer.derived))
        crash_points.reach(crash_points.IN_BACKFILL)
    return sum(plan.rows for plan in plans)


def _up_to(through: int, day: date) -> Choice:
    """The day's files with batches up to P."""

    def choose(files: list[DataFile]) -> list[DataFile]:
        of_day = [file for file in files if file.day == day]
        if any(file.batch_lo <= through < file.batch_hi for file in of_day):
            raise Crossed
        return [file for file in of_day if file.batch_hi <= through]

    return choose


def plans_of_day(plans: Sequence[Plan], day: date) -> list[Plan]:
    """The plans, cut to the segments that may have rows of this day."""
    start_us = day_us(day)
    cut = []
    for plan in plans:
        pieces = [piece for piece in plan.pieces if may_touch(plan, piece, start_us)]
        if pieces:
            cut.append(msgspec.structs.replace(plan, pieces=pieces))
    return cut


def _derive(writer: Writer, day: date) -> None:
    """The derived tables' part of it, and of the days that look back on it."""
    deriver = Deriver(writer)
    for number, one in enumerate(writer.derived, len(writer.appended) + 1):
        for _ in range(TRIES_MAX):
            if _derive_one(deriver, one, day):
                break
        else:
            raise PipelineError(f"{one.name} is made faster by the stream than by the backfill", "try again later")
        writer.progress(f"backfill of {day}: {one.name}", number, len(writer.appended) + len(writer.derived))


def _derive_one(deriver: Deriver, one: Derived, day: date) -> bool:
    """One try; False if the stream has made the table from later batches meanwhile: it may have read too early."""
    tables = deriver.writer.tables
    through = min(tables[name].version() for name in one.inputs)
    files = [tables[name].files() for name in one.inputs]
    if one.is_snapshot:
        task = plan_days(one, files, -1, through)
    else:
        existing = {found for each in files for found in days_of(each)}
        task = day_task(one, {day}, existing, through)
    deriver.make(task, BACKFILL)
    now = tables[one.name].files(task.days)
    return all(file.batch_hi <= through for file in now)
