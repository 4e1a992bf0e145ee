"""Both clients behind one blocking face, so that one suite runs on both.

The asyncio client lives in an event loop of its own thread; every wait here has a limit.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator
from concurrent.futures import CancelledError
from typing import Any, Protocol

from scale0.client import AsyncClient, Client

LIMIT_S = 60.0


class Handle(Protocol):
    """What `submit` returned."""

    def result(self, timeout: float | None = None) -> Any: ...
    def cancel(self) -> bool: ...
    def done(self) -> bool: ...
    def cancelled(self) -> bool: ...


class Subject(Protocol):
    """The face."""

    def call(self, service: str, /, *args: Any, **options: Any) -> Any: ...
    def submit(self, service: str, /, *args: Any, **options: Any) -> Handle: ...
    def map(self, service: str, items: Iterable[Any], /, **options: Any) -> Iterator[Any]: ...
    def stream(self, service: str, /, *args: Any, **options: Any) -> Iterator[Any]: ...
    def connect(self) -> object: ...
    def close(self) -> None: ...
    def end(self) -> None: ...


class AsyncSubject:
    """`AsyncClient`, driven from outside its loop."""

    def __init__(self, *addresses: str, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._client = AsyncClient(*addresses, **options)

    def call(self, service: str, /, *args: Any, **options: Any) -> Any:
        return self._run(self._client.call(service, *args, **options))

    def submit(self, service: str, /, *args: Any, **options: Any) -> Handle:
        async def start() -> asyncio.Future[Any]:
            return self._client.submit(service, *args, **options)

        return _Handle(self._loop, self._run(start()))

    def map(self, service: str, items: Iterable[Any], /, **options: Any) -> Iterator[Any]:
        return self._iterate(self._client.map(service, items, **options))

    def stream(self, service: str, /, *args: Any, **options: Any) -> Iterator[Any]:
        return self._iterate(self._client.stream(service, *args, **options))

    def connect(self) -> object:
        return self._run(self._client.connect())

    def close(self) -> None:
        self._run(self._client.close())

    def end(self) -> None:
        """Close the client and its loop."""
        self.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT_S)
        self._loop.close()

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(LIMIT_S)

    def _iterate(self, values: AsyncIterator[Any]) -> Iterator[Any]:
        async def step() -> Any:
            return await anext(values, _END)

        try:
            while (value := self._run(step())) is not _END:
                yield value
        finally:
            self._run(values.aclose())  # type: ignore[attr-defined]


class _Handle:
    def __init__(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]) -> None:
        self._loop = loop
        self._future = future

    def result(self, timeout: float | None = None) -> Any:
        async def wait() -> Any:
            return await asyncio.wait_for(asyncio.shield(self._future), timeout)

        try:
            return asyncio.run_coroutine_threadsafe(wait(), self._loop).result(LIMIT_S)
        except asyncio.CancelledError:
            raise CancelledError from None

    def cancel(self) -> bool:
        async def cancel() -> bool:
            return self._future.cancel()

        return asyncio.run_coroutine_threadsafe(cancel(), self._loop).result(LIMIT_S)

    def done(self) -> bool:
        return self._future.done()

    def cancelled(self) -> bool:
        return self._future.cancelled()


class BlockingSubject(Client):
    """`Client` has this face already."""

    def end(self) -> None:
        self.close()


_END = object()
SUBJECTS: dict[str, type[Any]] = {"blocking": BlockingSubject, "asyncio": AsyncSubject}
