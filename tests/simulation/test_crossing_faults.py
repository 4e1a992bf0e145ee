"""Worlds in which the words of a pair cross: nothing is broken by it, and what chance hardly ever makes happens."""

from __future__ import annotations

from collections import Counter

from scale0.core.star import Event, Star, decide
from scale0.simulator.coverage_table import star_name
from scale0.simulator.crossing_faults import CROSSINGS, PLACE
from scale0.simulator.moment_faults import EVERY, MOMENTS
from scale0.simulator.moment_faults import PLACE as MOMENT
from scale0.simulator.profiles import PAIRS
from scale0.simulator.run import Result, run, run_seed
from scale0.simulator.scenario import Scenario

STEPS = 1_000
FIRST = next(seed for seed in range(PAIRS, PAIRS + EVERY) if seed % EVERY == PLACE)
HARDLY_EVER = {
    "meeting meets a switch": ((Star.PASSIVE, Event.PEER_PASSIVE), (Star.PASSIVE, Event.PEER_PRIMARY)),
    "successor cannot say that it serves": (
        (Star.YIELDING, Event.PEER_PRIMARY_AHEAD),
        (Star.DOUBTFUL, Event.PEER_YIELDING),
    ),
    "orders meet a claimed epoch": ((Star.YIELDING, Event.PEER_ACTIVE),),
}
WORLDS_MAX = 40


def exercised(result: Result, kind: str) -> set[tuple[Star, Event]]:
    return {
        (star, event)
        for star, event in HARDLY_EVER[kind]
        if result.counts.get(("star", star_name(star, event, decide(star, event))))
    }


def test_crossings_break_nothing() -> None:
    counts: Counter[tuple[str, str]] = Counter()
    for seed in range(FIRST, FIRST + 8 * EVERY, EVERY):
        result = run_seed(seed, STEPS)
        assert result.is_good, result.report()
        counts.update(result.counts)
    assert all(counts["fault", kind] for kind in CROSSINGS), counts


def test_crossings_make_what_chance_hardly_ever_makes() -> None:
    for kind, wanted in HARDLY_EVER.items():
        missed = set(wanted)
        for seed in range(FIRST, FIRST + WORLDS_MAX * EVERY, EVERY):
            result = run(Scenario(seed=seed, steps=3 * STEPS, faults=(kind,)))
            assert result.is_good, result.report()
            missed -= exercised(result, kind)
            if not missed:
                break
        assert not missed, kind


def test_worlds_with_moments_have_no_crossings() -> None:
    counts = run_seed(next(seed for seed in range(PAIRS, PAIRS + EVERY) if seed % EVERY == MOMENT), STEPS).counts
    assert any(counts.get(("fault", kind)) for kind in MOMENTS)
    assert not any(counts.get(("fault", kind)) for kind in CROSSINGS)
