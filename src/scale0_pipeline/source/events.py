"""Reading recorded events: `spark.read.format("scale0").option("path", …)`.

Only the columns of the schema are read, so whoever names few reads little: with `.option("columns", …)`, or with
`.schema(…)` as for any source. Times prune twice: whole segments by the catalogue, and row groups by the statistics of
their files. They come from the options `since` and `until`, and from the query's own conditions where Spark tells them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from scale0.telemetry import catalogue
from scale0.telemetry.place import Place
from scale0.telemetry.segments import ARROW_SCHEMA
from scale0_pipeline.errors import NothingRecorded, PipelineError
from scale0_pipeline.schema import EVENTS
from scale0_pipeline.source import options as told
from scale0_pipeline.source.plan import ALWAYS, Slice, Span, parts, slices

BATCH_ROWS: Final = 65_536
TIME: Final = "ts_us"

_TYPES: Final = {field.name: field.type for field in EVENTS}


def schema_of(options: Mapping[str, str]) -> str:
    """The columns that are asked for, in the order of the vocabulary or as the option `columns` has them."""
    names = [name.strip() for name in options.get("columns", "").split(",") if name.strip()] or list(_TYPES)
    check_columns(names)
    return ", ".join(f"`{name}` {_TYPES[name]}" for name in names)


def check_columns(names: Iterable[str]) -> None:
    unknown = [name for name in names if name not in _TYPES]
    if unknown:
        raise PipelineError(f"events have no column {', '.join(unknown)}", f"they have: {', '.join(_TYPES)}")


class Part(InputPartition):
    """What one task reads."""

    def __init__(self, files: tuple[Slice, ...]) -> None:
        super().__init__(files)
        self.files = files


class EventsReader(DataSourceReader):
    """Plans on the driver, reads on the executors. What it holds travels between them, and is small."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        told.check(options, told.READING)
        self.url = told.need(options, "path", "/var/lib/scale0/data")
        self.names = schema.fieldNames()
        check_columns(self.names)
        until_us = told.time_us(options, "until")
        self.span = Span(told.time_us(options, "since"), None if until_us is None else until_us - 1)
        self.pushFilters = _Offer(self)  # type: ignore[method-assign]

    def take(self, filters: Iterable[Filter]) -> None:
        """Conditions of the query on the time. They hold for all rows, so what lies outside need not be read."""
        for condition in filters:
            if getattr(condition, "attribute", None) != (TIME,):
                continue
            match condition:
                case EqualTo(value=int(at)):
                    self.span = self.span.cut(at, at)
                case GreaterThan(value=int(at)) | GreaterThanOrEqual(value=int(at)):
                    self.span = self.span.cut(lo_us=at)
                case LessThan(value=int(at)) | LessThanOrEqual(value=int(at)):
                    self.span = self.span.cut(hi_us=at)
                case In(value=values) if values and all(isinstance(one, int) for one in values):
                    self.span = self.span.cut(min(values), max(values))
                case _:
                    pass

    def partitions(self) -> list[InputPartition]:
        place = Place(self.url)
        if not place.exists(catalogue.DIRECTORY):
            cure = "start a broker with telemetry, or name another place"
            raise NothingRecorded(f"there are no events in {self.url}", cure)
        entries = catalogue.read_all(place, {})
        return [Part(files) for files in parts(slices(entries, self.span))] or [Part(())]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Part)
        return read_slices(self.url, partition.files, self.names, self.span)


class _Offer:
    """`pushFilters` for sessions that tell conditions, and for those that do not.

    Telling them is off by default (`spark.sql.python.filterPushdown.enabled`), and then Spark refuses a reader that has
    a method of this name, rather than not calling it. It looks at the function behind the method: here that is its own.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, reader: EventsReader) -> None:
        self._reader = reader

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        self._reader.take(filters)
        return filters  # Spark checks each row again: here only whole files and row groups are left out


def read_slices(url: str, files: Iterable[Slice], names: list[str], span: Span = ALWAYS) -> Iterator[Any]:
    """The rows of some segments, a record batch at a time, with these columns; null where an old file has none."""
    place = Place(url)
    fields = pa.schema([ARROW_SCHEMA.field(name) for name in names])
    for one in files:
        segment = ds.dataset(place.path(one.path), schema=ARROW_SCHEMA, format="parquet", filesystem=place.fs)
        for batch in segment.to_batches(columns=names, filter=_condition(one, span), batch_size=BATCH_ROWS):
            if batch.num_rows:
                yield batch.cast(fields)


def _condition(one: Slice, span: Span) -> Any:
    """Which rows of a file are wanted; None: all."""
    made: list[Any] = []
    if span.lo_us is not None:
        made.append(ds.field(TIME) >= span.lo_us)
    if span.hi_us is not None:
        made.append(ds.field(TIME) <= span.hi_us)
    if one.seqs:
        numbers = None
        for lo, hi in one.seqs:
            within = (ds.field("seq") >= lo) & (ds.field("seq") <= hi)
            numbers = within if numbers is None else numbers | within
        made.append(numbers)
    condition = None
    for one_of_them in made:
        condition = one_of_them if condition is None else condition & one_of_them
    return condition
