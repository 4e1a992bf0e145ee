"""A steady load on a network, with its books: each task that was submitted, its outcomes, and how often it ran.

Clients keep a few tasks under way each until they are told to finish. Workers answer two services: `double` may be
repeated, `pay` must not be. `Books` has what came of it, and checks what must always hold.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from scale0 import Client, TaskError, Worker
from scale0.client.options import GRACE_S
from tests.integration.networks import LIMIT_S, BrokerNetwork, BrokerProcess, network, until_each

DOUBLE, PAY = "double", "pay"
NAMES = ["b1", "b2", "b3"]  # of the network under load
WORKERS_EACH = 2
TIMEOUT_S = 25.0  # of each task: far beyond what a loss may cost
WORK_S = 0.01
_never = threading.Event()


class Books:
    """What became of each task of one service. Tasks are numbered; each is submitted once."""

    def __init__(self) -> None:
        self.submitted = 0
        self.outcomes: Counter[int] = Counter()
        self.ends: Counter[str] = Counter()
        self.runs: Counter[int] = Counter()
        self.errors: list[str] = []
        self._changed = threading.Condition()

    def open(self) -> int:
        with self._changed:
            self.submitted += 1
            return self.submitted - 1

    def run(self, number: int) -> None:
        with self._changed:
            self.runs[number] += 1

    def settle(self, number: int, future: Any) -> None:
        try:
            end = "reply" if future.result(0) == 2 * number else "wrong"
        except TaskError as error:
            end = str(error.code)
            self.errors.append(str(error))
        with self._changed:
            self.outcomes[number] += 1
            self.ends[end] += 1
            self._changed.notify_all()

    def await_replies(self, more: int = 100) -> None:
        """Until so many more replies have come."""
        with self._changed:
            wanted = self.ends["reply"] + more
            assert self._changed.wait_for(lambda: self.ends["reply"] >= wanted, LIMIT_S), f"no replies come: {self}"

    def await_all(self) -> None:
        """Until every task has its outcome; the library promises it by the deadline and a grace."""
        limit_s = TIMEOUT_S + GRACE_S + LIMIT_S  # which a busy machine may keep late
        with self._changed:
            is_done = self._changed.wait_for(lambda: len(self.outcomes) == self.submitted, limit_s)
        assert is_done, f"tasks without an outcome: {self}"

    def check(self, *allowed: str) -> None:
        """Submitted = replies + errors, and only these ends."""
        assert self.outcomes == Counter(range(self.submitted)), "each task has exactly one outcome"
        assert sum(self.ends.values()) == self.submitted
        assert set(self.ends) <= set(allowed), f"{self}: {self.errors[:5]}"

    def __repr__(self) -> str:
        return f"{self.submitted} submitted, {dict(self.ends)}"


class Load:
    """Clients, one at each of `endpoints`, that keep tasks of both services under way."""

    def __init__(self, endpoints: Sequence[str], in_flight: int = 4) -> None:
        self.books = {DOUBLE: Books(), PAY: Books()}
        self._clients = [Client(endpoint, timeout=TIMEOUT_S) for endpoint in endpoints]
        self._in_flight = in_flight
        self._is_over = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Load:
        for client in self._clients:
            client.__enter__()
            for service in self.books:
                thread = threading.Thread(target=self._press, args=(client, service), daemon=True)
                thread.start()
                self._threads.append(thread)
        return self

    def __exit__(self, *failure: object) -> None:
        self._is_over.set()
        for client in self._clients:
            client.close()
        for thread in self._threads:
            thread.join(LIMIT_S)

    def await_replies(self, more: int = 100) -> None:
        """Until so many more tasks of each service have been replied to."""
        for books in self.books.values():
            books.await_replies(more)

    def finish(self) -> None:
        """Submit no more, and wait for every outcome."""
        self._is_over.set()
        for thread in self._threads:
            thread.join(LIMIT_S)
        for books in self.books.values():
            books.await_all()

    def _press(self, client: Client, service: str) -> None:
        room = threading.Semaphore(self._in_flight)
        books = self.books[service]
        while not self._is_over.is_set():
            if not room.acquire(timeout=0.2):
                continue
            number = books.open()

            def settled(future: Any, number: int = number) -> None:
                books.settle(number, future)
                room.release()

            client.submit(service, number).add_done_callback(settled)

    @contextlib.contextmanager
    def workers(self, endpoints: Sequence[str], each: int, *, is_mixed: bool = True) -> Iterator[None]:
        """So many workers at each endpoint; if they are not mixed, by turns for one service or the other."""
        with contextlib.ExitStack() as ends:
            for place, endpoint in enumerate(endpoints):
                for number in range(each):
                    worker = Worker(endpoint, identity=f"worker-{place}-{number}", capacity=4)
                    if is_mixed or place % 2 == 0:
                        worker.add_service(DOUBLE, self._double, idempotent=True, max_attempts=20)
                    if is_mixed or place % 2 == 1:
                        worker.add_service(PAY, self._pay)
                    ends.enter_context(worker.start())
            yield

    def _double(self, number: int) -> int:
        _never.wait(WORK_S)
        return 2 * number

    def _pay(self, number: int) -> int:
        self.books[PAY].run(number)
        _never.wait(WORK_S)
        return 2 * number


@contextlib.contextmanager
def network_under_load(directory: Path, **keys: Any) -> Iterator[tuple[BrokerNetwork, Load]]:
    """Three brokers, a client and workers of one service at each: most tasks cross from one broker to another."""
    with network(directory, *NAMES, group="eu", service=[{"name": DOUBLE, "idempotent": True}], **keys) as brokers:
        load = Load(brokers.endpoints)
        with load.workers(brokers.endpoints, WORKERS_EACH, is_mixed=False):
            brokers.await_services(DOUBLE, PAY)
            with load:
                load.await_replies()
                until_each(brokers.running, has_forwarded, "has forwarded a task")
                yield brokers, load


def has_forwarded(broker: BrokerProcess) -> bool:
    return any(row["forwarded"] for row in broker.rows("network"))


def check_books(load: Load) -> None:
    """Every idempotent task got its reply; every other its reply or "outcome unknown", and ran at most once."""
    load.finish()
    load.books[DOUBLE].check("reply")
    load.books[PAY].check("reply", "502")
    assert max(load.books[PAY].runs.values()) == 1


@contextlib.contextmanager
def echo_worker(endpoint: str, identity: str, *services: str) -> Iterator[Worker]:
    """A worker that answers with its own name."""
    worker = Worker(endpoint, identity=identity, capacity=2)
    for service in services:
        worker.add_service(service, lambda: identity, idempotent=True)
    with worker.start():
        yield worker
