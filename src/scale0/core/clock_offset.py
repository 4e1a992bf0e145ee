"""How far our clock is from the broker's, measured from PING and PONG as NTP does (rule 19).

A PONG echoes the time that its PING carried. Half of the round trip is the best guess of when the broker read its
clock, and the guess is off by at most that half: so of the last eight samples the one with the least round trip is
believed. The round trip itself is taken from the monotonic clock. Samples that cannot both be true show that a clock
was set meanwhile, ours or the broker's: then only the newest counts, for the others speak of a clock that is no more.
"""

from __future__ import annotations

from collections import deque
from operator import itemgetter
from typing import Final

SAMPLES_MAX: Final = 8
PINGS_MAX: Final = 8  # PINGs whose PONG may still come; the oldest is forgotten
JUMP_S: Final = 0.1  # our wall clock moved against the monotonic one by more: a jump, not a drift
_round_trip_of = itemgetter(0)


class ClockOffset:
    """Our wall clock, and how far it is ahead of the broker's."""

    def __init__(self) -> None:
        self.wall_offset_s = 0.0  # wall clock less monotonic clock, as of the last tick
        self.round_trip_s: float | None = None  # of the last PONG
        self._samples: deque[tuple[float, int]] = deque(maxlen=SAMPLES_MAX)  # (round trip, offset in µs)
        self._pings: dict[int, float] = {}  # time in the PING → monotonic time of its sending

    def set_wall(self, now: float, wall_s: float) -> None:
        """Take the wall clock's reading; a jump makes all samples void."""
        wall_offset_s = wall_s - now
        if abs(wall_offset_s - self.wall_offset_s) > JUMP_S:
            self.forget()
        self.wall_offset_s = wall_offset_s

    def wall_us(self, now: float) -> int:
        """UTC in µs at the monotonic time `now`."""
        return int((now + self.wall_offset_s) * 1e6)

    def sent(self, time_us: int, now: float) -> None:
        """A PING with `time_us` leaves now."""
        if len(self._pings) >= PINGS_MAX:
            del self._pings[next(iter(self._pings))]
        self._pings[time_us] = now

    def heard(self, echo_us: int, broker_us: int, now: float) -> None:
        """A PONG came; one that echoes no PING of ours is ignored."""
        sent_s = self._pings.pop(echo_us, None)
        if sent_s is None:
            return
        round_trip_s = self.round_trip_s = now - sent_s
        offset_us = echo_us + int(round_trip_s * 5e5) - broker_us
        if self._samples and self._contradicts(round_trip_s, offset_us):
            self._samples.clear()
        self._samples.append((round_trip_s, offset_us))

    @property
    def offset_us(self) -> int | None:
        """Our clock less the broker's, or None while nothing was measured."""
        if not self._samples:
            return None
        return self._best()[1]

    @property
    def offset_bits(self) -> int:
        """The offset is off by half of its round trip at most: by less than 2**n µs. 0 while nothing was measured."""
        if not self._samples:
            return 0
        return max(2, int(self._best()[0] * 5e5).bit_length())

    def forget(self) -> None:
        """Another broker, or another clock: nothing that was measured holds any more."""
        self._samples.clear()
        self._pings.clear()
        self.round_trip_s = None

    def _best(self) -> tuple[float, int]:
        return min(self._samples, key=_round_trip_of)

    def _contradicts(self, round_trip_s: float, offset_us: int) -> bool:
        """Each sample is off by half of its round trip at most; two that differ by more were made with other clocks."""
        best_round_trip_s, best_us = self._best()
        return abs(offset_us - best_us) > ((round_trip_s + best_round_trip_s) / 2 + JUMP_S) * 1e6
