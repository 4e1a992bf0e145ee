"""Workers' sessions from notes: what each says of itself, and what its end leaves of that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.pipeline.transforms.frames import DAY, HOUR_US, SECOND_US, START_US, bronze, dicts, note, task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOON_US = START_US + 12 * HOUR_US


def _said(seq: int, worker: str, what: str, **detail: Any) -> dict[str, Any]:
    told = {"role": "worker", **detail}
    return note(seq, NOON_US + seq * SECOND_US, "session", subject=worker, what=what, detail=told)


PAUSED = [
    _said(1, "w-1", "opened"),
    _said(2, "w-1", "ready", services=["score"], capacity=2),
    _said(3, "w-1", "ready", services=["score"], capacity=0),
    _said(4, "w-1", "ready", services=["score"], capacity=4),
]
LEFT = [
    _said(10, "w-2", "opened"),
    _said(11, "w-2", "ready", services=["score"], capacity=2),
    _said(20, "w-2", "ready", services=["score"], capacity=0),
    _said(21, "w-2", "closed", why="it left"),
]
NEVER_READY = [_said(30, "w-3", "opened"), _said(31, "w-3", "lost", why="silent")]


def test_a_worker_that_leaves_had_the_slots_that_it_had_before(spark: SparkSession) -> None:
    from scale0_pipeline.transforms import silver
    from scale0_pipeline.transforms.sessions import worker_sessions
    from scale0_pipeline.transforms.window import Window

    rows = bronze(spark, [*PAUSED, *LEFT, *NEVER_READY])
    found = dicts(worker_sessions({"silver/notes": silver.notes(rows)}, Window((DAY,), START_US)))
    assert {row["worker"]: row["capacity"] for row in found} == {"w-1": 4, "w-2": 2, "w-3": None}
    assert {row["worker"]: row["why"] for row in found} == {"w-1": None, "w-2": "it left", "w-3": "silent"}


def test_how_busy_it_was_is_known_when_it_has_left(spark: SparkSession) -> None:
    from scale0_pipeline.transforms import facts, silver
    from scale0_pipeline.transforms.gold.participants import worker_1h
    from scale0_pipeline.transforms.sessions import worker_sessions
    from scale0_pipeline.transforms.window import Window

    window = Window((DAY,), START_US)
    served = [task(seq, NOON_US + seq * SECOND_US, worker="w-2", work_us=SECOND_US) for seq in range(12, 20)]
    rows = bronze(spark, [*LEFT, *served])
    inputs = {
        "facts/hour": facts.hour(rows),
        "silver/worker_sessions": worker_sessions({"silver/notes": silver.notes(rows)}, window),
    }
    (row,) = dicts(worker_1h(inputs, window))
    assert row["busy_share"] == pytest.approx(8 / (2 * 11)), "8 s of work, 2 slots, 11 s there"
