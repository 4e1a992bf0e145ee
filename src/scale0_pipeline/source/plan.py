"""Which segments a read needs, and how they are dealt to Spark's tasks. Pure: entries of the catalogue in, parts out.

The catalogue says of each segment from when to when its events are, so a read of an hour opens the files of that hour
and no others. A segment that came twice, or that overlaps with another of the same boot, is read for its new rows only.
Small segments are put together, so that a task has something to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from scale0.telemetry.catalogue import Entry, Position
from scale0_pipeline.tables.covered import Covered

PART_BYTES: Final = 16 * 1024 * 1024  # of segments, compressed: about a second of work
PART_SEGMENTS: Final = 64  # of one part at most


class Span(msgspec.Struct, frozen=True):
    """Times from `lo_us` to `hi_us`, both included; None is endless."""

    lo_us: int | None = None
    hi_us: int | None = None

    def cut(self, lo_us: int | None = None, hi_us: int | None = None) -> Span:
        """What both hold."""
        lows = [time for time in (self.lo_us, lo_us) if time is not None]
        highs = [time for time in (self.hi_us, hi_us) if time is not None]
        return Span(max(lows, default=None), min(highs, default=None))

    def touches(self, lo_us: int, hi_us: int) -> bool:
        return (self.lo_us is None or hi_us >= self.lo_us) and (self.hi_us is None or lo_us <= self.hi_us)


ALWAYS: Final = Span()


class Slice(msgspec.Struct, frozen=True):
    """A segment's file, and the numbers of the rows that are wanted of it; none said: all."""

    path: str
    seqs: tuple[tuple[int, int], ...] = ()


def slices(entries: Iterable[Entry], span: Span = ALWAYS) -> list[tuple[Slice, int]]:
    """What is to be read of some segments, each with its bytes. Gaps have no file."""
    covered = Covered()
    wanted = []
    for entry in entries:
        if entry.gap or not entry.rows:
            continue
        whole = (entry.seq_lo, entry.seq_hi)
        new = covered.take(entry.broker, entry.boot, *whole)
        if new and span.touches(entry.ts_lo_us, entry.ts_hi_us):
            seqs = () if new == [whole] else tuple(new)
            wanted.append((Slice(entry.path, seqs), entry.bytes))
    return wanted


def parts(wanted: Iterable[tuple[Slice, int]]) -> list[tuple[Slice, ...]]:
    """Slices, dealt to tasks in their order."""
    dealt: list[tuple[Slice, ...]] = []
    part: list[Slice] = []
    size = 0
    for one, size_bytes in wanted:
        if part and (size + size_bytes > PART_BYTES or len(part) >= PART_SEGMENTS):
            dealt.append(tuple(part))
            part, size = [], 0
        part.append(one)
        size += size_bytes
    return [*dealt, tuple(part)] if part else dealt


def advance(
    start: Position,
    entries: Iterable[Entry],
    *,
    segments_max: int | None = None,
    rows_max: int | None = None,
    bytes_max: int | None = None,
) -> Position:
    """The position after the next segments, within the limits, but after one at least: a stream must get on."""
    end = dict(start)
    segments = rows = size = 0
    for entry in entries:
        segments, rows, size = segments + 1, rows + entry.rows, size + entry.bytes
        is_over = any(
            limit is not None and count > limit
            for limit, count in ((segments_max, segments), (rows_max, rows), (bytes_max, size))
        )
        if is_over and segments > 1:
            break
        end[entry.broker] = entry.number
    return end
