"""Where a task's time went, from its row: columns that silver and facts share.

Four clocks are in a row, and only the broker's is trusted as it stands. What happened between two of its own times is
exact; what happened in the worker is told as durations, which need no clock in common; the way between is what is left.

Facts add these up, and strangers choose some of the numbers, so each is held within bounds whose sums stay in 64 bits.
Higher-order functions are left out of what facts need, for Spark does not compile them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from scale0_pipeline.transforms.engines import Engine, Expression, OfSpark, Step, in_arrow, in_spark

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

LIMIT: Final = 1 << 38  # µs, three days; bytes, 256 GiB: thirty million of them stay within 64 bits
WEIGHT_MAX: Final = 1_000
CLOCK_ERROR_US: Final = 2_000
"""A worker's clock may tick this much faster than the broker's over a task, and seem to have worked too long."""
RETRIES_MAX: Final = 255
EXACT_ATTEMPTS: Final = 2
"""Earlier attempts that are added up one by one. Those after them count as one, from first dispatch to last end."""
EARLIER: Final = "_earlier"
"""The column that says how long the attempts before the last took, all together."""


def held(number: str, least: int = -LIMIT, most: int = LIMIT) -> Column:
    """A column of Spark within bounds; null stays null."""
    made: Column = _held(OfSpark(), number, least, most)
    return made


def timed(tasks: DataFrame) -> DataFrame:
    """Tasks' rows with how long they took, null where that is not known.

    `_latency_us` from received to settled; `_queue_us` without a worker, from received to the last dispatch less
    earlier attempts; `_worker_us` in the worker, waiting and working; `_network_us` between
    broker and worker, there and back; `_retries`, attempts beyond the first.
    """
    from pyspark.sql import functions as F

    earlier = F.when(F.col("attempts").isNotNull(), _attempted_us()).otherwise(F.lit(0).cast("long"))
    return in_spark(tasks.withColumn(EARLIER, earlier), TIMES)


def timed_in_arrow(tasks: pa.Table) -> pa.Table:
    """The same, and `client_network_us`, from client to broker, by the client's clock put right."""
    return in_arrow(tasks.append_column(EARLIER, _attempted_of(tasks.column("attempts"))), (*TIMES, *CLIENT_WAY))


def _differences(of: Engine) -> dict[str, Expression]:
    col, none = of.col, of.number(0)
    return {
        "_latency": col("ts_us") - col("received_us"),
        "_sent": of.first(col("dispatched_us"), col("ts_us")) - col("received_us"),
        "_worked": col("wait_us") + col("work_us"),
        "_again": of.first(of.long(col("attempt")) - of.number(1), none),
    }


def _bounded(of: Engine) -> dict[str, Expression]:
    return {
        "_latency_us": _held(of, "_latency"),
        "_queue": of.col("_sent") - of.col(EARLIER),
        "_worker_us": _held(of, "_worked", 0),
        "_retries": _held(of, "_again", 0, RETRIES_MAX),
    }


def _known(of: Engine) -> dict[str, Expression]:
    return {
        "_queue_us": _held(of, "_queue"),
        "_rest": of.col("ts_us") - of.col("dispatched_us") - of.col("_worker_us"),
    }


def _left(of: Engine) -> dict[str, Expression]:
    # A little under zero is an error of clocks, more than a little means that one of the numbers is wrong.
    rest, none = of.col("_rest"), of.number(0)
    is_error = rest >= of.number(-CLOCK_ERROR_US)
    return {"_network_us": of.choose((rest >= none, _held(of, "_rest")), (is_error, none))}


def _way(of: Engine) -> dict[str, Expression]:
    way = of.col("received_us") - (of.col("sent_us") - of.col("client_offset_us"))
    error = of.first(of.col("client_error_us"), of.number(0)) + of.number(CLOCK_ERROR_US)
    return {"_way": way, "_way_least": of.number(0) - error}


def _way_left(of: Engine) -> dict[str, Expression]:
    # A little under zero is within the error of the offset.
    way, none = of.col("_way"), of.number(0)
    return {"client_network_us": of.choose((way >= none, _held(of, "_way")), (way >= of.col("_way_least"), none))}


def _held(of: Engine, number: str, least: int = -LIMIT, most: int = LIMIT) -> Expression:
    column, low, high = of.col(number), of.number(least), of.number(most)
    return of.choose((column > high, high), (column < low, low), otherwise=column)


TIMES: Final[tuple[Step, ...]] = (_differences, _bounded, _known, _left)
CLIENT_WAY: Final[tuple[Step, ...]] = (_way, _way_left)


def _attempted_us() -> Column:
    """How long the attempts before the last took, all together."""
    from pyspark.sql import functions as F

    none = F.lit(0).cast("long")
    total = none
    for place in range(EXACT_ATTEMPTS):
        one = F.get("attempts", F.lit(place))
        total = total + F.coalesce(one["ended_us"] - one["dispatched_us"], none)
    others_from = F.get("attempts", F.lit(EXACT_ATTEMPTS))["dispatched_us"]
    return total + F.coalesce(F.array_max("attempts.ended_us") - others_from, none)


def _attempted_of(attempts: pa.ChunkedArray) -> pa.Array:
    """The same of a column of Arrow; row by row, for most have none."""
    import numpy as np
    import pyarrow as pa

    found = np.zeros(len(attempts), dtype=np.int64)
    for place in np.flatnonzero(attempts.is_valid().to_numpy()):
        found[place] = attempted_us(attempts[int(place)].as_py())
    return pa.array(found)


def attempted_us(attempts: Sequence[Mapping[str, Any]]) -> int:
    """The same of one row."""
    total = sum(_took_us(one["dispatched_us"], one["ended_us"]) for one in attempts[:EXACT_ATTEMPTS])
    ends = [one["ended_us"] for one in attempts if one["ended_us"] is not None]
    if len(attempts) > EXACT_ATTEMPTS and ends:
        total += _took_us(attempts[EXACT_ATTEMPTS]["dispatched_us"], max(ends))
    return total


def _took_us(begun_us: int | None, ended_us: int | None) -> int:
    return ended_us - begun_us if begun_us is not None and ended_us is not None else 0
