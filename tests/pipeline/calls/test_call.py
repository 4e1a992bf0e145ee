"""`call_service` in a real Spark: a column that workers compute, errors beside it, and retries that run nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from scale0.errors import RemoteError
from scale0_pipeline import call_service
from scale0_pipeline.calls.call import columns_of
from scale0_pipeline.errors import PipelineError
from tests.pipeline.calls.posts import Post, running_post

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def post() -> Iterator[Post]:
    with running_post() as made:
        yield made


def test_results_and_errors_become_two_columns() -> None:
    answers = [1, None, RemoteError("ValueError", "bad", ""), "not a number", 2**70]
    results, failures = columns_of(answers, pa.int64())
    assert results.to_pylist() == [1, None, None, None, None]
    assert failures.to_pylist()[:3] == [None, None, {"code": 500, "text": "ValueError: bad"}]
    for failure in failures.to_pylist()[3:]:
        assert failure["code"] == 422
        assert failure["text"].startswith("the result does not fit the column of type int64")


def test_whoever_wants_no_column_of_errors_has_them_raised() -> None:
    with pytest.raises(RemoteError, match="bad"):
        columns_of([1, RemoteError("ValueError", "bad", "")], pa.int64(), must_raise=True)
    with pytest.raises(PipelineError, match="does not fit"):
        columns_of([1, "x"], pa.int64(), must_raise=True)


@pytest.mark.spark
def test_a_column_is_computed_by_workers_once_although_spark_runs_a_task_again(
    spark: SparkSession, post: Post, tmp_path: Any
) -> None:
    numbers = spark.range(0, 40, 1, 2).withColumnRenamed("id", "number")
    doubled = call_service(numbers, "double", broker=post.endpoint, result="bigint", in_flight=4)
    marks = str(tmp_path)

    def fail_once(batches: Any) -> Any:
        """Downstream of the calls: the first attempt of the second partition dies when its rows are there."""
        from pathlib import Path

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.partitionId() == 1 and context.attemptNumber() == 0:
            (Path(marks) / "died").touch()
            raise RuntimeError("this attempt dies")

    rows = doubled.mapInArrow(fail_once, doubled.schema).collect()
    assert (tmp_path / "died").exists()
    assert [(row["number"], row["result"]) for row in rows if row["error"] is None] == [
        (number, 2 * number) for number in range(40) if number != 13
    ]
    assert rows[13]["error"].asDict() == {"code": 500, "text": "ValueError: unlucky"}
    assert post.runs == dict.fromkeys(range(40), 1)


@pytest.mark.spark
def test_columns_are_arguments_in_their_order_and_results_may_be_unfit(spark: SparkSession, post: Post) -> None:
    frame = spark.createDataFrame(
        [(1.5, 2.0, "a"), (1.0, -1.0, "b"), (0.0, None, "c")], "x double, y double, name string"
    )
    added = call_service(frame, "add", broker=post.endpoint, columns=["x", "y"], result="double", result_column="sum")
    assert added.columns == ["x", "y", "name", "sum", "error"]
    first, unfit, missing = added.orderBy("name").collect()
    assert (first["sum"], first["error"]) == (3.5, None)
    assert unfit["error"]["code"] == 422
    assert "right" in missing["error"]["text"]
    with pytest.raises(Exception, match="unlucky"):
        call_service(spark.range(13, 14), "double", broker=post.endpoint, result="bigint", errors="fail").collect()


@pytest.mark.spark
def test_what_cannot_be_is_said_when_the_job_is_put_together(spark: SparkSession, post: Post) -> None:
    frame = spark.range(3)
    with pytest.raises(PipelineError, match="pay is not idempotent"):
        call_service(frame, "pay", broker=post.endpoint)
    allowed = call_service(frame, "pay", broker=post.endpoint, result="bigint", allow_repeats=True)
    assert [row["result"] for row in allowed.collect()] == [0, 2, 4]
    with pytest.raises(PipelineError, match="no column number"):
        call_service(frame, "double", broker=post.endpoint, columns=["number"])
    with pytest.raises(PipelineError, match="a column id already"):
        call_service(frame, "double", broker=post.endpoint, result_column="id")
    with pytest.raises(PipelineError, match="errors='ignore'"):
        call_service(frame, "double", broker=post.endpoint, errors="ignore")
    with pytest.raises(PipelineError, match="in_flight=0"):
        call_service(frame, "double", broker=post.endpoint, in_flight=0)
