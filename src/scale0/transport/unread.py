"""How much may wait for a peer that does not read: a bound in bytes.

ZeroMQ's own limit counts messages, so a stalled peer with large ones could hold gigabytes (rule 33). Large messages are
therefore handed over without a copy and tracked: ZeroMQ says when it has let go of each. What a peer has not taken yet
is known by that, and over `UNREAD_BYTES_MAX` its pipe counts as full, which the core hears as a failed send. Messages
below `TRACKED_BYTES_MIN` are not worth the tracking: their number bounds them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

TRACKED_BYTES_MIN: Final = 64 * 1024
UNREAD_BYTES_MAX: Final = 32 * 1024 * 1024  # of large messages, for each peer
ALL_UNREAD_BYTES_MAX: Final = 1024 * 1024 * 1024  # for all of them together


class Unread:
    """Large messages that ZeroMQ still holds, by route."""

    def __init__(self, peer_max: int = UNREAD_BYTES_MAX, all_max: int = ALL_UNREAD_BYTES_MAX) -> None:
        self._peer_max = peer_max
        self._all_max = all_max
        self._held: dict[bytes, deque[tuple[int, list[Any]]]] = {}
        self._bytes: dict[bytes, int] = {}
        self.bytes = 0

    def has_room(self, route: bytes, size: int) -> bool:
        """Whether a large message may be handed over for this peer."""
        if self.bytes + size > self._all_max:
            self.forget_read()
        elif self._bytes.get(route, 0) + size > self._peer_max:
            self._look(route)
        return self._bytes.get(route, 0) + size <= self._peer_max and self.bytes + size <= self._all_max

    def add(self, route: bytes, size: int, trackers: list[Any]) -> None:
        """It was handed over; each of `trackers` is done when its frame was let go."""
        self._held.setdefault(route, deque()).append((size, trackers))
        self._bytes[route] = self._bytes.get(route, 0) + size
        self.bytes += size

    def forget_read(self) -> None:
        """Look at all peers. Called now and then, so that nobody stays in the tables who has read everything."""
        for route in list(self._held):
            self._look(route)

    def _look(self, route: bytes) -> None:
        held = self._held.get(route)
        if held is None:
            return
        while held and all(tracker.done for tracker in held[0][1]):  # they leave in order
            size, _ = held.popleft()
            self._bytes[route] -= size
            self.bytes -= size
        if not held:
            del self._held[route]
            del self._bytes[route]


def size_of(frames: Sequence[bytes]) -> int:
    return sum(map(len, frames))
