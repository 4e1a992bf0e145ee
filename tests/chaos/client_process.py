"""A client of the load, sync or asyncio, in a process of its own.

    python -m tests.chaos.client_process sync|async IDENTITY INTERVAL_S ENDPOINT…

It keeps a few tasks of every service under way, and tells on stdout what it does, a line each: `open NAME` before a
task is submitted, `end NAME OUTCOME` for each outcome that comes. The line `finish` on stdin ends the submitting; when
every task has its outcome it says `done`, and ends. It ends at once when stdin ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from scale0 import AsyncClient, Client, TaskError
from scale0.errors import Scale0Error
from tests.chaos.services import REPLY, SERVICES, TIMEOUT_S, WRONG, Service, answer, parts
from tests.integration.broker_process import stdin_lines

IN_FLIGHT = 2  # tasks of one service at once
PACE_S = 0.06  # between two tasks of one service
_telling = threading.Lock()


def tell(*words: str) -> None:
    line = f"{' '.join(words)}\n".encode()
    with _telling:
        os.write(1, line)


def end_of(take: Callable[[], Any], expected: Any) -> str:
    """How a task ended."""
    try:
        return REPLY if take() == expected else WRONG
    except TaskError as error:
        return str(error.code)
    except (Scale0Error, asyncio.CancelledError) as error:
        return type(error).__name__


def names(identity: str, service: Service) -> Iterator[str]:
    """The names of its tasks, each told when it is taken."""
    number = 0
    while True:
        number += 1
        name = f"{identity}/{service.name}/{number}"
        tell("open", name)
        yield name


class SyncLoad:
    """A thread a service; a stream is read in it, other tasks are submitted from it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._is_over = threading.Event()

    def run(self) -> None:
        threads = [threading.Thread(target=self._press, args=(service,)) for service in SERVICES.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def finish(self) -> None:
        self._is_over.set()

    def _press(self, service: Service) -> None:
        room = threading.Semaphore(IN_FLIGHT)
        fresh = names(self._client.identity, service)
        while not self._is_over.wait(PACE_S):
            room.acquire()
            name = next(fresh)

            def settle(take: Callable[[], Any], expected: Any, name: str = name) -> None:
                tell("end", name, end_of(take, expected))
                room.release()

            if service.is_stream:
                stream = self._client.stream(service.name, name)
                settle(functools.partial(list, stream), parts(name))
            else:
                future = self._client.submit(service.name, name)
                future.add_done_callback(functools.partial(_settle, settle, answer(name)))
        for _ in range(IN_FLIGHT):  # every place is free again: every task has its outcome
            room.acquire()


def _settle(settle: Callable[[Callable[[], Any], Any], None], expected: Any, done: Any) -> None:
    settle(done.result, expected)


class AsyncLoad:
    """A coroutine a service."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._is_over = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        await asyncio.gather(*(self._press(service) for service in SERVICES.values()))

    def finish(self) -> None:
        self._loop.call_soon_threadsafe(self._is_over.set)

    async def _press(self, service: Service) -> None:
        room = asyncio.Semaphore(IN_FLIGHT)
        fresh = names(self._client.identity, service)
        while not await self._pause():
            await room.acquire()
            name = next(fresh)

            def settle(done: asyncio.Future[Any], name: str = name) -> None:
                tell("end", name, end_of(done.result, parts(name) if service.is_stream else answer(name)))
                room.release()

            if service.is_stream:
                asyncio.ensure_future(self._read(service, name)).add_done_callback(settle)
            else:
                self._client.submit(service.name, name).add_done_callback(settle)
        for _ in range(IN_FLIGHT):
            await room.acquire()

    async def _read(self, service: Service, name: str) -> list[Any]:
        return [part async for part in self._client.stream(service.name, name)]

    async def _pause(self) -> bool:
        """Wait until the next task is due. True: there shall be none."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_over.wait(), PACE_S)
        return self._is_over.is_set()


def _listen(finish: Callable[[], None]) -> None:
    for line in stdin_lines():
        if line == "finish":
            finish()
    os._exit(1)


def _hear(finish: Callable[[], None]) -> None:
    threading.Thread(target=_listen, args=(finish,), daemon=True).start()


async def _run_async(endpoints: list[str], options: dict[str, Any]) -> None:
    async with AsyncClient(endpoints, **options) as client:
        load = AsyncLoad(client)
        _hear(load.finish)
        await load.run()


def main() -> None:
    kind, identity, interval_s, *endpoints = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to act on
    connect_timeout = float(interval_s)
    options = {"identity": identity, "timeout": TIMEOUT_S, "connect_timeout": connect_timeout, "retry_forever": True}
    if kind == "async":
        asyncio.run(_run_async(endpoints, options))
    else:
        with Client(endpoints, **options) as client:  # type: ignore[arg-type]
            load = SyncLoad(client)
            _hear(load.finish)
            load.run()
    tell("done")


if __name__ == "__main__":
    main()
