"""The same promises with a real broker and a real worker behind them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from scale0 import Worker
from scale0.errors import DeadlineExceeded, RemoteError
from scale0.testing import TestBroker
from scale0.testing import broker as real_broker
from tests.contract.conftest import Connect as Make
from tests.contract.subjects import Subject


@pytest.fixture(scope="module")
def served() -> Iterator[TestBroker]:
    gate = threading.Event()
    with real_broker() as running:
        worker = Worker(running.endpoint, capacity=8)

        @worker.service("greet")
        def greet(name: str, *, loud: bool = False) -> str:
            return f"hello {name}".upper() if loud else f"hello {name}"

        @worker.service("reverse")
        def reverse(body: bytes) -> bytes:
            return body[::-1]

        @worker.service("count")
        def count(to: int) -> Iterator[int]:
            yield from range(to)

        @worker.service("wait")
        def wait() -> None:
            gate.wait()

        with worker.start():
            yield running
            gate.set()


@pytest.fixture
def remote(make: Make, served: TestBroker) -> Subject:
    return make(served.endpoint)


def test_arguments_and_results_travel_by_the_annotations(remote: Subject) -> None:
    assert remote.call("greet", "Ada") == "hello Ada"
    assert remote.call("greet", name="Ada", loud=True) == "HELLO ADA"
    assert remote.call("reverse", b"\x00abc") == b"cba\x00"


def test_wrong_argument_names_the_parameter(remote: Subject) -> None:
    with pytest.raises(RemoteError, match="parameter 'name' of greet: Expected `str`, got `int`") as caught:
        remote.call("greet", 1)
    assert caught.value.remote_type == "EncodingError"


def test_map_and_stream_run_through_the_broker(remote: Subject) -> None:
    assert list(remote.map("greet", (str(number) for number in range(500)), in_flight=100)) == [
        f"hello {number}" for number in range(500)
    ]
    assert list(remote.stream("count", 50)) == list(range(50))


def test_deadline_is_kept(remote: Subject) -> None:
    remote.connect()
    with pytest.raises(DeadlineExceeded):
        remote.call("wait", timeout=0.2)


def test_broker_answers_for_itself(remote: Subject) -> None:
    listing = remote.call("scale0.services")
    assert listing["schema"] == "scale0.services/1"
    assert {row["name"] for row in listing["rows"]} >= {"greet", "reverse", "count", "wait"}
