"""The rows of plans: what Spark reads to carry them out.

A batch of the stream is one plan. A table that lags behind, a new one that catches up, and a day that is made anew are
several plans at once, in one job; then each row still gets the number and the time of the batch that brought it, so
that it is the same row whichever way it was made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from typing import Final

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from scale0 import events
from scale0.telemetry.place import Place
from scale0_pipeline.errors import PipelineError
from scale0_pipeline.tables.plans import Piece, Plan
from scale0_pipeline.transforms import bronze

INTERVALS_MAX: Final = 1_000  # that are kept of one segment
FORCED: Final = "forced"  # why rows are missing that were deleted before anybody used them
CATALOGUE: Final = "catalogue"  # who tells of them: the broker itself does not know


def rows_of(spark: SparkSession, place: Place, plans: Sequence[Plan]) -> DataFrame:
    """All rows of some plans: the columns of events, `batch` and `landed_us`."""
    if len(plans) == 1:
        return _rows_of_one(spark, place, plans[0])
    names = Counter(_name(piece) for plan in plans for piece in plan.pieces)
    together: list[Plan] = []
    alone: list[Plan] = []
    for plan in plans:
        is_simple = all(_is_simple(piece) and names[_name(piece)] == 1 for piece in plan.pieces)
        (together if is_simple else alone).append(plan)
    frames = [_rows_of_many(spark, place, together)] if together else []
    frames += [_rows_of_one(spark, place, plan) for plan in alone]
    return reduce(DataFrame.unionByName, frames)


def missing_segments(place: Place, plans: Sequence[Plan]) -> list[str]:
    """The segments of some plans that were deleted, because their time was over or the disk was full."""
    return [piece.path for plan in plans for piece in plan.pieces if piece.path and not place.exists(piece.path)]


def without(plans: Sequence[Plan], paths: Sequence[str]) -> list[Plan]:
    """The plans, less some segments."""
    gone = set(paths)
    return [
        msgspec.structs.replace(plan, pieces=[piece for piece in plan.pieces if piece.path not in gone])
        for plan in plans
    ]


def _rows_of_one(spark: SparkSession, place: Place, plan: Plan) -> DataFrame:
    """One plan: its whole segments in one read, those that are cut one by one, and its gaps."""
    whole = [piece for piece in plan.pieces if piece.path and not piece.keep]
    gaps = [piece for piece in plan.pieces if not piece.path]
    frames = [bronze.read(spark, [place.uri(piece.path) for piece in whole])]
    for piece in plan.pieces:
        if not piece.path or not piece.keep:
            continue
        if len(piece.keep) > INTERVALS_MAX:
            raise PipelineError(f"{piece.path} overlaps others in {len(piece.keep)} places", "look who wrote it")
        # Of a segment that overlaps, only what nobody brought before.
        kept = [F.col("seq").between(lo, hi) for lo, hi in piece.keep]
        rows = bronze.read(spark, [place.uri(piece.path)])
        frames.append(rows.where(reduce(lambda one, other: one | other, kept)))
    if gaps:
        frames.append(gap_rows(spark, gaps))
    if not whole and len(frames) > 1:
        frames = frames[1:]
    rows = reduce(DataFrame.unionByName, frames)
    return rows.withColumns({"batch": _long(plan.batch), "landed_us": _long(plan.made_us)})


def _rows_of_many(spark: SparkSession, place: Place, plans: Sequence[Plan]) -> DataFrame:
    """Whole segments of many plans in one read; the file's name says which batch brought a row."""
    pieces = [(plan, piece) for plan in plans for piece in plan.pieces]
    rows = bronze.read(spark, [place.uri(piece.path) for _, piece in pieces])
    known = [(_name(piece), plan.batch, plan.made_us) for plan, piece in pieces]
    batches = spark.createDataFrame(known, "file string, batch bigint, landed_us bigint")
    told = rows.withColumn("file", F.element_at(F.split(F.input_file_name(), "/"), -1))
    return told.join(F.broadcast(batches), "file").drop("file")


def gap_rows(spark: SparkSession, gaps: Sequence[Piece]) -> DataFrame:
    """Rows that were lost after they had been recorded, told as a broker tells of rows that it could not record."""
    rows = [
        (
            events.VERSION,
            "dropped",
            gap.broker,
            gap.boot,
            gap.seq_lo,
            gap.ts_hi_us,
            CATALOGUE,
            gap.rows or gap.seq_hi - gap.seq_lo + 1,
            msgspec.json.encode({"seq_lo": gap.seq_lo, "seq_hi": gap.seq_hi, "why": FORCED}).decode(),
        )
        for gap in gaps
    ]
    given = ("v", "kind", "broker", "boot", "seq", "ts_us", "subject", "value", "detail")
    schema = bronze.event_schema()
    notes = spark.createDataFrame(rows, StructType([schema[name] for name in given]))
    absent = {field.name: F.lit(None).cast(field.dataType) for field in schema if field.name not in given}
    return notes.withColumns(absent).select(*(f"`{name}`" for name in schema.names))


def _is_simple(piece: Piece) -> bool:
    """Whether all of it is read, from a file whose name Spark spells as we do."""
    return bool(piece.path) and not piece.keep and "%" not in _name(piece)


def _name(piece: Piece) -> str:
    return piece.path.rpartition("/")[2]


def _long(value: int) -> Column:
    return F.lit(value).cast("long")
