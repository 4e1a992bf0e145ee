"""Sync handlers run in threads, so that none of them can stop the heartbeat; the threads share one queue.

A thread takes one job at a time, so a long job never strands others behind it. What is dear is not the taking but the
waking of a thread: at microseconds a job, one thread that runs through a full queue beats eight that fight for the
interpreter's lock. So a handler that usually is quick (`LONG_S`) is run by the link's own thread, which can be relieved
(`lead.py`). Others go to the pool, where there is to be *one* thread that goes through the queue: when it takes a job
it wakes another to go on first. If a usually quick handler takes its time, the link sees that the queue's head has not
moved for `STALL_S` and wakes one more each time; not sooner, for on a busy machine the thread may only be waiting for a
processor. Threads are started in the same way, up to the capacity, and stay for as long as the worker runs.
"""

from __future__ import annotations

import contextvars
import threading
import time
from _thread import LockType, allocate_lock
from collections.abc import Callable

from scale0.worker.handlers import UNKNOWN_S, Handler
from scale0.worker.job import Job
from scale0.worker.outbox import Outbox
from scale0.worker.runner import Runner

STALL_S = 0.005
LONG_S = 0.000_2  # longer ones are worth a thread each
INLINE_S = 0.001  # the link's own thread looks at its socket again after this
_SMOOTHING = 0.1
_OUTLIER = 4.0


def is_quick(handler: Handler) -> bool:
    """Whether a call usually ends before another thread would have begun it. A stream needs the link to get on."""
    return UNKNOWN_S < handler.typical_s < LONG_S and not handler.is_stream


def smoothed(typical_s: float, took_s: float) -> float:
    """How long a handler usually takes, after one more call.

    A call that took much longer counts as somewhat longer: on a busy machine it may only have waited for a processor.
    """
    if typical_s == UNKNOWN_S:
        return max(took_s, 1e-6)
    return typical_s + _SMOOTHING * (min(took_s, _OUTLIER * typical_s) - typical_s)


class ThreadRunner(Runner):
    """Runs jobs in at most `size` threads."""

    def __init__(self, name: str, size: int, perform: Callable[[Job], None], outbox: Outbox) -> None:
        super().__init__()
        self.size = size
        self._name = name
        self._perform = perform
        self._outbox = outbox
        self._context = contextvars.copy_context()
        self._idle: list[LockType] = []  # one closed gate for each thread that waits
        self._occupied: set[LockType] = set()  # the gates of threads with a job that usually is long
        self._thread_count = 0
        self._start_lock = threading.Lock()
        self._is_closed = False
        self._stalled_head: Job | None = None
        self._look_at_s = 0.0

    def wake(self, now: float) -> None:
        try:
            head = self._queue[0]
        except IndexError:  # nothing was added, or it is taken already
            return
        if self._thread_count <= len(self._idle) + len(self._occupied):  # nobody goes through the queue
            self._help(1)
        self._has_moved(head, now)

    def look(self, now: float) -> float | None:
        try:
            head = self._queue[0]
        except IndexError:
            return None
        if not self._has_moved(head, now) and now >= self._look_at_s:
            self._help(1)
            self._look_at_s = now + STALL_S
        return self._look_at_s if self._thread_count < self.size or self._idle else None

    def _has_moved(self, head: Job, now: float) -> bool:
        """Whether the queue's head is another than at the last look."""
        if head is self._stalled_head:
            return False
        self._stalled_head = head
        self._look_at_s = now + STALL_S
        return True

    @property
    def has_quick_job(self) -> bool:
        try:
            return is_quick(self._queue[0].handler)
        except IndexError:
            return False

    def run_quick_jobs(self) -> None:
        now = time.monotonic()
        end_s = now + INLINE_S
        queue = self._queue
        while now <= end_s:
            try:
                job = queue.popleft()
            except IndexError:
                return
            if not is_quick(job.handler):
                queue.appendleft(job)
                return
            now = self._run(job, now)

    def close(self) -> None:
        """Let idle threads end; a busy one ends after its job. All are daemons: the process waits for none."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().release()

    # --- in any thread --------------------------------------------------------------------------------------------

    def _help(self, count: int) -> None:
        """Wake up to `count` threads, starting what is missing within the size."""
        for _ in range(count):
            try:
                self._idle.pop().release()
            except IndexError:
                if not self._start_thread():
                    return

    def _start_thread(self) -> bool:
        with self._start_lock:
            if self._thread_count >= self.size:
                return False
            self._thread_count += 1
            name = f"{self._name}-{self._thread_count}"
        threading.Thread(target=self._work, name=name, daemon=True).start()
        return True

    # --- in the handlers' threads ---------------------------------------------------------------------------------

    def _work(self) -> None:
        gate = allocate_lock()
        gate.acquire()
        queue = self._queue
        while not self._is_closed:
            try:
                job = queue.popleft()
            except IndexError:
                self._outbox.announce()
                self._park(gate)
                continue
            if is_quick(job.handler):
                self._run(job, time.monotonic())
                continue
            self._occupied.add(gate)
            self._outbox.announce()
            if queue:
                self._help(1)
            self._run(job, time.monotonic())
            self._occupied.discard(gate)

    def _run(self, job: Job, started_s: float) -> float:
        """Run the job here and now; returns when it ended."""
        job.started_s = started_s
        # A context of its own: what a handler sets in a context variable ends with its task.
        self._context.copy().run(self._perform, job)
        ended_s = time.monotonic()
        handler = job.handler
        handler.typical_s = smoothed(handler.typical_s, ended_s - started_s)
        return ended_s

    def _park(self, gate: LockType) -> None:
        """Wait at the gate until `_help` or `close` opens it."""
        self._idle.append(gate)
        if self._queue or self._is_closed:  # came between the last take and the line above: nobody may have seen us
            try:
                self._idle.remove(gate)
            except ValueError:
                pass  # somebody has seen us after all, and opens the gate
            else:
                return
        gate.acquire()
