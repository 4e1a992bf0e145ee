"""What a network did, asked of Spark: made up for a day, or recorded by your own brokers. Needs `scale0[pipeline]`.

python examples/spark_events.py [DATA]
"""

from __future__ import annotations

import sys
import tempfile

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scale0_pipeline.generate import generate
from scale0_pipeline.session import running_session


def busiest_hours(events: DataFrame) -> DataFrame:
    """Tasks an hour, and how long the slowest percent took."""
    tasks = events.where("kind = 'task' and role = 'origin' and outcome <> 'refused'")
    hour = F.from_unixtime(F.col("ts_us") / 1_000_000, "HH:00")
    took_ms = (F.col("ts_us") - F.col("received_us")) / 1_000
    summed = tasks.groupBy(hour.alias("hour")).agg(
        F.count("*").alias("tasks"), F.percentile(took_ms, 0.99).alias("p99")
    )
    return summed.orderBy(F.desc("tasks"), "hour")


def main(place: str) -> None:
    with running_session("local[2]") as spark:
        columns = "kind,role,outcome,ts_us,received_us"
        events = spark.read.format("scale0").option("path", place).option("columns", columns).load()
        for row in busiest_hours(events).limit(3).collect():
            print(f"{row.hour}  {row.tasks:,} tasks, p99 {row.p99:,.0f} ms")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            generate(folder, events=20_000, days=1, seed=1)
            main(folder)
