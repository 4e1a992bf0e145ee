"""How many workers each service needs, for each hour of the week.

Load follows the week, so each of its 168 hours is looked at by itself, over the weeks that are known: the 95th
percentile of what was asked for in its minutes, a minute without tasks counting as none. What was asked for is what was
accepted and what was turned away for want of room (429, 503); a task is one row however often it was tried, and the
time of all its attempts is in the time that it held a slot. That time is from dispatch to outcome, so it is known
for workers that tell nothing of themselves too.

Load × time is the number of slots that are busy (erlangs), and `erlang` says how many are needed so that few wait.
The interval is from the spread of load and of work between weeks; after one week nothing is known of that spread, the
interval says so by its width, and under two weeks the advice is provisional. A task that one broker turned away and
another accepted counts twice; `offered_per_s` is an upper bound in a network that turns tasks away.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from scale0_pipeline import erlang
from scale0_pipeline.transforms.window import Window, floor_to
from scale0_pipeline.units import DAY_US, HOUR_US

INPUTS: Final = ("gold/service_1m", "silver/notes")
LOOKBACK_DAYS: Final = 35
GAUGE_DAYS: Final = 2  # older ones say nothing of the workers that there are
PEAK_SHARE: Final = 0.95
WEEKS_ENOUGH: Final = 2
UNKNOWN_SPREAD: Final = 0.5  # of the load, while one week is known
T_80: Final = (3.08, 1.89, 1.64, 1.53, 1.48, 1.44)  # Student's t for 80 %, by weeks less one
MINUTES: Final = 60
MONDAY_H: Final = 72  # 1970 began on a Thursday


def capacity(inputs: Mapping[str, DataFrame], window: Window) -> DataFrame:
    """gold/capacity, all of it."""
    minutes = _minutes(inputs["gold/service_1m"])
    hours = _hours(minutes)
    seen = _hours_seen(minutes)
    peaks = _peaks(minutes, seen)
    spread = _spread(hours, seen)
    fleet = _fleet(inputs["silver/notes"], window)
    rows = peaks.join(spread, ["service", "hour_of_week"]).join(fleet, "service", "left")
    return _advise(rows)


def _minutes(service_1m: DataFrame) -> DataFrame:
    accepted = F.col("count") - F.col("refused")
    turned_away = F.least("refused", "over_limit")
    return service_1m.select(
        "service",
        floor_to("minute_us", HOUR_US).alias("hour_us"),
        (accepted + turned_away).alias("offered"),
        (F.col("latency_us") - F.col("queue_us")).alias("held_us"),
        (F.col("replied") + F.col("failed")).alias("finished"),
    )


def _hours(minutes: DataFrame) -> DataFrame:
    """Each service and hour: its own peak, and how long its tasks held a slot."""
    return minutes.groupBy("service", "hour_us").agg(
        _peak(F.collect_list("offered"), F.lit(MINUTES)).alias("peak"),
        F.sum("held_us").alias("held_us"),
        F.sum("finished").alias("finished"),
    )


def _hours_seen(minutes: DataFrame) -> DataFrame:
    """Each service and every hour since its first in which anything was recorded: quiet ones too."""
    every = minutes.select("hour_us").distinct()
    first = minutes.groupBy("service").agg(F.min("hour_us").alias("first_us"))
    return first.join(F.broadcast(every), F.col("hour_us") >= F.col("first_us")).select(
        "service", "hour_us", _hour_of_week().alias("hour_of_week")
    )


def _hour_of_week() -> Column:
    return F.pmod((F.col("hour_us") / HOUR_US).cast("long") + MONDAY_H, F.lit(168)).cast("int")


def _peak(loads: Column, of_minutes: Column) -> Column:
    """The 95th percentile of so many minutes' loads by nearest rank; minutes that are not listed had none."""
    place = (F.floor(of_minutes * F.lit(1 - PEAK_SHARE) + F.lit(1e-9)) + 1).cast("int")
    falling = F.sort_array(loads, asc=False)
    return F.when(place <= F.size(falling), F.element_at(falling, place)).otherwise(0).cast("double")


def _peaks(minutes: DataFrame, seen: DataFrame) -> DataFrame:
    weeks = seen.groupBy("service", "hour_of_week").agg(F.count("*").cast("int").alias("weeks"))
    loads = minutes.withColumn("hour_of_week", _hour_of_week())
    listed = loads.groupBy("service", "hour_of_week").agg(F.collect_list("offered").alias("loads"))
    joined = weeks.join(listed, ["service", "hour_of_week"])  # an hour in which it never had a task needs nobody
    return joined.select(
        "service",
        "hour_of_week",
        "weeks",
        (_peak(F.col("loads"), F.col("weeks") * MINUTES) / 60).alias("offered_per_s"),
    )


def _spread(hours: DataFrame, seen: DataFrame) -> DataFrame:
    """The work of a task, and by how much load and work differ from week to week, as shares of themselves."""
    week = F.col("held_us") / F.when(F.col("finished") > 0, F.col("finished"))
    all_hours = seen.join(hours, ["service", "hour_us"], "left")
    peak = F.coalesce("peak", F.lit(0.0))
    total = F.sum("held_us") / F.when(F.sum("finished") > 0, F.sum("finished"))
    known = all_hours.groupBy("service", "hour_of_week").agg(
        total.alias("work_us_mean"),
        (F.stddev_samp(peak) / F.when(F.avg(peak) > 0, F.avg(peak))).alias("load_spread"),
        (F.stddev_samp(week) / F.when(F.avg(week) > 0, F.avg(week))).alias("work_spread"),
    )
    # An hour whose tasks never ended borrows the service's own mean: they held slots all the same.
    own = Over.partitionBy("service")
    return known.withColumn("work_us_mean", F.coalesce("work_us_mean", F.avg("work_us_mean").over(own)))


def _fleet(notes: DataFrame, window: Window) -> DataFrame:
    """The workers of each service now, and their slots: the newest gauge of each broker, added up."""
    since_us = window.now_us - GAUGE_DAYS * DAY_US
    gauges = notes.where((F.col("kind") == "service_gauge") & (F.col("ts_us") >= since_us))
    figures = F.from_json("detail", "workers int, capacity int")
    newest = gauges.groupBy(F.col("subject").alias("service"), "broker").agg(F.max_by(figures, "ts_us").alias("gauge"))
    return newest.groupBy("service").agg(
        F.sum("gauge.workers").cast("int").alias("workers_now"),
        (F.sum("gauge.capacity") / F.when(F.sum("gauge.workers") > 0, F.sum("gauge.workers"))).alias("slots_known"),
    )


def _advise(rows: DataFrame) -> DataFrame:
    erlangs = F.col("offered_per_s") * F.col("work_us_mean") / 1e6
    squares = F.pow(F.coalesce("load_spread", F.lit(0.0)), 2) + F.pow(F.coalesce("work_spread", F.lit(0.0)), 2)
    t = F.element_at(_doubles(T_80), F.least(F.col("weeks") - 1, F.lit(len(T_80))))
    half = F.when(F.col("weeks") < WEEKS_ENOUGH, F.lit(UNKNOWN_SPREAD)).otherwise(t * F.sqrt(squares / F.col("weeks")))
    known = rows.withColumns(
        {
            "erlangs": F.coalesce(erlangs, F.lit(0.0)),
            "half": F.least(half, F.lit(1.0)),
            "slots_per_worker": F.coalesce(F.when(F.col("slots_known") > 0, F.col("slots_known")), F.lit(1.0)),
        }
    )
    return known.select(
        "service",
        "hour_of_week",
        "offered_per_s",
        F.coalesce("work_us_mean", F.lit(0.0)).cast("double").alias("work_us_mean"),
        "erlangs",
        _workers(F.col("erlangs")).alias("workers_needed"),
        _workers(F.col("erlangs") * (1 - F.col("half"))).alias("workers_low"),
        _workers(F.col("erlangs") * (1 + F.col("half"))).alias("workers_high"),
        "workers_now",
        "slots_per_worker",
        "weeks",
        (F.col("weeks") < WEEKS_ENOUGH).alias("is_provisional"),
    )


def _workers(erlangs: Column) -> Column:
    """`erlang.slots_for`, in workers: how many numbers of slots carry less than this load, and one more."""
    table = _doubles(erlang.carried().tolist())
    listed = F.size(F.filter(table, lambda carried: carried < erlangs)) + 1
    slots = F.when(erlangs > float(erlang.carried()[-1]), F.ceil(erlangs + erlang.MARGIN_MAX)).otherwise(listed)
    return F.ceil(slots / F.col("slots_per_worker")).cast("int")


def _doubles(numbers: Any) -> Column:
    """A literal array; as text it is one node of the plan instead of hundreds."""
    return F.from_json(F.lit(json.dumps(list(numbers))), "array<double>")
