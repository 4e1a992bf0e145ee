"""Denials are audited like everything else, and nobody can fill the disk with them.

The first few of a source within a minute have a record each; what comes after them is counted, and one record with the
count is written when the minute is over. At most so many sources are told apart, and the rest is one.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scale0.management.audit import Record

EACH_MAX: Final = 5  # records of their own, of one source in one minute
WINDOW_S: Final = 60.0
SOURCES_MAX: Final = 200
OTHERS: Final = "others"


class Window(msgspec.Struct):
    began_s: float
    written: int = 0
    counted: int = 0
    last: Record | None = None


class Denials:
    """Which denials are written, and when. Not thread-safe: the gate's thread has it."""

    def __init__(self) -> None:
        self._windows: dict[str, Window] = {}

    def add(self, record: Record, now: float) -> list[Record]:
        """What is to be written of this denial: itself, or nothing yet."""
        source = f"{record.door} {record.source}"
        if source not in self._windows and len(self._windows) >= SOURCES_MAX:
            source = OTHERS
        window = self._windows.setdefault(source, Window(now))
        if window.written < EACH_MAX:
            window.written += 1
            return [record]
        window.counted += 1
        window.last = record
        return []

    def due(self, now: float, *, is_end: bool = False) -> list[Record]:
        """Sums of windows that are over."""
        over = [source for source, window in self._windows.items() if is_end or now - window.began_s >= WINDOW_S]
        sums = []
        for source in over:
            window = self._windows.pop(source)
            if window.last is not None and window.counted:
                text = f"{window.counted} more denials like this one"
                sums.append(msgspec.structs.replace(window.last, count=window.counted, text=text))
        return sums
