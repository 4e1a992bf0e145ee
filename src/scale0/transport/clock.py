"""The two clocks of a broker: monotonic for every duration and deadline, wall clock for what people and peers read.

The core takes both as arguments; only shells read them, here, so that a test can put its own in their place.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec


class Clock(msgspec.Struct, frozen=True):
    """Two functions without arguments, in seconds."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time  # UTC since 1970


SYSTEM_CLOCK = Clock()
