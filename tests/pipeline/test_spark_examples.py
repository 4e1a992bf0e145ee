"""The examples that need Spark, in the tests' own session."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import scale0.testing
from examples import greet, spark_calls, spark_events
from scale0 import Worker
from scale0_pipeline.generate import generate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_spark_calls_has_workers_greet_a_thousand_guests(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with scale0.testing.broker() as broker:
        worker = Worker(broker.endpoint)
        worker.service("greet", idempotent=True)(greet.greet)
        monkeypatch.setattr(spark_calls, "BROKER", broker.endpoint)
        with worker:
            spark_calls.main()
    told, refused = capsys.readouterr().out.splitlines()
    assert told == "1,000 replies, the last one: hello guest 999"
    assert refused.startswith("refused by the annotations: EncodingError")


def test_spark_events_tells_the_busiest_hours(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generate(str(tmp_path), events=5_000, days=1, seed=1)
    spark_events.main(str(tmp_path))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(re.fullmatch(r"\d\d:00  [\d,]+ tasks, p99 [\d,]+ ms", line) for line in lines), lines
