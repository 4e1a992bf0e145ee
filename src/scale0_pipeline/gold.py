"""The tables, read without Spark: what the report, `why` and web pages build on.

Delta tables are Parquet files and a log that says which of them count, so `deltalake` and pyarrow read them in
milliseconds and without a JVM. What is read is kept small by two cuts: columns that were not asked for are not read,
and days outside the period are not opened. A table that was never made is an empty one with the right columns, because
"no fail-over happened" and "no fail-over was ever recorded" look the same to a reader; only where nothing at all is
there an error says which command comes first.

The columns are those of `schema.TABLES`. A table may have more of them; one that an older pipeline wrote without some
of them reads as null there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from scale0.telemetry import segments
from scale0.telemetry.place import Place
from scale0_pipeline import schema
from scale0_pipeline.errors import NothingRecorded
from scale0_pipeline.units import DAY_US

READING: Final = {"batch_size": 131_072, "batch_readahead": 2, "fragment_readahead": 2}
"""How many rows a batch has at most, and how far ahead of its reader a table is read: so memory is bounded."""

TYPES: Final = {
    "string": pa.string(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    schema.ATTEMPTS: segments.ARROW_SCHEMA.field("attempts").type,
}
"""The types of the contract, as Arrow has them."""

SPANS: Final = {"silver/worker_sessions": ("opened_us", "closed_us"), "gold/hints": ("evidence_from_us", "expires_us")}
"""Tables whose rows last: their first and last moment. A row counts if any of it is within the period."""

FILED_ONCE: Final = {"gold/hints"}
"""Of those, the ones whose rows are filed under the day of their beginning alone, not under each that they touch."""

TIMES: Final = ("minute_us", "hour_us", "ts_us", "scored_us")
"""The column that says when a row of any other table happened: the first of these that it has."""

STEPS_US: Final = {"minute_us": 60_000_000, "hour_us": 3_600_000_000}
"""How long a row lasts that is known by its beginning."""


class Completeness(msgspec.Struct, frozen=True):
    """How much of what happened is in the record. `share` is null where no counter was heard."""

    recorded: int
    counted: int
    unknown: int

    @property
    def share(self) -> float | None:
        """Recorded ÷ counted, never over 1: a record that has more than its counters is whole."""
        return min(1.0, self.recorded / self.counted) if self.counted > 0 else None

    @property
    def lost(self) -> int:
        return max(0, self.counted - self.recorded)


def schema_of(name: str) -> pa.Schema:
    """The columns of a table that readers rely on."""
    return pa.schema([(field.name, TYPES[field.type]) for field in schema.TABLES[name].fields])


class Gold:
    """The tables of one data place, for reading."""

    def __init__(self, place: Place | str) -> None:
        self.place = place if isinstance(place, Place) else Place(place)

    def check(self) -> None:
        """Raises NothingRecorded where there is nothing to read, and says which command comes first."""
        if self.has("facts/minute") or self.has("silver/tasks"):
            return
        where = self.place.uri()
        if self.place.exists("catalogue"):
            raise NothingRecorded(
                f"events are recorded in {where}, but no tables are made of them yet",
                f"make them: scale0 pipeline run --once --data {where}",
            )
        raise NothingRecorded(
            f"nothing is recorded in {where}",
            "start a broker that records: scale0 broker --telemetry; or name another place with --data",
        )

    def has(self, name: str) -> bool:
        return self._open(name) is not None

    def rows(
        self,
        name: str,
        since_us: int | None = None,
        until_us: int | None = None,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
    ) -> pa.Table:
        """The rows of a period (until is not in it), with exactly these columns, or all that the contract names."""
        wanted = _wanted(name, columns)
        return pa.Table.from_batches(self.batches(name, since_us, until_us, columns, where), wanted)

    def batches(
        self,
        name: str,
        since_us: int | None = None,
        until_us: int | None = None,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """As `rows`, a batch at a time, so that memory does not grow with the table."""
        wanted = _wanted(name, columns)
        table = self._open(name)
        if table is None:
            return
        stored = self._files(name, table)
        chosen = _during(stored.schema, name, since_us, until_us)
        if where is not None:
            chosen = where if chosen is None else chosen & where
        present = [column for column in wanted.names if column in stored.schema.names]
        for batch in stored.to_batches(columns=present, filter=chosen, **READING):
            if batch.num_rows:
                yield fitted(batch, wanted)

    def completeness(self, since_us: int | None = None, until_us: int | None = None) -> Completeness:
        """Of all brokers together, over a period."""
        hours = self.rows("gold/completeness_1h", since_us, until_us, ["recorded", "counted", "unknown"])
        sums = [int(pc.sum(hours[column]).as_py() or 0) for column in hours.column_names]
        return Completeness(*sums)

    def extent(self) -> tuple[int, int] | None:
        """When the first recorded minute begins, and when the last one ends. It opens two days, not all."""
        days = self.days("facts/minute")
        ends: list[int] = []
        for day in {*days[:1], *days[-1:]}:
            is_day = pc.field("day") == day
            for batch in self.batches("facts/minute", columns=["minute_us"], where=is_day):
                seen = pc.min_max(batch["minute_us"]).as_py()
                ends += [seen["min"], seen["max"] + STEPS_US["minute_us"]]
        return (min(ends), max(ends)) if ends else None

    def days(self, name: str) -> list[date]:
        """The days that a table has, oldest first; from its log alone."""
        table = self._open(name)
        parts = table.partitions() if table is not None else []
        return sorted(date.fromisoformat(str(part["day"])) for part in parts)

    def _files(self, name: str, table: DeltaTable) -> ds.Dataset:
        """The files that count, each with its day.

        It is not `to_pyarrow_dataset`: that takes a column without statistics in the log for one without values, and
        leaves its file out.
        """
        actions = pa.table(table.get_add_actions(flatten=True))
        paths = [self.place.path("tables", name, unquote(path)) for path in actions["path"].to_pylist()]
        has_days = "partition.day" in actions.column_names
        days = actions["partition.day"].to_pylist() if has_days else [None] * len(paths)
        parquet = ds.ParquetFileFormat()
        fragments = [
            parquet.make_fragment(path, self.place.fs, None if day is None else pc.field("day") == day)
            for path, day in zip(paths, days, strict=True)
        ]
        return ds.FileSystemDataset(fragments, pa.schema(table.schema().to_arrow()), parquet, self.place.fs)

    def _open(self, name: str) -> DeltaTable | None:
        try:
            return DeltaTable(self.place.uri("tables", *name.split("/")))
        except TableNotFoundError:
            return None


def _wanted(name: str, columns: Sequence[str] | None) -> pa.Schema:
    known = schema_of(name)
    return known if columns is None else pa.schema([known.field(column) for column in columns])


def _during(stored: pa.Schema, name: str, since_us: int | None, until_us: int | None) -> pc.Expression | None:
    """The filter of a period: by day, which spares whole files, and by the table's own times."""
    terms: list[pc.Expression] = []
    time = next((column for column in TIMES if column in stored.names), None)
    first, last = SPANS.get(name, (time, None))
    has_days = "day" in stored.names and name not in FILED_ONCE
    if since_us is not None:
        if has_days:
            terms.append(pc.field("day") >= _day(since_us))
        if last is not None:
            terms.append(pc.field(last).is_null() | (pc.field(last) >= since_us))
        elif time is not None:
            terms.append(pc.field(time) > since_us - STEPS_US.get(time, 1))
    if until_us is not None:
        if has_days:
            terms.append(pc.field("day") <= _day(until_us - 1))
        if first is not None:
            terms.append(pc.field(first) < until_us)
    return _all(terms)


def _all(terms: list[pc.Expression]) -> pc.Expression | None:
    whole: pc.Expression | None = None
    for term in terms:
        whole = term if whole is None else whole & term
    return whole


def _day(us: int) -> date:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=us // DAY_US)).date()


def fitted(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """The batch with the wanted columns in their order and types; null where the table lacks one."""
    arrays: list[Any] = []
    for field in wanted:
        if field.name in batch.schema.names:
            column = batch.column(field.name)
            arrays.append(column if column.type == field.type else column.cast(field.type))
        else:
            arrays.append(pa.nulls(batch.num_rows, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)
