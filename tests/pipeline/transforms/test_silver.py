"""Silver on a few rows: what a row becomes, and that both engines say the same of it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from scale0_pipeline.transforms import durations, silver
from tests.pipeline.transforms.frames import DAY, DAY_US, HOUR_US, SECOND_US, START_US, bronze, dicts, note, table, task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOON_US = START_US + 12 * HOUR_US
HUGE = (1 << 63) - 1


def made(rows: list[dict[str, Any]], landed_us: int | None = None) -> dict[int, dict[str, Any]]:
    """silver/tasks of some rows, by their numbers."""
    return {row["seq"]: row for row in silver.tasks(table(rows, landed_us)).to_pylist()}


def attempt(from_us: int, to_us: int | None) -> dict[str, Any]:
    ended_us = NOON_US + to_us if to_us is not None else None
    return {"worker": "w-2", "via": None, "dispatched_us": NOON_US + from_us, "ended_us": ended_us, "outcome": "lost"}


def test_a_row_from_the_future_is_filed_under_the_day_it_landed() -> None:
    landed_us = START_US + 23 * HOUR_US
    found = made([task(1, landed_us + 2 * SECOND_US), task(2, landed_us + DAY_US)], landed_us)
    assert {seq: (row["day"], row["is_future"]) for seq, row in found.items()} == {1: (DAY, False), 2: (DAY, True)}
    unknown = made([task(2, landed_us + DAY_US)])
    assert [(row["day"], row["is_future"]) for row in unknown.values()] == [(DAY + timedelta(1), False)]


def test_the_day_begins_with_its_first_microsecond_also_before_1970() -> None:
    found = made([task(1, START_US - 1), task(2, START_US), task(3, -1)])
    assert [found[seq]["day"].isoformat() for seq in (1, 2, 3)] == ["2026-03-02", "2026-03-03", "1969-12-31"]


def test_only_tasks_are_taken_and_their_id_is_as_people_write_it() -> None:
    nobody = {"client": None, "nonce": None, "sequence": None}
    found = made(
        [task(1, NOON_US), note(2, NOON_US, "gauge"), task(3, NOON_US, nonce=None), task(4, NOON_US, **nobody)]
    )
    assert {seq: row["task_id"] for seq, row in found.items()} == {1: "ann.00.1", 3: "ann.3", 4: ""}


def test_earlier_attempts_are_not_time_in_the_queue() -> None:
    # Queued for 100 µs, tried for 1,000, queued for 50, tried for 2,000, queued for 30 until the last dispatch.
    times = {"received_us": NOON_US, "dispatched_us": NOON_US + 3_180, "attempt": 3}
    found = made([task(1, NOON_US + 10_000, attempts=[attempt(100, 1_100), attempt(1_150, 3_150)], **times)])
    assert found[1]["queue_us"] == 180


def test_a_worker_that_claims_more_than_there_was_is_believed_a_little() -> None:
    found = made([task(1, NOON_US, work_us=5_700), task(2, NOON_US, work_us=1 << 62, wait_us=1)])
    assert [found[seq]["network_us"] for seq in (1, 2)] == [0, None]


@pytest.mark.spark
def test_spark_and_arrow_say_the_same_of_where_the_time_went(spark: SparkSession) -> None:
    strange: list[dict[str, Any]] = [
        {},
        {"received_us": None},
        {"dispatched_us": None, "worker": None, "wait_us": None, "work_us": None},
        {"received_us": NOON_US + 9},
        {"received_us": NOON_US - (1 << 40)},
        {"work_us": 1 << 62},
        {"work_us": 5_700},
        {"work_us": 7_500},
        {"attempt": None},
        {"attempt": 32_000},
        {"attempts": []},
        {"attempts": [attempt(-900, -800), attempt(-700, None)]},
        {"attempts": [attempt(-900, -800), attempt(-700, -600), attempt(-500, -400), attempt(-300, -100)]},
    ]
    rows = [task(seq, NOON_US, **other) for seq, other in enumerate(strange)]
    tuples = [{**row, "attempts": _as_tuples(row.get("attempts"))} for row in rows]
    names = ["seq", "_latency_us", "_queue_us", "_worker_us", "_network_us", "_retries"]
    of_spark = dicts(durations.timed(bronze(spark, tuples)).select(*names))
    of_arrow = durations.timed_in_arrow(table(rows)).select(names).to_pylist()
    assert sorted(of_spark, key=lambda row: row["seq"]) == of_arrow


def _as_tuples(attempts: list[dict[str, Any]] | None) -> list[tuple[Any, ...]] | None:
    return None if attempts is None else [tuple(one.values()) for one in attempts]
