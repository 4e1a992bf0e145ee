"""Where nothing needs to be replayed: the times in which no task of a cell can wait.

Before equal workers a task waits only if it finds all slots taken. As long as none does, each begins when it comes and
ends after its work: who is under way at any time follows from the record alone. So a replay may pass over a calm time
and go on at the first task that finds no room, with those under way that the record says are; and it is calm again as
soon as nobody waits, and nobody is under way who has waited.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scale0_pipeline.whatif.recorded import Recorded, ends_of

SHORT: Final = 50  # tasks: to pass over fewer costs more than to replay them


class Calm:
    """The calm times of one cell with so many slots in all."""

    def __init__(self, recorded: Recorded, slots: int) -> None:
        self.came_s = recorded.came_s
        self.ends_s = ends_of(recorded.came_s, recorded.work_s)
        self.longest_s = float((self.ends_s - self.came_s).max(initial=0.0))
        ended = np.searchsorted(np.sort(self.ends_s), self.came_s, side="right")
        there = np.arange(1, len(self.came_s) + 1) - ended
        self.crowded: list[int] = np.flatnonzero(there > slots).tolist()

    def until(self, place: int) -> int:
        """The first task from this one on that would find no room; as many as there are if none would."""
        at = bisect_left(self.crowded, place)
        return self.crowded[at] if at < len(self.crowded) else len(self.came_s)

    def under_way(self, since: int, until: int) -> NDArray[np.intp]:
        """Of the tasks between these two, those that are still under way when the second one comes."""
        if until == len(self.came_s):
            return np.empty(0, np.intp)
        now_s = self.came_s[until]
        first = max(since, int(np.searchsorted(self.came_s, now_s - self.longest_s)))
        return first + np.flatnonzero(self.ends_s[first:until] > now_s)
