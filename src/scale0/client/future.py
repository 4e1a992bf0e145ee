"""A task's outcome as a future: `concurrent.futures.Future`, with a `result` that drives the socket while it waits.

It works wherever such futures do: `concurrent.futures.wait`, `as_completed`, `asyncio.wrap_future`. Callbacks run in
the client's background thread. `cancel` succeeds as long as there is no outcome, and tells the broker.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any

from scale0.client.driver import Driver
from scale0.client.record import Outcome, Record
from scale0.errors import Scale0Error, TaskCancelled
from scale0.protocol.ids import show_id


class TaskFuture(Future[Any]):
    """The outcome of a submitted task."""

    def __init__(self, owner: object, driver: Driver, service: str, returns: Any, timeout_s: float) -> None:
        super().__init__()
        self.record = FutureRecord(self, service, returns)
        self._owner = owner  # keeps the client alive as long as somebody may want this outcome
        self._driver = driver
        self._timeout_s = timeout_s
        self._has_callbacks = False
        self._is_given_up = False

    @property
    def task_id(self) -> str:
        """The task's id, as listings show it."""
        return show_id(self.record.id)

    def result(self, timeout: float | None = None) -> Any:
        """The reply's value, or the error that the task ended in. TimeoutError if `timeout` seconds pass first."""
        self._wait(timeout)
        return self.record.take()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._wait(timeout)
        return self.record.error

    def done(self) -> bool:
        if not super().done():
            self._driver.look()
        return super().done()

    def cancel(self) -> bool:
        """Give the task up. False: its outcome has come already."""
        driver = self._driver
        with driver.state:
            if self.record.is_ready or self._is_given_up:
                return self._is_given_up
            self._is_given_up = True  # from here on no outcome can come
        driver.cancel([self.record])
        super().cancel()
        self.set_running_or_notify_cancel()
        with driver.state:
            self.record.settle(TaskCancelled(499, "cancelled by this client", self.record.service, self.task_id))
        return True

    def add_done_callback(self, fn: Callable[[Future[Any]], object]) -> None:
        with self._driver.state:
            is_open = not self.record.is_ready
            if is_open:
                if not self._has_callbacks:
                    self._has_callbacks = True
                    self._driver.callbacks_open += 1
                super().add_done_callback(fn)
                self._driver.hurry()
        if not is_open:
            super().add_done_callback(fn)

    def _wait(self, timeout: float | None) -> None:
        if not self.record.is_ready:
            if timeout is None:
                self._driver.wait_for_outcome(self.record, self._timeout_s)
            else:
                self._driver.wait(self.record, timeout)
        if super().cancelled():
            raise CancelledError

    def settled(self) -> None:
        """The record has its outcome. Comes under the driver's `state`, where no callback may run."""
        if self._has_callbacks:
            self._driver.callbacks_open -= 1
            self._driver.call_back(self._complete)
        else:
            self._complete()

    def _complete(self) -> None:
        if self._is_given_up:
            return
        if self.record.error is not None:
            self.set_exception(self.record.error)
        else:
            self.set_result(self.record.value)


class FutureRecord(Record):
    """A record that decodes its outcome once, for all who ask its future."""

    __slots__ = ("_future", "error", "value")

    def __init__(self, future: TaskFuture, service: str, returns: Any) -> None:
        super().__init__(service, returns)
        self._future: TaskFuture | None = future  # until its outcome has come: a lasting circle would be left to the gc
        self.value: Any = None
        self.error: Scale0Error | None = None

    def settle(self, outcome: Outcome) -> None:
        if self.is_ready:
            return
        self.outcome = outcome
        try:
            self.value = super().take()
        except Scale0Error as error:
            self.error = error
        super().settle(outcome)
        future, self._future = self._future, None
        if future is not None:
            future.settled()

    def take(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value
