"""How many tasks an overloaded worker asks for (rule 20).

A worker is overloaded when tasks wait in it for longer than a bound, or when the broker's PONGs take longer than an
interval to come. Then it asks for half of what it asked for before, down to nothing, which is a pause; when it has
caught up, for twice as much, up to its capacity. One step an interval: a step needs time to show.
"""

from __future__ import annotations

import math
from typing import Final

from scale0.errors import UsageError
from scale0.protocol import limits

BOUND_INTERVALS: Final = 2.0  # a task may wait in the worker for so many heartbeat intervals


class Throttle:
    """The capacity that a worker offers, between nothing and all that it has."""

    def __init__(self, capacity: int, *, is_on: bool, bound_s: float | None = None) -> None:
        self.set_capacity(capacity)
        self._is_on = is_on
        self._bound_s = bound_s
        self._oldest_wait_s = 0.0
        self._judge_at_s = -math.inf

    def set_capacity(self, capacity: int) -> None:
        """All that it has, from now on; what it offers starts there."""
        if not 0 <= capacity <= limits.CAPACITY_MAX:
            raise UsageError(f"a worker's capacity is 0 to {limits.CAPACITY_MAX}, not {capacity}")
        self.capacity = self.offered = capacity

    def report(self, oldest_wait_s: float) -> None:
        """How long the oldest task that is not started has waited in this worker; 0.0 when none waits."""
        self._oldest_wait_s = oldest_wait_s

    def judge(self, now: float, interval_s: float, round_trip_s: float | None, is_idle: bool) -> bool:
        """Take a step if one is due. True: what is offered has changed."""
        if not self._is_on or now < self._judge_at_s:
            return False
        bound_s = BOUND_INTERVALS * interval_s if self._bound_s is None else self._bound_s
        wait_s = 0.0 if is_idle else self._oldest_wait_s
        before = self.offered
        if wait_s > bound_s or (round_trip_s is not None and round_trip_s > interval_s):
            self.offered = before // 2
        elif wait_s <= bound_s / 2:
            self.offered = min(self.capacity, max(1, before * 2))
        if before < self.capacity or self.offered < before:
            self._judge_at_s = now + interval_s
        return self.offered != before

    def next_s(self) -> float:
        """When the next step up may be due: while less than everything is offered, this does not wait for a report."""
        return self._judge_at_s if self.offered < self.capacity else math.inf
