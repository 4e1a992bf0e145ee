"""Quality: the rules of each table, looked at over what was written to it.

What was written is noted while tables are made, and looked at now and then: rules are there for people to doubt a
table, not to hold up a stream. The files are read as they were written, even if they count no more by then.
Results are rows of `quality/results`, and a broken rule stops nothing. What was noted and not yet looked at when a
process dies is not looked at later: the next batch breaks the same rules.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any, Final, NamedTuple

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from scale0.telemetry.place import Place
from scale0_pipeline import quality
from scale0_pipeline.jobs import copies
from scale0_pipeline.jobs.together import Job, side_by_side
from scale0_pipeline.tables.delta import Stamp, Table
from scale0_pipeline.tables.files import DataFile

RESULTS: Final = "quality/results"
QUALITY: Final = "quality"  # the application id of its commits
FILES_MAX: Final = 2_000  # that are noted of one table; of more, the newest

Check = Callable[[str, DataFrame, int, date], DataFrame | None]


class Noted(msgspec.Struct):
    """What was written to a table since it was last looked at, up to this batch."""

    table: Table
    batch: int
    files: list[DataFile]


class Results(NamedTuple):
    """What a look at a table found."""

    schema: StructType
    rows: list[dict[str, Any]]


class Checks:
    """What was written, until it is looked at."""

    def __init__(self, spark: SparkSession, place: Place, check: Check = quality.check) -> None:
        self._spark = spark
        self._check = check
        self._results = Table(place, RESULTS)
        self._noted: dict[str, Noted] = {}
        self._lock = threading.Lock()

    def note(self, table: Table, batch: int, files: list[DataFile], *, is_replaced: bool = False) -> None:
        """These files were written; with `is_replaced`, in the place of what was noted before."""
        with self._lock:
            known = self._noted.get(table.name)
            former = known.files if known is not None and not is_replaced else []
            self._noted[table.name] = Noted(table, batch, [*former, *files][-FILES_MAX:])

    def look(self, stamp: Callable[[int, str], Stamp]) -> int:
        """Look at all that was noted; how many rules were looked at."""
        with self._lock:
            noted, self._noted = self._noted, {}
        today = datetime.now(UTC).date()
        results: dict[str, Results] = {}
        looks = [Job(name, self._look_at(one, today, results)) for name, one in noted.items() if one.files]
        looked_at = set(side_by_side(looks))
        if not looked_at:
            return 0
        in_order = [results[name] for name in noted if name in looked_at]
        rows = [row for each in in_order for row in each.rows]
        batch = max(one.batch for one in noted.values())
        written = copies.keep(self._results, rows, in_order[0].schema, batch)
        self._results.commit(written, lambda files: [], stamp(batch, QUALITY), is_repeatable=True)
        return sum(file.rows for file in written.files)

    def _look_at(self, one: Noted, today: date, results: dict[str, Results]) -> Callable[[], bool]:
        def look_at() -> bool:
            name = one.table.name
            rows = one.table.frame_of(self._spark, one.files)
            found = self._check(name, rows, one.batch, today)
            if found is not None:
                results[name] = Results(found.schema, [quality.sampled(row, rows) for row in found.collect()])
            return found is not None

        return look_at
