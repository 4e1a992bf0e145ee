"""Completeness from counters: each way in which rows get lost, on a few rows."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.pipeline.transforms.frames import DAY, HOUR_US, SECOND_US, START_US, bronze, dicts, note, task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOON_US = START_US + 12 * HOUR_US


def _run(broker: str, seqs: list[int], **other: Any) -> list[dict[str, Any]]:
    """Tasks of a broker, a second apart by their numbers."""
    return [task(seq, NOON_US + seq * SECOND_US, broker=broker, boot=f"boot of {broker}", **other) for seq in seqs]


def _note(broker: str, seq: int, kind: str, **other: Any) -> dict[str, Any]:
    return note(seq, NOON_US + seq * SECOND_US, kind, broker=broker, boot=f"boot of {broker}", **other)


CLEAN = [*_run("clean", [1, 2, 3]), _note("clean", 4, "boot_end", value=4, detail={"clean": True})]
TAIL = [*_run("tail", [1, 2, 3]), _note("tail", 6, "boot_end", value=6, detail={"clean": False})]
CRASHED = _run("crashed", [1, 2, 3])
PEER = [
    *_run("peer", [1]),
    _note("peer", 2, "peer_gauge", subject="crashed", value=8, detail={"boot": "boot of crashed"}),
    _note("peer", 3, "peer_gauge", subject="clean", value=3, detail={"boot": "boot of clean"}),
]
DROPPED = [
    *_run("dropped", [1, 2, 6]),
    _note("dropped", 5, "dropped", value=3, detail={"seq_lo": 3, "seq_hi": 5, "why": "the recorder is behind"}),
]
FORCED = [
    *_run("forced", [1, 2, 9]),
    _note("forced", 3, "dropped", subject="catalogue", value=6, detail={"seq_lo": 3, "seq_hi": 8, "why": "forced"}),
]
SILENT = _run("silent", [1, 2, 5])
LONG = [
    task(50, START_US - HOUR_US, broker="long", boot="boot of long"),
    task(51, START_US + 60 * SECOND_US, broker="long", boot="boot of long"),
    task(52, START_US + 2 * HOUR_US, broker="long", boot="boot of long"),
]


def test_each_loss_is_counted_and_explained(spark: SparkSession) -> None:
    from scale0_pipeline.transforms import facts, silver
    from scale0_pipeline.transforms.gold.completeness import completeness_1h, gaps
    from scale0_pipeline.transforms.window import Window

    rows = bronze(spark, [*CLEAN, *TAIL, *CRASHED, *PEER, *DROPPED, *FORCED, *SILENT, *LONG])
    inputs = {"facts/recorded": facts.recorded(rows).cache(), "silver/notes": silver.notes(rows).cache()}
    window = Window((DAY,), START_US)
    hours = dicts(completeness_1h(inputs, window))
    at_noon = {
        row["broker"]: (row["recorded"], row["counted"], row["unknown"]) for row in hours if row["hour_us"] == NOON_US
    }
    assert at_noon == {
        "clean": (4, 4, 0),
        "tail": (4, 6, 0),  # the recorder outlived the broker, and knew its last number
        "crashed": (3, 8, 5),  # only a peer had heard of the last five
        "peer": (3, 3, 0),
        "dropped": (3, 6, 0),  # the note has the number of the last row that was lost, and is none itself
        "forced": (3, 9, 0),  # the row that stands for the gap was not recorded by anybody
        "silent": (3, 5, 0),  # a hole that nobody explains
    }
    shares = {row["broker"]: row["completeness"] for row in hours if row["hour_us"] == NOON_US}
    assert shares["crashed"] == 3 / 8
    # A run that was on before is counted from where it was.
    assert [row["counted"] for row in hours if row["broker"] == "long"] == [1, 1]
    found = {
        (row["broker"], row["why"]): (row["seq_lo"], row["seq_hi"], row["rows"]) for row in dicts(gaps(inputs, window))
    }
    assert found == {
        ("tail", "missing"): (None, None, 2),
        ("crashed", "crashed"): (4, 8, 5),
        ("dropped", "dropped"): (3, 5, 3),
        ("forced", "forced"): (3, 8, 6),
        ("silent", "missing"): (None, None, 2),
    }
    # What a day says does not depend on the days that are made with it.
    both = dicts(completeness_1h(inputs, Window((DAY - timedelta(1), DAY), START_US)))
    assert sorted(map(str, (row for row in both if row["day"] == DAY))) == sorted(map(str, hours))
