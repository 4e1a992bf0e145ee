"""A broker and a worker that counts how often it runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import scale0.testing
from scale0 import Worker
from scale0.testing import TestBroker


class Post:
    """What is asked, and how often each was run."""

    def __init__(self, broker: TestBroker) -> None:
        self.broker = broker
        self.runs: dict[int, int] = {}
        self._lock = threading.Lock()
        self.worker = Worker(broker.endpoint, capacity=8)
        self.worker.service("double", idempotent=True)(self._double)
        self.worker.service("add", idempotent=True)(self._add)
        self.worker.service("pay")(self._double)

    @property
    def endpoint(self) -> str:
        return self.broker.endpoint

    def _double(self, number: int) -> int:
        with self._lock:
            self.runs[number] = self.runs.get(number, 0) + 1
        if number == 13:
            raise ValueError("unlucky")
        return 2 * number

    def _add(self, left: float, right: float) -> float | str:
        return left + right if right >= 0 else "negative"


@contextlib.contextmanager
def running_post() -> Iterator[Post]:
    with scale0.testing.broker() as broker:
        made = Post(broker)
        with made.worker:
            yield made
