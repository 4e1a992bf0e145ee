"""A wall clock that a test can set, for a process that it started: a line `ahead 3600` on stdin puts it an hour ahead.

`install` must come before anything of Scale0 is imported: from then on `time.time` is this clock, for the whole
process. The monotonic clock is left alone, as it is when somebody sets the clock of a machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator


class WallClock:
    """The true time, and how far this process is ahead of it."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self._true_s = time.time

    def install(self) -> None:
        time.time = self.read

    def read(self) -> float:
        return self._true_s() + self.ahead_s

    def obey(self, lines: Iterator[str]) -> Iterator[str]:
        """Set the clock as the lines say; whatever they say besides is handed on."""
        for line in lines:
            word, _, amount = line.strip().partition(" ")
            if word == "ahead":
                self.ahead_s = float(amount)
            elif word:
                yield line.strip()
