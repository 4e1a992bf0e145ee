"""Names are chosen by strangers, so a table keeps at most 10,000 of them an hour; the rest become `other`, and count.

Those with the most tasks stay. The others are looked up in a list of what is too much, which nearly always is empty.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

NAMES_MAX: Final = 10_000
OTHER: Final = "other"


def capped(rows: DataFrame, name: str, period: str, limit: int = NAMES_MAX) -> DataFrame:
    """The same rows, with `other` in place of the names that are too many in their period; null is no name."""
    return without(rows, too_many(rows, name, period, limit), name, period)


def too_many(rows: DataFrame, name: str, period: str, limit: int = NAMES_MAX) -> DataFrame:
    """The names beyond the limit in each period: those with the least counts. Sums of the rows will do as well."""
    sizes = rows.where(F.col(name).isNotNull()).groupBy(period, name).agg(F.sum("count").alias("_size"))
    place = F.row_number().over(Over.partitionBy(period).orderBy(F.desc("_size"), name))
    return sizes.withColumn("_place", place).where(F.col("_place") > limit).select(period, name)


def without(rows: DataFrame, excess: DataFrame, name: str, period: str) -> DataFrame:
    """The same rows, with `other` in place of the names of `excess`."""
    marked = rows.join(F.broadcast(excess.withColumn("_is_excess", F.lit(True))), [period, name], "left")
    chosen = F.when(F.col("_is_excess"), F.lit(OTHER)).otherwise(F.col(name))
    return marked.withColumn(name, chosen).drop("_is_excess")


def as_in(rows: DataFrame, table: DataFrame, name: str, period: str) -> DataFrame:
    """The same rows, with `other` in place of the names that a table of these periods has not kept."""
    kept = table.select(period, name).distinct().withColumn("_is_kept", F.lit(True))
    marked = rows.join(F.broadcast(kept), [period, name], "left")
    chosen = F.when(F.col("_is_kept") | F.col(name).isNull(), F.col(name)).otherwise(F.lit(OTHER))
    return marked.withColumn(name, chosen).drop("_is_kept")
