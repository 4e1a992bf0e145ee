"""Facts and silver on a few rows: what a row becomes, what hostile rows cannot do, and that sums merge."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from scale0_pipeline.buckets import NEGATIVE, NONE, ZERO, bucket_of
from tests.pipeline.transforms.frames import BATCH, DAY, DAY_US, HOUR_US, SECOND_US, START_US, bronze, dicts, task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOON_US = START_US + 12 * HOUR_US


def test_spark_and_plain_python_agree_on_buckets(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    from scale0_pipeline.transforms.buckets import bucket

    durations = [None, -5, 0, *[1 << bits for bits in range(41)], *[3**power for power in range(1, 25)], 999, 1_000_001]
    frame = spark.createDataFrame([(one,) for one in durations], "us bigint")
    found = [row["bucket"] for row in frame.select(bucket(F.col("us")).alias("bucket")).collect()]
    assert found == [bucket_of(one) for one in durations]
    assert found[:3] == [NONE, NEGATIVE, ZERO]


def test_a_row_from_the_future_is_filed_under_the_day_it_landed(spark: SparkSession) -> None:
    from scale0_pipeline.transforms import silver

    landed_us = START_US + 23 * HOUR_US
    rows = bronze(spark, [task(1, landed_us + 2 * SECOND_US), task(2, landed_us + DAY_US)], landed_us)
    found = {row["seq"]: (row["day"], row["is_future"]) for row in dicts(silver.tasks(rows))}
    assert found == {1: (DAY, False), 2: (DAY, True)}
    unknown = dicts(silver.tasks(bronze(spark, [task(2, landed_us + DAY_US)])))
    assert [(row["day"], row["is_future"]) for row in unknown] == [(DAY + timedelta(1), False)]


def test_numbers_of_strangers_do_not_break_the_sums(spark: SparkSession) -> None:
    from scale0_pipeline.transforms import facts, silver

    huge = (1 << 63) - 1
    wrong = [
        task(seq, NOON_US, request_bytes=huge, reply_bytes=huge, work_us=1 << 62, wait_us=1, worker_offset_us=-huge)
        for seq in range(1, 4)
    ]
    wrong[0]["weight"] = -(1 << 31)
    rows = bronze(spark, [*wrong, task(4, NOON_US, received_us=NOON_US + 9), task(5, NOON_US, work_us=5_700)])
    minutes = dicts(facts.minute(rows))
    assert sum(row["count"] for row in minutes) == 5
    assert {row["bucket"] for row in minutes} == {NEGATIVE, bucket_of(6_000)}
    assert sum(row["count"] for row in dicts(facts.hour(rows))) == 5
    # A worker that claims to have worked longer than the task took: a little is an error of clocks, more is unknown.
    network = {row["seq"]: row["network_us"] for row in dicts(silver.tasks(rows))}
    assert (network[5], network[1]) == (0, None)


def test_earlier_attempts_are_not_time_in_the_queue(spark: SparkSession) -> None:
    from scale0_pipeline.transforms import silver

    def attempt(from_us: int, to_us: int) -> tuple[str, None, int, int, str]:
        return ("w-2", None, NOON_US + from_us, NOON_US + to_us, "lost")

    # Queued for 100 µs, tried for 1,000, queued for 50, tried for 2,000, queued for 30 until the last dispatch.
    times = {"received_us": NOON_US, "dispatched_us": NOON_US + 3_180, "attempt": 3}
    tried = [attempt(100, 1_100), attempt(1_150, 3_150)]
    rows = bronze(spark, [task(1, NOON_US + 10_000, attempts=tried, **times)])
    assert [row["queue_us"] for row in dicts(silver.tasks(rows))] == [180]


def test_rows_that_stand_for_many_are_weighed_and_sums_merge(spark: SparkSession) -> None:
    from scale0_pipeline.transforms import facts

    some = bronze(spark, [task(1, NOON_US, weight=10), task(2, NOON_US, outcome="refused", code=429, worker=None)])
    more = bronze(spark, [task(3, NOON_US + SECOND_US, attempt=2)])
    for make, merge in (
        (facts.minute, facts.merge_minute),
        (facts.hour, facts.merge_hour),
        (facts.split, facts.merge_split),
    ):
        apart = make(some).unionByName(make(more))
        together = make(some.unionByName(more))
        assert sorted(map(str, dicts(merge(apart)))) == sorted(map(str, dicts(together)))
    minutes = {row["outcome"]: row for row in dicts(facts.minute(some.unionByName(more)))}
    assert (minutes["replied"]["count"], minutes["replied"]["latency_us"]) == (11, 66_000)
    assert (minutes["replied"]["retries"], minutes["replied"]["network_us"]) == (1, 11 * 400)
    assert (minutes["refused"]["bucket"], minutes["refused"]["latency_us"], minutes["refused"]["batch"]) == (
        NONE,
        0,
        BATCH,
    )


def test_too_many_names_become_other(spark: SparkSession) -> None:
    from scale0_pipeline.transforms.names import OTHER, capped

    rows = [(1, "a", 5), (1, "b", 3), (1, "c", 1), (1, None, 7), (2, "c", 1)]
    frame = spark.createDataFrame(rows, "hour_us bigint, client string, count bigint")
    found = sorted(
        (row["hour_us"], str(row["client"]), row["count"]) for row in dicts(capped(frame, "client", "hour_us", 2))
    )
    assert found == [(1, "None", 7), (1, "a", 5), (1, "b", 3), (1, OTHER, 1), (2, "c", 1)]


def test_a_broken_rule_says_which_row_breaks_it(spark: SparkSession) -> None:
    from scale0_pipeline import quality
    from scale0_pipeline.transforms import silver

    rows = silver.tasks(
        bronze(spark, [task(1, NOON_US), task(2, NOON_US, received_us=NOON_US + 5), task(3, NOON_US, code=502)])
    )
    checked = quality.check("silver/tasks", rows, BATCH, DAY)
    assert checked is not None
    broken = {row["rule"]: row for row in dicts(checked) if row["is_broken"]}
    assert {rule: (row["rows"], row["failed"]) for rule, row in broken.items()} == {
        "latency is not negative": (3, 1),
        "time in the queue is not negative": (3, 1),
        "outcome and code agree": (3, 1),
    }
    assert '"seq":2' in broken["latency is not negative"]["sample"]
    twice = spark.createDataFrame([(1, "w"), (1, "w"), (2, "w")], "hour_us bigint, worker string")
    keys = quality.check("gold/flaps", twice, BATCH, DAY)
    assert keys is not None
    assert [(row["rows"], row["failed"], row["is_broken"]) for row in dicts(keys)] == [(3, 2, True)]
    assert quality.check("gold/hints", twice, BATCH, DAY) is None
