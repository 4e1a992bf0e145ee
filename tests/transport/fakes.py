"""A core that does what a test tells it, and writes down what it was told."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from scale0.core.effects import Effect, Route, Send
from scale0.errors import ProtocolError
from scale0.protocol.codec import AnyMessage
from scale0.protocol.dialects import Dialect


class FakeCore:
    """Answers every message by `answer`, which echoes unless a test replaces it."""

    def __init__(self) -> None:
        self.received: list[tuple[Route, Dialect, AnyMessage]] = []
        self.refused: list[tuple[Route, Dialect | None, ProtocolError]] = []
        self.failed: list[tuple[Send, str]] = []
        self.ticks: list[tuple[float, float]] = []
        self.deadline_s = math.inf
        self.asked = 0  # how often the loop wanted to know the next deadline
        self.answer: Callable[[Route, Dialect, Any], list[Effect]] = lambda route, dialect, message: [
            Send(route, dialect, message)
        ]
        self.after_failure: list[Effect] = []
        self.at_tick: list[Effect] = []
        self.takers: set[Route] = set()  # who takes bundles

    def receive(self, route: Route, dialect: Dialect, message: AnyMessage, now: float) -> list[Effect]:
        self.received.append((route, dialect, message))
        return self.answer(route, dialect, message)

    def takes_bundles(self, route: Route) -> bool:
        return route in self.takers

    def malformed(self, route: Route, dialect: Dialect | None, error: ProtocolError, now: float) -> list[Effect]:
        self.refused.append((route, dialect, error))
        return []

    def send_failed(self, send: Send, reason: str, now: float) -> list[Effect]:
        self.failed.append((send, reason))
        effects, self.after_failure = self.after_failure, []
        return effects

    def tick(self, now: float, wall_s: float) -> list[Effect]:
        self.ticks.append((now, wall_s))
        self.deadline_s = math.inf
        effects, self.at_tick = self.at_tick, []
        return effects

    def flush(self, now: float) -> list[Effect]:
        return []

    def next_deadline(self) -> float:
        self.asked += 1
        return self.deadline_s

    def introduce(self, route: Route, key: str) -> None:
        raise AssertionError("no connection has a key here")
