"""Lanes: many scenarios in processes of their own, with the same results as in this one."""

from __future__ import annotations

import itertools

import pytest

from scale0.simulator import lanes as lanes_module
from scale0.simulator.lanes import Lanes
from scale0.simulator.run import Result, run
from scale0.simulator.scenario import Scenario

SCENARIOS = [Scenario(seed, 200) for seed in (2, 3, 1_000_004, 5)]


def results(jobs: int) -> dict[int, Result]:
    with Lanes(jobs) as lanes:
        return {result.seed: result for result in lanes.results(iter(SCENARIOS)) if result is not None}


def test_other_processes_give_the_same_results() -> None:
    alone = {scenario.seed: run(scenario) for scenario in SCENARIOS}
    together = results(2)
    assert {seed: result.digest for seed, result in together.items()} == {
        seed: result.digest for seed, result in alone.items()
    }
    assert all(together[seed].counts == alone[seed].counts for seed in alone)


def test_one_job_needs_no_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes_module, "_Lane", None)
    assert len(results(1)) == len(SCENARIOS)


def test_scenarios_without_an_end_are_drawn_as_lanes_get_free() -> None:
    endless = (Scenario(seed, 100) for seed in itertools.count(2))
    with Lanes(2) as lanes:
        found = list(itertools.islice((result for result in lanes.results(endless) if result is not None), 5))
        processes = [lane.process for lane in lanes._lanes]
    assert len(found) == 5
    assert all(process.poll() is not None for process in processes), "a lane lives on"


def test_a_process_that_dies_fails_its_scenario_and_no_other() -> None:
    with Lanes(2) as lanes:
        drawn = lanes.results(iter([Scenario(2, 100_000), Scenario(3, 100), Scenario(5, 100)]))
        first = next(result for result in drawn if result is not None)
        lanes._lanes[0].process.kill()
        rest = [result for result in drawn if result is not None]
    assert first.seed == 3
    assert {result.seed: result.rule for result in rest} == {2: "process", 5: ""}
    assert "ended with code" in next(result for result in rest if result.seed == 2).violation
