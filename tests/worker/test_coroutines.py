"""Async handlers: run in real tasks, side by side, and apart from one another."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from scale0.worker import Worker, current_task
from tests.worker.scripted import LIMIT_S, ScriptedBroker


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as scripted:
        yield scripted


def test_handlers_that_wait_run_side_by_side(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint, capacity=10)
    waiting: list[int] = []

    @worker.service("meet")
    async def meet(number: int) -> int:
        waiting.append(number)
        while len(waiting) < 10:  # each waits for all the others
            await asyncio.sleep(0)
        return number

    with worker.start():
        ids = [broker.submit("meet", number) for number in range(10)]
        values = {broker.value(ids[0])}
    assert values == {0}
    assert sorted(waiting) == list(range(10))


def test_what_needs_a_task_of_its_own_works(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint)

    @worker.service("timeout")
    async def timeout() -> str:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            return "timed out"
        return "not"

    @worker.service("group")
    async def group() -> list[Any]:
        async def part(number: int) -> list[Any]:
            await asyncio.sleep(0)
            return [number, current_task().service]

        async with asyncio.TaskGroup() as tasks:
            parts = [tasks.create_task(part(number)) for number in range(2)]
        return [each.result() for each in parts]

    with worker.start():
        for _ in range(3):
            assert broker.value(broker.submit("timeout")) == "timed out"
            assert broker.value(broker.submit("group")) == [[0, "group"], [1, "group"]]


def test_a_context_variable_does_not_leak_into_the_next_call(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint, capacity=8)
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")
    outer: contextvars.ContextVar[str] = contextvars.ContextVar("outer", default="unset")
    outer.set("inherited")

    @worker.service("login")
    async def login(name: str) -> list[str]:
        before = user.get()
        user.set(name)
        return [before, outer.get()]

    def login_sync(name: str) -> list[str]:
        before = user.get()
        user.set(name)
        return [before, outer.get()]

    worker.add_service("login_sync", login_sync)
    with worker.start():
        for service in ("login", "login_sync"):
            ids = [broker.submit(service, f"user {number}") for number in range(8)]
            assert [broker.value(each) for each in ids] == [["nobody", "inherited"]] * 8


def test_a_cancelled_call_does_not_touch_the_next_one(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint)
    began = threading.Event()

    @worker.service("cancel_self")
    async def cancel_self() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()  # and returns before it is met
        return "returned"

    @worker.service("stubborn")
    async def stubborn() -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "finished all the same"
        return ""

    @worker.service("calm")
    async def calm() -> str:
        await asyncio.sleep(0)
        return "calm"

    with worker.start():
        assert broker.value(broker.submit("cancel_self")) == "returned"
        assert broker.value(broker.submit("calm")) == "calm"
        task_id = broker.submit("stubborn")
        assert began.wait(LIMIT_S)
        broker.cancel(task_id)
        assert broker.value(task_id) == "finished all the same"
        assert broker.value(broker.submit("calm")) == "calm"


def test_a_cancelled_error_of_the_handlers_own_is_a_failure(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint)

    @worker.service("odd")
    async def odd() -> None:
        raise asyncio.CancelledError("of my own")

    with worker.start():
        assert broker.failure(broker.submit("odd")).remote_type == "CancelledError"


def test_calls_that_never_wait_share_a_task(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint, capacity=64)
    tasks: set[int] = set()
    kept: list[object] = []

    @worker.service("quick")
    async def quick() -> None:
        task = asyncio.current_task()
        kept.append(task)  # so that no number is used twice
        tasks.add(id(task))

    gate = threading.Event()
    blocked = threading.Event()

    @worker.service("block")
    async def block() -> None:
        blocked.set()
        gate.wait(LIMIT_S)

    @worker.service("look")
    def look() -> None:
        """Not in the loop, so it answers while that is blocked."""

    with worker.start():
        first = broker.submit("block")  # the others gather behind it
        assert blocked.wait(LIMIT_S)
        ids = [broker.submit("quick") for _ in range(50)]
        broker.value(broker.submit("look"))  # so all before it have come
        gate.set()
        broker.value(first)
        for each in ids:
            broker.value(each)
    assert len(kept) == 50
    assert len(tasks) < 25
