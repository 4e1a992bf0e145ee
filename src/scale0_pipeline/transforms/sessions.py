"""What workers' sessions were, from the notes of brokers.

A session begins with `opened` and ends with `lost` or `closed`. Its broker's end is its end, too: said by `boot_end`,
or seen when the broker comes back with another boot; then the session ended with the last sign of the old one. A
session that was opened before the look-back is known by its signs of life, the notes that tell of each worker every
minute.

Each day has a row of each session that touched it, as it was known at that day's end, made from that day and the one
before: so what a day says does not change because of later days.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from scale0_pipeline.schema import TABLES
from scale0_pipeline.transforms.window import Window, day_start_us, for_each_day, of_the_window

LOOKBACK_DAYS: Final = 1
DETAIL: Final = "role string, why string, services string, capacity int, author string, former string"
ENDS: Final = ("lost", "closed")


def worker_sessions(inputs: Mapping[str, DataFrame], window: Window) -> DataFrame:
    """silver/worker_sessions of the window's days."""
    notes = for_each_day(inputs["silver/notes"], window, LOOKBACK_DAYS)
    sessions = _sessions(_signs(notes)).join(_runs(notes), ["for_day", "broker", "boot"], "left")
    closed_us = F.coalesce("ended_us", "run_ended_us")
    why = F.when(F.col("ended_us").isNotNull(), F.col("why")).when(closed_us.isNotNull(), F.col("run_why"))
    known = sessions.select(
        F.col("for_day").alias("day"),
        "worker",
        "broker",
        "boot",
        "opened_us",
        closed_us.alias("closed_us"),
        why.alias("why"),
        "services",
        "capacity",
    )
    touches = F.col("closed_us").isNull() | (F.col("closed_us") >= day_start_us("day"))
    return known.where(touches).select(*TABLES["silver/worker_sessions"].names)


def config_applied(inputs: Mapping[str, DataFrame], window: Window) -> DataFrame:
    """silver/config_applied of the window's days."""
    notes = of_the_window(inputs["silver/notes"], window)
    applied = notes.where((F.col("kind") == "config") & (F.col("what") == "applied"))
    detail = F.from_json("detail", DETAIL)
    return applied.select(
        "day",
        "ts_us",
        "broker",
        F.col("subject").alias("version"),
        detail["former"].alias("former"),
        detail["author"].alias("author"),
    )


def _signs(notes: DataFrame) -> DataFrame:
    """What is said of workers, each sign with the number of the session that it belongs to."""
    detail = F.from_json("detail", DETAIL)
    is_session = (F.col("kind") == "session") & (detail["role"] == "worker")
    rows = notes.where(is_session | (F.col("kind") == "worker")).select(
        "for_day",
        F.col("subject").alias("worker"),
        "broker",
        "boot",
        "ts_us",
        "seq",
        F.when(F.col("kind") == "session", F.col("what")).otherwise("sign").alias("what"),
        detail["why"].alias("why"),
        detail["services"].alias("services"),
        detail["capacity"].alias("capacity"),
    )
    in_order = Over.partitionBy("for_day", "worker", "broker", "boot").orderBy("ts_us", "seq")
    return rows.withColumn("session", F.sum(F.when(F.col("what") == "opened", 1).otherwise(0)).over(in_order))


def _sessions(signs: DataFrame) -> DataFrame:
    is_end = F.col("what").isin(*ENDS)
    keys = ["for_day", "worker", "broker", "boot", "session"]
    return signs.groupBy(*keys).agg(
        F.min("ts_us").alias("opened_us"),
        F.min(F.when(is_end, F.col("ts_us"))).alias("ended_us"),
        F.min_by(F.coalesce("why", "what"), F.when(is_end, F.col("ts_us"))).alias("why"),
        _latest("services").alias("services"),
        _latest("capacity", F.col("capacity") > 0).alias("capacity"),  # rule 11: who leaves or pauses says 0
    )


def _latest(column: str, counts: Column | None = None) -> Column:
    """What was said last of it, if anything; with `counts`, of what counts."""
    is_said = F.col(column).isNotNull() if counts is None else counts
    return F.max_by(column, F.when(is_said, F.struct("ts_us", "seq")))


def _runs(notes: DataFrame) -> DataFrame:
    """When each run of a broker's process ended, if it did, and whether it said so."""
    runs = notes.groupBy("for_day", "broker", "boot").agg(
        F.min("ts_us").alias("first_us"),
        F.max("ts_us").alias("last_us"),
        F.max(F.when(F.col("kind") == "boot_end", F.col("ts_us"))).alias("told_us"),
    )
    later = F.lead("first_us").over(Over.partitionBy("for_day", "broker").orderBy("first_us"))
    ended = runs.withColumn("crashed_us", F.when(later.isNotNull(), F.col("last_us")))
    return ended.select(
        "for_day",
        "broker",
        "boot",
        F.coalesce("told_us", "crashed_us").alias("run_ended_us"),
        F.when(F.col("told_us").isNotNull(), "the broker ended").otherwise("the broker crashed").alias("run_why"),
    )
