"""The log of batches decides: one plan a number, from one writer."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from scale0.telemetry.place import Place
from scale0_pipeline.errors import LeaseLost
from scale0_pipeline.tables.log import PIPELINE, BatchLog
from scale0_pipeline.tables.plans import Plan, make_plan
from tests.pipeline.tables.test_plans import entry


def next_plan(log: BatchLog, *, fence: int = 1, made_us: int = 1) -> Plan:
    """A segment of ten rows more."""
    state = log.state()
    number = state.batch + 1
    segment = entry(f"eu-{number % 3}", state.position.get(f"eu-{number % 3}", 0) + 1, number * 10, number * 10 + 9)
    return make_plan(
        [segment], batch=number, fence=fence, now_us=made_us, position=state.position, covered=state.covered
    )


def test_whoever_starts_knows_what_the_last_plan_left(tmp_path: Path) -> None:
    log = BatchLog(Place(tmp_path))
    for _ in range(70):
        log.add(next_plan(log))
    fresh = BatchLog(Place(tmp_path)).state()
    assert fresh.batch == 70
    assert fresh.position == log.state().position == {"eu-0": 23, "eu-1": 24, "eu-2": 23}
    assert fresh.covered.boots == log.state().covered.boots
    assert len(fresh.covered.boots["eu-1"]["boot"]) == 24


def test_plans_come_back_as_they_were_and_in_order(tmp_path: Path) -> None:
    log = BatchLog(Place(tmp_path))
    plans = []
    for _ in range(5):
        plans.append(next_plan(log))
        log.add(plans[-1])
    assert BatchLog(Place(tmp_path)).plans(2, 4) == plans[1:4]


def test_no_number_has_two_plans(tmp_path: Path) -> None:
    logs = [BatchLog(Place(tmp_path)) for _ in range(4)]
    plans = [next_plan(log, made_us=number) for number, log in enumerate(logs)]
    losers: list[LeaseLost] = []

    def add(log: BatchLog, plan: Plan) -> None:
        try:
            log.add(plan)
        except LeaseLost as error:
            losers.append(error)

    threads = [threading.Thread(target=add, args=pair) for pair in zip(logs, plans, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(losers) == 3
    assert len(BatchLog(Place(tmp_path)).plans(1, 9)) == 1


def test_a_writer_whose_lease_was_taken_decides_nothing(tmp_path: Path) -> None:
    log = BatchLog(Place(tmp_path))
    assert log.raise_fence(PIPELINE, 1)
    log.add(next_plan(log))
    assert BatchLog(Place(tmp_path)).raise_fence(PIPELINE, 2)
    with pytest.raises(LeaseLost, match="taken the lease"):
        log.add(next_plan(log))
    assert log.last() == 1


def test_a_fence_is_given_out_once(tmp_path: Path) -> None:
    log = BatchLog(Place(tmp_path))
    assert log.raise_fence(PIPELINE, 1)
    assert not log.raise_fence(PIPELINE, 1)
    assert (log.fence(PIPELINE), log.fence("backfill")) == (1, 0)


def test_compaction_keeps_every_plan(tmp_path: Path) -> None:
    log = BatchLog(Place(tmp_path))
    for _ in range(66):
        log.add(next_plan(log))
    before = log.plans(1, 66)
    log.compact()
    assert BatchLog(Place(tmp_path)).plans(1, 66) == before
    log.add(next_plan(log))
    assert log.last() == 67
