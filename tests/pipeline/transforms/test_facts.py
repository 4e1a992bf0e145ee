"""Facts on a few rows: what a row becomes, what hostile rows cannot do, and that sums merge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scale0_pipeline.buckets import NEGATIVE, NONE, ZERO, bucket_of
from tests.pipeline.transforms.frames import (
    BATCH,
    DAY,
    HOUR_US,
    SECOND_US,
    START_US,
    bronze,
    dicts,
    table,
    task,
)

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


def test_numbers_of_strangers_do_not_break_the_sums(spark: SparkSession) -> None:
    from scale0_pipeline.transforms import facts

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


def test_names_that_a_table_has_not_kept_become_other(spark: SparkSession) -> None:
    from scale0_pipeline.transforms.names import OTHER, as_in

    schema = "day int, service string, count bigint"
    rows = spark.createDataFrame([(1, "a", 5), (1, "b", 3), (1, None, 7), (2, "b", 1)], schema)
    table = spark.createDataFrame([(1, "a", 5), (1, OTHER, 3), (1, None, 7), (2, "b", 1)], schema)
    found = [(row["day"], row["service"], row["count"]) for row in dicts(as_in(rows, table, "service", "day"))]
    assert sorted(found, key=str) == [(1, "a", 5), (1, OTHER, 3), (1, None, 7), (2, "b", 1)]


def test_a_broken_rule_says_which_row_breaks_it(spark: SparkSession) -> None:
    from scale0_pipeline import quality
    from scale0_pipeline.transforms import silver

    wrong = [task(1, NOON_US), task(2, NOON_US, received_us=NOON_US + 5), task(3, NOON_US, code=502)]
    rows = spark.createDataFrame(silver.tasks(table(wrong)))
    checked = quality.check("silver/tasks", rows, BATCH, DAY)
    assert checked is not None
    broken = {row["rule"]: quality.sampled(row, rows) for row in checked.collect() if row["is_broken"]}
    assert {rule: (row["rows"], row["failed"]) for rule, row in broken.items()} == {
        "latency is not negative": (3, 1),
        "time in the queue is not negative": (3, 1),
        "outcome and code agree": (3, 1),
    }
    assert '"seq":2' in broken["latency is not negative"]["sample"]
    twice = spark.createDataFrame([(1, "w"), (1, "w"), (2, "w")], "hour_us bigint, worker string")
    keys = quality.check("gold/flaps", twice, BATCH, DAY)
    assert keys is not None
    (told,) = [quality.sampled(row, twice) for row in keys.collect()]
    assert (told["rows"], told["failed"], told["is_broken"]) == (3, 2, True)
    assert told["sample"] == '{"hour_us":1,"worker":"w"}'
    assert quality.check("gold/hints", twice, BATCH, DAY) is None
