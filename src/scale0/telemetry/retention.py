"""Retention: which segments in the place have had their time.

A segment goes when it is older than it must be kept and every consumer has used it. One that somebody still needs
stays, however old; only a hard cap on the bytes of a broker's segments can force it out, and then the catalogue says
which rows are gone. Where nobody has ever said that he reads segments, age alone decides. Segments go oldest first, and
their entries with them, so looking costs what is deleted and not what is kept.
"""

from __future__ import annotations

import time

import msgspec
from pyarrow.fs import FileSelector

from scale0.telemetry import catalogue, segments
from scale0.telemetry.catalogue import Entry
from scale0.telemetry.place import Place, quoted
from scale0.telemetry.spool import as_gap


class Deleted(msgspec.Struct):
    """What one look did."""

    segments: int = 0
    bytes: int = 0
    gaps: list[Entry] = []


class Retention:
    """Of one broker's segments in a place."""

    def __init__(self, place: Place, broker: str, keep_s: float, cap_bytes: int) -> None:
        self._place, self._broker = place, broker
        self._keep_us, self._cap_bytes = round(keep_s * 1e6), cap_bytes
        self._bytes: int | None = None  # of the segments; not known before the first look

    def added(self, entry: Entry) -> None:
        """A segment has come."""
        if self._bytes is not None:
            self._bytes += entry.bytes

    def look(self, now_us: int | None = None) -> Deleted:
        """Delete what has had its time, and what the cap forces out. Raises `OSError`."""
        now_us = time.time_ns() // 1_000 if now_us is None else now_us
        if self._bytes is None:
            self._bytes = self._count_bytes()
        going, unused = self._choose(self._used_by_all(), now_us)
        # Losses are told first and entries go last: a death between them tells something twice, and hides nothing.
        gaps = [catalogue.append(self._place, gap) for gap in _joined(unused)]
        for entry in going:
            if entry.path:
                self._place.delete(entry.path)
        if going:
            catalogue.raise_floor(self._place, self._broker, going[-1].number)
        gone_bytes = sum(entry.bytes for entry in going)
        self._bytes -= gone_bytes
        return Deleted(sum(not entry.gap for entry in going), gone_bytes, gaps)

    def _choose(self, used: int | None, now_us: int) -> tuple[list[Entry], list[Entry]]:
        """The entries that go, and those of them that somebody still needed; the oldest ones, as far as it must be."""
        going, unused = [], []
        left_bytes = self._bytes or 0
        last = catalogue.last_number(self._place, self._broker)
        for number in range(catalogue.floor(self._place, self._broker) + 1, last + 1):
            entry = catalogue.get(self._place, self._broker, number)
            if entry is None:
                break
            is_used = used is None or number <= used
            is_old = max(entry.ts_hi_us, entry.sealed_us) < now_us - self._keep_us
            if left_bytes <= self._cap_bytes and not (is_old and is_used):
                break
            left_bytes -= entry.bytes
            going.append(entry)
            if not is_used:
                unused.append(entry)
        return going, unused

    def _used_by_all(self) -> int | None:
        """The number up to which every consumer has used the entries; None if there is no consumer."""
        readers = [one for one in catalogue.consumers(self._place).values() if one.reads(self._broker)]
        positions = [one.position.get(self._broker, 0) for one in readers]
        return min(positions) if positions else None

    def _count_bytes(self) -> int:
        selector = FileSelector(self._place.path(segments.DIRECTORY, quoted(self._broker)), allow_not_found=True)
        return sum(one.size or 0 for one in self._place.fs.get_file_info(selector))


def _joined(unused: list[Entry]) -> list[Entry]:
    """One gap for each run, however many segments were lost: else gaps that nobody reads would become many."""
    found: dict[str, Entry] = {}
    for entry in unused:
        gap, former = as_gap(entry), found.get(entry.boot)
        if former is not None:
            gap.seq_lo, gap.ts_lo_us = min(former.seq_lo, gap.seq_lo), min(former.ts_lo_us, gap.ts_lo_us)
            gap.seq_hi, gap.ts_hi_us = max(former.seq_hi, gap.seq_hi), max(former.ts_hi_us, gap.ts_hi_us)
            gap.rows, gap.tasks = former.rows + gap.rows, former.tasks + gap.tasks
        found[entry.boot] = gap
    return list(found.values())
