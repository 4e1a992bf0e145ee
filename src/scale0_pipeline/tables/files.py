"""Data files of a table, and their names.

Every attempt to write something gets a directory of its own, `written=<lo>-<hi>-<random>`, where `lo` and `hi` are the
first and the last batch whose rows it holds. So nothing that was ever written is overwritten, two writers never meet in
one directory, and a file's name alone says which batches are in it: that is how a derived table knows which days have
changed since it was made. The form `name=value` lets Spark read files of several attempts together.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Iterable
from datetime import date
from typing import Any, Final
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction, RemoveAction
from pyarrow.fs import FileSelector, FileType

from scale0.telemetry.place import Place
from scale0_pipeline.errors import PipelineError

DAY: Final = "day"
WRITTEN: Final = "written"
BATCH_DIGITS: Final = 12


class DataFile(msgspec.Struct, frozen=True):
    """A file of a table: `path` is within the table; `day` is None where the table is not cut by days."""

    path: str
    size: int
    rows: int
    day: date | None
    batch_lo: int
    batch_hi: int


def new_directory(batch_lo: int, batch_hi: int) -> str:
    """A name that nobody has used."""
    return f"{WRITTEN}={batch_lo:0{BATCH_DIGITS}d}-{batch_hi:0{BATCH_DIGITS}d}-{secrets.token_hex(6)}"


def batches_of(path: str) -> tuple[int, int]:
    """The first and the last batch in a file, from its path; (0, 0) if somebody else wrote it."""
    name, _, value = path.split("/", 1)[0].partition("=")
    lo, _, rest = value.partition("-")
    hi = rest.partition("-")[0]
    return (int(lo), int(hi)) if name == WRITTEN and lo.isdigit() and hi.isdigit() else (0, 0)


def day_of(path: str) -> date | None:
    """The day in a path, or None if there is none."""
    for part in path.split("/")[:-1]:
        name, _, value = part.partition("=")
        if name == DAY:
            try:
                return date.fromisoformat(unquote(value))
            except ValueError:
                raise PipelineError(f"a row has no day, or none that can be: {part}", "see quality/results") from None
    return None


def find_written(place: Place, table: str, directory: str) -> list[DataFile]:
    """What a job wrote into its directory. Files without rows are left out; checksums beside files are removed."""
    root = place.path(table)
    found = place.fs.get_file_info(FileSelector(f"{root}/{directory}", recursive=True, allow_not_found=True))
    files = []
    for info in sorted(found, key=lambda one: one.path):
        if info.type != FileType.File:
            continue
        if info.base_name.startswith((".", "_")):
            _forget(place, info.path)
            continue
        file = describe(place, table, info.path[len(root) + 1 :], info.size)
        if file.rows:
            files.append(file)
    return files


def describe(place: Place, table: str, path: str, size: int) -> DataFile:
    """A file's day and batches, from its path, and its rows, from its footer."""
    with place.fs.open_input_file(place.path(table, path)) as stream:
        rows = pq.read_metadata(stream).num_rows
    return DataFile(path, size, rows, day_of(path), *batches_of(path))


def files_in(actions: Any) -> list[DataFile]:
    """The files of a table, from its log."""
    columns = pa.table(actions).to_pydict()
    paths, sizes, counts = columns["path"], columns["size_bytes"], columns["num_records"]
    days = columns.get(f"partition.{DAY}", [None] * len(paths))
    return [
        DataFile(path, size, rows or 0, day, *batches_of(path))
        for path, size, rows, day in zip(paths, sizes, counts, days, strict=True)
    ]


def add_action(file: DataFile, *, is_change: bool = True) -> AddAction:
    """This file counts from now on. `is_change`: it brings rows that the table did not have.

    Least and greatest values are left out: readers in pyarrow take those of some columns alone for a promise about all.
    """
    stats = {"numRecords": file.rows}
    now_ms = time.time_ns() // 1_000_000
    return AddAction(file.path, file.size, _partition(file), now_ms, is_change, json.dumps(stats))


def remove_action(file: DataFile, *, is_change: bool = True) -> RemoveAction:
    """This file counts no more."""
    return RemoveAction(file.path, is_change, time.time_ns() // 1_000_000, file.size, _partition(file))


def days_of(files: Iterable[DataFile]) -> set[date]:
    return {file.day for file in files if file.day is not None}


def _partition(file: DataFile) -> dict[str, str | None]:
    return {} if file.day is None else {DAY: file.day.isoformat()}


def _forget(place: Place, path: str) -> None:
    """Spark leaves a checksum beside each file of a disk. Nobody but Spark reads it, and it would never be swept."""
    if place.local_path is not None:
        with contextlib.suppress(OSError):
            os.unlink(path)
