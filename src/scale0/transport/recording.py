"""What the core has to record goes to the feed in bursts: when there is much of it, or twenty times a second.

The loop asks here whenever it looks for the next deadline, which it does every few milliseconds while messages come. So
a task costs nothing here; a burst costs one system call; and without telemetry there is nobody to ask.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, Final, Protocol

from scale0.events import Records
from scale0.telemetry.feed import Feed, new_boot
from scale0.telemetry.frames import Hello, Order
from scale0.transport.clock import Clock
from scale0.transport.recorded_files import RecordedFiles

BURST_BYTES: Final = 128 * 1024  # as much goes at once
BURST_S: Final = 0.05  # what waits goes after so long, however little it is
PUMP_S: Final = 0.5  # a recorder is looked after so often

Telemetry = Order
"""What is asked of recording: where files are, where segments go, how long they are kept."""


class Core(Protocol):
    """What recording needs of `scale0.core.broker.Broker`."""

    @property
    def state(self) -> Any: ...
    def take_records(self) -> Records | None: ...


class Recording:
    """Records what one broker does. `boot` is the name of this run, for the broker's making."""

    def __init__(self, telemetry: Telemetry, say: Callable[[str], None], clock: Clock) -> None:
        self._telemetry, self._say, self._clock = telemetry, say, clock
        self.boot = new_boot(clock.wall())
        self._anchor_us = round((clock.wall() - clock.monotonic()) * 1e6)
        self._core: Core | None = None
        self._feed: Feed | None = None
        self._put_at_s = self._pumped_at_s = -math.inf
        self.files: RecordedFiles

    def begin(self, core: Core, **detail: Any) -> None:
        """Start the recorder; `detail` goes into the run's first row."""
        settings, journal = core.state.settings, core.state.journal
        self._core = core
        self.files = RecordedFiles(self._telemetry.data, settings.identity)
        self._feed = Feed(
            self._telemetry, Hello(settings.identity, self.boot, self._anchor_us, settings.group), self._say
        )
        wall_us = round(self._clock.wall() * 1e6)
        told = {"pid": os.getpid(), "wall_us": wall_us, "group": settings.group, **detail}
        journal.note(self._clock.monotonic(), "boot", settings.identity, "", None, told)

    @property
    def recorder_pid(self) -> int:
        """The recorder's process; 0 while there is none."""
        return self._feed.pid if self._feed is not None else 0

    @property
    def data(self) -> str:
        """Where what is recorded is gathered."""
        return self._telemetry.data

    @property
    def dropped_bytes(self) -> int:
        """Of rows that could not be sent on, since it began."""
        return self._feed.dropped_bytes if self._feed is not None else 0

    def look(self, now: float) -> float:
        """Send on what has waited long enough, or is much, and say when to look again at the latest."""
        assert self._core is not None, "it has begun"
        assert self._feed is not None, "it has begun"
        waiting = self._core.state.journal.waiting_bytes
        if waiting and (waiting >= BURST_BYTES or now >= self._put_at_s + BURST_S):
            self._put_at_s = now
            records = self._core.take_records()
            if records is not None:
                self._feed.put(records)
            waiting = 0
        if now >= self._pumped_at_s + PUMP_S:
            self._pumped_at_s = now
            self._feed.pump()
        return self._put_at_s + BURST_S if waiting else math.inf

    def end(self, *, is_clean: bool) -> None:
        """The broker ends, of its own will or as a crash would."""
        if self._core is None or self._feed is None:
            return
        if is_clean:
            records = self._core.take_records()
            if records is not None:
                self._feed.put(records)
            self._feed.close(self._core.state.journal.seq, self._clock.monotonic())
        else:
            self._feed.abandon()
