"""The data place: where segments, their catalogue and the tables lie; a directory, or a bucket named by a URL.

Readers never see half a file. On a disk a file is written beside its name, flushed, and moved onto it in one step. An
object store shows an object when it is whole, so there it is written under its name at once; anywhere else it is
written and moved. Files on a disk can be read by their owner alone, for names and times of tasks are nobody else's.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

from pyarrow import ArrowException
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem

from scale0.errors import UsageError

FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700
WHOLE_OBJECTS: Final = frozenset({"s3", "gcs", "abfs"})  # stores that show an object when it is whole


class Place:
    """A data place. Parts of a path are joined with slashes; none of them leaves the place."""

    def __init__(self, url: str | Path) -> None:
        self.url = str(url)
        self.fs: FileSystem
        self.local_path: Path | None = None
        """The directory, if this machine's file system has it."""
        if "://" not in self.url:
            self.fs, self.root = LocalFileSystem(), str(Path(self.url).expanduser().absolute())
        else:
            try:
                self.fs, self.root = FileSystem.from_uri(self.url)
            except (ArrowException, OSError, ValueError) as error:
                raise UsageError(
                    f"{self.url} is no place for data: {error}\ngive a directory, or a URL such as s3://bucket/path"
                ) from error
        self.root = self.root.rstrip("/")
        if isinstance(self.fs, LocalFileSystem):
            self.local_path = Path(self.root or "/")

    def path(self, *parts: str) -> str:
        """As `fs` wants it."""
        inner = [part for part in "/".join(parts).split("/") if part]
        if ".." in inner:
            raise ValueError(f"{'/'.join(parts)} leads out of the data place")
        return "/".join([self.root, *inner])

    def uri(self, *parts: str) -> str:
        """As Spark and Delta want it."""
        if self.local_path is not None:
            return self.path(*parts)
        base, question, options = self.url.partition("?")
        inner = self.path(*parts)[len(self.root) :]
        return base.rstrip("/") + quote(inner, safe="/=%") + question + options

    def read_bytes(self, *parts: str) -> bytes:
        """A whole file. Raises `FileNotFoundError`."""
        if self.local_path is not None:
            return Path(self.path(*parts)).read_bytes()
        with self.fs.open_input_file(self.path(*parts)) as file:
            content: bytes = file.read()
        return content

    def read_range(self, parts: Sequence[str] | str, offset: int, length: int) -> bytes:
        """At most `length` bytes from `offset` on."""
        with self.fs.open_input_file(self.path(*_split(parts))) as file:
            left = min(length, file.size() - offset)
            content: bytes = file.read_at(left, offset) if left > 0 else b""
        return content

    def exists(self, *parts: str) -> bool:
        if self.local_path is not None:
            return os.path.exists(self.path(*parts))
        return bool(self.fs.get_file_info(self.path(*parts)).type != FileType.NotFound)

    def list(self, *parts: str) -> list[str]:
        """The names directly under a directory, sorted; none if it is not there. Files being written have none yet."""
        if self.local_path is not None:
            with contextlib.suppress(FileNotFoundError):
                return sorted(name for name in os.listdir(self.path(*parts)) if not name.startswith("."))
            return []
        found = self.fs.get_file_info(FileSelector(self.path(*parts), allow_not_found=True))
        return sorted(one.base_name for one in found if not one.base_name.startswith("."))

    def size(self, *parts: str) -> int:
        """Of a file, in bytes; 0 if it is not there."""
        return int(self.fs.get_file_info(self.path(*parts)).size or 0)

    def delete(self, *parts: str) -> None:
        """A file; one that is not there is deleted already."""
        with contextlib.suppress(FileNotFoundError):
            self.fs.delete_file(self.path(*parts))

    def write_atomic(self, parts: Sequence[str] | str, content: bytes, *, is_new: bool = False) -> None:
        """Write a file that appears as a whole, and is on disk when this returns.

        `is_new`: raise `FileExistsError` if the name is taken. Where the store cannot say so in one step, two writers
        at once could both succeed; a catalogue has one writer.
        """
        path = self.path(*_split(parts))
        if self.local_path is not None:
            write_file(Path(path), content, is_new=is_new)
            return
        if is_new and self.exists(*_split(parts)):
            raise FileExistsError(path)
        directory, _, name = path.rpartition("/")
        is_whole = self.fs.type_name in WHOLE_OBJECTS
        if not is_whole:
            self.fs.create_dir(directory, recursive=True)
        target = path if is_whole else f"{directory}/.{name}.{secrets.token_hex(4)}"
        with self.fs.open_output_stream(target) as stream:
            stream.write(content)
        if not is_whole:
            self.fs.move(target, path)


def write_file(path: Path, content: bytes, *, is_new: bool = False) -> None:
    """Write a file of this machine: beside its name, flushed, then moved onto it. Raises `OSError`."""
    make_directory(path.parent)
    temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            os.link(temporary, path)
            temporary.unlink()
        else:
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def make_directory(path: Path) -> None:
    """With all above it; those that are made are their owner's alone."""
    for directory in [*reversed(path.parents), path]:
        if not directory.exists():
            with contextlib.suppress(FileExistsError):
                directory.mkdir(mode=DIRECTORY_MODE)


def sync_directory(directory: Path) -> None:
    """New names in it are on disk, too."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def quoted(name: str) -> str:
    """A broker's name as a part of a path. A name of dots alone would be a way out of the place."""
    return quote(name, safe="") if name.strip(".") else name.replace(".", "%2E")


def _split(parts: Sequence[str] | str) -> Sequence[str]:
    return (parts,) if isinstance(parts, str) else parts
