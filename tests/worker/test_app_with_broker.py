"""`Worker` with a real broker and a real client: nothing is lost when workers come and go."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from scale0.client import Client
from scale0.errors import RemoteError, TaskCancelled
from scale0.testing import TestBroker, broker
from scale0.transport.addresses import this_process
from scale0.worker import Worker, current_task

LIMIT_S = 60.0


@pytest.fixture
def running() -> Iterator[TestBroker]:
    # In the config, too: after a restart the broker must know it before the first worker is back.
    with broker(service={"double": {"idempotent": True}}) as running:
        yield running


def _worker(running: TestBroker, capacity: int = 8) -> Worker:
    worker = Worker(running.endpoint, capacity=capacity)

    @worker.service("double", idempotent=True)
    def double(number: int) -> int:
        return 2 * number

    @worker.service("double_async")
    async def double_async(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    @worker.service("fail")
    def fail() -> None:
        raise ValueError("on purpose")

    return worker


@pytest.mark.parametrize("service", ["double", "double_async"])
def test_replies_come_back_to_whoever_asked(running: TestBroker, service: str) -> None:
    with _worker(running).start(), Client(running.endpoint) as client:
        assert list(client.map(service, range(500), in_flight=100)) == [2 * number for number in range(500)]
        with pytest.raises(RemoteError, match="ValueError: on purpose"):
            client.call("fail", timeout=LIMIT_S)


def test_workers_that_leave_under_load_lose_nothing(running: TestBroker) -> None:
    workers = [_worker(running).start() for _ in range(3)]
    with Client(running.endpoint, timeout=LIMIT_S) as client:
        replies = client.map("double", range(3000), in_flight=200)
        seen = [next(replies) for _ in range(500)]
        workers[0].stop()
        seen += [next(replies) for _ in range(500)]
        workers[1].stop()
        seen += replies
        assert seen == [2 * number for number in range(3000)]
        workers[2].stop()


def test_a_worker_comes_back_after_the_brokers_restart(running: TestBroker) -> None:
    with _worker(running).start(), Client(running.endpoint) as client:
        assert client.call("double", 1, timeout=LIMIT_S) == 2
        running.restart()
        assert client.call("double", 2, timeout=LIMIT_S) == 4


def test_a_cancelled_task_ends_as_cancelled(running: TestBroker) -> None:
    worker = _worker(running)
    began, ended = threading.Event(), threading.Event()

    @worker.service("wait")
    async def wait() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    @worker.service("stream")
    def stream() -> Iterator[int]:
        yield 1
        began.set()
        current_task().cancelled.wait(LIMIT_S)
        yield 2

    with worker.start(), Client(running.endpoint, timeout=LIMIT_S) as client:
        for service in ("wait", "stream"):
            began.clear()
            future = client.submit(service)
            assert began.wait(LIMIT_S)
            future.cancel()
            with pytest.raises((TaskCancelled, asyncio.CancelledError, _concurrent_cancelled())):
                future.result(LIMIT_S)
        assert ended.wait(LIMIT_S)


def _concurrent_cancelled() -> type[BaseException]:
    from concurrent.futures import CancelledError

    return CancelledError


def test_handlers_may_ask_other_services(running: TestBroker) -> None:
    worker = _worker(running)
    with Client(running.endpoint, timeout=LIMIT_S) as inner:

        @worker.service("quadruple")
        def quadruple(number: int) -> int:
            doubled: int = inner.call("double", number)
            again: int = inner.call("double", doubled)
            return again

        with worker.start(), Client(running.endpoint, timeout=LIMIT_S) as client:
            assert list(client.map("quadruple", range(40), in_flight=4)) == [4 * number for number in range(40)]


def test_worker_tells_its_process_and_knows_its_broker(running: TestBroker) -> None:
    worker = _worker(running)
    assert worker.broker == ""
    with worker.start():
        assert worker.broker == running.endpoint
        (row,) = running.listing("workers")["rows"]
        (own,) = running.listing("brokers")["rows"]
        assert row["process"] == own["process"] == this_process(), "both are threads of this process"
