"""What wanders: workers that flap, clocks that drift, versions of the config that linger.

A worker's penalty is the number of sessions that it opened, each hour's worth half of the next one's
(`hints.damping`). A clock's drift is the slope of its offset, from what each task measured and from what brokers note
of each worker. A config version is in use where brokers settle tasks under it or workers reply under it; the current
one is that of the hour's last task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from scale0_pipeline.hints.damping import EVIDENCE_H, HALF_LIFE_H, ON
from scale0_pipeline.schema import TABLES
from scale0_pipeline.transforms.facts import OFFSET_MAX_US
from scale0_pipeline.transforms.gold.participants import SAMPLES_MIN, offset_sums, slope_ppm
from scale0_pipeline.transforms.names import capped
from scale0_pipeline.transforms.window import Window, day_of, floor_to, of_the_window
from scale0_pipeline.units import HOUR_US, SECOND_US

FLAP_INPUTS: Final = ("silver/notes",)
FLAP_LOOKBACK_DAYS: Final = 1
CLOCK_INPUTS: Final = ("facts/hour", "silver/notes")
CONFIG_INPUTS: Final = ("facts/hour",)
DRIFT_MAX_PPM: Final = 100.0
"""Quartz drifts by some 20 to 50 ppm; what drifts by more than this is broken, or is being slewed."""


def flaps(inputs: Mapping[str, DataFrame], window: Window) -> DataFrame:
    """gold/flaps of the window's days."""
    notes = inputs["silver/notes"]
    is_worker = F.get_json_object("detail", "$.role") == "worker"
    opened = notes.where((F.col("kind") == "session") & (F.col("what") == "opened") & is_worker).select(
        "broker",
        F.col("subject").alias("worker"),
        "ts_us",
        floor_to("ts_us", HOUR_US).alias("hour_us"),
        F.lit(1).cast("long").alias("count"),
    )
    hours = (
        capped(opened, "worker", "hour_us")
        .groupBy("worker", "hour_us")
        .agg(F.sum("count").alias("sessions"), F.max_by("broker", F.struct("ts_us", "broker")).alias("broker"))
    )
    recent = Over.partitionBy("worker").orderBy("hour_us").rangeBetween(-(EVIDENCE_H - 1) * HOUR_US, 0)
    listed = hours.withColumn("recent", F.collect_list(F.struct("hour_us", "sessions")).over(recent))

    def add(total: Column, one: Column) -> Column:
        age_h = (F.col("hour_us") - one["hour_us"]) / HOUR_US
        return total + one["sessions"] * F.pow(F.lit(0.5), age_h / HALF_LIFE_H)

    known = listed.withColumn("penalty", F.aggregate("recent", F.lit(0.0), add)).withColumns(
        {"day": day_of("hour_us"), "is_flapping": F.col("penalty") >= ON}
    )
    return of_the_window(known, window).select(*TABLES["gold/flaps"].names)


def clock_drift(inputs: Mapping[str, DataFrame], window: Window) -> DataFrame:
    """gold/clock_drift of the window's days."""
    sums = ("n_offset", "sum_t", "sum_offset", "sum_t_offset", "sum_t2")
    of_tasks = of_the_window(inputs["facts/hour"], window).where(F.col("worker").isNotNull() & (F.col("n_offset") > 0))
    measured = of_tasks.select(
        "day", "hour_us", F.col("worker").alias("participant"), *sums, F.lit(None).cast("long").alias("error_us")
    )
    rows = measured.unionByName(_noted_offsets(inputs["silver/notes"], window))
    named = capped(rows.withColumn("count", F.col("n_offset")), "participant", "hour_us")
    clocks = named.groupBy("day", "hour_us", "participant").agg(*offset_sums(), F.min("error_us").alias("error_us"))
    known = clocks.withColumns(
        {
            "role": F.lit("worker"),
            "offset_us": F.col("sum_offset") / F.col("n_offset"),
            "drift_ppm": slope_ppm(),
            "samples": F.col("n_offset"),
        }
    )
    # Over an hour the drift must move the clock by more than the offset's own error.
    moved_us = F.abs("drift_ppm") * (HOUR_US // SECOND_US)
    is_much = (F.abs("drift_ppm") > DRIFT_MAX_PPM) & (moved_us > F.coalesce("error_us", F.lit(0)))
    is_drifting = F.coalesce(is_much, F.lit(False)) & (F.col("samples") >= SAMPLES_MIN)
    return known.withColumn("is_drifting", is_drifting).select(*TABLES["gold/clock_drift"].names)


def config_drift(inputs: Mapping[str, DataFrame], window: Window) -> DataFrame:
    """gold/config_drift of the window's days."""
    rows = of_the_window(inputs["facts/hour"], window)
    nobody = F.lit(None).cast("string")
    by_brokers = rows.where(F.col("config_version").isNotNull()).select(
        "day",
        "hour_us",
        F.col("config_version").alias("version"),
        "broker",
        nobody.alias("worker"),
        "count",
        "errors",
        "first_us",
        "last_us",
    )
    is_named = F.col("worker_version").isNotNull() & F.col("worker").isNotNull()
    none = F.lit(0).cast("long")
    by_workers = rows.where(is_named).select(
        "day",
        "hour_us",
        F.col("worker_version").alias("version"),
        nobody.alias("broker"),
        "worker",
        none.alias("count"),
        none.alias("errors"),
        "first_us",
        "last_us",
    )
    versions = (
        by_brokers.unionByName(by_workers)
        .groupBy("day", "hour_us", "version")
        .agg(
            F.countDistinct("broker").alias("brokers"),
            F.countDistinct("worker").alias("workers"),
            F.sum("count").alias("tasks"),
            F.sum("errors").alias("errors"),
            F.min("first_us").alias("first_us"),
            F.max("last_us").alias("last_us"),
            F.max(F.when(F.col("broker").isNotNull(), F.col("last_us"))).alias("settled_us"),
        )
    )
    latest = Over.partitionBy("day", "hour_us").orderBy(F.desc_nulls_last("settled_us"), F.desc("version"))
    current = versions.withColumn("is_current", F.row_number().over(latest) == 1)
    return current.select(*TABLES["gold/config_drift"].names)


def _noted_offsets(notes: DataFrame, window: Window) -> DataFrame:
    """What brokers noted of workers' clocks, as sums of one sample each."""
    detail = F.from_json("detail", "offset_us bigint, offset_error_us bigint")
    told = (
        of_the_window(notes, window)
        .where(F.col("kind") == "worker")
        .select(
            "day",
            floor_to("ts_us", HOUR_US).alias("hour_us"),
            F.col("subject").alias("participant"),
            F.floor(F.pmod("ts_us", F.lit(HOUR_US)) / SECOND_US).alias("sum_t"),
            F.greatest(F.least(detail["offset_us"], F.lit(OFFSET_MAX_US)), F.lit(-OFFSET_MAX_US)).alias("sum_offset"),
            detail["offset_us"].isNotNull().alias("is_measured"),
            detail["offset_error_us"].alias("error_us"),
        )
    )
    return told.where("is_measured").select(
        "day",
        "hour_us",
        "participant",
        F.lit(1).cast("long").alias("n_offset"),
        "sum_t",
        "sum_offset",
        (F.col("sum_t") * F.col("sum_offset")).alias("sum_t_offset"),
        (F.col("sum_t") * F.col("sum_t")).alias("sum_t2"),
        "error_us",
    )
