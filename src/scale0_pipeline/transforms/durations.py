"""Where a task's time went, from its row: columns that silver and facts share.

Four clocks are in a row, and only the broker's is trusted as it stands. What happened between two of its own times is
exact; what happened in the worker is told as durations, which need no clock in common; the way between is what is left.

Facts add these up, and strangers choose some of the numbers, so each is held within bounds whose sums stay in 64 bits.

Columns are added in steps, each from the step before: so Spark computes each of them once a row, where nested
expressions would be copied into every place that uses them. Higher-order functions are left out for the same reason of
speed: Spark does not compile them.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

LIMIT: Final = 1 << 38  # µs, three days; bytes, 256 GiB: thirty million of them stay within 64 bits
WEIGHT_MAX: Final = 1_000
CLOCK_ERROR_US: Final = 2_000
"""A worker's clock may tick this much faster than the broker's over a task, and seem to have worked too long."""
RETRIES_MAX: Final = 255
EXACT_ATTEMPTS: Final = 2
"""Earlier attempts that are added up one by one. Those after them count as one, from first dispatch to last end."""


def held(number: str, least: int = -LIMIT, most: int = LIMIT) -> Column:
    """A column within bounds; null stays null."""
    column = F.col(number)
    return F.when(column > most, F.lit(most)).when(column < least, F.lit(least)).otherwise(column)


def timed(tasks: DataFrame) -> DataFrame:
    """Tasks' rows with how long they took, null where that is not known.

    `_latency_us` from received to settled; `_queue_us` without a worker, from received to the last dispatch less
    earlier attempts; `_worker_us` in the worker, waiting and working; `_network_us` between
    broker and worker, there and back; `_retries`, attempts beyond the first.
    """
    differences = tasks.withColumns(
        {
            "_latency": F.col("ts_us") - F.col("received_us"),
            "_sent": F.coalesce(F.col("dispatched_us"), F.col("ts_us")) - F.col("received_us"),
            "_earlier": F.when(F.col("attempts").isNotNull(), _attempted_us()).otherwise(F.lit(0).cast("long")),
            "_worked": F.col("wait_us") + F.col("work_us"),
            "_retries": F.coalesce(F.col("attempt").cast("long") - 1, F.lit(0).cast("long")),
        }
    )
    bounded = differences.withColumns(
        {
            "_latency_us": held("_latency"),
            "_queue": F.col("_sent") - F.col("_earlier"),
            "_worker_us": held("_worked", 0),
            "_retries": held("_retries", 0, RETRIES_MAX),
        }
    )
    known = bounded.withColumns(
        {
            "_queue_us": held("_queue"),
            "_rest": F.col("ts_us") - F.col("dispatched_us") - F.col("_worker_us"),
        }
    )
    # A little under zero is an error of clocks, more than a little means that one of the numbers is wrong.
    network = F.when(F.col("_rest") >= 0, held("_rest")).when(F.col("_rest") >= -CLOCK_ERROR_US, F.lit(0).cast("long"))
    return known.withColumn("_network_us", network)


def with_client_network(tasks: DataFrame) -> DataFrame:
    """Tasks' rows with `client_network_us`, from client to broker, by the client's clock put right."""
    rest = F.col("received_us") - (F.col("sent_us") - F.col("client_offset_us"))
    error_us = F.coalesce(F.col("client_error_us"), F.lit(0).cast("long")) + CLOCK_ERROR_US
    known = tasks.withColumns({"_way": rest, "_way_error": error_us})
    # A little under zero is within the error of the offset.
    way = F.when(F.col("_way") >= 0, held("_way")).when(F.col("_way") >= -F.col("_way_error"), F.lit(0).cast("long"))
    return known.withColumn("client_network_us", way)


def _attempted_us() -> Column:
    """How long the attempts before the last took, all together."""
    none = F.lit(0).cast("long")
    total = none
    for place in range(EXACT_ATTEMPTS):
        one = F.get("attempts", F.lit(place))
        total = total + F.coalesce(one["ended_us"] - one["dispatched_us"], none)
    others_from = F.get("attempts", F.lit(EXACT_ATTEMPTS))["dispatched_us"]
    return total + F.coalesce(F.array_max("attempts.ended_us") - others_from, none)
