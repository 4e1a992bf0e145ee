"""A participant's heartbeat: when to PING, and when the broker's silence means that it is gone (rules 17 and 19).

Any traffic counts as life. The broker says which interval holds, in CONFIG, CONFIGACK and READYOK; a PING leaves within
each interval, a little early by chance, so that many who came up together do not beat together. Liveness is judged by
the monotonic clock alone; the wall clock is only measured and reported.
"""

from __future__ import annotations

import math

from scale0.core.clock_offset import ClockOffset
from scale0.core.link_settings import LinkSettings, Random
from scale0.protocol.messages import Ping


class Heartbeat:
    """The beat of one link. `heard_at_s` is written by whoever receives."""

    def __init__(self, settings: LinkSettings, random: Random) -> None:
        self.clock = ClockOffset()
        self.heard_at_s = 0.0
        self.interval_s = settings.heartbeat_interval_s
        self.silence_s = settings.heartbeat_interval_s * settings.liveness
        self._liveness = settings.liveness
        self._agreed_s = 0.0  # READYOK's interval, which may be longer than the broker's default
        self._random = random
        self._ping_at_s = math.inf

    def begin(self, now: float) -> None:
        """The link is up; the first PING leaves at any point of the interval."""
        self.heard_at_s = now
        self._ping_at_s = now + self.interval_s * self._random.random()

    def end(self) -> None:
        """The link goes elsewhere: nothing that was agreed or measured holds any more."""
        self._agreed_s = 0.0
        self._ping_at_s = math.inf
        self.clock.forget()

    def adopt(self, interval_ms: int, liveness: int, now: float) -> None:
        """CONFIG or CONFIGACK says what holds; zero means that it does not say."""
        self._liveness = liveness or self._liveness
        self._set_interval(max(interval_ms / 1000 or self.interval_s, self._agreed_s), now)

    def agree(self, interval_ms: int, now: float) -> None:
        """READYOK says what holds for this worker."""
        self._agreed_s = interval_ms / 1000
        self._set_interval(self._agreed_s or self.interval_s, now)

    def is_due(self, now: float) -> bool:
        return now >= self._ping_at_s

    def is_silent(self, now: float) -> bool:
        return now >= self.heard_at_s + self.silence_s

    def next_s(self) -> float:
        return min(self._ping_at_s, self.heard_at_s + self.silence_s)

    def ping(self, config_version: bytes, oldest_unanswered: int, now: float) -> Ping:
        """The PING that leaves now; the next one follows within the interval."""
        self._ping_at_s = now + self.interval_s * (0.9 + 0.1 * self._random.random())
        time_us = self.clock.wall_us(now)
        offset_us = self.clock.offset_us
        self.clock.sent(time_us, now)
        has_offset = offset_us is not None
        return Ping(
            time_us,
            round(self.interval_s * 1000),
            config_version,
            offset_us or 0,
            has_offset,
            oldest_unanswered,
            self.clock.offset_bits,
        )

    def _set_interval(self, interval_s: float, now: float) -> None:
        self.interval_s = interval_s
        self.silence_s = interval_s * self._liveness
        if self._ping_at_s != math.inf:
            self._ping_at_s = min(self._ping_at_s, now + interval_s)
