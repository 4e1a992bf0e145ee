"""How long to wait before the next try: exponential backoff with full jitter.

A pause is anything from nothing to the backoff, which doubles with each failure up to a limit. So those who lost one
broker together come back spread out, and a broker that is down for long is not hammered (rules 4 and 26).
"""

from __future__ import annotations

from typing import Final

from scale0.core.link_settings import Random

FIRST_S: Final = 0.25
MAX_S: Final = 5.0


class Backoff:
    """Failures in a row, and the pause that they earn."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._failures = 0

    def pause_s(self) -> float:
        """One more failure; how long to wait after it."""
        backoff_s = min(MAX_S, FIRST_S * float(1 << min(self._failures, 16)))
        self._failures += 1
        return self._random.random() * backoff_s

    def reset(self) -> None:
        self._failures = 0
