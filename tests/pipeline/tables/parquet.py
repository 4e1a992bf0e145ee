"""Data files as Spark would leave them, without Spark."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from scale0_pipeline.tables.delta import Table, Written
from scale0_pipeline.tables.files import find_written, new_directory

SCHEMA = (
    '{"type":"struct","fields":['
    '{"name":"value","type":"long","nullable":true,"metadata":{}},'
    '{"name":"day","type":"date","nullable":true,"metadata":{}}]}'
)
MONDAY, TUESDAY = date(2026, 1, 5), date(2026, 1, 6)


def write(table: Table, values: dict[date, list[int]], lo: int, hi: int | None = None, schema: str = SCHEMA) -> Written:
    """Files of some days, with these values."""
    directory = new_directory(lo, hi if hi is not None else lo)
    for day, numbers in values.items():
        folder = Path(table.place.path(table.path, directory, f"day={day}"))
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"value": pa.array(numbers, pa.int64())}), folder / "part-0.parquet")
        (folder / ".part-0.parquet.crc").touch()
    return Written(find_written(table.place, table.path, directory), schema)


def values(table: Table) -> list[int]:
    """What a reader of another kind sees."""
    return sorted(table.arrow(["value"])["value"].to_pylist())
