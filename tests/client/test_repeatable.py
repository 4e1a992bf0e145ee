"""A client that is followed by another one: what the first has asked is answered to the second, not run again."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator

import pytest

from scale0 import Worker
from scale0.client.repeatable import RepeatableClient
from scale0.errors import RemoteError, WorkerLost
from scale0.testing import TestBroker

LIMIT_S = 60


class Counted:
    """A worker whose results tell how often it has run; `pay` is not idempotent."""

    def __init__(self, endpoint: str) -> None:
        self.runs = itertools.count(1)
        self.may_end = threading.Event()
        self.has_begun = threading.Event()
        self.worker = Worker(endpoint, capacity=4)
        self.worker.service("count", idempotent=True)(self._count)
        self.worker.service("pay")(self._count)
        self.worker.service("slow")(self._slow)

    def _count(self, text: str) -> str:
        return f"{text} {next(self.runs)}"

    def _slow(self, text: str) -> str:
        self.has_begun.set()
        assert self.may_end.wait(LIMIT_S)
        return f"{text} {next(self.runs)}"


@pytest.fixture
def counted(scale0_broker: TestBroker) -> Iterator[Counted]:
    made = Counted(scale0_broker.endpoint)
    with made.worker:
        yield made
        made.may_end.set()


def client(broker: TestBroker, *, is_later: bool = False, work: str = "job 1") -> RepeatableClient:
    return RepeatableClient(broker.endpoint, identity="job", work=work, is_later=is_later, timeout=LIMIT_S)


def test_a_second_process_gets_the_outcomes_of_the_first(scale0_broker: TestBroker, counted: Counted) -> None:
    with client(scale0_broker) as first:
        told = {text: first.call("pay", text) for text in ("a", "b", "c")}
    with client(scale0_broker, is_later=True) as second:
        assert {text: second.call("pay", text) for text in ("c", "b", "a")} == told
    assert next(counted.runs) == 4


def test_what_the_first_had_not_heard_is_waited_for_by_the_second(scale0_broker: TestBroker, counted: Counted) -> None:
    with client(scale0_broker) as first:
        first.submit("slow", "a")
        assert counted.has_begun.wait(LIMIT_S)
    with client(scale0_broker, is_later=True) as second:
        future = second.submit("slow", "a")
        counted.may_end.set()
        assert future.result(LIMIT_S) == "a 1"
    assert next(counted.runs) == 2


def test_what_the_broker_does_not_hold_runs_again_only_if_it_may(scale0_broker: TestBroker, counted: Counted) -> None:
    with client(scale0_broker) as first:
        assert first.call("count", "a") == "a 1"
        assert first.call("pay", "a") == "a 2"
        first.finish()
    with client(scale0_broker, is_later=True) as second:
        assert second.call("count", "a") == "a 3"
        with pytest.raises(WorkerLost, match="outcome unknown"):
            second.call("pay", "a")


def test_other_work_is_done_anew(scale0_broker: TestBroker, counted: Counted) -> None:
    with client(scale0_broker) as first:
        assert first.call("count", "a") == "a 1"
        first.finish()
    with client(scale0_broker, work="job 2") as second:
        assert second.call("count", "a") == "a 2"


def test_rows_of_arguments_are_answered_in_their_order(scale0_broker: TestBroker) -> None:
    worker = Worker(scale0_broker.endpoint, capacity=4)

    @worker.service("divide", idempotent=True)
    def divide(left: int, right: int) -> float:
        return left / right

    with worker, client(scale0_broker) as asker:
        first, failed, unfit, last = asker.map_rows("divide", [(6, 3), (1, 0), ("six", 3), (8, 2)], in_flight=2)
    assert (first, last) == (2.0, 4.0)
    assert isinstance(failed, RemoteError)
    assert "ZeroDivisionError" in str(failed)
    assert "left" in str(unfit)
