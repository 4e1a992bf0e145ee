"""`format("scale0")` in a real Spark: events, a stream, live tables, and rows as tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import scale0.testing
from scale0 import Worker
from scale0_pipeline.errors import PipelineError
from scale0_pipeline.source.datasource import Scale0Source
from tests.pipeline.source.places import SECOND_US, START_US, add, two_brokers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LIMIT_S = 120


class Post:
    """A broker with a worker that notes what it is asked."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.seen: list[Any] = []
        self.worker = Worker(endpoint, identity="clerk", capacity=4)
        self.worker.service("note", idempotent=True)(self._note)
        self.worker.service("keep", idempotent=True)(self._keep)
        self.worker.service("pay")(self._note)

    def _note(self, number: int, text: str) -> None:
        if text == "bad":
            raise ValueError(f"{number} is bad")
        self.seen.append((number, text))

    def _keep(self, body: bytes) -> None:
        self.seen.append(json.loads(body))


@pytest.fixture(scope="module")
def post() -> Iterator[Post]:
    with scale0.testing.broker(identity="eu-1") as broker:
        made = Post(broker.endpoint)
        with made.worker:
            yield made


def send(df: DataFrame, post: Post, service: str, **options: str) -> None:
    writer = df.write.format("scale0").option("broker", post.endpoint).option("service", service)
    writer.options(**options).mode("append").save()


@pytest.mark.spark
def test_events_are_read_pruned_and_followed(spark: SparkSession, tmp_path: Path) -> None:
    place = two_brokers(tmp_path)
    source = spark.read.format("scale0").option("path", str(tmp_path))
    events = source.load()
    counted = events.groupBy("broker").count().collect()
    assert {row["broker"]: row["count"] for row in counted} == {"eu-1": 300, "us-1": 100}
    late = source.schema("service string, seq bigint, ts_us bigint").load()
    late = late.where(late.ts_us > START_US + 298 * SECOND_US)
    assert [row["seq"] for row in late.collect()] == [299, 300]
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        assert late.select("seq").count() == 2
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")

    sums: list[int] = []

    def follow() -> None:
        stream = spark.readStream.format("scale0").option("path", str(tmp_path)).option("maxSegmentsPerTrigger", "3")
        query = (
            stream.option("columns", "broker,seq")
            .load()
            .writeStream.foreachBatch(lambda batch, number: sums.append(batch.count()))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(LIMIT_S)

    follow()
    # Within a batch rows that came twice are read once; those of the second batch came with an earlier one.
    assert sums == [250, 200]
    add(place, "us-1", 101, 107)
    follow()
    assert sums == [250, 200, 7]


@pytest.mark.spark
def test_live_tables_tell_who_is_there(spark: SparkSession, post: Post) -> None:
    source = spark.read.format("scale0").option("broker", post.endpoint)
    (worker,) = source.option("table", "workers").load().select("identity", "services", "capacity").collect()
    assert (worker["identity"], worker["capacity"]) == ("clerk", 4)
    assert set(worker["services"]) == {"note", "keep", "pay"}
    services = source.option("table", "services").load().where("idempotent").collect()
    assert {row["name"]: row["workers"] for row in services} == {"note": 1, "keep": 1}
    (broker,) = source.option("table", "brokers").load().collect()
    assert (broker["identity"], broker["state"], broker["services"]["pay"]) == ("eu-1", "active", 1)
    assert source.option("table", "clients").load().where("open_tasks >= 0").count() >= 1


@pytest.mark.spark
def test_each_row_becomes_a_task(spark: SparkSession, post: Post) -> None:
    rows = [(1, "one"), (2, "two"), (3, "three")]
    frame = spark.createDataFrame(rows, "number bigint, text string")
    post.seen.clear()
    send(frame, post, "note")
    assert sorted(post.seen) == rows
    post.seen.clear()
    send(frame, post, "keep", encoding="json")
    assert min(post.seen, key=lambda one: one["number"]) == {"number": 1, "text": "one"}
    post.seen.clear()
    mixed = spark.createDataFrame([(1, "one"), (2, "bad")], "number bigint, text string")
    send(mixed, post, "note", errors="ignore")
    assert post.seen == [(1, "one")]
    with pytest.raises(Exception, match="2 is bad"):
        send(mixed, post, "note")
    with pytest.raises(Exception, match="pay is not idempotent"):
        send(frame, post, "pay")
    send(frame, post, "pay", allow_repeats="true")


@pytest.mark.spark
def test_a_batch_of_a_stream_that_is_run_again_is_answered_and_not_served_again(
    spark: SparkSession, post: Post, tmp_path: Path
) -> None:
    two_brokers(tmp_path)
    events = spark.readStream.format("scale0").option("path", str(tmp_path)).option("columns", "seq,service").load()

    def write(checkpoint: Path) -> None:
        query = (
            events.writeStream.format("scale0")
            .options(broker=post.endpoint, service="note", checkpointLocation=str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(LIMIT_S)

    post.seen.clear()
    checkpoint = tmp_path / "checkpoint"
    write(checkpoint)
    assert len(post.seen) == 400
    for commit in (checkpoint / "commits").iterdir():
        commit.unlink()  # as if the program had died between the last task and the word that the batch is done
    write(checkpoint)
    assert len(post.seen) == 400


def test_what_cannot_be_is_said_before_spark_begins() -> None:
    with pytest.raises(PipelineError, match="no stream"):
        Scale0Source({"broker": "tcp://127.0.0.1:1"}).streamReader(None)  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="cannot be overwritten"):
        Scale0Source({}).writer(None, overwrite=True)  # type: ignore[arg-type]
    assert "tasks_per_s double" in Scale0Source({"table": "services"}).schema()
