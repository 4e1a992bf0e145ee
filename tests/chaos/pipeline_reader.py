"""A reader of another kind, that looks at the pipeline's tables all the time and knows nothing of Spark.

Whatever happens to the pipeline, each look must show whole batches: for the rows of a table are committed together or
not at all. So the total of a table is always one of those that it has after its first, its second, its third batch, and
none is ever smaller than the one before. Which totals these are is known at the end, from the rows themselves: each
names the batch that brought it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from scale0.telemetry.place import Place

ROWS = "silver/tasks"
TOTALS = (ROWS, "facts/minute", "facts/hour", "gold/service_1m", "gold/service_1d")
LOOK_S = 0.05  # between two looks at all of them
SENTENCES_MAX = 10


def read(place: Place, name: str) -> Any:
    """A table as it is now, or None if it was never made."""
    try:
        return content(DeltaTable(place.uri("tables", name)))
    except TableNotFoundError:
        return None


def content(table: DeltaTable, columns: list[str] | None = None) -> Any:
    """The files that count, read by pyarrow alone; days stand in their paths.

    It is not `to_pyarrow_table`: that reads through Python, and a process that ends soon after may abort.
    """
    files = table.file_uris()
    if not files:
        return pa.table({column: [] for column in columns or []})
    return ds.dataset(files, format="parquet", partitioning="hive").to_table(columns=columns)


class Reader:
    """Samples the totals of some tables, from a thread of its own, while the `with` block runs."""

    def __init__(self, place: Place) -> None:
        self.seen: dict[str, list[int]] = {name: [] for name in TOTALS}
        self.looks = 0
        self.error: Exception | None = None
        self._place = place
        self._versions: dict[str, int] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._is_over.wait(LOOK_S):
                self.look()
        except Exception as error:  # whatever it is, a reader may not meet it
            self.error = error

    def look(self) -> None:
        """One sample of each table that has changed."""
        self.looks += 1
        for name in TOTALS:
            try:
                table = DeltaTable(self._place.uri("tables", name))
            except TableNotFoundError:
                continue
            if self._versions.get(name) != table.version():
                self._versions[name] = table.version()
                self.seen[name].append(_total(name, table))

    def breaches(self, rows: Any) -> list[str]:
        """Against `rows` of silver/tasks, at the end."""
        if self.error is not None:
            return [f"a reader met {type(self.error).__name__}: {self.error}"]
        found = []
        for name, allowed in committed(rows).items():
            seen = self.seen[name]
            if not seen or seen[-1] != allowed[-1]:
                found.append(f"{name}: a reader saw {seen[-1:]} at the end, and there are {allowed[-1]:,}")
            found += [
                f"{name}: a reader saw {after:,} after {before:,}" for before, after in pairwise(seen) if after < before
            ]
            found += [f"{name}: a reader saw {total:,}, which no batch makes" for total in set(seen) - set(allowed)]
        return found[:SENTENCES_MAX]


def committed(rows: Any) -> dict[str, list[int]]:
    """The totals that each table has after each batch, and 0 before the first."""
    origins = rows.filter(rows["is_origin"])
    # What two brokers settled for one client around a fail-over counts once in gold: where it came first.
    once = origins.group_by("task_id").aggregate([("batch", "min")])
    tasks = _by_batch(once["batch_min"], pa.array([1] * len(once)))
    settled, accepted = _weighed(origins), _weighed(rows.filter(pc.not_equal(rows["outcome"], "refused")))
    each = _by_batch(rows["batch"], pa.array([1] * len(rows)))
    made = dict.fromkeys(("gold/service_1m", "gold/service_1d"), tasks)
    return {ROWS: each, "facts/minute": settled, "facts/hour": accepted, **made}


def _weighed(rows: Any) -> list[int]:
    return _by_batch(rows["batch"], pc.fill_null(rows["weight"], 1))


def _by_batch(batches: Any, weights: Any) -> list[int]:
    sums = pa.table({"batch": batches, "weight": weights}).group_by("batch").aggregate([("weight", "sum")])
    return _running(weight for _, weight in sorted(zip(*(column.to_pylist() for column in sums), strict=True)))


def _running(counts: Iterable[int]) -> list[int]:
    return list(accumulate(counts, initial=0))


def _total(name: str, table: DeltaTable) -> int:
    if name == ROWS:
        return int(content(table, ["seq"]).num_rows)
    return int(pc.sum(content(table, ["count"])["count"]).as_py() or 0)
