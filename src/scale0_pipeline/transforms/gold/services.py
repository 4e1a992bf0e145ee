"""What each service did: by minute, hour and day.

Counts and sums are those of facts/minute, less what was settled twice around a fail-over; those of hours and days are
added up from the minutes' few rows. Percentiles are of the summed histograms, so a day's are as exact as a minute's.
Sums and histograms are made apart and then joined: a minute has a few rows of sums, and hundreds of buckets, which
would each carry all of the sums from one process to another. Completeness is that of all brokers in the hour, because a
broker's loss hides tasks of any service.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from scale0_pipeline.buckets import SHARES
from scale0_pipeline.schema import TABLES
from scale0_pipeline.transforms import facts, fail_overs
from scale0_pipeline.transforms.buckets import bucket_at, middle_us, percentiles, ranked
from scale0_pipeline.transforms.names import as_in, too_many, without
from scale0_pipeline.transforms.window import Window, floor_to, of_the_window
from scale0_pipeline.units import HOUR_US

INPUTS: Final = ("facts/minute", "silver/doubled", "gold/completeness_1h")
ROLLED_UP_INPUTS: Final = ("gold/service_1m", *INPUTS, "facts/split")
SUMS: Final = (
    "latency_us",
    "queue_us",
    "worker_us",
    "network_us",
    "network_count",
    "request_bytes",
    "reply_bytes",
    "retries",
)
OUTCOMES: Final = {"replied": "replied", "failed": "failed", "errors": "error", "refused": "refused"}
CODES: Final = {"late": (408, 504), "lost": (502,), "over_limit": (429, 503)}
PARTS: Final = ("queue", "worker", "network")
PART_SHARES: Final = {"p50": 0.5, "p99": 0.99}


def service_1m(inputs: Mapping[str, DataFrame], window: Window) -> DataFrame:
    """gold/service_1m of the window's days."""
    keys = ("minute_us", "service", "day")
    rows = corrected_minutes(inputs, window)
    counted = F.sum("count").alias("count")
    outcomes = [_counted(F.col("outcome") == outcome).alias(name) for name, outcome in OUTCOMES.items()]
    codes = [_counted(F.col("code").isin(*codes)).alias(name) for name, codes in CODES.items()]
    by_name = rows.groupBy(*keys).agg(counted, *outcomes, *codes, *_totals(SUMS), *_latest("batch"))
    excess = too_many(by_name, "service", "day")
    sums = _added_up(without(by_name, excess, "service", "day"), keys)
    buckets = without(rows.select(*keys, "bucket", "count"), excess, "service", "day")
    services = _bounded(sums, _latencies(buckets, keys), keys)
    share = _completeness(inputs, ("day", "hour_us"))
    hour = floor_to("minute_us", HOUR_US)
    joined = services.withColumn("hour_us", hour).join(F.broadcast(share), ["day", "hour_us"], "left")
    return joined.select(*TABLES["gold/service_1m"].names)


def service_1h(inputs: Mapping[str, DataFrame], window: Window) -> DataFrame:
    """gold/service_1h of the window's days."""
    return _rolled_up(inputs, window, "gold/service_1h", ("day", "hour_us"))


def service_1d(inputs: Mapping[str, DataFrame], window: Window) -> DataFrame:
    """gold/service_1d of the window's days."""
    return _rolled_up(inputs, window, "gold/service_1d", ("day",))


def corrected_minutes(inputs: Mapping[str, DataFrame], window: Window) -> DataFrame:
    """facts/minute and, negative, the minutes of what was settled twice."""
    wrong = fail_overs.negated(facts.minute_rows(fail_overs.as_batch(inputs["silver/doubled"])), facts.MINUTE_KEYS)
    return of_the_window(inputs["facts/minute"].unionByName(wrong), window)


def _corrected_split(inputs: Mapping[str, DataFrame], window: Window) -> DataFrame:
    wrong = fail_overs.negated(facts.split_rows(fail_overs.as_batch(inputs["silver/doubled"])), facts.SPLIT_KEYS)
    return of_the_window(inputs["facts/split"].unionByName(wrong), window)


def _rolled_up(inputs: Mapping[str, DataFrame], window: Window, name: str, period: tuple[str, ...]) -> DataFrame:
    """Sums are those of minutes, added up; percentiles need the histograms again, and nothing else of facts/minute."""
    hour = floor_to("minute_us", HOUR_US)
    keys = (*period, "service")
    minutes = of_the_window(inputs["gold/service_1m"], window).withColumn("hour_us", hour)
    sums = _added_up(minutes, keys)
    rows = corrected_minutes(inputs, window).withColumn("hour_us", hour)
    # Summed before names are looked up: there are far fewer rows then.
    by_name = rows.groupBy(*keys, "bucket").agg(F.sum("count").alias("count"))
    services = _bounded(sums, _latencies(as_in(by_name, minutes, "service", "day"), keys), keys)
    parts = _parts(_corrected_split(inputs, window), keys)
    share = _completeness(inputs, period)
    joined = services.join(parts, list(keys), "left").join(F.broadcast(share), list(period), "left")
    return joined.select(*TABLES[name].names)


def _added_up(rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Rows of a service's sums with equal keys as one."""
    return rows.groupBy(*keys).agg(*_totals(("count", *OUTCOMES, *CODES, *SUMS)), *_latest("revision"))


def _totals(names: Sequence[str]) -> list[Column]:
    return [F.sum(name).alias(name) for name in names]


def _latest(batch: str) -> list[Column]:
    return [F.max("max_latency_us").alias("max_latency_us"), F.max(batch).alias("revision")]


def _latencies(buckets: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Percentiles of the latency; a bucket may stand in several rows."""
    return ranked(buckets, keys).groupBy(*keys).agg(*percentiles(SHARES))


def _bounded(sums: DataFrame, latencies: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Both together. A bucket's middle may lie beyond the longest duration in it, which is known."""
    longest = F.col("max_latency_us").cast("double")
    bounded = {
        f"{name}_us": F.when(F.col(f"{name}_us") > longest, F.greatest(longest, F.lit(0.0))).otherwise(
            F.col(f"{name}_us")
        )
        for name in SHARES
    }
    return sums.where(F.col("count") > 0).join(latencies, list(keys), "left").withColumns(bounded)


def _counted(condition: Column) -> Column:
    return F.sum(F.when(condition, F.col("count")).otherwise(0))


def _parts(split: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Percentiles of the time in each part."""
    by_bucket = split.groupBy(*keys, "part", "bucket").agg(F.sum("count").alias("count"))
    found = ranked(by_bucket, (*keys, "part")).groupBy(*keys)
    return found.agg(
        *[
            middle_us(bucket_at(share, F.col("part") == part)).alias(f"{part}_{name}_us")
            for part in PARTS
            for name, share in PART_SHARES.items()
        ]
    )


def _completeness(inputs: Mapping[str, DataFrame], period: tuple[str, ...]) -> DataFrame:
    """Of all brokers together."""
    sums = (
        inputs["gold/completeness_1h"]
        .groupBy(*period)
        .agg(F.sum("recorded").alias("recorded"), F.sum("counted").alias("counted"))
    )
    share = F.when(F.col("counted") > 0, F.least(F.col("recorded") / F.col("counted"), F.lit(1.0)))
    return sums.select(*period, share.alias("completeness"))
