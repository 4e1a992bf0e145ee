"""The client for asyncio: the same verbs as `Client`, awaited.

There is no thread: the event loop drives the socket (see `loop_driver`). An awaiting task that is cancelled cancels its
work: the broker is told, and a worker's handler stops if it can.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from scale0.client.loop_driver import LoopDriver
from scale0.client.options import DEFAULT_IN_FLIGHT, DEFAULT_TIMEOUT_S, ClientOptions, check_timeout
from scale0.client.record import END, Record, StreamRecord
from scale0.client.window import Window
from scale0.encoding import encode_arguments
from scale0.errors import Scale0Error
from scale0.protocol.limits import PRIORITY_NORMAL
from scale0.protocol.messages import Body


class AsyncClient:
    """Sends tasks to a broker and awaits their outcomes; `Client`'s twin, with the same options.

    It belongs to the event loop in which it is first used.
    """

    def __init__(
        self,
        *addresses: str | Iterable[str],
        identity: str | None = None,
        timeout: float = DEFAULT_TIMEOUT_S,
        connect_timeout: float = 3.0,
        retry_forever: bool = False,
        save_config: Path | str | None = None,
        key: Path | str | None = None,
        server_key: str | None = None,
    ) -> None:
        self._options = ClientOptions.read(
            addresses,
            identity=identity,
            timeout_s=timeout,
            connect_timeout_s=connect_timeout,
            retry_forever=retry_forever,
            save_config=save_config,
            key=key,
            server_key=server_key,
        )
        self._driver = LoopDriver(self._options)

    async def call(
        self,
        service: str,
        /,
        *args: Any,
        timeout: float | None = None,
        priority: int = PRIORITY_NORMAL,
        returns: Any = Any,
        **kwargs: Any,
    ) -> Any:
        """The service's result for these arguments, of type `returns`.

        Of a service that streams, that is the list of its parts. Raises what the task ended in:
        `ServiceNotFound`, `DeadlineExceeded`, `WorkerLost`, `RemoteError` …
        """
        timeout_s = self._timeout_s(timeout)
        record = Record(service, returns)
        self._driver.submit(((record, *encode_arguments(args, kwargs)),), timeout_s, priority)
        await self._driver.wait_for_outcome(record, timeout_s)
        return record.take()

    def submit(
        self,
        service: str,
        /,
        *args: Any,
        timeout: float | None = None,
        priority: int = PRIORITY_NORMAL,
        returns: Any = Any,
        **kwargs: Any,
    ) -> asyncio.Future[Any]:
        """Send a task and return at once; the future can be awaited and cancelled. For use inside the event loop."""
        timeout_s = self._timeout_s(timeout)
        record = Record(service, returns)
        self._driver.submit(((record, *encode_arguments(args, kwargs)),), timeout_s, priority)
        future: asyncio.Future[Any] = self._driver.loop.create_future()
        record.wake = lambda: _complete(future, record)
        if record.is_ready:
            _complete(future, record)
        else:
            future.add_done_callback(lambda done: self._driver.cancel([record]) if done.cancelled() else None)
        return future

    def map(
        self,
        service: str,
        items: Iterable[Any],
        /,
        *,
        in_flight: int = DEFAULT_IN_FLIGHT,
        timeout: float | None = None,
        priority: int = PRIORITY_NORMAL,
        returns: Any = Any,
        return_exceptions: bool = False,
    ) -> AsyncIterator[Any]:
        """The results for each of `items`, in order, with at most `in_flight` tasks under way.

        Items are read as room appears, so they may be endless. The first error ends it, unless `return_exceptions`:
        then errors stand in their places. Whoever stops early cancels what is under way.
        """
        timeout_s = self._timeout_s(timeout)
        window = Window(service, items, in_flight, returns)
        return self._map(window, timeout_s, priority, return_exceptions)

    def stream(
        self,
        service: str,
        /,
        *args: Any,
        timeout: float | None = None,
        priority: int = PRIORITY_NORMAL,
        returns: Any = Any,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        """The parts of the service's result as they come; the task is sent when the first one is asked for.

        `timeout` is for all of them together. Whoever stops early cancels the task.
        """
        timeout_s = self._timeout_s(timeout)
        record = StreamRecord(service, returns)
        return self._stream((record, *encode_arguments(args, kwargs)), timeout_s, priority)

    async def connect(self) -> Self:
        """Wait until a broker has taken the session. Raises `Unreachable` if none does."""
        await self._driver.connect()
        return self

    async def close(self) -> None:
        """Leave the broker. Outcomes that have not come are given up."""
        self._driver.close()
        if self._driver.engine.saved_config.is_writing:
            await asyncio.to_thread(self._driver.engine.saved_config.wait)

    @property
    def identity(self) -> str:
        """The name under which the broker lists this client."""
        return self._driver.engine.session.link.settings.identity

    async def __aenter__(self) -> Self:
        return self if self._options.retry_forever else await self.connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _map(
        self, window: Window, timeout_s: float, priority: int, return_exceptions: bool
    ) -> AsyncIterator[Any]:
        driver = self._driver
        records = window.records
        try:
            while True:
                sendings = window.refill()
                if sendings:
                    driver.submit(sendings, timeout_s, priority)
                if not records:
                    return
                if not records[0].is_ready:
                    await driver.wait_for_outcome(records[0], timeout_s)
                for record in window.take_ready():
                    try:
                        value = record.take()
                    except Scale0Error as error:
                        if not return_exceptions:
                            raise
                        value = error
                    yield value
        finally:
            if records:
                driver.cancel(records)

    async def _stream(
        self, sending: tuple[StreamRecord, Body, bytes], timeout_s: float, priority: int
    ) -> AsyncIterator[Any]:
        record = sending[0]
        self._driver.submit((sending,), timeout_s, priority)
        try:
            while True:
                await self._driver.wait_for_outcome(record, timeout_s)
                part = record.take_part()
                if part is END:
                    return
                yield part
        finally:
            if record.outcome is None:
                self._driver.cancel([record])

    def _timeout_s(self, timeout: float | None) -> float:
        return self._options.timeout_s if timeout is None else check_timeout(timeout)


def _complete(future: asyncio.Future[Any], record: Record) -> None:
    if future.done():
        return
    try:
        future.set_result(record.take())
    except Scale0Error as error:
        future.set_exception(error)
