"""One task that a client has submitted and that has no outcome yet, and what may be submitted at all.

A body or a name that no broker would take is refused here, before it is sent: a broker could only answer with an ERROR.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from scale0.errors import PayloadTooLarge, UsageError
from scale0.protocol import limits
from scale0.protocol.limits import FRAME_BYTES_MAX, OPTIONS_BYTES_MAX, PRIORITIES, REMAINING_MS_MAX
from scale0.protocol.messages import Body

NAMES_MAX: Final = 1024
_PRIORITIES: Final = range(PRIORITIES)
NO_BUCKET: Final = -1  # its time has come, and it is being looked at


class OpenTask(msgspec.Struct, gc=False):
    """What sending a task again needs, and how far its reply has come."""

    service: str
    body: Body
    priority: int
    options: bytes
    deadline_s: float
    size: int
    bucket: int  # in the timetable of deadlines
    transmissions: int = 0  # how often it left this process
    next_part: int = 0
    attempt: int = 0  # whose parts have been taken, if any have
    told_at: str = ""  # the place where the first of them came from
    is_cancelled: bool = False
    refusals: int = 0  # how many brokers did not take it
    place: str = ""  # where it was sent first: a pair of brokers, or a broker's endpoint
    is_scattered: bool = False  # it was sent to other places too, so there may be several runs of it
    pair: str = ""  # the one pair of brokers that every transmission went to; empty: none, or others too
    refusal: str = ""  # what the last of them said, until it is sent again


def size_of(body: Body) -> int:
    """The body's bytes. Raises `PayloadTooLarge` for a frame or a message over its limit."""
    if len(body) == 1:
        size = len(body[0])
        if size > FRAME_BYTES_MAX:
            raise PayloadTooLarge(size, FRAME_BYTES_MAX)
        return size
    if len(body) >= limits.FRAMES_MAX:
        raise UsageError(f"a body has at most {limits.FRAMES_MAX - 1} frames, not {len(body)}")
    for frame in body:
        if len(frame) > FRAME_BYTES_MAX:
            raise PayloadTooLarge(len(frame), FRAME_BYTES_MAX)
    size = sum(map(len, body))
    limit = limits.MESSAGE_BYTES_MAX - limits.HEADER_BYTES_MAX
    if size > limit:
        raise PayloadTooLarge(size, limit)
    return size


def check_name(service: str) -> None:
    if not 0 < len(service.encode()) <= limits.SERVICE_BYTES_MAX:
        raise UsageError(f"a service name has 1 to {limits.SERVICE_BYTES_MAX} bytes, not {service!r}")


class Names:
    """Service names that are known to be well formed: a client uses few, and again and again."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def check(self, service: str) -> None:
        if service not in self._known:
            check_name(service)
            if len(self._known) >= NAMES_MAX:
                self._known.clear()
            self._known.add(service)


def check_terms(priority: int, requests: Sequence[tuple[Body, bytes]]) -> None:
    """Raises `UsageError` for a priority or for options that no broker takes."""
    if priority not in _PRIORITIES:
        raise UsageError(f"a priority is 0 to {PRIORITIES - 1}, not {priority!r}")
    longest = max([len(options) for _, options in requests])
    if longest > OPTIONS_BYTES_MAX:
        raise UsageError(f"options have at most {OPTIONS_BYTES_MAX:,} bytes, not {longest:,}")


def remaining_ms_of(remaining_s: float) -> int:
    """Time left, as it travels: at least 1, for what is sent has time left."""
    remaining_ms = int(remaining_s * 1000)
    return remaining_ms if 0 < remaining_ms < REMAINING_MS_MAX else max(1, min(remaining_ms, REMAINING_MS_MAX))
