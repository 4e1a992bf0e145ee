"""An operator's commands on single workers and tasks, with real workers, clients and sockets."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from scale0 import Client, Worker, WorkerLost
from scale0.errors import TaskCancelled
from scale0.testing import TestBroker, broker

LIMIT_S = 60.0


class Room:
    """A broker with a worker, whose slow tasks end when they are let go."""

    def __init__(self, running: TestBroker) -> None:
        self.broker = running
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Event()
        self.worker = Worker(running.endpoint, identity="w-1", capacity=2)
        self.worker.service("add")(self.add)
        self.worker.service("slow")(self.slow)
        self.worker.service("fail")(self.fail)

    def add(self, one: int, other: int = 0) -> int:
        return one + other

    def slow(self) -> str:
        self.begun.release()
        assert self.may_end.wait(LIMIT_S)
        return "done"

    def fail(self) -> None:
        raise ValueError("no luck")


@pytest.fixture
def room() -> Iterator[Room]:
    with broker(default_heartbeat_interval=0.5) as running:
        made = Room(running)
        with made.worker.start():
            try:
                yield made
            finally:
                made.may_end.set()


def test_test_task_reaches_a_real_handler(room: Room) -> None:
    for body, total in (("[1, 2]", 3), ('{"one": 4}', 4), ("5", 5)):
        told = room.broker.manage("test_task", service="add", body=body)
        assert (told["code"], told["worker"], json.loads(told["body"])) == (200, "w-1", total)
        assert told["duration_us"] > 0
    told = room.broker.manage("test_task", service="fail")
    assert (told["code"], told["text"]) == (500, "ValueError: no luck")
    listing = json.loads(room.broker.manage("test_task", service="scale0.services")["body"])
    assert listing["schema"] == "scale0.services/1"


def test_cancelled_task_ends_for_its_client_at_once(room: Room) -> None:
    with Client(room.broker.endpoint) as client, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.call, "slow", timeout=LIMIT_S)
        assert room.begun.acquire(timeout=LIMIT_S)
        (row,) = room.broker.manage("list", what="tasks")["rows"]
        assert (row["state"], row["worker"]) == ("in_flight", "w-1")
        room.broker.manage("cancel_task", task=row["id"], author="ada")
        with pytest.raises(TaskCancelled, match="cancelled by ada"):
            asked.result(LIMIT_S)


def test_kicked_worker_comes_back_by_itself_and_a_lost_task_can_be_tried_again(room: Room) -> None:
    with Client(room.broker.endpoint) as client, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.call, "slow", timeout=LIMIT_S)
        assert room.begun.acquire(timeout=LIMIT_S)
        assert room.broker.manage("kick_worker", worker="w-1", reason="a test")["lost"] == 1
        with pytest.raises(WorkerLost):
            asked.result(LIMIT_S)
        room.may_end.set()
        assert client.call("add", 1, 1, timeout=LIMIT_S) == 2, "the worker is back"
    (letter,) = room.broker.manage("list", what="dead_letters")["rows"]
    told = room.broker.manage("retry_dead_letter", task=letter["id"])
    assert (told["code"], told["body"], told["is_removed"]) == (200, '"done"', True)
    assert room.broker.manage("list", what="dead_letters")["rows"] == []
    (row,) = room.broker.manage("list", what="workers")["rows"]
    assert row["sessions_per_h"] == 2
