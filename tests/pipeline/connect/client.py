"""A program that uses Spark over Connect: it takes its orders as JSON, and tells what came out as JSON.

It is a process of its own, because a process has one kind of Spark session, and the tests' own has one already. It
needs no Java.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from scale0_pipeline import call_service
from scale0_pipeline.session import running_session, ship_code


def where(batches: Any) -> Iterator[Any]:
    """At the server: where it has our code from."""
    import pyarrow as pa

    import scale0_pipeline

    for _ in batches:
        yield pa.RecordBatch.from_pylist([{"code": scale0_pipeline.__file__}])


def main(order: dict[str, Any]) -> dict[str, Any]:
    place, broker = order["place"], order["broker"]
    with running_session(order["server"], app="scale0-connect-test") as spark:
        ship_code(spark)  # first: a worker process of Python that is used again keeps what it has imported
        told: dict[str, Any] = {"kind": type(spark).__module__, "zone": spark.conf.get("spark.sql.session.timeZone")}
        events = spark.read.format("scale0").option("path", place)
        told["events"] = {
            row["broker"]: row["count"]
            for row in events.option("columns", "broker").load().groupBy("broker").count().collect()
        }
        told["late"] = events.option("since", "2026-03-01T00:04:00Z").load().count()
        network = spark.read.format("scale0").option("broker", broker)
        told["services"] = sorted(row["name"] for row in network.option("table", "services").load().collect())
        told["workers"] = network.option("table", "workers").load().count()
        called = call_service(spark.range(0, 500, 1, 4), "double", broker=broker, result="bigint").cache()
        told["sum"] = called.selectExpr("sum(result)").first()[0]
        told["failed"] = [row["error"]["text"] for row in called.where("error is not null").collect()]
        rows = spark.range(1000, 1010).write.format("scale0").option("broker", broker)
        rows.option("service", "double").mode("append").save()
        stream = spark.readStream.format("scale0").option("path", place).option("columns", "broker,seq").load()
        tasks = stream.where("broker = 'us-1' and seq between 10 and 19").selectExpr("seq + 2000 as number")
        query = (
            tasks.writeStream.format("scale0")
            .option("broker", broker)
            .option("service", "double")
            .option("checkpointLocation", order["checkpoint"])
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        told["code"] = spark.range(1).mapInArrow(where, "code string").collect()[0]["code"]
    return told


if __name__ == "__main__":
    json.dump(main(json.loads(sys.argv[1])), sys.stdout)
