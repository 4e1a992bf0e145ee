"""Import: JSON lines from anywhere become segments, and lines that are none are kept where they can be looked at.

A line is an event: an object with the names of the columns. The file's checksum names the boot and the line's number
the row, so that a file that is imported twice, or once more after a crash half-way, adds nothing that is there. Lines
that do not parse, or that lack what every event has, go to the table `quality/quarantine` with the reason.
"""

from __future__ import annotations

import hashlib
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from scale0 import events
from scale0.telemetry import catalogue
from scale0.telemetry.place import Place
from scale0.telemetry.segments import write_segment
from scale0_pipeline.errors import PipelineError
from scale0_pipeline.progress import Progress, silent
from scale0_pipeline.tables.covered import Covered, missing
from scale0_pipeline.tables.delta import Stamp, Table
from scale0_pipeline.transforms import bronze

BROKER: Final = "import"  # whose catalogue the segments are added to
QUARANTINE: Final = "quality/quarantine"
LINES_PER_SEGMENT: Final = 500_000
LINE_BYTES_SHOWN: Final = 4_096  # of a line in quarantine
CHUNK_BYTES: Final = 1 << 20
CORRUPT: Final = "_corrupt"


def import_lines(spark: SparkSession, place: Place, file: Path, progress: Progress = silent) -> tuple[int, int]:
    """Import a file; how many rows and how many lines in quarantine that were. Both are 0 if it is there already."""
    if not file.is_file():
        raise PipelineError(f"there is no file {file}", "give a file of JSON lines, one event a line")
    digest = checksum(file)
    boot = f"{BROKER}-{digest[:32]}"
    lines = numbered(spark, file)
    total = lines.agg(F.max("line").alias("last")).collect()[0]["last"] or 0
    parsed = parse(lines, boot).persist()
    try:
        rows = _write_segments(place, parsed, boot, total, progress)
        bad = _quarantine(place, parsed, digest, boot)
    finally:
        parsed.unpersist()
    return rows, bad


def checksum(file: Path) -> str:
    """Of a file's bytes."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def numbered(spark: SparkSession, file: Path) -> DataFrame:
    """The lines of a file with their numbers, from 1; empty ones count, and are left out."""
    lines = spark.read.text(str(file.absolute()))
    placed = lines.withColumns({"part": F.spark_partition_id(), "place": F.monotonically_increasing_id()})
    counts = {row["part"]: row["count"] for row in placed.groupBy("part").count().collect()}
    before, starts = 0, []
    for part in sorted(counts):
        starts.append((part, before - (part << 33)))
        before += counts[part]
    starts_frame = spark.createDataFrame(starts, "part int, start bigint")
    with_line = placed.join(F.broadcast(starts_frame), "part")
    with_line = with_line.select((F.col("place") + F.col("start") + 1).alias("line"), F.col("value").alias("text"))
    return with_line.where(F.trim("text") != "")


def parse(lines: DataFrame, boot: str) -> DataFrame:
    """Lines as rows of events, with `line`, `text`, and `why` where a line is none."""
    schema = bronze.event_schema()
    wanted = StructType([*schema.fields, StructField(CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    parsed = lines.withColumn("row", F.from_json("text", wanted, options))
    columns: dict[str, Column] = {name: F.col(f"row.`{name}`") for name in schema.names}
    columns["v"] = F.coalesce(columns["v"], F.lit(events.VERSION).cast("short"))
    columns["broker"] = F.coalesce(columns["broker"], F.lit(BROKER))
    columns["boot"] = F.lit(boot)
    columns["seq"] = F.col("line")
    columns["weight"] = F.when(columns["kind"] == "task", F.coalesce(columns["weight"], F.lit(1)))
    return parsed.select(*[columns[name].alias(name) for name in schema.names], "line", "text", _fault().alias("why"))


def _fault() -> Column:
    """Why a line is no event; null if it is one."""
    kind, time_us, outcome = F.col("row.kind"), F.col("row.ts_us"), F.col("row.outcome")
    return (
        F.when(F.col("row").isNull() | F.col(f"row.{CORRUPT}").isNotNull(), "no JSON object of the columns' types")
        .when(kind.isNull(), "no kind")
        .when(~kind.isin(*events.KINDS), F.concat(F.lit("unknown kind: "), kind))
        .when(time_us.isNull(), "no ts_us")
        .when((kind == "task") & F.col("row.service").isNull(), "a task without a service")
        .when((kind == "task") & (outcome.isNull() | ~outcome.isin(*events.OUTCOMES)), "a task without an outcome")
        .when(
            (kind == "task") & F.col("row.received_us").isNull() & (outcome != "refused"), "a task without received_us"
        )
    )


def _write_segments(place: Place, parsed: DataFrame, boot: str, lines: int, progress: Progress) -> int:
    """Segments of a fixed number of lines each; those that are in the catalogue are not written again."""
    there = Covered()
    for entry in catalogue.read(place, BROKER):
        if entry.boot == boot:
            there.take(BROKER, boot, entry.seq_lo, entry.seq_hi)
    covered = there.boots.get(BROKER, {}).get(boot, [])
    good = parsed.where(F.col("why").isNull()).drop("line", "text", "why")
    rows = 0
    for lo in range(1, lines + 1, LINES_PER_SEGMENT):
        hi = min(lo + LINES_PER_SEGMENT - 1, lines)
        # A stretch is there if any of it is: its first and last good lines need not be its first and last.
        if missing(covered, lo, hi) == [(lo, hi)]:
            table = good.where(F.col("seq").between(lo, hi)).toArrow()
            if table.num_rows:
                rows += write_segment(place, table, BROKER, boot, BROKER).rows
        progress("import: lines", hi, lines)
    return rows


def _quarantine(place: Place, parsed: DataFrame, digest: str, boot: str) -> int:
    """Keep the lines that are no events, once for each file."""
    table = Table(place, QUARANTINE)
    if table.version(boot):
        return 0
    bad = parsed.where(F.col("why").isNotNull()).select(
        F.lit(datetime.fromtimestamp(time.time(), UTC).date()).alias("day"),
        F.lit(digest).alias("file_sha256"),
        "line",
        F.substring("text", 1, LINE_BYTES_SHOWN).alias("text"),
        "why",
    )
    written = table.write(bad.coalesce(1), 0, 0)
    table.append(written, Stamp(boot, 1))
    return sum(file.rows for file in written.files)
