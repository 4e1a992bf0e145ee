"""Bronze: the rows of segments as Spark sees them, and the day that each is filed under.

Segments come from brokers of any age. Each is read with the columns of today's vocabulary: what an older broker did not
write is null, what a newer one wrote beside it is left alone. Whoever reads them adds two columns that belong to the
arrival and not to the row: the `batch` that brought it, and `landed_us`, when that batch was planned.

A row is filed under the day of its `ts_us`, unless that lies more than five minutes ahead of the landing: a clock that
runs ahead must not open days that have not begun, so such a row is filed under the day on which it landed, and flagged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from scale0_pipeline.schema import EVENTS
from scale0_pipeline.transforms.window import day_of
from scale0_pipeline.units import MINUTE_US

AHEAD_US: Final = 5 * MINUTE_US
"""A row may be this far ahead of its landing: clocks differ."""


def event_schema() -> StructType:
    """The columns of events, as Spark types."""
    schema = StructType.fromDDL(", ".join(f"`{field.name}` {field.type}" for field in EVENTS))
    assert isinstance(schema, StructType)
    return schema


def read(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """The rows of some segments, with the columns of events."""
    if not paths:
        return spark.createDataFrame([], event_schema())
    return spark.read.schema(event_schema()).parquet(*paths)


def landed(rows: DataFrame, batch: int, landed_us: int | None = None) -> DataFrame:
    """Rows that came with one batch."""
    return rows.withColumns({"batch": F.lit(batch).cast("long"), "landed_us": F.lit(landed_us).cast("long")})


def filed(rows: DataFrame) -> DataFrame:
    """Landed rows with `is_future`, and the `day` that they are filed under."""
    is_future = F.coalesce(F.col("ts_us") > F.col("landed_us") + AHEAD_US, F.lit(False))
    return rows.withColumns(
        {"is_future": is_future, "day": day_of(F.when(is_future, F.col("landed_us")).otherwise(F.col("ts_us")))}
    )
