"""Vitals are read from a real broker's own listings, and from rows that lack what they may lack."""

from __future__ import annotations

import time
from typing import Any

from scale0 import Worker
from scale0.management.alarms import Alarms
from scale0.management.vitals import WORST_KEPT, Rows, Shell, read
from scale0.testing import TestBroker, broker
from tests.integration.networks import until
from tests.management.situations import days_from_now, own, shell, vitals, worker


def rows_of(asked: TestBroker) -> Rows:
    names = ("services", "workers", "network", "brokers")
    return Rows(**{name: asked.listing(name)["rows"] for name in names})


def test_a_real_broker_with_a_worker_is_well() -> None:
    with broker(identity="eu-1") as running, Worker(running.endpoint, identity="w-1") as serving:
        serving.add_service("double", lambda number: 2 * number)
        serving.remove_service("double")
        serving.add_service("triple", lambda number: 3 * number)
        found = read(rows_of(running), shell())
    assert found.workers is not None
    assert found.workers.count == 1
    assert [each.identity for each in found.brokers or ()] == ["eu-1"]
    assert found.dead_letters == 0


def test_the_service_of_a_worker_that_left_has_no_worker() -> None:
    with broker(identity="eu-1") as running:
        serving = Worker(running.endpoint)
        serving.add_service("double", lambda number: 2 * number)
        serving.start()
        serving.stop()
        until(lambda: not running.listing("workers")["rows"], "the broker has heard that it left")
        book, seen = Alarms(), read(rows_of(running), shell())
        for now in (0.0, 60.0):
            book.look(seen, now)
    assert [(alarm.name, alarm.subject) for alarm in book.raised()] == [("service_without_worker", "double")]


def test_rows_that_say_little_are_read_as_little() -> None:
    rows = Rows(services=[{"name": "ocr"}], workers=[{"identity": "w-1"}], network=[{"identity": "eu-1"}])
    found = read(rows, Shell(identity="eu-1", at_us=int(time.time() * 1e6)))
    assert found.services is not None
    assert found.services[0].workers == 0
    assert found.dead_letters is None
    assert found.keys_s is None


def test_of_many_workers_the_worst_are_kept_and_all_are_counted() -> None:
    found = vitals(workers=[worker(f"w-{number:03}", stuck=number) for number in range(100)], network=[own()])
    assert found.workers is not None
    assert found.workers.stuck.count == 99
    assert len(found.workers.stuck.worst) == WORST_KEPT
    assert found.workers.stuck.worst[0] == (99.0, "w-099")


def test_a_key_that_has_a_successor_may_end() -> None:
    keys: list[dict[str, Any]] = [
        {"name": "laptop", "until": days_from_now(1)},
        {"name": "laptop", "until": None},
        {"name": "server", "until": days_from_now(2)},
        {"name": "", "key": "abc", "until": "some day"},
    ]
    assert vitals(keys=keys).keys_s == {"server": 2 * 86_400.0}
