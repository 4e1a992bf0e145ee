"""How much of what happened was recorded: rows that arrived ÷ rows that counters tell of.

Brokers number their rows. The highest number of a run of a broker's process that anything tells of is how many rows it
had by then; holes between rows that arrived are not enough, because what is lost at the end leaves no hole. So:

- A clean end says its last number (`boot_end`): nothing is missing if as many rows arrived.
- Rows that arrived say their own numbers; gauges say the last one before them; notes of dropped rows and gaps in the
  catalogue say up to where the loss reached. In an hour there were as many rows as the highest number rose.
- A crash takes the last rows with it, and often the broker's own word for them. Peers are told each other's numbers, so
  `peer_gauge` bounds it: what a peer heard of beyond all that the broker's own record says is counted, and told apart
  as `unknown`. They are counted in the hour of the broker's last row. What no peer heard of, nobody can know.

A run that was on before the look-back begins at its first number in it; any other begins at 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from scale0_pipeline.schema import TABLES
from scale0_pipeline.transforms.window import Window, day_of, floor_to, for_each_day, of_the_window
from scale0_pipeline.units import DAY_US

LOOKBACK_DAYS: Final = 1
RUN: Final = ("for_day", "broker", "boot")


def completeness_1h(inputs: Mapping[str, DataFrame], window: Window) -> DataFrame:
    """gold/completeness_1h of the window's days."""
    hours = _hours(inputs["facts/recorded"], window)
    by_broker = hours.groupBy(F.col("for_day").alias("day"), "hour_us", "broker").agg(
        F.sum("recorded").alias("recorded"), F.sum("counted").alias("counted"), F.sum("unknown").alias("unknown")
    )
    share = F.least(F.col("recorded") / F.col("counted"), F.lit(1.0))
    known = by_broker.withColumn("completeness", F.when(F.col("counted") > 0, share))
    return known.select(*TABLES["gold/completeness_1h"].names)


def gaps(inputs: Mapping[str, DataFrame], window: Window) -> DataFrame:
    """silver/gaps of the window's days: what brokers and the catalogue tell of, what crashes took, and the rest."""
    detail = F.from_json("detail", "seq_lo bigint, seq_hi bigint")
    dropped = of_the_window(inputs["silver/notes"], window).where(F.col("kind") == "dropped")
    told = dropped.select(
        "day",
        "broker",
        "boot",
        detail["seq_lo"].alias("seq_lo"),
        detail["seq_hi"].alias("seq_hi"),
        F.coalesce(F.col("value"), detail["seq_hi"] - detail["seq_lo"] + 1).alias("rows"),
        F.when(F.col("subject") == "catalogue", "forced").otherwise("dropped").alias("why"),
    )
    hours = _hours(inputs["facts/recorded"], window)
    crashed = hours.where(F.col("unknown") > 0).select(
        F.col("for_day").alias("day"),
        "broker",
        "boot",
        (F.col("own_end") + 1).alias("seq_lo"),
        (F.col("own_end") + F.col("unknown")).alias("seq_hi"),
        F.col("unknown").alias("rows"),
        F.lit("crashed").alias("why"),
    )
    known = told.unionByName(crashed).groupBy("day", "broker", "boot").agg(F.sum("rows").alias("known"))
    lost = hours.groupBy(F.col("for_day").alias("day"), "broker", "boot").agg(
        F.sum(F.col("counted") - F.col("recorded")).alias("lost")
    )
    rest = F.col("lost") - F.coalesce("known", F.lit(0))
    missing = (
        lost.join(known, ["day", "broker", "boot"], "left")
        .where(rest > 0)
        .select(
            "day",
            "broker",
            "boot",
            F.lit(None).cast("long").alias("seq_lo"),
            F.lit(None).cast("long").alias("seq_hi"),
            rest.alias("rows"),
            F.lit("missing").alias("why"),
        )
    )
    return told.unionByName(crashed).unionByName(missing).select(*TABLES["silver/gaps"].names)


def _hours(recorded: DataFrame, window: Window) -> DataFrame:
    """Each run and hour of the window's days: rows that arrived, rows that there were, and whose word it is."""
    is_peer = F.col("evidence") == "peer"
    hours = (
        for_each_day(recorded, window, LOOKBACK_DAYS)
        .groupBy(*RUN, "hour_us")
        .agg(
            F.sum("rows").alias("recorded"),
            F.max(F.when(~is_peer, F.col("last_seq"))).alias("own"),
            F.max(F.when(is_peer, F.col("last_seq"))).alias("peer"),
            F.min("first_seq").alias("first_seq"),
        )
    )
    run = Over.partitionBy(*RUN)
    in_order = run.orderBy("hour_us")
    last_own_us = F.max(F.when(F.col("own").isNotNull(), F.col("hour_us"))).over(run)
    known = hours.withColumns(
        {
            "reached": F.max("own").over(in_order),
            "before": F.max("own").over(in_order.rowsBetween(Over.unboundedPreceding, -1)),
            "own_end": F.coalesce(F.max("own").over(run), F.lit(0)),
            "peer_end": F.max("peer").over(run),
            "last_us": F.coalesce(last_own_us, F.min("hour_us").over(run)),
        }
    )
    # A run that has rows in the first hour of a day was on before, as far as the look-back can tell.
    was_on = F.col("hour_us") == floor_to("hour_us", DAY_US)
    begins = F.when(was_on, F.coalesce(F.col("first_seq") - 1, F.lit(0))).otherwise(0)
    beyond = F.greatest(F.col("peer_end") - F.col("own_end"), F.lit(0))
    unknown = F.when(F.col("hour_us") == F.col("last_us"), F.coalesce(beyond, F.lit(0))).otherwise(0)
    own = F.greatest(F.coalesce("reached", F.lit(0)) - F.coalesce("before", begins), F.lit(0))
    counted = known.withColumn("unknown", unknown).withColumn("counted", own + F.col("unknown"))
    return counted.where(day_of("hour_us") == F.col("for_day"))
