"""Copies: tables whose rows are rows of segments, each with what follows from it alone.

Nothing is summed or exchanged, so each task of Spark has some segments for itself: it reads them with Arrow, makes the
table's columns, and writes files of its own, one for each day that it meets. It tells the driver what it wrote, and
only that is ever committed: what an attempt that failed has left behind belongs to nobody, and is swept.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, Final

import msgspec

from scale0.telemetry.place import Place
from scale0_pipeline.tables.covered import Interval
from scale0_pipeline.tables.delta import Table, Written, nullable
from scale0_pipeline.tables.files import DAY, DataFile, batches_of, day_of, new_directory
from scale0_pipeline.tables.plans import Piece, Plan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

BATCH_ROWS: Final = 128 * 1024  # that a task has in memory at a time
GROUP_ROWS: Final = 128 * 1024  # a file's rows are skipped by so many, by those who look for a time
PARTS_A_CORE: Final = 2  # so that a core that is done early has something to do
UNIQUE: Final = ("task_id",)  # of which no two are alike: a dictionary would be larger than they are
TOLD: Final = "path string, size long, rows long"

Make = Callable[["pa.Table"], "pa.Table"]
"""The rows of a table, `day` among their columns, of rows with the columns of events, `batch` and `landed_us`."""


class Source(msgspec.Struct, frozen=True):
    """A segment, or what of it is new, and the batch that brings it."""

    piece: Piece
    batch: int
    landed_us: int


class Target(msgspec.Struct, frozen=True):
    """Where files go: a directory of a table in a data place. With `day`, rows of other days are left out."""

    place_url: str
    table: str
    directory: str
    day: date | None = None


def write(
    spark: SparkSession, table: Table, make: Make, plans: Sequence[Plan], batches: Interval, only: date | None = None
) -> Written:
    """Let Spark's tasks write the rows of some plans; with `only`, those of one day. Nobody counts them yet."""
    parts = in_parts(sources_of(plans), spark.sparkContext.defaultParallelism * PARTS_A_CORE)
    target = Target(table.place.url, table.path, new_directory(*batches), only)

    def write_all(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield told(copy(target, make, parts[number]))

    numbers = spark.range(0, len(parts), 1, max(1, len(parts)))
    rows = numbers.mapInArrow(write_all, TOLD).collect() if parts else []
    found = sorted((row["path"], row["size"], row["rows"]) for row in rows)
    files = [DataFile(path, size, count, day_of(path), *batches_of(path)) for path, size, count in found]
    return Written(files, schema_of(make))


def keep(table: Table, rows: Sequence[Mapping[str, Any]], schema: StructType, batch: int) -> Written:
    """Write a few rows that the driver has at hand, as a batch's: to let Spark write them would take a job."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    files = Files(table.place, Target(table.place.url, table.path, new_directory(batch, batch)))
    try:
        files.add(pa.Table.from_pylist(list(rows), to_arrow_schema(schema)))
        return Written(files.finish(), nullable(schema.json()))
    finally:
        files.close()


def sources_of(plans: Sequence[Plan]) -> list[Source]:
    """The segments of some plans; what was lost has no rows to copy."""
    return [Source(piece, plan.batch, plan.made_us) for plan in plans for piece in plan.pieces if piece.path]


def in_parts(sources: Sequence[Source], count: int) -> list[list[Source]]:
    """The segments, in their order, in so many runs of about the same size, or fewer."""
    size = sum(source.piece.bytes for source in sources) / count
    parts: list[list[Source]] = []
    filled = 0.0
    for source in sources:
        if not parts or filled >= size * len(parts):
            parts.append([])
        parts[-1].append(source)
        filled += source.piece.bytes
    return parts


def copy(target: Target, make: Make, sources: Iterable[Source]) -> list[DataFile]:
    """One task's part: the files that it wrote."""
    place = Place(target.place_url)
    files = Files(place, target)
    try:
        for source in sources:
            for rows in read(place, source):
                files.add(make(rows))
        return files.finish()
    finally:
        files.close()


def read(place: Place, source: Source) -> Iterator[pa.Table]:
    """The rows of a segment that are new, some at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from scale0.telemetry.segments import ARROW_SCHEMA, complete

    with place.fs.open_input_file(place.path(source.piece.path)) as stream:
        metadata = pq.read_metadata(stream)
        known = metadata.schema.to_arrow_schema()
        columns = [name for name in ARROW_SCHEMA.names if name in known.names]
        names = [name for name in columns if known.field(name).type == pa.string()]
        file = pq.ParquetFile(stream, metadata=metadata, read_dictionary=names)
        for batch in file.iter_batches(BATCH_ROWS, columns=columns, use_threads=False):
            rows = complete(pa.Table.from_batches([batch]))
            if source.piece.keep:
                rows = rows.filter(_is_kept(rows["seq"], source.piece.keep))
            for name, value in (("batch", source.batch), ("landed_us", source.landed_us)):
                rows = rows.append_column(name, pa.repeat(pa.scalar(value, pa.int64()), rows.num_rows))
            yield rows


def _is_kept(numbers: Any, keep: Sequence[Interval]) -> Any:
    """Of a segment that overlaps, only what nobody brought before."""
    import numpy as np
    import pyarrow as pa

    seqs = numbers.to_numpy()
    starts = np.array([lo for lo, _ in keep])
    ends = np.array([hi for _, hi in keep])
    place = np.searchsorted(starts, seqs, side="right") - 1
    return pa.array((place >= 0) & (seqs <= ends[place]))


class Files:
    """The files that a task writes, one for each day."""

    def __init__(self, place: Place, target: Target) -> None:
        self._place = place
        self._target = target
        self._name = f"part-{secrets.token_hex(8)}.parquet"
        self._writers: dict[date, Any] = {}
        self._rows: dict[date, int] = {}

    def add(self, rows: pa.Table) -> None:
        import pyarrow.compute as pc

        days = rows[DAY].unique().to_pylist()
        for day in days:
            if self._target.day not in (None, day):
                continue
            # Nearly always all rows are of one day: to choose among them would copy them all.
            chosen = rows if len(days) == 1 else rows.filter(pc.equal(rows[DAY], day))
            of_day = chosen.drop_columns([DAY])
            self._writer(day, of_day.schema).write_table(of_day, row_group_size=GROUP_ROWS)
            self._rows[day] = self._rows.get(day, 0) + of_day.num_rows

    def finish(self) -> list[DataFile]:
        """All is written: what there is."""
        self.close()
        found = []
        for day, rows in self._rows.items():
            path = self._path(day)
            size = self._place.size(self._target.table, path)
            found.append(DataFile(path, size, rows, day, *batches_of(path)))
        return found

    def close(self) -> None:
        while self._writers:
            self._writers.popitem()[1].close()

    def _writer(self, day: date, schema: pa.Schema) -> Any:
        import pyarrow.parquet as pq

        from scale0.telemetry.segments import writing

        if day not in self._writers:
            path = self._place.path(self._target.table, self._path(day))
            self._place.fs.create_dir(path.rpartition("/")[0], recursive=True)
            options = writing(schema, without_dictionary=UNIQUE)
            self._writers[day] = pq.ParquetWriter(path, schema, filesystem=self._place.fs, **options)
        return self._writers[day]

    def _path(self, day: date) -> str:
        return f"{self._target.directory}/{DAY}={day.isoformat()}/{self._name}"


def told(files: Sequence[DataFile]) -> pa.RecordBatch:
    """What a task tells the driver."""
    import pyarrow as pa

    columns = {"path": pa.string(), "size": pa.int64(), "rows": pa.int64()}
    return pa.RecordBatch.from_arrays(
        [pa.array([getattr(file, name) for file in files], kind) for name, kind in columns.items()], list(columns)
    )


def schema_of(make: Make) -> str:
    """The schema of what is made, as Spark and Delta both spell it."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    from scale0.telemetry.segments import ARROW_SCHEMA

    fields = [*ARROW_SCHEMA, pa.field("batch", pa.int64()), pa.field("landed_us", pa.int64())]
    return nullable(from_arrow_schema(make(pa.schema(fields).empty_table()).schema).json())
