"""A whole what-if, from tables to text: which window, which workers, and how it is checked."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from scale0_pipeline import whatif
from scale0_pipeline.errors import NothingRecorded, PipelineError
from scale0_pipeline.gold import Gold
from scale0_pipeline.whatif import fan_out
from scale0_pipeline.whatif.cells import Curve
from scale0_pipeline.whatif.recorded import read
from tests.pipeline.whatif.recordings import HOUR_US, MONDAY_US, equal_workers_fifo, poisson, put_table

WORKERS = 5
QUIET_US, BUSY_US = MONDAY_US + 9 * HOUR_US, MONDAY_US + 33 * HOUR_US  # on Monday, and on Tuesday

SAME = {
    "service": "resize",
    "role": "origin",
    "client": "shop",
    "worker": "w",
    "broker": "eu-1",
    "priority": 0,
    "outcome": "replied",
    "code": 200,
    "weight": 1,
    "workers": WORKERS,
}


def _task_rows(since_us: int, tasks: int, erlangs: float, seed: int) -> list[dict[str, object]]:
    """Tasks as five workers left them behind, in the order of their outcome."""
    load = poisson(tasks, erlangs, seed=seed, clients=1)
    latency_s = equal_workers_fifo(load.came_s, load.work_s, WORKERS)
    rows: list[dict[str, object]] = []
    for came_s, work_s, took_s in zip(load.came_s, load.work_s, latency_s, strict=True):
        received_us = since_us + round(came_s * 1e6)
        ts_us = received_us + round(took_s * 1e6)
        rows.append(
            {
                **SAME,
                "day": np.datetime64(ts_us, "us").astype("datetime64[D]").item(),
                "ts_us": ts_us,
                "received_us": received_us,
                "dispatched_us": ts_us - round(work_s * 1e6),
            }
        )
    return rows


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hours of two days: the busier one is asked about, the other is held out."""
    root = tmp_path_factory.mktemp("data")
    rows = [*_task_rows(QUIET_US, 2_000, 3.0, 1), *_task_rows(BUSY_US, 3_000, 4.0, 2)]
    odd = {**rows[0], "ts_us": BUSY_US + 5, "received_us": BUSY_US + 5, "dispatched_us": None, "day": rows[-1]["day"]}
    turned_away = {**odd, "outcome": "refused", "code": 429}
    not_wanted = [{**odd, "outcome": "refused", "code": 404}, {**odd, "role": "relay"}, {**odd, "service": "other"}]
    put_table(root, "silver/tasks", [*rows, turned_away, *not_wanted])
    day = {"service": "resize", "refused": 0}
    hours = [(QUIET_US, 2_000, rows[0]["day"]), (BUSY_US, 3_000, rows[-1]["day"])]
    put_table(root, "gold/service_1h", [{**day, "hour_us": at, "count": n, "day": on} for at, n, on in hours])
    return root


@pytest.fixture(scope="module")
def curve(place: Path) -> Curve:
    return whatif.run(str(place), "resize", range(2, 21, 3))


def test_the_busiest_hour_is_asked_about(curve: Curve) -> None:
    assert (curve.since_us, curve.until_us) == (BUSY_US, BUSY_US + HOUR_US)
    assert curve.tasks == 3_001  # what was turned away for want of room was offered too
    assert curve.workers_then == WORKERS
    assert (curve.slots, curve.policy) == (1, "lru")


def test_more_workers_never_wait_longer_and_cost_more(curve: Curve) -> None:
    assert [cell.workers for cell in curve.cells] == [2, 5, 8, 11, 14, 17, 20]
    p99 = [cell.p99_us for cell in curve.cells]
    assert p99 == sorted(p99, reverse=True)
    assert p99[-1] == pytest.approx(curve.floor_p99_us)
    costs = [cell.worker_seconds for cell in curve.cells]
    assert costs == [cell.workers * 3600.0 for cell in curve.cells]
    near = [cell.p99_us <= 1.2 * curve.floor_p99_us for cell in curve.cells]
    assert curve.knee == curve.cells[near.index(True)].workers
    assert near[0] is False


def test_a_held_out_day_is_replayed_as_it_was_measured(curve: Curve) -> None:
    check = curve.check
    assert check is not None
    assert check.is_other_day
    assert (check.since_us, check.workers, check.tasks) == (QUIET_US, WORKERS, 2_000)
    assert abs(check.p50_error) < 0.01
    assert abs(check.p99_error) < 0.01


def test_it_reads_as_text_and_as_json(curve: Curve) -> None:
    text = whatif.render(curve)
    assert [line.split()[0] for line in text.splitlines() if "knee" in line] == [str(curve.knee), "knee:"]
    assert "checked on held-out day (2026-11-02 09:00:00, 5 workers)" in text
    assert "as it was" in text
    assert msgspec.json.decode(msgspec.json.encode(curve), type=Curve) == curve


def test_one_hour_alone_is_not_checked(place: Path) -> None:
    only = whatif.run(str(place), "resize", [6], since_us=MONDAY_US, until_us=MONDAY_US + 48 * HOUR_US)
    assert only.check is None
    assert "not checked" in whatif.render(only)


def test_rows_that_stand_for_several_tasks_are_spread(tmp_path: Path) -> None:
    rows = _task_rows(QUIET_US, 200, 3.0, 4)
    put_table(tmp_path, "silver/tasks", [{**row, "weight": 4} for row in rows])
    load, _ = read(Gold(str(tmp_path)), "resize", QUIET_US, QUIET_US + HOUR_US)
    assert len(load.came_s) == 800
    assert (np.diff(load.came_s) >= 0).all()
    assert load.work_s.sum() == pytest.approx(4 * sum((row["ts_us"] - row["dispatched_us"]) / 1e6 for row in rows))  # type: ignore[operator]


def test_questions_that_make_no_sense_are_refused(place: Path, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="workers"):
        whatif.run(str(place), "resize", range(3))
    with pytest.raises(PipelineError, match="policy"):
        whatif.run(str(place), "resize", [2], policy="best")
    with pytest.raises(NothingRecorded, match="unheard"):
        whatif.run(str(place), "unheard", [2])
    with pytest.raises(NothingRecorded):
        whatif.run(str(tmp_path / "nowhere"), "resize", [2])


@pytest.mark.spark
def test_cells_over_spark_are_those_made_here(spark: object) -> None:
    load = poisson(1_000, 4.0)
    jobs = [fan_out.Job(workers) for workers in (4, 30)]
    told: list[tuple[str, int, int]] = []
    cells = fan_out.over_spark(load, jobs, "local[2]", lambda *step: told.append(step))
    assert cells == fan_out.here(load, jobs, lambda *_: None)
    assert told[0] == ("cells", 0, 2)
    assert told[-1] == ("cells", 2, 2)
