"""The drill's load against a real broker: each task is sent, settled, and its outcome told as it was."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from scale0 import Client, Worker
from scale0.cli.drill_ledger import Entry, Ledger
from scale0.cli.drill_load import SERVICE, Ask, Load
from scale0.cli.drill_worker import Order, make_worker
from scale0.testing import TestBroker, broker

LIMIT_S = 30.0
RATE = 200.0


@pytest.fixture
def running() -> Iterator[TestBroker]:
    with broker() as running:
        yield running


def sent_by(client: Client, ask: Ask, names: dict[str, str]) -> list[Entry]:
    """What became of some tasks."""
    ledger = Ledger(RATE)
    load = Load(client, ask, ledger, names)
    load.start()
    end_s = time.monotonic() + LIMIT_S
    while len(ledger.entries()) < 10:
        assert time.monotonic() < end_s, "the load sends nothing"
    load.stop()
    assert load.error is None
    assert ledger.wait_until_settled(LIMIT_S)
    return ledger.entries()


def test_echo_tells_worker_attempt_and_broker(running: TestBroker) -> None:
    worker = make_worker(Order(SERVICE, "drill-1", [running.endpoint], work_s=0.0))
    with worker.start(), Client(running.endpoint) as client:
        entries = sent_by(client, Ask(RATE), {running.endpoint: "eu-1"})
    for entry in entries:
        assert entry.kind() == "replied"
        assert entry.outcome is not None
        assert (entry.via, entry.outcome.via, entry.outcome.broker) == ("eu-1", "eu-1", "eu-1")
        assert (entry.outcome.worker, entry.outcome.attempt) == ("drill-1", 1)


def test_service_of_the_operator_gets_the_arguments_and_has_no_echo(running: TestBroker) -> None:
    worker = Worker(running.endpoint)
    seen: set[tuple[str, int]] = set()

    @worker.service("greet")
    def greet(name: str, times: int) -> None:
        seen.add((name, times))

    with worker.start(), Client(running.endpoint) as client:
        entries = sent_by(client, Ask(RATE, service="greet", args=["Ada"], kwargs={"times": 2}), {})
    assert seen == {("Ada", 2)}
    assert {entry.kind() for entry in entries} == {"replied"}
    assert {entry.outcome.worker for entry in entries if entry.outcome} == {""}


def test_errors_are_booked_under_their_code(running: TestBroker) -> None:
    worker = Worker(running.endpoint)
    worker.add_service("fail", lambda: 1 / 0)
    with worker.start(), Client(running.endpoint) as client:
        entries = sent_by(client, Ask(RATE, service="fail"), {})
    assert {entry.kind() for entry in entries} == {"error 500"}


def test_task_that_cannot_even_be_submitted_is_booked(running: TestBroker) -> None:
    client = Client(running.endpoint)
    client.close()
    entries = sent_by(client, Ask(RATE), {})
    assert {entry.kind() for entry in entries} == {"error 503"}
