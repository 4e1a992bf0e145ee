"""A machine that a broker runs on: it stands still and goes on, its clock may be off, and it wakes its broker in time.

What comes to it goes through `post`, so that a machine that stood still (STOP, CONT) finds it all, in order. As in a
real loop it may find first that its time has come, and read then what was said; or it was reading when it was stopped.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from scale0.simulator.process import BUSY_WAKES_MAX
from scale0.simulator.schedule import wall_s

if TYPE_CHECKING:
    from scale0.simulator.world import World

TIME_FIRST = 0.5  # of those that go on, how many look at the time before they read


class Machine:
    """What does not depend on what runs there."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.schedule = world.schedule
        self.name = name
        self._random = world.random_for(f"pauses of {name}")
        self.is_running = False
        self.is_paused = False
        self.incarnation = 0
        self.started_s = 0.0
        self.paused_at_s = 0.0
        self.clock_off_s = 0.0
        self.told_clock_off_s = 0.0  # as the broker saw it last
        self._inbox: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._wake_s = math.inf
        self._last_wake_s = 0.0
        self._idle_wakes = 0

    @property
    def now(self) -> float:
        return self.schedule.now

    @property
    def wall_s(self) -> float:
        return wall_s(self.schedule.now) + self.clock_off_s

    def post(self, action: Callable[..., None], *arguments: Any) -> None:
        """Let this happen: now, when the machine is continued, or never if it is down."""
        if self.is_paused:
            self._inbox.append((action, arguments))
        elif self.is_running:
            action(*arguments)

    def pause(self) -> None:
        if self.is_running and not self.is_paused:
            self.is_paused = True
            self.paused_at_s = self.now

    def resume(self) -> None:
        if not self.is_paused:
            return
        self.is_paused = False
        self.resumed()
        if self._random.random() < TIME_FIRST:
            self._tick()
        inbox, self._inbox = self._inbox, deque()
        while inbox and self.is_running:
            action, arguments = inbox.popleft()
            action(*arguments)
        if self.is_running:
            self._tick()

    def resumed(self) -> None:
        """It goes on, and has not looked into its inbox yet."""

    def tick(self) -> None:
        raise AssertionError("each kind of machine has its own")

    def switch_on(self) -> None:
        self.incarnation += 1
        self.is_running = True
        self.started_s = self.now
        self.told_clock_off_s = self.clock_off_s

    def switch_off(self) -> None:
        self.is_running = False
        self.is_paused = False
        self._wake_s = math.inf
        self._inbox.clear()

    def wake_at(self, due_s: float) -> None:
        """At that time at the latest; sleeping takes a little longer than asked."""
        if due_s < self._wake_s:
            self._wake_s = due_s
            self.schedule.at(max(due_s, self.schedule.now) + 0.001, self._wake, due_s, self.incarnation)

    def _wake(self, due_s: float, incarnation: int) -> None:
        if due_s == self._wake_s and incarnation == self.incarnation and self.is_running and not self.is_paused:
            self._tick()

    def _tick(self) -> None:
        self._wake_s = math.inf
        now = self.schedule.now
        self._idle_wakes = self._idle_wakes + 1 if now - self._last_wake_s < 0.0015 else 0
        self._last_wake_s = now
        if self._idle_wakes > BUSY_WAKES_MAX:
            self.world.violation("busy wait", f"{self.name} woke {self._idle_wakes} times on end")
        self.told_clock_off_s = self.clock_off_s
        self.tick()
