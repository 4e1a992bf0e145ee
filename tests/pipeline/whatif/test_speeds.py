"""Speeds of workers: what is chance, and what is real."""

from __future__ import annotations

import numpy as np
import pytest

from scale0_pipeline.whatif import speeds


def test_equal_workers_are_found_equal_though_their_means_differ() -> None:
    draw = np.random.default_rng(5)
    worker = draw.integers(0, 20, 4_000)
    factors = speeds.slowness(draw.exponential(1.0, 4_000), worker)
    assert factors.tolist() == [1.0] * 20
    assert speeds.of_fleet(factors, worker).tolist() == [1.0]
    assert speeds.draw(np.ones(1), 3) == [1.0, 1.0, 1.0]


def test_slow_workers_are_found_slow() -> None:
    draw = np.random.default_rng(6)
    worker = draw.integers(0, 4, 8_000)
    slow = np.array([0.5, 0.5, 1.0, 2.0])
    factors = speeds.slowness(draw.exponential(1.0, 8_000) * slow[worker], worker)
    assert factors == pytest.approx(slow, rel=0.1)
    fleet = speeds.draw(speeds.of_fleet(factors, worker), 8)
    assert fleet == sorted(fleet)
    assert fleet[0] == pytest.approx(0.5, rel=0.1)
    assert fleet[-1] > 1.4


def test_tasks_that_nobody_ran_tell_nothing() -> None:
    work = np.full(300, np.nan)
    assert speeds.slowness(work, np.full(300, -1)).tolist() == []
    assert speeds.of_fleet(np.array([]), np.full(3, -1)).tolist() == [1.0]
