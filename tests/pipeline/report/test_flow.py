"""The fold over cells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scale0_pipeline.gold import Gold
from scale0_pipeline.report import histogram
from scale0_pipeline.report.flow import OTHER, SERVICES_MAX, family_of, read_flow
from scale0_pipeline.report.period import Period, make_period
from scale0_pipeline.units import DAY_US, MINUTE_US, SECOND_US
from tests.pipeline.report.sample import START_US, hours, write

HOUR = make_period(START_US, START_US + 60 * MINUTE_US)


def cell(minute: int = 0, service: str = "render", **changes: Any) -> dict[str, Any]:
    sums = dict.fromkeys(("latency_us", "queue_us", "worker_us", "network_us", "network_count", "retries"), 0)
    return {"minute_us": START_US + minute * MINUTE_US, "service": service, "broker": "eu-1", "code": 200,
            "outcome": "replied", "bucket": 400, "count": 1, "request_bytes": 0, "reply_bytes": 0, **sums,
            **changes}  # fmt: skip


def task(ts_us: int, **changes: Any) -> dict[str, Any]:
    return {"ts_us": ts_us, "received_us": ts_us - 5_000, "service": "render", "code": 200, "outcome": "replied",
            "latency_us": 5_000, "queue_us": 1_000, "is_origin": True, "weight": 1, "attempt": 1,
            **changes}  # fmt: skip


@pytest.mark.parametrize(
    ("code", "outcome", "family"),
    [
        (200, "replied", None),
        (500, "failed", "failed"),
        (408, "error", "late"),
        (504, "error", "late"),
        (502, "error", "lost"),
        (429, "refused", "refused"),
        (503, "error", "refused"),
        (404, "refused", "caller"),
    ],
)
def test_every_end_has_a_family(code: int, outcome: str, family: str | None) -> None:
    assert family_of(code, outcome) == family


def test_cells_add_up_by_bin_service_and_end(tmp_path: Path) -> None:
    cells = [
        cell(count=5, latency_us=500, queue_us=50),
        cell(count=2, outcome="refused", code=429, bucket=-3),
        cell(1, "ocr", count=3, outcome="error", code=504, bucket=700),
        cell(1, "ocr", count=-1, outcome="error", code=504, bucket=700),
    ]
    write(tmp_path, "facts/minute", cells)
    write(tmp_path, "gold/service_1h", hours(cells))
    flow = read_flow(Gold(str(tmp_path)), HOUR)
    assert flow.services == ["render", "ocr"]
    assert flow.count[:, :2].tolist() == [[7, 0], [0, 2]]
    assert flow.accepted[:, :2].tolist() == [[5, 0], [0, 2]]
    assert flow.families["late"].sum() == 2
    assert flow.families["refused"].sum() == 2
    assert flow.codes == {("render", 429, "refused"): 2, ("ocr", 504, "error"): 2}
    assert flow.latency.sum() == 7  # what was refused took no time
    assert flow.sums["queue_us"][0, 0] == 50


def test_services_beyond_the_limit_share_a_place(tmp_path: Path) -> None:
    cells = [cell(0, f"s{number:04d}", count=1_000 - number) for number in range(SERVICES_MAX + 50)]
    write(tmp_path, "facts/minute", cells)
    write(tmp_path, "gold/service_1h", hours(cells))
    flow = read_flow(Gold(str(tmp_path)), HOUR)
    assert len(flow.services) == SERVICES_MAX
    assert flow.services[-1] == OTHER
    assert flow.tasks == sum(one["count"] for one in cells)
    assert flow.count[-1].sum() == sum(one["count"] for one in cells[SERVICES_MAX - 1 :])


def test_a_short_period_is_made_from_single_tasks(tmp_path: Path) -> None:
    rows = [task(START_US + n * SECOND_US + 7) for n in range(20)]
    rows[3].update(outcome="refused", code=429)
    rows[4].update(weight=10)
    rows[5].update(is_origin=False)
    write(tmp_path, "silver/tasks", rows)
    flow = read_flow(Gold(str(tmp_path)), make_period(START_US, START_US + 20 * SECOND_US))
    assert flow.period.bin_us == SECOND_US
    assert flow.count[0].tolist() == [1, 1, 1, 1, 10, 0] + [1] * 14
    assert flow.accepted[0, 3] == 0
    assert flow.sums["queue_us"][0, 4] == 10_000
    assert histogram.percentile_us(flow.latency.sum(axis=0), 0.5) == pytest.approx(5_000, rel=0.012)


def test_a_task_that_was_settled_twice_counts_once(tmp_path: Path) -> None:
    bucket = int(histogram.bucket_of(np.array([5_000]))[0])
    write(tmp_path, "facts/minute", [cell(count=2, bucket=bucket, latency_us=10_000, queue_us=4_000)])
    write(tmp_path, "gold/service_1h", hours([cell(count=2)]))
    second = task(START_US + 9 * SECOND_US, dispatched_us=START_US + 9 * SECOND_US - 3_000)
    write(tmp_path, "silver/doubled", [second])
    flow = read_flow(Gold(str(tmp_path)), Period(START_US, START_US + DAY_US, 5 * MINUTE_US))
    assert flow.tasks == 1
    assert flow.latency.sum() == 1
    assert flow.latency.min() == 0
    assert flow.sums["latency_us"].sum() == 5_000
    assert flow.sums["queue_us"].sum() == 2_000
