"""How many slots a load needs: Erlang's formula for calls that wait.

A load of `a` erlangs keeps `a` slots busy on average: tasks a second × seconds of work each. With exactly as many slots
the queue would grow without end, because tasks do not come evenly; Erlang C tells how likely a task is to wait when
there are `c` of them. A service is held to be well staffed if at most `WAITING_SHARE` of its tasks wait longer than
`WAIT_OF_WORK` of the mean time of work. Measured in work times, that depends on the load alone: so the answer is one
table, the largest load that each number of slots carries.

The formula supposes arrivals and work times that are random without memory. Real ones are not, which is why the advice
is tried by replay (`whatif`).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

WAITING_SHARE: Final = 0.05
WAIT_OF_WORK: Final = 0.5
TABLE_SLOTS: Final = 512  # beyond, `MARGIN_MAX` more slots than erlangs are enough for any load
MARGIN_MAX: Final = -math.log(WAITING_SHARE) / WAIT_OF_WORK
_BISECTIONS: Final = 50


def erlang_b(slots: int, erlangs: float) -> float:
    """The share of tasks that find no free slot, if those were turned away."""
    blocked = 1.0
    for n in range(1, slots + 1):
        blocked = erlangs * blocked / (n + erlangs * blocked)
    return blocked


def erlang_c(slots: int, erlangs: float) -> float:
    """The share of tasks that must wait, if they do wait; 1 if there are not enough slots."""
    if erlangs <= 0:
        return 0.0
    if slots <= erlangs:
        return 1.0
    blocked = erlang_b(slots, erlangs)
    return slots * blocked / (slots - erlangs * (1 - blocked))


def waiting_longer(slots: int, erlangs: float, wait_of_work: float = WAIT_OF_WORK) -> float:
    """The share of tasks that wait longer than so many times the mean work."""
    if slots <= erlangs:
        return 1.0
    return erlang_c(slots, erlangs) * math.exp(-(slots - erlangs) * wait_of_work)


def slots_for(erlangs: float) -> int:
    """The least number of slots with which a load is well staffed; one for the smallest load."""
    table = carried()
    if erlangs > table[-1]:
        return math.ceil(erlangs + MARGIN_MAX)
    return int(np.searchsorted(table, erlangs, side="left")) + 1


@lru_cache(maxsize=1)
def carried() -> NDArray[np.float64]:
    """The largest load that 1, 2, … `TABLE_SLOTS` slots carry well; rising."""
    slots = np.arange(1, TABLE_SLOTS + 1, dtype=np.float64)
    low, high = np.zeros_like(slots), slots.copy()
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        is_carried = _waiting_longer_all(slots, middle) <= WAITING_SHARE
        low, high = np.where(is_carried, middle, low), np.where(is_carried, high, middle)
    return low


def _waiting_longer_all(slots: NDArray[np.float64], erlangs: NDArray[np.float64]) -> NDArray[np.float64]:
    """`waiting_longer` for 1, 2, … slots at once, each with its own load below its slots."""
    blocked = np.ones_like(erlangs)
    for n in range(1, len(slots) + 1):  # those that have fewer slots than n are done
        rest = slice(n - 1, None)
        blocked[rest] = erlangs[rest] * blocked[rest] / (n + erlangs[rest] * blocked[rest])
    waiting = slots * blocked / np.maximum(slots - erlangs * (1 - blocked), 1e-300)
    return np.asarray(waiting * np.exp(-(slots - erlangs) * WAIT_OF_WORK))
