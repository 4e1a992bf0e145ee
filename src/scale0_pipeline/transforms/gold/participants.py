"""Who worked for whom, hour by hour: workers, edges between clients and workers, and what a day cost.

All of it is summed from facts/hour, less what was settled twice around a fail-over. Edges and costs count a task where
its client was served, by the row of its origin. Workers are looked at where they work: by the rows of whichever broker
had them, so that a task that crossed to another broker counts for the worker there, and only there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from scale0_pipeline.schema import TABLES
from scale0_pipeline.transforms import facts, fail_overs
from scale0_pipeline.transforms.names import capped
from scale0_pipeline.transforms.window import Window, day_start_us, of_the_window
from scale0_pipeline.units import DAY_US, HOUR_US

INPUTS: Final = ("facts/hour", "silver/doubled")
WORKER_INPUTS: Final = (*INPUTS, "silver/worker_sessions")
SAMPLES_MIN: Final = 10
"""Fewer measurements make no slope."""


def corrected_hours(inputs: Mapping[str, DataFrame], window: Window) -> DataFrame:
    """facts/hour and, negative, the hours of what was settled twice."""
    wrong = fail_overs.negated(facts.hour_rows(fail_overs.as_batch(inputs["silver/doubled"])), facts.HOUR_KEYS)
    return of_the_window(inputs["facts/hour"].unionByName(wrong), window)


def worker_1h(inputs: Mapping[str, DataFrame], window: Window) -> DataFrame:
    """gold/worker_1h of the window's days."""
    rows = of_the_window(inputs["facts/hour"], window).where(F.col("worker").isNotNull())
    keys = ("day", "hour_us", "worker", "service", "broker")
    sums = [F.sum(name).alias(name) for name in ("count", "errors", "work_us", "wait_us")]
    workers = capped(rows, "worker", "hour_us").groupBy(*keys).agg(*sums, *offset_sums())
    there = _presence(of_the_window(inputs["silver/worker_sessions"], window))
    joined = workers.join(there, ["day", "hour_us", "worker", "broker"], "left")
    own = Over.partitionBy("day", "hour_us", "worker", "broker")
    slots_us = F.when(F.col("slots_us") > 0, F.col("slots_us"))
    known = joined.withColumns(
        {
            "busy_share": F.sum("work_us").over(own) / slots_us,
            "available_share": F.col("there_us") / F.lit(HOUR_US),
            "offset_us": F.col("sum_offset") / F.when(F.col("n_offset") > 0, F.col("n_offset")),
            "drift_ppm": slope_ppm(),
        }
    )
    return known.select(*TABLES["gold/worker_1h"].names)


def edges_1h(inputs: Mapping[str, DataFrame], window: Window) -> DataFrame:
    """gold/edges_1h of the window's days."""
    rows = corrected_hours(inputs, window).where(F.col("role") == "origin")
    named = rows.withColumn("worker", F.coalesce("worker", "via"))
    few = capped(capped(named, "client", "hour_us"), "worker", "hour_us")
    sums = [F.sum(name).alias(name) for name in ("count", "errors", "latency_us", "work_us")]
    edges = few.groupBy("day", "hour_us", "client", "service", "worker").agg(*sums)
    return edges.where(F.col("count") > 0).select(*TABLES["gold/edges_1h"].names)


def cost_1d(inputs: Mapping[str, DataFrame], window: Window) -> DataFrame:
    """gold/cost_1d of the window's days."""
    rows = capped(corrected_hours(inputs, window).where(F.col("role") == "origin"), "client", "day")
    sums = [F.sum(name).alias(name) for name in ("count", "work_us", "request_bytes", "reply_bytes")]
    costs = rows.groupBy("day", "service", "client").agg(*sums).where(F.col("count") > 0)
    total = F.sum("work_us").over(Over.partitionBy("day"))
    shares = costs.withColumn("share", F.col("work_us") / F.when(total > 0, total))
    return shares.select(*TABLES["gold/cost_1d"].names)


def offset_sums() -> list[Column]:
    """What a slope is made of, added up."""
    return [F.sum(name).alias(name) for name in ("n_offset", "sum_t", "sum_offset", "sum_t_offset", "sum_t2")]


def slope_ppm() -> Column:
    """How fast offsets grow: µs in a second, which is parts in a million; null with too few or simultaneous samples."""
    count, t = F.col("n_offset").cast("double"), F.col("sum_t").cast("double")
    spread = count * F.col("sum_t2") - t * t
    rise = count * F.col("sum_t_offset") - t * F.col("sum_offset")
    return F.when((count >= SAMPLES_MIN) & (spread > 0), rise / F.when(spread > 0, spread))


def _presence(sessions: DataFrame) -> DataFrame:
    """Each worker, broker and hour: how many sessions touch it, for how long, and with how many slots."""
    day_us = day_start_us("day")
    from_us = F.greatest("opened_us", day_us)
    to_us = F.least(F.coalesce("closed_us", day_us + DAY_US), day_us + DAY_US)
    hours = F.sequence(F.floor((from_us - day_us) / HOUR_US), F.floor((to_us - 1 - day_us) / HOUR_US))
    each = (
        sessions.where(to_us > from_us)
        .select(
            "day",
            "worker",
            "broker",
            "capacity",
            from_us.alias("from_us"),
            to_us.alias("to_us"),
            F.explode(hours).alias("hour"),
        )
        .withColumn("hour_us", F.col("hour") * HOUR_US + day_us)
    )
    there_us = F.least("to_us", F.col("hour_us") + HOUR_US) - F.greatest("from_us", F.col("hour_us"))
    return each.groupBy("day", "hour_us", "worker", "broker").agg(
        F.count("*").cast("int").alias("sessions"),
        F.least(F.sum(there_us), F.lit(HOUR_US)).alias("there_us"),
        F.sum(there_us * F.col("capacity")).alias("slots_us"),
    )
