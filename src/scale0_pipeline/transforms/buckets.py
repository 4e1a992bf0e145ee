"""Histograms and percentiles as Spark expressions; `scale0_pipeline.buckets` says what they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from scale0_pipeline.buckets import NEGATIVE, NONE, NUDGE, PER_OCTAVE, ZERO


def bucket(duration_us: Column) -> Column:
    """The bucket of a duration."""
    exact = F.floor(F.log2(duration_us.cast("double")) * F.lit(float(PER_OCTAVE)) + F.lit(NUDGE))
    return (
        F.when(duration_us > 0, exact.cast("int"))
        .when(duration_us == 0, F.lit(ZERO))
        .when(duration_us < 0, F.lit(NEGATIVE))
        .otherwise(F.lit(NONE))
    )


def middle_us(of_bucket: Column) -> Column:
    """What stands for the durations of a bucket; null of no bucket."""
    exact = F.pow(F.lit(2.0), (of_bucket + F.lit(0.5)) / F.lit(float(PER_OCTAVE)))
    return F.when(of_bucket >= 0, exact).when(of_bucket < 0, F.lit(0.0))


def ranked(counts: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Rows of keys, `bucket` and `count` with two more columns: how many durations there are up to this bucket
    (`_seen`), and how many in all (`_all`), among the rows with equal keys."""
    with_duration = F.when(F.col("bucket") > NONE, F.col("count")).otherwise(F.lit(0))
    same = Over.partitionBy(*keys)
    return counts.withColumns(
        {
            "_seen": F.sum(with_duration).over(same.orderBy("bucket")),  # up to and with all rows of the same bucket
            "_all": F.sum(with_duration).over(same),
        }
    )


def percentiles(shares: Mapping[str, float]) -> list[Column]:
    """Aggregates over `ranked` rows with equal keys: one column for each share, by its name and `_us`."""
    return [middle_us(bucket_at(share)).alias(f"{name}_us") for name, share in shares.items()]


def bucket_at(share: float, condition: Column | None = None) -> Column:
    """The aggregate that finds a share's bucket among `ranked` rows; null of no durations."""
    rank = F.greatest(F.ceil(F.col("_all") * F.lit(share) - F.lit(NUDGE)), F.lit(1))
    is_reached = (F.col("_seen") >= rank) & (F.col("bucket") > NONE)
    return F.min(F.when(is_reached if condition is None else is_reached & condition, F.col("bucket")))
