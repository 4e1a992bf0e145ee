"""Fail-overs: tasks that were settled twice, and what became of all that were in flight.

There are few fail-overs, so they are looked up first, and only tasks around them are read. When a broker crashes after
it settled a task and before its partner heard of it, the partner settles the task again. Both rows are true records; as
a count of tasks one is too many. The first settlement stays, because its client had it first. The others are listed in
`silver/doubled`, and whatever counts tasks takes them out: as negative partial sums, which is all that a table of sums
can be corrected with.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import Row
from pyspark.sql.window import Window as Over

from scale0_pipeline.schema import TABLES
from scale0_pipeline.transforms.window import Window, for_each_day, of_the_window
from scale0_pipeline.units import MINUTE_US

LOOKBACK_DAYS: Final = 1
AROUND_US: Final = 15 * MINUTE_US
"""Both settlements of a task are looked for this long before and after a fail-over."""
BEFORE_US: Final = MINUTE_US
AFTER_US: Final = 5 * MINUTE_US
"""How far before and after a fail-over its outage is looked for."""
MOMENTS_MAX: Final = 1_000
"""Fail-overs of a window's days that are looked at; more are no fail-overs any more."""
KEY: Final = ("broker", "boot", "seq")
TASK: Final = ("client", "nonce", "sequence")


def doubled(inputs: Mapping[str, DataFrame], window: Window) -> DataFrame:
    """silver/doubled of the window's days."""
    tasks = inputs["silver/tasks"].where((F.col("role") == "origin") & (F.col("outcome") != "refused"))
    near = _near(tasks, moments(inputs["silver/notes"]), AROUND_US)
    # Most tasks were settled once, and of them a number is enough. Numbers that meet by chance are told apart below.
    numbered = near.withColumn("number", F.xxhash64(*TASK))
    twice = numbered.groupBy("number").agg(F.count("*").alias("times")).where("times > 1").select("number")
    copies = for_each_day(numbered.join(F.broadcast(twice), "number", "left_semi"), window, LOOKBACK_DAYS)
    same = Over.partitionBy("for_day", *TASK).orderBy("ts_us", *KEY)
    ranked = copies.withColumns(
        {
            "_place": F.row_number().over(same),
            "first_broker": F.first("broker").over(same),
            "first_us": F.first("ts_us").over(same),
        }
    )
    surplus = ranked.where((F.col("_place") > 1) & (F.col("day") == F.col("for_day")))
    return surplus.select(*TABLES["silver/doubled"].names)


def failovers(inputs: Mapping[str, DataFrame], window: Window) -> DataFrame:
    """gold/failovers of the window's days."""
    notes = of_the_window(inputs["silver/notes"], window)
    known = moments(notes)
    told = notes.where(F.col("kind") == "failover").select(
        "day",
        "ts_us",
        "broker",
        _partner().alias("partner"),
        "what",
        F.col("value").alias("epoch"),
    )
    surplus = inputs["silver/doubled"]
    tasks = _near(inputs["silver/tasks"].where(F.col("role") == "origin"), known, AROUND_US)
    pair = [F.col("m.broker"), F.col("m.partner")]
    once = tasks.join(F.broadcast(surplus.select(*KEY)), list(KEY), "left_anti").alias("t")
    moment = told.select("ts_us", "broker", "partner").distinct().alias("m")
    met = once.join(F.broadcast(moment), F.col("t.broker").isin(pair))
    ledger = _ledger(met).join(_outage(met), ["ts_us", "broker"], "full")
    again = (
        surplus.alias("t")
        .join(F.broadcast(moment), F.col("t.broker").isin(pair) & _is_within("t.ts_us", AROUND_US))
        .groupBy("m.ts_us", "m.broker")
        .agg(F.count("*").alias("doubled"))
    )
    whole = told.join(ledger, ["ts_us", "broker"], "left").join(again, ["ts_us", "broker"], "left")
    counts = ["in_flight", "replied", "rerouted", "retried", "errored", "lost", "doubled"]
    return whole.fillna(0, counts).select(*TABLES["gold/failovers"].names)


def moments(notes: DataFrame) -> list[Row]:
    """The fail-overs that notes tell of: when, who and with whom. Few, and looked up at once."""
    found = notes.where(F.col("kind") == "failover").select("ts_us", "broker", _partner().alias("partner"))
    return found.orderBy("ts_us", "broker").limit(MOMENTS_MAX).collect()


def as_batch(surplus: DataFrame) -> DataFrame:
    """Rows of silver/doubled as if a batch had brought them."""
    return surplus.withColumn("batch", F.lit(None).cast("long"))


def negated(facts: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """Partial sums that take others out again; minima and maxima cannot be taken out, and stay."""
    kept = {*keys, "batch", "max_latency_us", "first_us", "last_us"}
    return facts.select(*[F.col(name) if name in kept else (-F.col(name)).alias(name) for name in facts.columns])


def _near(tasks: DataFrame, found: list[Row], around_us: int) -> DataFrame:
    """Tasks that were settled near any of the fail-overs, at one of its two brokers."""
    if not found:
        return tasks.where(F.lit(False))
    brokers = sorted({name for row in found for name in (row["broker"], row["partner"]) if name})
    spans: list[tuple[int, int]] = []
    for row in found:
        from_us, to_us = row["ts_us"] - around_us, row["ts_us"] + around_us
        if spans and from_us <= spans[-1][1]:
            spans[-1] = (spans[-1][0], to_us)
        else:
            spans.append((from_us, to_us))
    is_near = reduce(Column.__or__, [F.col("ts_us").between(*span) for span in spans])
    return tasks.where(F.col("broker").isin(brokers) & is_near)


def _partner() -> Column:
    return F.get_json_object("detail", "$.partner")


def _is_within(column: str, around_us: int) -> Column:
    return F.abs(F.col(column) - F.col("m.ts_us")) <= around_us


def _ledger(met: DataFrame) -> DataFrame:
    """Each task that was in flight, in exactly one column."""
    spans = (F.col("t.received_us") <= F.col("m.ts_us")) & (F.col("t.ts_us") >= F.col("m.ts_us"))
    is_answered = F.col("t.outcome") == "replied"
    fate = (
        F.when(F.col("t.code") == 502, "lost")
        .when(~is_answered, "errored")
        .when(F.col("t.via").isNotNull(), "rerouted")
        .when(F.coalesce(F.col("t.attempt"), F.lit(1)) > 1, "retried")
        .otherwise("replied")
    )
    sums = [
        F.sum(F.when(F.col("fate") == one, 1).otherwise(0)).alias(one)
        for one in ("replied", "rerouted", "retried", "errored", "lost")
    ]
    spanning = met.where(spans & (F.col("t.outcome") != "refused"))
    rows = spanning.select(F.col("m.ts_us").alias("ts_us"), F.col("m.broker").alias("broker"), fate.alias("fate"))
    return rows.groupBy("ts_us", "broker").agg(F.count("*").alias("in_flight"), *sums)


def _outage(met: DataFrame) -> DataFrame:
    """The longest time between two settlements of the pair of which the second came after the fail-over."""
    settled = met.where(
        F.col("t.ts_us").between(F.col("m.ts_us") - BEFORE_US, F.col("m.ts_us") + AFTER_US)
        & (F.col("t.outcome") != "refused")
    ).select(F.col("m.ts_us").alias("ts_us"), F.col("m.broker").alias("broker"), F.col("t.ts_us").alias("settled_us"))
    before = F.lag("settled_us").over(Over.partitionBy("ts_us", "broker").orderBy("settled_us"))
    gaps = settled.withColumn("gap_us", F.when(F.col("settled_us") >= F.col("ts_us"), F.col("settled_us") - before))
    return gaps.groupBy("ts_us", "broker").agg(F.max("gap_us").alias("outage_us"))
