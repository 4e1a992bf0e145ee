"""Workers that left or died within the last hour: who, when, and why as far as it was seen.

The watch lists all workers every few seconds; who was there at the last look and is not now has gone. Why is told by
his last row: silent, draining, or neither. Who comes back is no longer gone. It is bounded, and forgotten with the
process; what is to be kept is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

KEPT_US: Final = 3_600_000_000
KEPT_MAX: Final = 1_000  # the longest gone are forgotten
LATE: Final = 2  # intervals without a heartbeat: then it did not say that it leaves

Row = dict[str, Any]


class Departures:
    """`look` is for one thread; `rows` is replaced as a whole, so that any may read it."""

    def __init__(self) -> None:
        self.rows: list[Row] = []  # the newest first
        self._since_us: list[int] = []  # when each of them was missed
        self._there: dict[str, Mapping[str, Any]] = {}

    def look(self, workers: Iterable[Mapping[str, Any]], now_us: int) -> None:
        there = {str(row["identity"]): row for row in workers}
        gone = [(now_us, _gone(row, now_us)) for identity, row in self._there.items() if identity not in there]
        gone += zip(self._since_us, self.rows, strict=True)
        kept = [one for one in gone if one[1]["identity"] not in there and now_us - one[0] < KEPT_US][:KEPT_MAX]
        self._there = there
        self._since_us, self.rows = [since_us for since_us, _ in kept], [row for _, row in kept]


def _gone(last: Mapping[str, Any], now_us: int) -> Row:
    age_us, interval_us = last.get("heartbeat_age_us"), last.get("heartbeat_interval_us")
    is_late = isinstance(age_us, int) and isinstance(interval_us, int) and age_us > LATE * interval_us
    is_silent = bool(last.get("is_absent")) or is_late
    why = "silent" if is_silent else "drained" if last.get("state") == "draining" else "left, or was sent away"
    return {
        "identity": last["identity"],
        "state": "gone" if is_silent else "left",
        "why": why,
        "at": datetime.fromtimestamp(now_us / 1e6, UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "services": last.get("services") or [],
        "busy": last.get("busy"),
        "sessions_per_h": last.get("sessions_per_h"),
    }
