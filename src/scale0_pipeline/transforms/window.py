"""Which days are derived anew, and from what.

A derived table is replaced day by day. What a day's rows say must not depend on which other days are replaced with
them: otherwise a backfill of one day would differ from the stream that once made it. So each day is derived from its
own days alone: itself, and as many before it as the table looks back. `for_each_day` gives every day its own copy of
what it needs, under the column `for_day`.

Times are µs in UTC. They are cut with whole numbers, never by way of a timestamp: that is exact, and quick.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from scale0_pipeline.units import DAY_US, SECOND_US


class Window(msgspec.Struct, frozen=True):
    """The days whose rows are replaced, and the time at which that happens."""

    days: tuple[date, ...]
    now_us: int


def floor_to(column: str | Column, step_us: int) -> Column:
    """The start of the minute, hour or day that a time lies in; right before 1970, too."""
    time = F.col(column) if isinstance(column, str) else column
    return time - F.pmod(time, F.lit(step_us))


def whole(number: Column, divisor: int) -> Column:
    """How often a divisor goes into a whole number, rounded towards zero; Spark's rounding goes by way of decimals."""
    return F.call_function("div", number, F.lit(divisor).cast("long"))


def day_of(column: str | Column) -> Column:
    """The UTC day of a time."""
    return F.date_from_unix_date(whole(floor_to(column, DAY_US), DAY_US).cast("int"))


def day_start_us(column: str) -> Column:
    """When a day begins, in µs."""
    return F.unix_date(column).cast("long") * F.lit(DAY_US)


def day_us(day: date) -> int:
    """When a day begins, in µs; for code that has a day in its hand."""
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * SECOND_US


def for_each_day(frame: DataFrame, window: Window, lookback_days: int) -> DataFrame:
    """Each row once for every day of the window that it may bear on, with that day as `for_day`."""
    days = sorted(window.days)
    needed = {(day, day - timedelta(back)) for day in days for back in range(lookback_days + 1)}
    by_day: dict[date, list[date]] = {}
    for target, source in sorted(needed):
        by_day.setdefault(source, []).append(target)
    if lookback_days == 0:
        return frame.where(F.col("day").isin(days)).withColumn("for_day", F.col("day"))
    targets = F.array(*[F.date_add("day", back) for back in range(lookback_days + 1)])
    wanted = F.array_intersect(targets, F.array(*[F.lit(day) for day in days]))
    return frame.where(F.col("day").isin(sorted(by_day))).withColumn("for_day", F.explode(wanted))


def of_the_window(frame: DataFrame, window: Window) -> DataFrame:
    """Only rows of the days that are replaced."""
    return frame.where(F.col("day").isin(list(window.days)))
