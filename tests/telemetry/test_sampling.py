"""Sampling: what matters is kept, and the weights add up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scale0.telemetry import sampling
from scale0.telemetry.columns import RECORD
from tests.telemetry.rows import task


def records(count: int) -> Any:
    made = np.frombuffer(b"".join(task(seq) for seq in range(1, count + 1)), dtype=RECORD).copy()
    made["settled_s"] = made["received_s"] + np.random.default_rng(1).exponential(0.01, count)
    return made


@pytest.mark.parametrize("rate", [1, 2, 7, 100, 5_000])
@pytest.mark.parametrize("count", [1, 99, 1_000])
def test_weights_add_up_to_all_tasks(rate: int, count: int) -> None:
    weights = sampling.weigh(records(count), {1: rate})
    assert weights.sum() == count


def test_about_one_in_so_many_is_kept() -> None:
    assert 100 <= np.count_nonzero(sampling.weigh(records(10_000), {1: 100})) <= 250


def test_all_that_failed_and_the_slowest_are_kept_as_themselves() -> None:
    made = records(1_000)
    made["outcome"][::50] = 2
    slowest = int(np.argmax(made["settled_s"] - made["received_s"]))
    weights = sampling.weigh(made, {1: 100})
    assert (weights[::50] == 1).all()
    assert weights[slowest] == 1


def test_other_services_are_kept_whole() -> None:
    made = records(100)
    made["service_no"][:50] = 2
    weights = sampling.weigh(made, {1: 10})
    assert (weights[:50] == 1).all()
    assert np.count_nonzero(weights[50:]) < 20


def test_means_of_a_sample_are_near_those_of_all() -> None:
    made = records(50_000)
    weights = sampling.weigh(made, {1: 20})
    latency_s = made["settled_s"] - made["received_s"]
    assert (latency_s * weights).sum() / weights.sum() == pytest.approx(latency_s.mean(), rel=0.1)
