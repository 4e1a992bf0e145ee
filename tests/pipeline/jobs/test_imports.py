"""JSON lines become segments; what is none is kept with the reason; nothing comes twice."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from scale0.telemetry import catalogue
from scale0.telemetry.place import Place
from scale0_pipeline.errors import PipelineError
from scale0_pipeline.jobs import imports, run
from scale0_pipeline.jobs.imports import QUARANTINE
from scale0_pipeline.tables.delta import Table
from tests.pipeline.jobs.world import APPENDED, MONDAY_US, ROWS, advance, work

pytestmark = pytest.mark.spark


def task(number: int, **more: object) -> str:
    time_us = MONDAY_US + number
    known = {"kind": "task", "ts_us": time_us, "received_us": time_us - 5, "service": "add", "outcome": "replied"}
    return json.dumps({**known, **more})


LINES = [
    task(1),
    task(2, broker="eu-1", attempts=[{"worker": "w", "outcome": "lost"}]),
    "{torn",
    "",
    task(5, surprise="a column of tomorrow"),
    '{"kind": "dance", "ts_us": 1}',
    task(7, ts_us="yesterday"),
    '{"kind": "gauge"}',
    json.dumps({"kind": "gauge", "ts_us": MONDAY_US, "detail": "{}"}),
    '{"kind": "task", "ts_us": 5, "service": "add", "outcome": "danced"}',
]


def test_lines_become_rows_once_and_the_rest_is_kept_with_the_reason(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "LINES_PER_SEGMENT", 3)
    file, place = tmp_path / "events.jsonl", Place(tmp_path / "data")
    file.write_text("\n".join(LINES), encoding="utf-8")
    first = run.import_lines(place.url, file)
    assert (first.rows, first.quarantined) == (4, 5)
    again = run.import_lines(place.url, file)
    assert (again.rows, again.quarantined) == (0, 0)

    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    entries = catalogue.read(place, "import")
    assert [(entry.seq_lo, entry.seq_hi, entry.source) for entry in entries] == [
        (1, 2, "import"),
        (5, 5, "import"),
        (9, 9, "import"),
    ]
    assert {entry.boot for entry in entries} == {f"import-{digest[:32]}"}
    bad = {row["line"]: row["why"] for row in Table(place, QUARANTINE).arrow().to_pylist()}
    assert bad == {
        3: "no JSON object of the columns' types",
        6: "unknown kind: dance",
        7: "no JSON object of the columns' types",
        8: "no ts_us",
        10: "a task without an outcome",
    }

    work(spark, place, advance, appended=APPENDED, derived=())
    rows = sorted((row["seq"], row["broker"]) for row in Table(place, ROWS).arrow().to_pylist())
    assert rows == [(1, "import"), (2, "eu-1"), (5, "import")], "the tasks; the gauge is none"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"nothing\.jsonl"):
        imports.import_lines(None, Place(tmp_path), tmp_path / "nothing.jsonl")  # type: ignore[arg-type]
