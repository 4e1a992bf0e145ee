"""How fast each service uses up its error budget.

An objective of 99.9 % allows one task in a thousand to go wrong. A burn rate of 1 uses exactly what is allowed; 14.4
uses a month's budget in two days. One window alone is either nervous, if it is short, or slow to notice and slow to
forget, if it is long. So each rate is looked at in two windows at once, and alerts while both are over the threshold. A
task is bad if its handler failed, if it was late or lost, or if it was turned away for want of room; a caller's own
mistakes, such as a service that does not exist, are not the service's. A service with hardly any tasks does not alert.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from scale0_pipeline.schema import TABLES
from scale0_pipeline.transforms.window import Window, of_the_window
from scale0_pipeline.units import HOUR_US, MINUTE_US

INPUTS: Final = ("gold/service_1m",)
LOOKBACK_DAYS: Final = 3
OBJECTIVE: Final = 0.999
VOLUME_MIN: Final = 100
"""Tasks in the long window below which nothing alerts."""


class Pair(NamedTuple):
    """Two windows and the burn rate that alerts in both."""

    name: str
    threshold: float
    short_us: int
    long_us: int


PAIRS: Final = (
    Pair("5m·1h", 14.4, 5 * MINUTE_US, HOUR_US),
    Pair("30m·6h", 6.0, 30 * MINUTE_US, 6 * HOUR_US),
    Pair("6h·3d", 1.0, 6 * HOUR_US, 72 * HOUR_US),
)


def slo_burn(inputs: Mapping[str, DataFrame], window: Window) -> DataFrame:
    """gold/slo_burn of the window's days, with the same objective for every service."""
    return with_objectives({})(inputs, window)


def with_objectives(objectives: Mapping[str, float]) -> Callable[[Mapping[str, DataFrame], Window], DataFrame]:
    """The maker of gold/slo_burn for these objectives; a service that is not named has `OBJECTIVE`."""
    for service, objective in objectives.items():
        if not 0 < objective < 1:
            raise ValueError(f"the objective of {service} is {objective}; it is a share between 0 and 1, such as 0.999")

    def make(inputs: Mapping[str, DataFrame], window: Window) -> DataFrame:
        minutes = inputs["gold/service_1m"].select(
            "day", "minute_us", "service", "count", _bad().alias("bad"), _objective(objectives).alias("objective")
        )
        burns = of_the_window(_in_windows(minutes), window).withColumn("pair", F.explode(F.array(*map(_burn, PAIRS))))
        return burns.select("day", "minute_us", "service", "objective", "pair.*").select(*TABLES["gold/slo_burn"].names)

    return make


def _bad() -> Column:
    """`errors` has the late and the lost, and those cancelled by their clients, which are nobody's fault."""
    return F.least(F.col("failed") + F.col("late") + F.col("lost") + F.col("over_limit"), F.col("count"))


def _objective(objectives: Mapping[str, float]) -> Column:
    chosen = F.when(F.lit(False), F.lit(OBJECTIVE))
    for service, objective in sorted(objectives.items()):
        chosen = chosen.when(F.col("service") == service, F.lit(objective))
    return chosen.otherwise(F.lit(OBJECTIVE))


def _in_windows(minutes: DataFrame) -> DataFrame:
    """Minutes with the bad ones and all in each window that ends with them.

    Sums over a sliding window would be added up anew for every minute. Running totals are not: what lies in a window is
    the total now less the total when it began.
    """
    in_order = Over.partitionBy("service").orderBy("minute_us")
    totals = minutes.withColumns({f"{name}_so_far": F.sum(name).over(in_order) for name in ("bad", "count")})
    lengths = sorted({us for pair in PAIRS for us in (pair.short_us, pair.long_us)})
    before = {
        f"{name}_{us}": F.last(f"{name}_so_far").over(in_order.rangeBetween(Over.unboundedPreceding, -us))
        for name in ("bad", "count")
        for us in lengths
    }
    return totals.withColumns(before)


def _burn(pair: Pair) -> Column:
    """A pair's columns, as one."""

    def within(name: str, us: int) -> Column:
        return F.col(f"{name}_so_far") - F.coalesce(f"{name}_{us}", F.lit(0))

    allowed = 1 - F.col("objective")
    short = within("bad", pair.short_us) / within("count", pair.short_us) / allowed
    long = within("bad", pair.long_us) / within("count", pair.long_us) / allowed
    volume = within("count", pair.long_us)
    is_alerting = (short >= pair.threshold) & (long >= pair.threshold) & (volume >= VOLUME_MIN)
    return F.struct(
        F.lit(pair.name).alias("window"),
        F.lit(pair.threshold).alias("threshold"),
        short.alias("burn_short"),
        long.alias("burn_long"),
        volume.alias("volume"),
        is_alerting.alias("is_alerting"),
    )
