"""Rules are looked at over what was written."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from scale0.telemetry.place import Place
from scale0_pipeline.jobs.checks import RESULTS, Checks
from scale0_pipeline.tables.delta import Stamp, Table

pytestmark = pytest.mark.spark


def count(name: str, rows: DataFrame, batch: int, day: date) -> DataFrame | None:
    """A rule that says how many rows it saw; of a table that has rules."""
    if name == "silver/free":
        return None
    seen = rows.agg(F.count("*").alias("rows"))
    told = {"day": day, "batch": batch, "table": name, "rule": "it was seen", "is_broken": False}
    return seen.select(*[F.lit(value).alias(column) for column, value in told.items()], "rows")


def test_what_was_written_since_the_last_look_is_looked_at_in_one_go(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path)
    checks = Checks(spark, place, count)
    rows = spark.sql("select date'2026-01-05' as day, id from range(5)")
    for name, is_replaced in (("silver/grows", False), ("gold/new", True), ("silver/free", False)):
        table = Table(place, name)
        for batch in (1, 2):
            written = table.write(rows, batch, batch)
            table.append(written, Stamp("scale0", batch))
            checks.note(table, batch, written.files, is_replaced=is_replaced)

    assert checks.look(lambda batch, app: Stamp(app, batch)) == 2
    assert checks.look(lambda batch, app: Stamp(app, batch)) == 0, "nothing new was written"
    found = {row["table"]: (row["rows"], row["batch"]) for row in Table(place, RESULTS).arrow().to_pylist()}
    assert found == {"silver/grows": (10, 2), "gold/new": (5, 2)}
