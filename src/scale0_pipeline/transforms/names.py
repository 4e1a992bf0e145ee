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
    sizes = rows.where(F.col(name).isNotNull()).groupBy(period, name).agg(F.sum("count").alias("_size"))
    place = F.row_number().over(Over.partitionBy(period).orderBy(F.desc("_size"), name))
    excess = (
        sizes.withColumn("_place", place)
        .where(F.col("_place") > limit)
        .select(period, name, F.lit(True).alias("_is_excess"))
    )
    marked = rows.join(F.broadcast(excess), [period, name], "left")
    chosen = F.when(F.col("_is_excess"), F.lit(OTHER)).otherwise(F.col(name))
    return marked.withColumn(name, chosen).drop("_is_excess")
