"""Where a task's time went, by its row."""

from __future__ import annotations

from typing import Any

from scale0_pipeline import task_times
from scale0_pipeline.task_times import Moment


def row(**changes: Any) -> dict[str, Any]:
    of_clocks = ("sent_us", "worker_us", "client_offset_us", "worker_offset_us", "client_error_us", "worker_error_us")
    base: dict[str, Any] = dict.fromkeys(("dispatched_us", "attempts", "wait_us", "work_us", *of_clocks))
    return {**base, "received_us": 1_000, "ts_us": 11_000, **changes}


def test_an_undispatched_task_waited_all_its_time() -> None:
    assert task_times.queue_us(row()) == task_times.latency_us(row()) == 10_000


def test_earlier_attempts_are_no_waiting() -> None:
    attempt = {"worker": "w", "via": None, "dispatched_us": 2_000, "ended_us": 5_000, "outcome": "lost"}
    assert task_times.queue_us(row(dispatched_us=6_000, attempts=[attempt])) == 2_000


def test_network_is_what_the_worker_does_not_account_for() -> None:
    told = row(dispatched_us=2_000, wait_us=500, work_us=8_000)
    assert task_times.worker_us(told) == 8_500
    assert task_times.network_us(told) == 500
    assert task_times.network_us(row(dispatched_us=2_000)) is None


def test_a_worker_that_claims_more_than_there_was_leaves_no_negative_network() -> None:
    assert task_times.network_us(row(dispatched_us=10_000, wait_us=0, work_us=8_000)) == 0


def test_clocks_are_corrected_by_their_offset_and_keep_its_error() -> None:
    assert task_times.sent(row(sent_us=5_900, client_offset_us=5_000, client_error_us=64)) == Moment(900, 64)
    assert task_times.sent(row(sent_us=5_900)) is None
    assert task_times.worker_replied(row(worker_us=10_000, worker_offset_us=-500)) == Moment(10_500, None)
