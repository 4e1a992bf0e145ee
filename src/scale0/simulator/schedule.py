"""Virtual time: a heap of what happens next. Nothing waits; the clock jumps from one event to the next."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Protocol

START_S = 1_000.0  # not zero: a core that forgets to set a time shows
WALL_START_S = 1_800_000_000.0


class Watch(Protocol):
    """Somebody who looks at the world when a certain time has passed."""

    due_s: float

    def check(self, now: float) -> None: ...


class Schedule:
    """Events in order of their time; equal times in the order in which they were asked for."""

    __slots__ = ("_heap", "_number", "now", "steps_done")

    def __init__(self) -> None:
        self.now = START_S
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0
        self.steps_done = 0

    def at(self, time_s: float, action: Callable[..., None], *arguments: Any) -> None:
        self._number = number = self._number + 1
        heappush(self._heap, (time_s, number, action, arguments))

    def after(self, delay_s: float, action: Callable[..., None], *arguments: Any) -> None:
        self._number = number = self._number + 1
        heappush(self._heap, (self.now + delay_s, number, action, arguments))

    def run(self, steps_max: int, end_s: float, watch: Watch) -> bool:
        """Do one event after the other, until so many were done in all. False if nothing more comes before `end_s`.

        `watch` looks after each, if its time has come. This is the innermost loop of every run.
        """
        heap, now = self._heap, self.now
        for number in range(self.steps_done + 1, steps_max + 1):
            if not heap or heap[0][0] > end_s:
                return False
            self.steps_done = number
            time_s, _, action, arguments = heappop(heap)
            if time_s > now:
                self.now = now = time_s
            action(*arguments)
            if watch.due_s < now:
                watch.check(now)
        return True

    def next_s(self) -> float:
        return self._heap[0][0] if self._heap else float("inf")

    def __len__(self) -> int:
        return len(self._heap)


def wall_s(now: float) -> float:
    """The true UTC time at `now`; a process's own clock may be off."""
    return WALL_START_S + now - START_S
