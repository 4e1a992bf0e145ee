"""The write-ahead log: what a recorder has taken from its broker and has not sealed yet.

What is written survives the recorder's death at once, and the machine's after the next `sync`. A write that fails in
its middle is undone, so that what is written later is not behind something torn. A log of a former run is read up to
its last whole chunk, sealed, and deleted; `wal/<boot>-<n>.frames` has the run and the log's place in it in its name.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from scale0.telemetry import frames
from scale0.telemetry.place import FILE_MODE, make_directory, sync_directory

DIRECTORY: Final = "wal"
SUFFIX: Final = ".frames"


class Log:
    """One log that is being written."""

    def __init__(self, path: Path) -> None:
        make_directory(path.parent)
        self.path = path
        self.size = 0  # bytes that are whole
        self.is_synced = True
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)

    def append(self, chunk: bytes) -> None:
        """Add a chunk, or raise `OSError` and be as before."""
        for part in (frames.log_head(chunk), chunk):
            self._write(part)
        self.size += len(chunk) + frames.LOG_HEAD_BYTES
        self.is_synced = False

    def _write(self, part: bytes) -> None:
        view = memoryview(part)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError:
            os.ftruncate(self._file, self.size)
            os.lseek(self._file, self.size, os.SEEK_SET)
            raise

    def sync(self) -> None:
        """What was added so far survives the machine. Raises `OSError`."""
        if not self.is_synced:
            os.fdatasync(self._file)
            self.is_synced = True

    def close(self) -> None:
        os.close(self._file)

    def delete(self) -> None:
        """It is sealed: close it, and have it no more."""
        self.close()
        delete(self.path)


def log_path(directory: Path, boot: str, number: int) -> Path:
    return directory / DIRECTORY / f"{quote(boot, safe='')}-{number:06d}{SUFFIX}"


def logs(directory: Path) -> list[tuple[str, int, Path]]:
    """The logs that are there: of which run, which number, where; in their order."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for path in (directory / DIRECTORY).iterdir():
            boot, _, number = path.name.removesuffix(SUFFIX).rpartition("-")
            if path.suffix == SUFFIX and boot and number.isdigit():
                found.append((unquote(boot), int(number), path))
    return sorted(found)


def read(path: Path) -> Iterator[bytes]:
    """The whole chunks of a log."""
    return frames.read_log(path.read_bytes())


def append_to(path: Path, chunk: bytes) -> None:
    """Add a chunk to a log of a former run, in place of its torn end."""
    size = sum(len(one) + frames.LOG_HEAD_BYTES for one in read(path))
    with path.open("r+b") as file:
        file.truncate(size)
        file.seek(size)
        file.write(frames.log_head(chunk) + chunk)
        file.flush()
        os.fsync(file.fileno())


def delete(path: Path) -> None:
    path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        sync_directory(path.parent)
