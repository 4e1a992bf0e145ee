"""The demo's ledger: entered once, settled once."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from scale0.cli.demo_load import KINDS, QUESTIONS, Ledger, Load
from scale0.errors import Overloaded, WorkerLost


class InstantClient:
    """Settles what is submitted at once, as told."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def submit(self, service: str, argument: Any, timeout: float) -> Future[Any]:
        future: Future[Any] = Future()
        if service == "greet":
            future.set_result(f"hello {argument}")
        elif service == "resize":
            future.set_exception(WorkerLost(502, "lost"))
        else:
            raise Overloaded(429, "full")
        return future


def test_every_submitted_task_is_settled_once() -> None:
    ledger = Ledger()
    load = Load(InstantClient(ledger), ledger)
    for kind in KINDS:
        load._submit(kind)
    submitted, replied, errors, wrong = ledger.totals()
    assert (submitted, replied, dict(errors), wrong) == (3, 1, {502: 1, 429: 1}, 0)
    assert ledger.open == 0
    assert ledger.wait_until_settled(0)


def test_questions_to_the_broker_are_no_tasks_for_workers() -> None:
    ledger = Ledger()
    for service in (QUESTIONS, "greet", QUESTIONS, "render"):
        ledger.submit(service)
    assert ledger.tasks == 2
    assert ledger.totals()[0] == 4


def test_an_open_task_keeps_the_ledger_open() -> None:
    ledger = Ledger()
    ledger.submit("greet")
    assert not ledger.wait_until_settled(0)
    ledger.settle("greet", None, 0.001, is_right=False)
    assert ledger.wait_until_settled(0)
    assert ledger.totals()[3] == 1


def test_figures_are_percentiles_of_the_recent_replies() -> None:
    ledger = Ledger()
    for latency_ms in range(1, 101):
        ledger.submit("greet")
        ledger.settle("greet", None, latency_ms / 1_000, is_right=True)
    figures = ledger.figures("greet", elapsed_s=4.0)
    assert figures.tasks_per_s == 25
    assert figures.p50_us is not None
    assert round(figures.p50_us) == 51_000
    assert figures.p99_us is not None
    assert round(figures.p99_us) == 100_000
    assert ledger.figures("render", 4.0).p50_us is None
