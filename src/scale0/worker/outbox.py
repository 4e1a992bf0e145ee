"""Where handlers put their results, for the link's thread to send.

Handing a result over must cost next to nothing, so results pile up in a deque and the link's thread is woken once for
many. Waking is a write to a socket pair. Three facts keep a result from lying there unseen:

- a handler's thread that has nothing more to do wakes the link (`announce`);
- a link that sleeps for long says so first (`is_sleeping`), and then every result wakes it;
- a link that does not, looks again within `LOOK_AGAIN_S`.

So a short task that was followed by a long one in the same thread is answered within that time, and a thousand short
ones cost one wake-up.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections import deque
from collections.abc import Callable

from scale0.protocol.messages import UNKNOWN_US, Body, Status
from scale0.worker.job import Job

LOOK_AGAIN_S = 0.002
_OK = int(Status.OK)
_RETURNED = int(Status.RETURNED)


Result = tuple[Job, int, Body, int, bool, int]
"""One reply or a part of one: job, status, body, part, is_final, work_us. A plain tuple: one is made for each task."""


class Outbox:
    """Results and calls on their way to the link's thread. Any thread may put; only the link's takes."""

    def __init__(self) -> None:
        self.results: deque[Result] = deque()  # at most capacity × (parts unsent + 1)
        self.calls: deque[Callable[[], object]] = deque()
        self.is_sleeping = False
        self._is_woken = False
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    # --- from any thread ------------------------------------------------------------------------------------------

    def finish(self, job: Job, body: Body, status: int = _OK) -> None:
        """The job's one final result. Follow it with `announce` when the thread runs out of work."""
        work_us = int((time.monotonic() - job.started_s) * 1e6) if job.started_s else UNKNOWN_US
        self.results.append((job, status, body, job.parts_made, True, work_us))
        if self.is_sleeping:
            self.announce()

    def give_back(self, job: Job) -> None:
        """The job was never started; the broker has it back."""
        self.results.append((job, _RETURNED, (), 0, True, UNKNOWN_US))
        if self.is_sleeping:
            self.announce()

    def add_part(self, job: Job, body: Body) -> None:
        """One part of a stream; it leaves at once, for somebody is waiting to see it."""
        work_us = int((time.monotonic() - job.started_s) * 1e6)
        self.results.append((job, _OK, body, job.parts_made, False, work_us))
        job.parts_made += 1
        self.announce()

    def call(self, function: Callable[[], object]) -> None:
        """Have `function` called in the link's thread."""
        self.calls.append(function)
        self.announce()

    def announce(self) -> None:
        """Wake the link's thread, unless somebody has already done so."""
        if not self._is_woken:
            self._is_woken = True
            with contextlib.suppress(OSError):  # full means woken; closed means that nobody listens any more
                self._writer.send(b"w")

    # --- from the link's thread -----------------------------------------------------------------------------------

    @property
    def fileno(self) -> int:
        return self._reader.fileno()

    def clear(self) -> None:
        """Make ready for the next wake-up; what is to be seen must be looked at after this.

        In this order: a thread that finds the flag set and does not write has put its result before, so it is seen.
        """
        with contextlib.suppress(BlockingIOError):
            self._reader.recv(64)
        self._is_woken = False

    def close(self) -> None:
        self._reader.close()
        self._writer.close()
