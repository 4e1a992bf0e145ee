"""Compaction: few large files instead of many small ones, and no file that nobody needs.

Each batch adds a file to each day that it touches, and a reader opens all of them. A closed day becomes one file, and
today's files are merged when there are more than 64. Partial sums with equal keys become one row on the way, if the
table says how. A merge is one commit that neither adds nor takes a row as far as any reader can tell: who reads before
it sees the old files, who reads after it the new one. Files beyond a good size stay as they are.

Files that count no more stay for an hour, for readers that have begun. Files that never counted are what is left of
attempts that failed; they go after a day, because a job that runs may need as long before its commit.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Final

import msgspec

from scale0_pipeline.jobs.writer import Writer
from scale0_pipeline.tables import crash_points
from scale0_pipeline.tables.delta import Table
from scale0_pipeline.tables.files import DataFile
from scale0_pipeline.transforms.registry import Growing

COMPACTION: Final = "compaction"  # the application id of its commits
FILES_MAX: Final = 64  # that a day which is not over may have
GOOD_BYTES: Final = 128 * 1024**2  # a file of this size is not merged
READERS_H: Final = 1  # how long a file stays that counts no more
ORPHANS_H: Final = 24  # how long a file stays that never counted


class Merge(msgspec.Struct, frozen=True):
    """Files of one day that become one."""

    day: date
    files: list[DataFile]

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)


class Abandoned(Exception):
    """The files to be merged are no longer those that count: somebody else was quicker."""


def merges_for(files: Iterable[DataFile], today: date, closed_files_max: int = 1) -> list[Merge]:
    """What should be merged, the oldest day first."""
    by_day: dict[date, list[DataFile]] = {}
    for file in files:
        if file.day is not None and file.size < GOOD_BYTES:
            by_day.setdefault(file.day, []).append(file)
    merges = []
    for day, small in sorted(by_day.items()):
        # A closed day becomes one file; one that is not over is merged when it has too many.
        if len(small) > (closed_files_max if day < today else FILES_MAX):
            merges.append(Merge(day, sorted(small, key=lambda file: file.path)))
    return merges


def compact(
    writer: Writer, *, merges_max: int | None = None, bytes_max: int | None = None, closed_files_max: int = 1
) -> int:
    """Merge what should be merged, in appended tables; how many days of tables that were.

    A stream does a little of it at a time: at most `merges_max`, none of them over `bytes_max`; and while batches come,
    a closed day that late rows reach keeps as many files as one that is not over.
    """
    today = datetime.now(UTC).date()
    wanted: list[tuple[Growing, Merge]] = []
    for one in writer.appended:
        merges = merges_for(writer.tables[one.name].files(), today, closed_files_max)
        wanted += [(one, merge) for merge in merges if bytes_max is None or merge.bytes <= bytes_max]
    done = 0
    for one, merge in wanted[:merges_max]:
        merge_files(writer, one, merge)
        done += 1
        writer.progress(f"compact: {one.name} of {merge.day}", done, len(wanted[:merges_max]))
    writer.log.compact()
    return done


def merge_files(writer: Writer, one: Growing, merge: Merge) -> bool:
    """Make one file of several; False if they were not all there any more."""
    table = writer.tables[one.name]
    rows = table.frame_of(writer.spark, merge.files)
    merged = one.merge(rows) if one.merge is not None else rows
    lo, hi = min(file.batch_lo for file in merge.files), max(file.batch_hi for file in merge.files)
    written = table.write(merged.coalesce(1), lo, hi)
    crash_points.reach(crash_points.IN_COMPACTION)
    wanted = {file.path for file in merge.files}

    def old_ones(files: Sequence[DataFile]) -> list[DataFile]:
        found = [file for file in files if file.path in wanted]
        if len(found) < len(wanted):
            raise Abandoned
        return found

    stamp = writer.stamp(hi, COMPACTION)
    try:
        return table.commit(written, old_ones, stamp, is_change=False, is_repeatable=True)
    except Abandoned:
        return False


def vacuum(writer: Writer) -> int:
    """Delete the files that no reader needs; how many there were."""
    deleted = 0
    tables = all_tables(writer)
    for number, table in enumerate(tables, 1):
        deleted += len(sweep(table))
        writer.progress(f"vacuum: {table.name}", number, len(tables))
    return deleted


def all_tables(writer: Writer) -> list[Table]:
    """Those that the jobs write, and the log of batches."""
    return [*writer.tables.values(), Table(writer.place, "batches", root="pipeline", is_by_day=False)]


def sweep(table: Table, readers_h: int = READERS_H, orphans_h: int | None = ORPHANS_H) -> list[str]:
    """Delete a table's files that no version of the last hour needs, and orphans of more than a day."""
    gone: set[str] = set()
    root = f"{table.place.path(table.path)}/"
    for hours, is_full in ((readers_h, False), (orphans_h, True)):
        delta = table.delta()
        if delta is not None and hours is not None:
            paths = delta.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=is_full)
            gone.update(path.removeprefix(root) for path in paths)
    _remove_empty(table, gone)
    return sorted(gone)


def _remove_empty(table: Table, gone: Iterable[str]) -> None:
    """On a disk, directories stay when their last file goes."""
    if table.place.local_path is None:
        return
    for directory in sorted({path.rpartition("/")[0] for path in gone}):
        inner = directory
        while inner:
            with contextlib.suppress(OSError):
                os.rmdir(table.place.path(table.path, inner))
            inner = inner.rpartition("/")[0]
