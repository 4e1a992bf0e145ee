"""Segments: sealed files of events, in Parquet, each of one run of one broker.

A segment is sorted by `seq` and never changes. Its file name says which rows it covers, and its catalogue entry says
so again, with the file's checksum. The entry comes last: a segment without one does not exist for readers, and one
whose bytes do not read back as they were written never gets one.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from scale0.events import ATTEMPT_FIELDS, COLUMNS, Column
from scale0.telemetry import catalogue
from scale0.telemetry.catalogue import Entry
from scale0.telemetry.place import Place, quoted

DIRECTORY: Final = "segments"
ROWS_PER_GROUP: Final = 256 * 1024
ZSTD_LEVEL: Final = 1  # a third of the size of no compression; higher levels cost more than they save
_FACTS: Final = b"scale0.segment"  # the entry, within the file

_TYPES: Final = {"string": pa.string(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64()}


def _field(column: Column) -> Any:
    if column.type == "attempts":
        return pa.field(column.name, pa.list_(pa.struct([_field(inner) for inner in ATTEMPT_FIELDS])))
    return pa.field(column.name, _TYPES[column.type])


ARROW_SCHEMA: Final = pa.schema([_field(column) for column in COLUMNS])
"""Of every segment that is written today. Older ones have fewer columns."""


def writing(schema: Any, without_dictionary: Iterable[str] = ()) -> dict[str, Any]:
    """How rows of events are written to Parquet, also by those who add columns to them."""
    figures = [field.name for field in schema if pa.types.is_integer(field.type)]
    plain = {*figures, *without_dictionary}
    return {
        "compression": "zstd",
        "compression_level": ZSTD_LEVEL,
        "store_schema": False,
        # Figures are told by their differences: half the size, and half the time, of a dictionary of them.
        "use_dictionary": [field.name for field in schema if field.name not in plain],
        "column_encoding": dict.fromkeys(figures, "DELTA_BINARY_PACKED"),
        "write_statistics": ["seq", "ts_us"],  # by which readers leave out what they do not want
    }


class Damaged(OSError):
    """A segment does not read back as it was written."""


def write_segment(place: Place, table: Any, broker: str, boot: str, source: str) -> Entry:
    """Seal a table of one broker's run into the place, and add it to the catalogue.

    `table` has the columns of `ARROW_SCHEMA` in any order; those that are missing are null. `broker` is whose
    catalogue it is added to.
    """
    entry, content = seal(table, broker, boot, source)
    return publish(place, entry, content)


def seal(table: Any, broker: str, boot: str, source: str) -> tuple[Entry, bytes]:
    """A segment's bytes, and its entry, which has no number yet."""
    sealing = Sealing(broker, boot, source)
    sealing.add(in_order(complete(table)))
    return sealing.finish()


class Sealing:
    """A segment in the making: tables are added in the order of `seq`, and are compressed at once."""

    def __init__(self, broker: str, boot: str, source: str) -> None:
        self._broker, self._boot, self._source = broker, boot, source
        self._sink = pa.BufferOutputStream()
        self._writer: Any = None
        self._facts: list[Entry] = []

    @property
    def size(self) -> int:
        """Bytes so far."""
        return int(self._sink.tell())

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self._facts)

    def add(self, table: Any) -> None:
        """More rows, with the columns of `ARROW_SCHEMA`; names may be dictionaries."""
        if not table.num_rows:
            return
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._sink, table.schema, **writing(ARROW_SCHEMA))
        self._facts.append(_describe(table, self._broker, self._boot, self._source))
        self._writer.write_table(table, row_group_size=ROWS_PER_GROUP)

    def finish(self) -> tuple[Entry, bytes]:
        """The whole, which must have a row."""
        if not self._facts:
            raise ValueError("a segment has at least one row")
        entry = _sum_up(self._facts)
        self._writer.add_key_value_metadata({_FACTS: msgspec.json.encode(entry)})
        self._writer.close()
        content: bytes = self._sink.getvalue().to_pybytes()
        return finished(entry, content), content


def publish(place: Place, entry: Entry, content: bytes) -> Entry:
    """Bring a sealed segment to its place, look whether it is there as it should be, and add it to the catalogue.

    What was published just before is not published again: so whoever was interrupted may begin anew.
    """
    number = catalogue.last_number(place, entry.broker)
    former = catalogue.get(place, entry.broker, number) if number else None
    if former is not None and (former.path, former.sha256) == (entry.path, entry.sha256):
        return former
    place.write_atomic(entry.path, content)
    if hashlib.sha256(place.read_bytes(entry.path)).hexdigest() != entry.sha256:
        raise Damaged(f"{place.path(entry.path)} does not read back as it was written; look at the disk below it")
    return catalogue.append(place, entry)


def entry_of(content: bytes) -> Entry:
    """The entry of a sealed segment, as the file itself tells it; without a number."""
    facts = pq.read_metadata(pa.BufferReader(content)).metadata[_FACTS]
    return finished(msgspec.json.decode(facts, type=Entry), content)


def finished(entry: Entry, content: bytes) -> Entry:
    """With what is known of the bytes alone."""
    return msgspec.structs.replace(entry, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


def _describe(table: Any, broker: str, boot: str, source: str) -> Entry:
    """What the catalogue says of a table, but for its bytes."""
    seqs, times = pc.min_max(table["seq"]).as_py(), pc.min_max(table["ts_us"]).as_py()
    return Entry(
        broker=broker,
        boot=boot,
        path="",
        seq_lo=seqs["min"],
        seq_hi=seqs["max"],
        rows=table.num_rows,
        tasks=int(pc.sum(pc.equal(table["kind"], "task")).as_py() or 0),
        ts_lo_us=times["min"] or 0,
        ts_hi_us=times["max"] or 0,
        sealed_us=time.time_ns() // 1_000,
        source=source,
    )


def _sum_up(parts: list[Entry]) -> Entry:
    first, last = parts[0], parts[-1]
    return msgspec.structs.replace(
        last,
        path=segment_path(first.broker, first.boot, first.seq_lo, last.seq_hi),
        seq_lo=first.seq_lo,
        rows=sum(part.rows for part in parts),
        tasks=sum(part.tasks for part in parts),
        ts_lo_us=min(part.ts_lo_us for part in parts),
        ts_hi_us=max(part.ts_hi_us for part in parts),
    )


def segment_path(broker: str, boot: str, seq_lo: int, seq_hi: int) -> str:
    return f"{DIRECTORY}/{quoted(broker)}/{quoted(boot)}-{seq_lo}-{seq_hi}.parquet"


def complete(table: Any) -> Any:
    """The same rows with exactly the columns of `ARROW_SCHEMA`; names may stay dictionaries, which are strings too."""
    columns = []
    for field in ARROW_SCHEMA:
        index = table.schema.get_field_index(field.name)
        column = table.column(index) if index >= 0 else pa.nulls(table.num_rows, field.type)
        is_dictionary = pa.types.is_dictionary(column.type) and field.type == pa.string()
        columns.append(column if column.type == field.type or is_dictionary else column.cast(field.type))
    return pa.table(columns, names=ARROW_SCHEMA.names)


def in_order(table: Any) -> Any:
    """Sorted by `seq`; most tables are."""
    seqs = table["seq"].combine_chunks().to_numpy()
    if len(seqs) < 2 or bool((seqs[1:] > seqs[:-1]).all()):
        return table
    return table.take(pc.sort_indices(table["seq"]))
