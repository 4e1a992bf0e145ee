"""Worlds in which two things go wrong with a pair at once: nothing is broken by it, and only some worlds have them."""

from __future__ import annotations

from collections import Counter

from scale0.simulator.moment_faults import EVERY, MOMENTS, PLACE
from scale0.simulator.profiles import PAIRS
from scale0.simulator.run import run, run_seed
from scale0.simulator.scenario import Scenario

STEPS = 1_000
FIRST = next(seed for seed in range(PAIRS, PAIRS + EVERY) if seed % EVERY == PLACE)


def test_moments_break_nothing() -> None:
    counts: Counter[tuple[str, str]] = Counter()
    for seed in range(FIRST, FIRST + 8 * EVERY, EVERY):
        result = run_seed(seed, STEPS)
        assert result.is_good, result.report()
        counts.update(result.counts)
    assert all(counts["fault", kind] for kind in MOMENTS), counts


def test_other_worlds_have_none() -> None:
    assert not any(run_seed(FIRST + 1, STEPS).counts.get(("fault", kind)) for kind in MOMENTS)


def test_moments_can_be_asked_for() -> None:
    result = run(Scenario(seed=FIRST + 1, steps=STEPS, faults=("both of a pair pause",)))
    assert result.is_good, result.report()
    assert result.counts["fault", "both of a pair pause"]
