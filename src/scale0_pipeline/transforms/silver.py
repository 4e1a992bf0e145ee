"""Silver: events with what follows from each of them alone.

`tasks` and `notes` hold every row of bronze, each once. They are the long memory: `why` reads a task's life from them,
and whatever is asked of the past that no table answers can be answered from here.

Tasks are nearly all of the rows, and have sixty columns. Spark writes Parquet value by value, which costs more than all
sums of a batch together; so a segment's tasks are taken column by column, in Arrow, and written as such.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scale0_pipeline.schema import TABLES
from scale0_pipeline.transforms import durations
from scale0_pipeline.transforms.bronze import AHEAD_US, filed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def tasks(bronze: pa.Table) -> pa.Table:
    """silver/tasks: every row of a task. `bronze` has the columns of events, `batch` and `landed_us`."""
    import pyarrow.compute as pc

    is_task = pc.equal(bronze["kind"], "task")
    # A table as a whole would be asked for the rows' places first, which takes twice as long.
    chosen = [column.filter(is_task) for column in bronze.columns]
    rows = durations.timed_in_arrow(type(bronze).from_arrays(chosen, bronze.column_names))
    ahead = pc.greater(rows["ts_us"], pc.add(rows["landed_us"], AHEAD_US))
    is_future = pc.fill_null(ahead, False)
    known = {
        "day": _day_of(pc.if_else(is_future, rows["landed_us"], rows["ts_us"])),
        "task_id": _joined(rows["client"], rows["nonce"], rows["sequence"]),
        "is_origin": pc.equal(rows["role"], "origin"),
        "latency_us": rows["_latency_us"],
        "queue_us": rows["_queue_us"],
        "worker_us_total": rows["_worker_us"],
        "network_us": rows["_network_us"],
        "is_future": is_future,
    }
    names = TABLES["silver/tasks"].names
    return type(rows).from_arrays([known[name] if name in known else rows[name] for name in names], names)


def notes(bronze: DataFrame) -> DataFrame:
    """silver/notes: every other row."""
    return filed(bronze.where("kind <> 'task'")).select(*TABLES["silver/notes"].names)


def _day_of(times_us: Any) -> Any:
    """The UTC day of each time."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.floor_temporal(times_us.cast(pa.timestamp("us")), unit="day").cast(pa.date32())


def _joined(*columns: Any) -> Any:
    """The parts of a task's id with dots between them; a part that is null is left out."""
    import pyarrow as pa
    import pyarrow.compute as pc

    *parts, last = (one.cast(pa.string()) for one in columns)
    # Arrow leaves out a row of which all parts are null, instead of its parts alone: it gets an empty one.
    is_empty = pc.is_null(pc.coalesce(*parts, last))
    return pc.binary_join_element_wise(*parts, pc.if_else(is_empty, "", last), ".", null_handling="skip")
