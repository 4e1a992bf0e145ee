"""Facts: what the batches brought, as sums that add up.

A batch's events are summed once by minute and latency, once by hour and by who took part, once by hour and by where
the time went; each batch appends its partial sums. Sums, counts and histograms of batches add up to those of the
whole, so nothing is ever read again when late events come, and every other table is made of these few rows. Only whole
numbers are summed, so the order does not matter; maxima add up by maximum. Raw rows are not moved between processes:
each sums what it read, and sums are exchanged.

`merge_*` adds up rows with equal keys, whatever batch wrote them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from scale0_pipeline.schema import TABLES
from scale0_pipeline.transforms import durations
from scale0_pipeline.transforms.bronze import filed
from scale0_pipeline.transforms.buckets import bucket
from scale0_pipeline.transforms.window import floor_to, whole
from scale0_pipeline.units import HOUR_US, MINUTE_US, SECOND_US

MINUTE_KEYS: Final = ("day", "minute_us", "service", "broker", "code", "outcome", "bucket")
HOUR_KEYS: Final = (
    "day",
    "hour_us",
    "worker",
    "via",
    "client",
    "service",
    "role",
    "broker",
    "config_version",
    "worker_version",
)
SPLIT_KEYS: Final = ("day", "hour_us", "service", "part", "bucket")
RECORDED_KEYS: Final = ("day", "hour_us", "broker", "boot", "evidence")
BY_MAXIMUM: Final = frozenset({"max_latency_us", "last_us", "last_seq"})
BY_MINIMUM: Final = frozenset({"first_us", "first_seq"})
OFFSET_MAX_US: Final = 100 * SECOND_US
"""An offset is held within this for slopes: a clock that is further off is wrong, not drifting."""


def minute(bronze: DataFrame) -> DataFrame:
    """facts/minute, of a batch."""
    return _summed("facts/minute", minute_rows(filed(_tasks(bronze))), (*MINUTE_KEYS, "batch"))


def minute_rows(tasks: DataFrame) -> DataFrame:
    """Filed rows of origins, each with the keys and the numbers that facts/minute sums."""
    origins = durations.timed(tasks.where(F.col("role") == "origin"))
    is_accepted = F.col("outcome") != "refused"
    rows = origins.withColumns(
        {
            "_weight": _weight(),
            "_took_us": F.when(is_accepted, F.col("_latency_us")),
            "_waited_us": F.when(is_accepted, F.col("_queue_us")),
            "_request": durations.held("request_bytes", 0),
            "_reply": durations.held("reply_bytes", 0),
        }
    )
    return rows.select(
        "day",
        floor_to("ts_us", MINUTE_US).alias("minute_us"),
        "service",
        "broker",
        "code",
        "outcome",
        bucket(F.col("_took_us")).alias("bucket"),
        F.col("_weight").alias("count"),
        _weighed("_took_us").alias("latency_us"),
        _weighed("_waited_us").alias("queue_us"),
        _weighed("_worker_us").alias("worker_us"),
        _weighed("_network_us").alias("network_us"),
        F.when(F.col("_network_us").isNotNull(), F.col("_weight")).alias("network_count"),
        F.col("_took_us").alias("max_latency_us"),
        _weighed("_request").alias("request_bytes"),
        _weighed("_reply").alias("reply_bytes"),
        _weighed("_retries").alias("retries"),
        "batch",
    )


def hour(bronze: DataFrame) -> DataFrame:
    """facts/hour, of a batch."""
    return _summed("facts/hour", hour_rows(filed(_tasks(bronze))), (*HOUR_KEYS, "batch"))


def hour_rows(tasks: DataFrame) -> DataFrame:
    """Filed rows of tasks that were accepted, each with the keys and the numbers that facts/hour sums."""
    accepted = durations.timed(tasks.where(F.col("outcome") != "refused"))
    rows = accepted.withColumns(
        {
            "hour_us": floor_to("ts_us", HOUR_US),
            "_weight": _weight(),
            "_work": durations.held("work_us", 0),
            "_wait": durations.held("wait_us", 0),
            "_request": durations.held("request_bytes", 0),
            "_reply": durations.held("reply_bytes", 0),
            "_offset": durations.held("worker_offset_us", -OFFSET_MAX_US, OFFSET_MAX_US),
        }
    )
    measured = rows.withColumns(
        {
            "_t": F.when(F.col("_offset").isNotNull(), whole(F.col("ts_us") - F.col("hour_us"), SECOND_US)),
            "_offset_ms": whole(F.col("_offset"), 1_000),
        }
    )
    return measured.select(
        "day",
        *HOUR_KEYS[1:],
        F.col("_weight").alias("count"),
        F.when(F.col("outcome") != "replied", F.col("_weight")).alias("errors"),
        _weighed("_latency_us").alias("latency_us"),
        _weighed("_work").alias("work_us"),
        _weighed("_wait").alias("wait_us"),
        _weighed("_request").alias("request_bytes"),
        _weighed("_reply").alias("reply_bytes"),
        F.col("ts_us").alias("first_us"),
        F.col("ts_us").alias("last_us"),
        F.when(F.col("_offset").isNotNull(), F.lit(1).cast("long")).alias("n_offset"),
        F.col("_t").alias("sum_t"),
        F.col("_offset").alias("sum_offset"),
        (F.col("_t") * F.col("_offset")).alias("sum_t_offset"),
        (F.col("_t") * F.col("_t")).alias("sum_t2"),
        (F.col("_offset_ms") * F.col("_offset_ms")).alias("sum_offset2"),
        "batch",
    )


def split(bronze: DataFrame) -> DataFrame:
    """facts/split, of a batch."""
    return _summed("facts/split", split_rows(filed(_tasks(bronze))), (*SPLIT_KEYS, "batch"))


def split_rows(tasks: DataFrame) -> DataFrame:
    """Filed rows of origins, each dispatched task once for each of the three parts."""
    is_ours = (F.col("role") == "origin") & F.col("dispatched_us").isNotNull()
    rows = durations.timed(tasks.where(is_ours)).select(
        "day",
        floor_to("ts_us", HOUR_US).alias("hour_us"),
        "service",
        _weight().alias("count"),
        "batch",
        bucket(F.col("_queue_us")).alias("_queue"),
        bucket(F.col("_worker_us")).alias("_worker"),
        bucket(F.col("_network_us")).alias("_network"),
    )
    parts = [(F.lit(part), F.col(f"_{part}")) for part in ("queue", "worker", "network")]
    stacked = F.stack(F.lit(len(parts)), *[column for pair in parts for column in pair]).alias("part", "bucket")
    return rows.select("day", "hour_us", "service", stacked, "count", "batch")


def recorded(bronze: DataFrame) -> DataFrame:
    """facts/recorded, of a batch: how many rows of each run arrived, and what anybody says of their numbers."""
    rows = filed(bronze)
    hour_us = floor_to(F.when(F.col("is_future"), F.col("landed_us")).otherwise(F.col("ts_us")), HOUR_US)
    # A note of dropped rows has the number of the last row that was lost: it stands in its place, and is none itself.
    is_row = F.col("kind") != "dropped"
    own = rows.select(
        "day",
        hour_us.alias("hour_us"),
        "broker",
        "boot",
        F.when(is_row, F.lit("row")).otherwise(F.lit("gap")).alias("evidence"),
        is_row.cast("long").alias("rows"),
        (F.col("kind") == "task").cast("long").alias("tasks"),
        F.when(is_row, F.col("seq")).alias("last_seq"),
        F.when(is_row, F.col("seq")).alias("first_seq"),
        "batch",
    )
    told = rows.where(F.col("kind").isin("gauge", "boot_end", "peer_gauge", "dropped"))
    detail = F.from_json("detail", "last_seq bigint, seq_hi bigint, boot string")
    is_peer = F.col("kind") == "peer_gauge"
    words = {"gauge": "gauge", "boot_end": "end", "peer_gauge": "peer", "dropped": "gap"}
    others = told.select(
        "day",
        hour_us.alias("hour_us"),
        F.when(is_peer, F.col("subject")).otherwise(F.col("broker")).alias("broker"),
        F.when(is_peer, detail["boot"]).otherwise(F.col("boot")).alias("boot"),
        _translated("kind", words).alias("evidence"),
        F.lit(0).cast("long").alias("rows"),
        F.lit(0).cast("long").alias("tasks"),
        _told_seq(detail).alias("last_seq"),
        F.lit(None).cast("long").alias("first_seq"),
        "batch",
    )
    known = others.where(F.col("last_seq").isNotNull() & F.col("boot").isNotNull())
    return _summed("facts/recorded", own.unionByName(known), (*RECORDED_KEYS, "batch"))


def _told_seq(detail: Column) -> Column:
    """The highest number that a note tells of. A process that ended says it in `value`, a peer in either place."""
    return (
        F.when(F.col("kind") == "dropped", detail["seq_hi"])
        .when(F.col("kind") == "gauge", detail["last_seq"])
        .otherwise(F.coalesce(F.col("value"), detail["last_seq"]))
    )


def _translated(column: str, words: Mapping[str, str]) -> Column:
    chosen = F.when(F.lit(False), F.lit(""))
    for word, other in words.items():
        chosen = chosen.when(F.col(column) == word, F.lit(other))
    return chosen


def _tasks(bronze: DataFrame) -> DataFrame:
    return bronze.where(F.col("kind") == "task")


def _weight() -> Column:
    """How many tasks a row stands for."""
    weight = F.coalesce(F.col("weight"), F.lit(1))
    return F.greatest(F.least(weight, F.lit(durations.WEIGHT_MAX)), F.lit(1)).cast("long")


def _weighed(column: str) -> Column:
    return F.col(column) * F.col("_weight")


def _summed(name: str, rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Rows with equal keys as one, with the columns of the table."""
    names = TABLES[name].names
    sums = [_total(column).alias(column) for column in names if column not in keys]
    return rows.groupBy(*keys).agg(*sums).select(*names)


def _total(column: str) -> Column:
    if column in BY_MAXIMUM:
        return F.max(column)
    if column in BY_MINIMUM:
        return F.min(column)
    return F.coalesce(F.sum(column), F.lit(0).cast("long"))


def _merged(name: str, rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    names = TABLES[name].names
    sums = [_total(column).alias(column) for column in names if column not in (*keys, "batch")]
    return rows.groupBy(*keys).agg(*sums, F.max("batch").alias("batch")).select(*names)


def merge_minute(rows: DataFrame) -> DataFrame:
    return _merged("facts/minute", rows, MINUTE_KEYS)


def merge_hour(rows: DataFrame) -> DataFrame:
    return _merged("facts/hour", rows, HOUR_KEYS)


def merge_split(rows: DataFrame) -> DataFrame:
    return _merged("facts/split", rows, SPLIT_KEYS)


def merge_recorded(rows: DataFrame) -> DataFrame:
    return _merged("facts/recorded", rows, RECORDED_KEYS)
