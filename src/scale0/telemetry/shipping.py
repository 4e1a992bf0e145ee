"""Shipping: a thread that brings sealed segments to the data place, and looks after those that are there.

It works on files alone, beside the thread that reads the pipe: a place that is slow or away holds up nobody. It tries
again with growing pauses and says once that the place is away, and once that it is back.

A place is away, too, if what was shipped last is not there. A share that is not mounted leaves an empty directory
behind, which would take segments willingly and hide them as soon as the share is there again.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from scale0.errors import Scale0Error
from scale0.telemetry import catalogue
from scale0.telemetry.frames import Order
from scale0.telemetry.place import Place
from scale0.telemetry.retention import Retention
from scale0.telemetry.spool import SHIPPED, Spool

PAUSE_S: Final = 1.0  # after a first failure; it doubles
PAUSE_S_MAX: Final = 60.0
RETENTION_S: Final = 60.0  # between two looks at what has had its time
FOLLOWERS_S: Final = 5.0  # between two looks at who follows
FRESH_S: Final = 60.0  # a consumer that looked so recently follows

Say = Callable[[str], None]


class Shipper:
    """Ships what is in the spool. `step` does what is due; `start` has a thread do it."""

    def __init__(self, order: Order, broker: str, say: Say, now: Callable[[], float] = time.monotonic) -> None:
        self._order, self._broker, self._say, self._now = order, broker, say, now
        self.spool = Spool(Path(order.directory), order.cap_bytes)
        self.is_followed = False
        """Somebody reads segments as they come."""
        self._place: Place | None = None
        self._retention: Retention | None = None
        self._pause_s = 0.0
        self._not_before_s = self._retention_at_s = self._followers_at_s = -1.0
        self._wake = threading.Event()
        self._is_ending = False
        self._thread = threading.Thread(target=self._run, name="shipping", daemon=True)

    # --- the recorder's thread ----------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Something was sealed."""
        self._wake.set()

    def end(self, limit_s: float) -> None:
        """Ship what is there, but no longer than `limit_s`; what stays in the spool waits for the next recorder."""
        self._is_ending = True
        self._not_before_s = -1.0
        self._wake.set()
        self._thread.join(limit_s)

    def _run(self) -> None:
        while not self._is_ending:
            self._wake.wait(self.step())
            self._wake.clear()
        self.step()

    # --- its own thread -----------------------------------------------------------------------------------------------

    def step(self) -> float:
        """Do what is due, and say in how many seconds to come again."""
        now = self._now()
        if now < self._not_before_s:
            return self._not_before_s - now
        try:
            self._look_at_spool()
            place = self._ready_place()
            self._check(place)
            self._ship(place)
            self._look_after(place, now)
        except (OSError, Scale0Error, ValueError) as error:
            return self._failed(error, now)
        if self._pause_s:
            self._say(f"the data place {self._order.data} is back, and has all that waited")
            self._pause_s = 0.0
        return FOLLOWERS_S

    def _look_at_spool(self) -> None:
        lost = self.spool.shrink()
        if lost:
            rows = sum(gap.rows for gap in lost)
            self._say(f"{rows:,} rows lost: more than {self._order.cap_bytes:,} bytes wait for {self._order.data}")

    def _ready_place(self) -> Place:
        if self._place is None:
            self._place = Place(self._order.data)
            self._retention = Retention(self._place, self._broker, self._order.keep_s, self._order.cap_bytes)
        return self._place

    def _check(self, place: Place) -> None:
        """What was shipped last is there."""
        last = self.spool.shipped
        if last is None or (last.data, last.broker) != (place.url, self._broker):
            return
        if not catalogue.has(place, last.broker, last.number):
            file = Path(self._order.directory) / SHIPPED
            raise FileNotFoundError(
                f"entry {last.number} of its catalogue is gone; mount it, or delete {file} if it was emptied"
            )

    def _ship(self, place: Place) -> None:
        assert self._retention is not None, "it is made with the place"
        for one in self.spool.waiting():
            entry = self.spool.ship(place, one)
            if entry is None:
                self._say(f"{one.path.name} cannot be read any more; it is put aside as {one.path.stem}.damaged")
            elif entry.broker == self._broker:
                self._retention.added(entry)

    def _look_after(self, place: Place, now: float) -> None:
        assert self._retention is not None, "it is made with the place"
        if now >= self._followers_at_s:
            self._followers_at_s = now + FOLLOWERS_S
            since_us = time.time_ns() // 1_000 - FRESH_S * 1e6
            self.is_followed = any(
                one.at_us >= since_us and one.reads(self._broker) for one in catalogue.consumers(place).values()
            )
        if now >= self._retention_at_s and not self._is_ending:
            self._retention_at_s = now + RETENTION_S
            deleted = self._retention.look()
            if deleted.gaps:
                rows = sum(gap.rows for gap in deleted.gaps)
                self._say(f"{rows:,} rows deleted that a consumer had not used: over the cap of this broker's segments")

    def _failed(self, error: Exception, now: float) -> float:
        if not self._pause_s:
            self._say(f"segments wait, for the data place {self._order.data} is away: {error}")
        self._pause_s = min(max(self._pause_s * 2, PAUSE_S), PAUSE_S_MAX)
        self._not_before_s = now + self._pause_s
        with contextlib.suppress(OSError):
            self._look_at_spool()
        return self._pause_s
