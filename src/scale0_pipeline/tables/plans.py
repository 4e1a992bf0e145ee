"""A plan: exactly which rows a batch has, decided before anything is written.

Plans are made from catalogue entries alone and kept for good. Whoever carries one out, however often and after whatever
crash, reads the same rows and writes the same ones; so a batch can be tried again without thinking, and a day can be
made anew from the plans that touched it.

A plan names segments, and of each the numbers that no plan before it had. The rows of a segment that came twice are
in no second plan, and rows within one segment have different numbers: so nobody ever has to look for duplicates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from scale0.telemetry.catalogue import Entry, Position
from scale0_pipeline.tables.covered import Covered, Interval
from scale0_pipeline.units import DAY_US

SEGMENTS_MAX: Final = 2_000  # a batch's segments
BATCH_BYTES_MAX: Final = 4 * 1024**3  # of its segments' files


class Piece(msgspec.Struct, frozen=True):
    """A segment, or what of it is new: `keep` is empty if all of it is. Without a path it is a gap: rows were lost."""

    path: str
    broker: str
    boot: str
    seq_lo: int
    seq_hi: int
    rows: int
    bytes: int
    ts_lo_us: int
    ts_hi_us: int
    keep: list[Interval] = []


class Plan(msgspec.Struct, frozen=True):
    """A batch, before it is made and ever after. `position` is where the catalogue stands after it."""

    batch: int
    fence: int
    made_us: int
    position: Position
    pieces: list[Piece]
    covered: dict[str, dict[str, list[Interval]]]
    is_whole: bool = False  # `covered` tells of all boots, not only of this batch's

    @property
    def rows(self) -> int:
        """At most so many."""
        return sum(piece.rows for piece in self.pieces)

    @property
    def bytes(self) -> int:
        return sum(piece.bytes for piece in self.pieces)


WHOLE_EVERY: Final = 64  # batches: each such one has all that is covered, so that a reader goes back no further


def make_plan(
    entries: Iterable[Entry],
    *,
    batch: int,
    fence: int,
    now_us: int,
    position: Position,
    covered: Covered,
    is_there: Callable[[Entry], bool] = lambda entry: True,
) -> Plan:
    """The plan of the next batch. `position` and `covered` are those that the plan before it left; they stay."""
    position, covered = dict(position), covered.copy()
    pieces, touched = [], set()
    for entry in entries:
        # An entry that was used is not used again, wherever the stream thinks it is.
        if entry.number <= position.get(entry.broker, 0):
            continue
        position[entry.broker] = entry.number
        # What was deleted before anybody read it is no part of a batch, and may come again; a gap tells of it.
        if not entry.gap and not is_there(entry):
            continue
        if entry.gap:
            pieces.append(_piece(entry, []))
            continue
        new = covered.take(entry.broker, entry.boot, entry.seq_lo, entry.seq_hi)
        touched.add((entry.broker, entry.boot))
        # A segment that is wholly covered is skipped; one that overlaps is cut.
        if new:
            pieces.append(_piece(entry, [] if new == [(entry.seq_lo, entry.seq_hi)] else new))
    is_whole = batch % WHOLE_EVERY == 0
    told = covered.boots if is_whole else covered.only(touched)
    return Plan(batch, fence, now_us, position, pieces, told, is_whole)


def admit(
    entries: Iterable[Entry], *, segments_max: int = SEGMENTS_MAX, bytes_max: int = BATCH_BYTES_MAX
) -> list[Entry]:
    """As many of the entries, from the first on, as one batch may have; at least one."""
    taken: list[Entry] = []
    size = 0
    for entry in entries:
        size += entry.bytes
        if taken and (len(taken) >= segments_max or size > bytes_max):
            break
        taken.append(entry)
    return taken


def may_touch(plan: Plan, piece: Piece, day_start_us: int) -> bool:
    """Whether rows of this piece may be filed under the day that begins then.

    A row is filed under the day it happened, or under the day it landed if it claims to be from the future.
    """
    day_end_us = day_start_us + DAY_US
    if piece.ts_lo_us < day_end_us and piece.ts_hi_us >= day_start_us:
        return True
    return day_start_us <= plan.made_us < day_end_us and piece.ts_hi_us >= day_end_us


def _piece(entry: Entry, keep: list[Interval]) -> Piece:
    return Piece(
        path=entry.path,
        broker=entry.broker,
        boot=entry.boot,
        seq_lo=entry.seq_lo,
        seq_hi=entry.seq_hi,
        rows=entry.rows,
        bytes=entry.bytes,
        ts_lo_us=entry.ts_lo_us,
        ts_hi_us=entry.ts_hi_us,
        keep=keep,
    )
