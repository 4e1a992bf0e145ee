"""Sync handlers in threads: side by side when they take long, few threads when they do not, none stranded."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from scale0.protocol.messages import Status, TaskReply
from scale0.worker import Worker
from scale0.worker.handlers import UNKNOWN_S
from scale0.worker.threads import LONG_S, smoothed
from tests.worker.scripted import LIMIT_S, ScriptedBroker


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as scripted:
        yield scripted


def test_as_many_run_at_once_as_the_capacity_says(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint, capacity=8)
    together = threading.Barrier(8)

    @worker.service("meet")
    def meet() -> int:
        return together.wait(LIMIT_S)  # passes only if all eight are there

    with worker.start():
        for _ in range(3):
            for _ in range(8):
                broker.submit("meet")
            assert [broker.next(TaskReply).status for _ in range(8)] == [Status.OK] * 8


def test_a_quick_handler_that_turns_slow_strands_nobody(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint, capacity=4)
    gate = threading.Event()

    @worker.service("work")
    def work(is_slow: bool) -> bool:
        if is_slow:
            gate.wait(LIMIT_S)
        return is_slow

    with worker.start():
        for _ in range(50):
            assert broker.value(broker.submit("work", False)) is False
        slow = [broker.submit("work", True) for _ in range(3)]
        assert broker.value(broker.submit("work", False)) is False
        gate.set()
        assert {broker.next(TaskReply).id for _ in slow} == set(slow)


def test_one_slow_call_does_not_make_a_handler_slow_but_many_do() -> None:
    typical_s = smoothed(UNKNOWN_S, 5e-6)
    assert typical_s == 5e-6
    assert smoothed(typical_s, 1.0) < LONG_S
    for _ in range(30):
        typical_s = smoothed(typical_s, 1.0)
    assert typical_s > LONG_S
    for _ in range(100):
        typical_s = smoothed(typical_s, 5e-6)
    assert typical_s < LONG_S


def test_quick_handlers_need_few_threads(broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    # However long a busy machine makes it wait for a processor, the handler counts as quick, and nobody as kept by it.
    for limit in ("threads.LONG_S", "threads.STALL_S", "lead.TAKEOVER_S"):
        monkeypatch.setattr(f"scale0.worker.{limit}", LIMIT_S)
    worker = Worker(broker.endpoint, capacity=64)
    names: set[str] = set()

    @worker.service("look")
    def look() -> None:
        names.add(threading.current_thread().name)

    with worker.start():
        broker.value(broker.submit("look"))  # how long it takes is known from here on
        for _ in range(10):
            ids = [broker.submit("look") for _ in range(30)]
            for each in ids:
                broker.value(each)
    assert len(names) < 4


def test_a_short_result_is_not_held_back_by_a_long_task_after_it(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint, capacity=2)
    gate, blocked = threading.Event(), threading.Event()

    @worker.service("work")
    def work(is_long: bool) -> bool:
        if is_long:
            blocked.set()
            gate.wait(LIMIT_S)
        return is_long

    with worker.start():
        worker._sync_runner.size = 1  # type: ignore[union-attr]  # both in the one thread
        for _ in range(20):
            broker.value(broker.submit("work", False))
        short, long = broker.submit("work", False), broker.submit("work", True)
        assert broker.value(short) is False
        assert blocked.wait(LIMIT_S)
        gate.set()
        assert broker.value(long) is True
