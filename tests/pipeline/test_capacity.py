"""Capacity from minutes: what Spark computes is what plain Python computes."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from scale0_pipeline import erlang

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

MONDAY_US = int(datetime(2026, 11, 2, tzinfo=UTC).timestamp()) * 1_000_000
HOUR_US = 3_600_000_000
WEEK_US = 168 * HOUR_US
MINUTES = "minute_us long, service string, count long, refused long, over_limit long, replied long, failed long, " \
    "latency_us long, queue_us long"  # fmt: skip
NOTES = "kind string, broker string, ts_us long, subject string, detail string"


def _minute(hour_us: int, minute: int, count: int, *, service: str = "resize", refused: int = 0) -> tuple[Any, ...]:
    """A minute in which each task held a slot for half a second and waited for a tenth."""
    done = count - refused
    return (hour_us + minute * 60_000_000, service, count, refused, refused, done, 0, done * 600_000, done * 100_000)


def _gauge(broker: str, ts_us: int, workers: int, slots: int) -> tuple[Any, ...]:
    detail = json.dumps({"workers": workers, "capacity": workers * slots, "busy": 0, "free": 0})
    return ("service_gauge", broker, ts_us, "resize", detail)


@pytest.fixture(scope="module")
def advice(spark: SparkSession) -> dict[tuple[str, int], dict[str, Any]]:
    """Three Mondays from 9 to 10, of unlike load; one Tuesday hour; a quiet second service."""
    from scale0_pipeline.capacity import capacity
    from scale0_pipeline.transforms.window import Window

    nine = MONDAY_US + 9 * HOUR_US
    rows = [_minute(nine + week * WEEK_US, m, 600 + 60 * week, refused=60) for week in range(3) for m in range(30)]
    rows += [_minute(nine + 2 * WEEK_US + 24 * HOUR_US, m, 1200) for m in range(60)]
    rows += [_minute(nine + week * WEEK_US, 5, 6, service="rare") for week in range(3)]
    now_us = nine + 3 * WEEK_US
    gauges = [_gauge("a", now_us - HOUR_US, 3, 4), _gauge("a", now_us - 2 * HOUR_US, 9, 9)]
    gauges += [_gauge("b", now_us - HOUR_US, 1, 4), _gauge("c", now_us - 50 * HOUR_US, 7, 7)]
    inputs: dict[str, DataFrame] = {
        "gold/service_1m": spark.createDataFrame(rows, MINUTES),
        "silver/notes": spark.createDataFrame(gauges, NOTES),
    }
    days = tuple(date(2026, 11, 2) + timedelta(days) for days in range(22))
    found = capacity(inputs, Window(days, now_us)).collect()
    return {(row["service"], row["hour_of_week"]): row.asDict() for row in found}


def test_offered_load_is_the_95th_percentile_with_quiet_minutes_as_none(advice: dict[Any, dict[str, Any]]) -> None:
    monday = advice["resize", 9]
    # 180 minutes, of which 90 had tasks: the tenth largest is one of the last week's.
    assert monday["offered_per_s"] == pytest.approx(720 / 60)
    assert monday["work_us_mean"] == pytest.approx(500_000)
    assert monday["erlangs"] == pytest.approx(6.0)
    # One minute in 180 had tasks: the percentile of the rare service is none at all.
    assert advice["rare", 9]["offered_per_s"] == 0.0
    assert advice["rare", 9]["workers_needed"] == 1


def test_workers_are_slots_by_erlang_over_slots_of_a_worker(advice: dict[Any, dict[str, Any]]) -> None:
    monday = advice["resize", 9]
    assert (monday["workers_now"], monday["slots_per_worker"]) == (4, 4.0)  # newest gauges of two brokers
    assert monday["workers_needed"] == math.ceil(erlang.slots_for(6.0) / 4)
    assert monday["workers_low"] <= monday["workers_needed"] <= monday["workers_high"]
    # The weeks' own peaks are 10, 11 and 12 a second; work did not vary.
    half = 1.89 * (1 / 11) / math.sqrt(3)
    assert monday["workers_high"] == math.ceil(erlang.slots_for(6.0 * (1 + half)) / 4)
    assert advice["rare", 9]["slots_per_worker"] == 1.0


def test_under_two_weeks_advice_is_provisional_and_its_interval_wide(advice: dict[Any, dict[str, Any]]) -> None:
    monday, tuesday = advice["resize", 9], advice["resize", 33]
    assert (monday["weeks"], monday["is_provisional"]) == (3, False)
    assert (tuesday["weeks"], tuesday["is_provisional"]) == (1, True)
    assert tuesday["erlangs"] == pytest.approx(10.0)
    assert tuesday["workers_low"] == math.ceil(erlang.slots_for(5.0) / 4)
    assert tuesday["workers_high"] == math.ceil(erlang.slots_for(15.0) / 4)
