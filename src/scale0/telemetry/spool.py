"""The spool: segments that are sealed and have not reached the data place yet.

They leave it in their order, and only when they are in the place's catalogue. While the place is away they wait, under
a cap: over it the oldest goes, and a small file says which rows are lost, so that the catalogue hears of it.

What left last is remembered in `shipped.json`. So a recorder that was killed at any moment is followed by one that
knows which rows have left, and a place that does not have them is not taken for the right one.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

import msgspec
import pyarrow as pa

from scale0.telemetry import catalogue, segments
from scale0.telemetry.catalogue import Entry
from scale0.telemetry.place import Place, write_file

DIRECTORY: Final = "spool"
SHIPPED: Final = "shipped.json"
SEGMENT, GAP, DAMAGED = ".parquet", ".gap", ".damaged"


class Shipped(msgspec.Struct):
    """The last entry that was added to a place, and up to which row of a run it reaches."""

    data: str
    broker: str
    number: int
    boot: str
    seq_hi: int


class Waiting(NamedTuple):
    """A file in the spool: of which run, and which rows it covers."""

    boot: str
    seq_lo: int
    seq_hi: int
    path: Path

    @property
    def is_gap(self) -> bool:
        return self.path.suffix == GAP


class Spool:
    """The spool of one telemetry directory; its cap is in bytes."""

    def __init__(self, directory: Path, cap_bytes: int) -> None:
        self._directory = directory / DIRECTORY
        self._cap_bytes = cap_bytes
        self._file = directory / SHIPPED
        self._noted: Shipped | None = None  # by this process; the file has it, too, unless there was no room

    def add(self, entry: Entry, content: bytes) -> None:
        """A sealed segment. Raises `OSError` if there is no room."""
        write_file(self._path(entry, SEGMENT), content)

    def waiting(self) -> list[Waiting]:
        """What is there, in the order in which it leaves. Names of runs rise with time."""
        found = []
        with contextlib.suppress(FileNotFoundError):
            for path in self._directory.iterdir():
                boot, low, high = ["", *path.stem.rsplit("-", 2)][-3:]
                if path.suffix in (SEGMENT, GAP) and low.isdigit() and high.isdigit():
                    found.append(Waiting(unquote(boot), int(low), int(high), path))
        return sorted(found)

    def last_seq(self, boot: str) -> int:
        """The last row of a run that is here, or was the last to leave."""
        last = self.shipped
        left = last.seq_hi if last is not None and last.boot == boot else 0
        return max([left, *(one.seq_hi for one in self.waiting() if one.boot == boot)])

    @property
    def shipped(self) -> Shipped | None:
        """What left last, as far as anybody knows."""
        if self._noted is None:
            with contextlib.suppress(OSError, msgspec.DecodeError):
                self._noted = msgspec.json.decode(self._file.read_bytes(), type=Shipped)
        return self._noted

    def ship(self, place: Place, one: Waiting) -> Entry | None:
        """Bring one to the place and let go of it; None if it cannot be read any more, and is put aside."""
        content = one.path.read_bytes()
        if one.is_gap:
            entry = catalogue.append(place, msgspec.json.decode(content, type=Entry))
        else:
            try:
                sealed = segments.entry_of(content)
            except (pa.ArrowException, KeyError, TypeError, msgspec.DecodeError):
                one.path.rename(one.path.with_suffix(DAMAGED))
                return None
            entry = segments.publish(place, sealed, content)
        self._noted = Shipped(place.url, entry.broker, entry.number, entry.boot, entry.seq_hi)
        with contextlib.suppress(OSError):
            write_file(self._file, msgspec.json.encode(self._noted))
        one.path.unlink()
        return entry

    def shrink(self) -> list[Entry]:
        """Delete the oldest segments until the cap holds; what was lost, which the catalogue hears in its turn."""
        waiting = [one for one in self.waiting() if not one.is_gap]
        sizes = [one.path.stat().st_size for one in waiting]
        over_bytes, lost = sum(sizes) - self._cap_bytes, []
        for one, size in zip(waiting, sizes, strict=True):
            if over_bytes <= 0:
                break
            entry = segments.entry_of(one.path.read_bytes())
            gap = as_gap(entry)
            one.path.unlink()  # first, for there may be no room for the smallest file
            write_file(self._path(entry, GAP), msgspec.json.encode(gap))
            over_bytes -= size
            lost.append(gap)
        return lost

    def _path(self, entry: Entry, suffix: str) -> Path:
        return self._directory / f"{quote(entry.boot, safe='')}-{entry.seq_lo}-{entry.seq_hi}{suffix}"


def as_gap(entry: Entry) -> Entry:
    """What the catalogue says of a segment that had to go before it was used."""
    return msgspec.structs.replace(
        entry, number=0, path="", bytes=0, sha256="", gap=True, sealed_us=time.time_ns() // 1_000
    )
