"""A load of every kind at once: quick tasks and long ones, some that may be repeated and some that must not, a stream;
asked by a sync client and by an asyncio client. `Books` has what came of each.

Long tasks are there so that something is always in flight, whatever is killed and when.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from scale0 import AsyncClient, Client, Worker
from tests.integration.load import DOUBLE, PAY, TIMEOUT_S, WORK_S, Books
from tests.integration.networks import LIMIT_S

PAINT, SHIP, COUNT = "paint", "ship", "count"  # long and idempotent, long and not, a stream
LONG_S = 0.5
PARTS = 4
IN_FLIGHT = 3  # of each service, for each client
ONCE = (PAY, SHIP, COUNT)  # what must not be repeated
ATTEMPTS = 20  # of what may be repeated: more than faults can cost
WORKERS = 2
LEAVE_S = 0.5
_never = threading.Event()


class Kind(NamedTuple):
    """What a service of the load is like."""

    is_idempotent: bool
    work_s: float


KINDS = {
    DOUBLE: Kind(True, WORK_S),
    PAY: Kind(False, WORK_S),
    PAINT: Kind(True, LONG_S),
    SHIP: Kind(False, LONG_S),
    COUNT: Kind(False, WORK_S),
}


class Answer:
    """A future that is done, for the books."""

    def __init__(self, take: Callable[[], Any]) -> None:
        self._take = take

    def result(self, _timeout: float) -> Any:
        return self._take()


class TimedBooks(Books):
    """Books that know when replies came, so that a gap in them can be measured."""

    def __init__(self) -> None:
        super().__init__()
        self.first_reply_s = 0.0  # when the first task had its outcome that was opened after `mark`
        self._marked = 0

    def mark(self) -> None:
        """From now on the first reply to a task that is opened from now on is waited for."""
        with self._changed:
            self._marked, self.first_reply_s = self.submitted, 0.0

    def repeated(self) -> set[int]:
        """Tasks that ran more than once."""
        return {number for number, runs in self.runs.items() if runs > 1}

    def settle(self, number: int, future: Any) -> None:
        now_s = time.monotonic()
        super().settle(number, future)
        with self._changed:
            if number >= self._marked and not self.first_reply_s:
                self.first_reply_s = now_s


class MixedLoad:
    """Both clients, and the workers that `workers` starts. Each service has its books."""

    def __init__(self, endpoints: Sequence[str]) -> None:
        self.books = {name: TimedBooks() for name in KINDS}
        self._endpoints = list(endpoints)
        self._client = Client(self._endpoints, timeout=TIMEOUT_S, retry_forever=True)
        self._is_over = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> MixedLoad:
        self._client.__enter__()
        presses: list[Callable[[], None]] = [functools.partial(self._press, name) for name in KINDS if name != COUNT]
        for press in (*presses, self._press_stream, self._press_async):
            thread = threading.Thread(target=press, daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *failure: object) -> None:
        self._is_over.set()
        for thread in self._threads:  # if all went well they have ended; if not, they are not waited for
            thread.join(LEAVE_S)
        self._client.close()

    # --- what tests ask for -----------------------------------------------------------------------------------------

    def await_replies(self, more: int = 20) -> None:
        """Until so many more quick tasks of each service have been replied to, and some long ones."""
        for name, kind in KINDS.items():
            self.books[name].await_replies(more if kind.work_s < LONG_S else 2)

    def finish(self) -> None:
        """Submit no more, and wait for every outcome."""
        self._is_over.set()
        for thread in self._threads:
            thread.join(LIMIT_S)
        for books in self.books.values():
            books.await_all()

    def check(self, *may_fail: str) -> None:
        """Every task got its reply, and what must not be repeated ran at most once.

        Only tasks of services that `may_fail` may end in 502. After a takeover these are streams, for parts that went
        down with a broker are not sent again.
        """
        self.finish()
        for name, kind in KINDS.items():
            books = self.books[name]
            try:
                books.check("reply", *(["502"] if name in may_fail else []))
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from None
            assert kind.is_idempotent or not books.repeated(), f"{name}: ran more than once: {books.repeated()}"

    # --- clients ----------------------------------------------------------------------------------------------------

    def _press(self, service: str) -> None:
        room = threading.Semaphore(IN_FLIGHT)
        books = self.books[service]
        while not self._is_over.is_set():
            if not room.acquire(timeout=0.2):
                continue
            number = books.open()

            def settled(future: Any, number: int = number) -> None:
                books.settle(number, future)
                room.release()

            self._client.submit(service, number).add_done_callback(settled)

    def _press_stream(self) -> None:
        books = self.books[COUNT]
        while not self._is_over.is_set():
            number = books.open()

            def take(number: int = number) -> int:
                return total(number, list(self._client.stream(COUNT, number)))

            books.settle(number, Answer(take))

    def _press_async(self) -> None:
        asyncio.run(self._run_async())

    async def _run_async(self) -> None:
        async with AsyncClient(self._endpoints, timeout=TIMEOUT_S, retry_forever=True) as client:
            await asyncio.gather(*(self._turn(client, name) for name in KINDS for _ in range(IN_FLIGHT)))

    async def _turn(self, client: AsyncClient, service: str) -> None:
        books = self.books[service]
        while not self._is_over.is_set():
            number = books.open()
            if service == COUNT:
                asked = asyncio.ensure_future(self._read(client, number))
            else:
                asked = asyncio.ensure_future(client.call(service, number))
            await asyncio.wait([asked])
            books.settle(number, Answer(asked.result))

    async def _read(self, client: AsyncClient, number: int) -> int:
        return total(number, [part async for part in client.stream(COUNT, number)])

    # --- workers ----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def workers(self, count: int = WORKERS) -> Iterator[None]:
        """So many workers of every service, which know the same addresses."""
        with contextlib.ExitStack() as ends:
            for number in range(count):
                worker = Worker(*self._endpoints, identity=f"worker-{number}", capacity=16, retry_forever=True)
                for name, kind in KINDS.items():
                    attempts = ATTEMPTS if kind.is_idempotent else 1
                    worker.add_service(
                        name, self._handler(name, kind), idempotent=kind.is_idempotent, max_attempts=attempts
                    )
                ends.enter_context(worker.start())
            yield

    def _handler(self, name: str, kind: Kind) -> Any:
        books = self.books[name]

        def reply(number: int) -> int:
            books.run(number)
            _never.wait(kind.work_s)
            return 2 * number

        def stream(number: int) -> Iterator[int]:
            books.run(number)
            for part in range(PARTS):
                _never.wait(kind.work_s)
                yield number + part

        return stream if name == COUNT else reply


def total(number: int, parts: list[int]) -> int:
    """What the books expect, if all parts came, each once and in order."""
    return 2 * number if parts == [number + part for part in range(PARTS)] else -1
