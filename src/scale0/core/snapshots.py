"""Listings piece by piece, so that no answer holds the broker's loop for long.

A walk through a listing keeps what was there when it began, in its order, and is gone through once: each answer has
the next rows and a cursor for those after them. A walk that nobody goes on with is dropped after 10 s. The core has no
clock to stop by, so a piece is measured in rows, by what a row of that listing costs: about a millisecond together.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from scale0.errors import ProtocolError
from scale0.protocol.codes import Code

if TYPE_CHECKING:
    from scale0.core.state import State

Row = dict[str, Any]
ROWS_MAX: Final = 500  # of one piece
ROWS: Final = {"workers": 120, "network_workers": 250, "clients": 150, "services": 40, "tasks": 200}
"""Rows of a piece, where a row costs more than most."""
PAUSE: Final = 0.4  # of a piece: what was done between two rows
WALKS_MAX: Final = 64
WALK_S: Final = 10.0
PARTS_MAX: Final = 20


class Walk(msgspec.Struct):
    """One listing that is being gone through."""

    number: int
    part: str
    rows: Iterator[Row | None]
    total: int
    until_s: float
    given: int = 0

    def take(self, room: float) -> tuple[list[Row], float, bool]:
        """The next rows, as many as there is room for; the room that is left; whether they were the last."""
        cost = 1 / ROWS.get(self.part, ROWS_MAX)
        taken: list[Row] = []
        for row in self.rows:
            if row is None:
                room -= PAUSE
            else:
                taken.append(row)
                room -= cost
            if room < 1e-9:
                self.given += len(taken)
                return taken, room, False
        self.given += len(taken)
        return taken, room, True


class Snapshots:
    """Walks that are under way."""

    def __init__(self) -> None:
        self.seq = 0
        self.begun = 0
        self.walks: OrderedDict[int, Walk] = OrderedDict()


Begin = Callable[["State", str], tuple[Iterator[Row | None], int] | Row]
"""Begins a listing: its rows and how many there are; or all of it, if it is no list of rows."""


def take(state: State, parts: list[str], after: str | None, begin: Begin) -> dict[str, Any]:
    """The first piece of each of these listings, or the next piece of one."""
    snapshots = state.snapshots
    drop_old(state)
    if not parts or len(parts) > PARTS_MAX or len(set(parts)) < len(parts):
        raise ProtocolError(Code.MALFORMED, f"parts: 1 to {PARTS_MAX} names of listings, each once")
    if after is not None and len(parts) > 1:
        raise ProtocolError(Code.MALFORMED, "after: a cursor goes on with one part; name that one alone")
    room = 1.0
    found: dict[str, Any] = {}
    for part in parts:
        if after is None:
            begun = begin(state, part)
            if isinstance(begun, dict):
                found[part] = begun
                room -= 1.0
                continue
            walk = _open(state, part, *begun)
        else:
            walk = _resume(state, part, after)
        rows, room, is_over = walk.take(room) if room > 0 else ([], room, False)
        if is_over:
            snapshots.walks.pop(walk.number, None)
        cursor = None if is_over else f"{walk.number}.{part}.{walk.given}"
        found[part] = {"rows": rows, "after": cursor, "total": walk.total}
    snapshots.seq += 1
    return {"seq": snapshots.seq, "parts": found}


def _open(state: State, part: str, rows: Iterator[Row | None], total: int) -> Walk:
    snapshots = state.snapshots
    snapshots.begun += 1
    walk = snapshots.walks[snapshots.begun] = Walk(snapshots.begun, part, rows, total, state.now + WALK_S)
    if len(snapshots.walks) > WALKS_MAX:
        snapshots.walks.popitem(last=False)
    return walk


def _resume(state: State, part: str, after: str) -> Walk:
    number, _, place = after.partition(".")
    walk = state.snapshots.walks.get(int(number)) if number.isdecimal() and len(number) < 20 else None
    if walk is None or place != f"{part}.{walk.given}":
        text = f"after: no walk through {part} stands at {after[:100]!r}; it was gone on with, or left for {WALK_S:g} s"
        raise ProtocolError(Code.MALFORMED, f"{text}: begin anew, without after")
    walk.until_s = state.now + WALK_S
    return walk


def drop_old(state: State) -> None:
    """Walks that nobody goes on with."""
    walks = state.snapshots.walks
    for number in [number for number, walk in walks.items() if state.now > walk.until_s]:
        del walks[number]
