"""Async handlers run in one asyncio loop, apart from the link: one that blocks by mistake delays its fellows, but not
the heartbeat.

A `Task` for each call is dear, and most calls that only compute never suspend. So a *driver*, itself an ordinary
asyncio Task, awaits one handler after another; if a handler suspends, its driver is suspended with it, and another
driver goes on with the queue. Handlers see nothing of this: they run inside a real Task, with `asyncio.timeout`, task
groups and cancellation as always. What could leak from one call to the next ends the driver instead: after a
cancellation, or when a handler has left a context variable changed, the driver is not used again.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable

from scale0.worker.handlers import begin_async, fail, finish
from scale0.worker.job import Job, job_var
from scale0.worker.outbox import Outbox
from scale0.worker.runner import Runner

SLICE_S = 0.002
"""A driver that finds no end of work gives the loop a turn after this time."""


class LoopRunner(Runner):
    """Runs jobs in `loop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, outbox: Outbox) -> None:
        super().__init__()
        self._loop = loop
        self._outbox = outbox
        self._context = contextvars.copy_context()
        self._is_pumping = False
        self._drivers: set[asyncio.Task[None]] = set()  # at most one a job, and one that looks for more

    def wake(self, now: float) -> None:
        if self._queue and not self._is_pumping:
            self._is_pumping = True
            self._call_soon(self._pump)

    def abort(self, job: Job) -> None:
        """Cancel the handler: it meets `asyncio.CancelledError` where it waits."""
        self._call_soon(lambda: self._cancel(job))

    def close(self) -> None:
        """Cancel what still runs."""
        self._call_soon(self._cancel_all)

    def _call_soon(self, function: Callable[[], object]) -> None:
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:  # the loop was closed before the worker: nothing can run there any more
            self._is_pumping = False

    # --- in the loop ----------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Start a driver if there is work, and look again after its first step, for it may have been suspended."""
        self._is_pumping = False  # before the look at the queue: who adds later calls again
        if self._queue:
            driver = self._loop.create_task(self._drive(), name="scale0-driver", context=self._context.copy())
            self._drivers.add(driver)
            driver.add_done_callback(self._drivers.discard)
            self._is_pumping = True
            self._loop.call_soon(self._pump)
        else:
            self._outbox.announce()  # a driver that was suspended has left its earlier results without a word

    async def _drive(self) -> None:
        """Run job after job, until there is none, the time is over or this driver is spoilt."""
        task = asyncio.current_task()
        assert task is not None
        take = self._queue.popleft
        outbox = self._outbox
        monotonic = time.monotonic
        copy_context = contextvars.copy_context
        slice_end_s = monotonic() + SLICE_S
        while True:
            try:
                job = take()
            except IndexError:
                break
            job.started_s = monotonic()
            job_var.set(job)
            clean = copy_context()
            job.driver = task
            try:
                call = begin_async(job, outbox)
                if call is not None:
                    finish(job, await call, outbox)
            except GeneratorExit:  # the loop was thrown away, and this driver with it
                raise
            except BaseException as error:
                fail(job, error, outbox)
            job.driver = None
            if copy_context() != clean or task.cancelling() or job.started_s > slice_end_s:
                break
        self._outbox.announce()
        if self._queue and not self._is_pumping:
            self._is_pumping = True
            self._loop.call_soon(self._pump)

    def _cancel(self, job: Job) -> None:
        if job.driver is not None:
            job.driver.cancel()

    def _cancel_all(self) -> None:
        for driver in list(self._drivers):
            driver.cancel()
