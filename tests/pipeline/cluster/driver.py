"""A program that runs on a cluster: it takes its orders as JSON, and tells what came out as JSON.

It is a process of its own, because a process has one Spark session, and the tests' own has one already.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from scale0_pipeline import call_service
from scale0_pipeline.jobs.run import once
from scale0_pipeline.session import TEST_JAVA_OPTIONS, running_session

SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": TEST_JAVA_OPTIONS,
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.extraJavaOptions": TEST_JAVA_OPTIONS,
    "spark.driver.memory": "1g",
}


def where(batches: Any) -> Iterator[Any]:
    """On an executor: which one it is, and where it has our code from."""
    import pyarrow as pa

    import scale0_pipeline

    for _ in batches:
        yield pa.RecordBatch.from_pylist([{"directory": sys.path[0], "code": scale0_pipeline.__file__}])


def main(order: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    with running_session(order["master"], app="scale0-cluster-test", settings=SETTINGS) as spark:
        # Both executors are there before anything is asked, so that both have a part in it.
        spark.range(0, 2, 1, 2).mapInArrow(where, "directory string, code string").collect()
        rows = spark.range(0, 8, 1, 8).mapInArrow(where, "directory string, code string").collect()
        told["code"] = sorted({row["code"] for row in rows})
        told["master"] = spark.sparkContext.master
        if "place" in order:
            events = spark.read.format("scale0").option("path", order["place"]).option("columns", "broker").load()
            told["events"] = {row["broker"]: row["count"] for row in events.groupBy("broker").count().collect()}
        if "broker" in order:
            called = call_service(spark.range(0, 500, 1, 4), "double", broker=order["broker"], result="bigint")
            told["sum"] = called.selectExpr("sum(result)").first()[0]
            told["failed"] = called.where("error is not null").count()
        if "tables" in order:
            told["rows"] = once(order["tables"], master=order["master"]).rows
    return told


if __name__ == "__main__":
    json.dump(main(json.loads(sys.argv[1])), sys.stdout)
