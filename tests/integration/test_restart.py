"""A broker that ends and begins again while tasks are under way: each has exactly one outcome, and the right one."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from scale0 import Client, TaskError, Worker
from scale0.testing import TestBroker, broker

TASKS = 1_500
RESTARTS = (375, 875, 1_250)  # after which tasks
AFTER_RESTARTS = TASKS - 1 - RESTARTS[-1]
LIMIT_S = 60.0


def run_over_restarts(running: TestBroker, worker: Worker, service: str, kill: bool) -> Counter[str]:
    """Submit all tasks, restart the broker in between, and count how each ended."""
    ends: Counter[str] = Counter()
    outcomes: Counter[int] = Counter()
    lock = threading.Lock()
    with worker.start(), Client(running.endpoint, timeout=LIMIT_S / 2) as client:
        futures = []
        for number in range(TASKS):
            future = client.submit(service, number)
            futures.append(future)

            def count(done: object, number: int = number) -> None:
                with lock:
                    outcomes[number] += 1

            future.add_done_callback(count)
            if number in RESTARTS:
                running.restart(kill=kill)
        for number, future in enumerate(futures):
            try:
                assert future.result(LIMIT_S) == 2 * number
                ends["reply"] += 1
            except TaskError as error:
                ends[str(error.code)] += 1
    assert outcomes == Counter(range(TASKS)), "each task has exactly one outcome"
    return ends


@pytest.mark.parametrize("kill", [False, True])
def test_every_task_of_an_idempotent_service_gets_its_reply(kill: bool) -> None:
    # Told by the config, so that a broker knows it before the first worker is back.
    service = {"double": {"idempotent": True, "max_attempts": 10}}
    with broker(process=True, default_heartbeat_interval_s=0.5, service=service) as running:
        worker = Worker(running.endpoint, capacity=8)

        @worker.service("double", idempotent=True, max_attempts=10)
        def double(number: int) -> int:
            return 2 * number

        ends = run_over_restarts(running, worker, "double", kill)
    # A broker that is asked to stop drains first, and refuses what comes meanwhile; never what comes after.
    assert set(ends) <= ({"reply"} if kill else {"reply", "503"})
    assert ends["reply"] >= AFTER_RESTARTS


def test_task_that_may_not_be_repeated_ends_in_its_reply_or_in_outcome_unknown_and_runs_at_most_once() -> None:
    runs: Counter[int] = Counter()
    # Patient, so that on a busy machine, too, the worker is back before its service is unknown.
    with broker(process=True, default_heartbeat_interval_s=0.5, liveness=8) as running:
        worker = Worker(running.endpoint, capacity=1)

        @worker.service("pay")
        def pay(number: int) -> int:
            runs[number] += 1
            return 2 * number

        ends = run_over_restarts(running, worker, "pay", kill=True)
    assert set(ends) <= {"reply", "502"}
    assert ends["reply"] > 0
    assert max(runs.values()) == 1
