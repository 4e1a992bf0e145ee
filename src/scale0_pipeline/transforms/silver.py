"""Silver: events with what follows from each of them alone.

`tasks` and `notes` hold every row of bronze, each once. They are the long memory: `why` reads a task's life from them,
and whatever is asked of the past that no table answers can be answered from here.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scale0_pipeline.schema import TABLES
from scale0_pipeline.transforms import durations
from scale0_pipeline.transforms.bronze import filed


def tasks(bronze: DataFrame) -> DataFrame:
    """silver/tasks: every row of a task."""
    rows = durations.with_client_network(durations.timed(filed(bronze.where(F.col("kind") == "task"))))
    known = rows.withColumns(
        {
            "task_id": F.concat_ws(".", "client", "nonce", F.col("sequence").cast("string")),
            "is_origin": F.col("role") == "origin",
            "latency_us": F.col("_latency_us"),
            "queue_us": F.col("_queue_us"),
            "worker_us_total": F.col("_worker_us"),
            "network_us": F.col("_network_us"),
        }
    )
    return known.select(*TABLES["silver/tasks"].names)


def notes(bronze: DataFrame) -> DataFrame:
    """silver/notes: every other row."""
    return filed(bronze.where(F.col("kind") != "task")).select(*TABLES["silver/notes"].names)
