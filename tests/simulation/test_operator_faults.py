"""Worlds with an operator: what he does breaks nothing, and only some worlds have one."""

from __future__ import annotations

from collections import Counter

import pytest

from scale0.simulator.operator_faults import EVERY, OPERATOR, PLACE
from scale0.simulator.profiles import NETWORKS, PAIRS
from scale0.simulator.run import run, run_seed
from scale0.simulator.scenario import Scenario

STEPS = 1_000
COMMANDS = ("kick_worker", "cancel_task", "test_task", "snapshot")


def with_operator(first: int, count: int) -> list[int]:
    """Seeds from `first` on whose worlds have an operator."""
    return [seed for seed in range(first, first + EVERY * (count + 1)) if seed % EVERY == PLACE][:count]


@pytest.mark.parametrize("first", [0, NETWORKS, PAIRS])
def test_operator_breaks_nothing(first: int) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    for seed in with_operator(first, 6):
        result = run_seed(seed, STEPS)
        assert result.is_good, result.report()
        counts.update(result.counts)
    commands = COMMANDS if not first else ("test_task",)
    assert all(counts["manage", command] for command in commands), counts


def test_other_worlds_have_none() -> None:
    assert not any(run_seed(4, STEPS).counts.get(("fault", kind)) for kind in OPERATOR)


def test_operator_can_be_asked_for() -> None:
    scenario = Scenario(seed=4, steps=STEPS, faults=("operator tries a dead letter", "busy worker crashes"))
    result = run(scenario)
    assert result.is_good, result.report()
    assert result.counts["fault", "operator tries a dead letter"]
