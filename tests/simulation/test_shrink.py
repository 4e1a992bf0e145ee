"""Shrinking: of a planted bug the shortest run is found, and it breaks the same rule when it is run again."""

from __future__ import annotations

import pytest

from scale0.core.broker import Broker
from scale0.simulator import shrink as shrinking
from scale0.simulator.run import Result, run
from scale0.simulator.scenario import Scenario
from scale0.simulator.shrink import shrink
from tests.simulation.test_planted_bugs import a_deadline_frees_the_slot

SEEDS = range(2, 40)


@pytest.fixture(name="failed")
def find_a_failure(monkeypatch: pytest.MonkeyPatch) -> Result:
    """A worker may get more than it can take (rule 6)."""
    a_deadline_frees_the_slot(monkeypatch)
    monkeypatch.setattr(Broker, "check", lambda *_: None)
    runs = (run(Scenario(seed, 2000)) for seed in SEEDS)
    return next(result for result in runs if result.rule == "rule 6" and result.faults > 3)


def test_a_shorter_run_that_breaks_the_same_rule_is_found(failed: Result) -> None:
    told: list[str] = []
    found = shrink(failed, time_s=60.0, say=told.append)
    assert told
    assert found.result.rule == failed.rule
    assert found.result.faults < failed.faults
    assert len(found.result.last_events) > 1


def test_the_shortest_run_can_be_run_again(failed: Result) -> None:
    found = shrink(failed, time_s=60.0).result
    again = run(found.scenario)
    assert (again.rule, again.digest) == (found.rule, found.digest)
    assert "--seed" in again.report()


def test_without_time_the_failure_stays_as_it_was_found(failed: Result) -> None:
    found = shrink(failed, time_s=0.0)
    assert not found.is_complete
    assert found.attempts == 0
    assert found.result.scenario.steps == failed.failed_at_step


def test_ctrl_c_keeps_what_was_found_so_far(failed: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = [0]

    def interrupted(scenario: Scenario, *rest: object) -> Result:
        attempts[0] += 1
        if attempts[0] > 5:
            raise KeyboardInterrupt
        return run(scenario)

    monkeypatch.setattr(shrinking, "run", interrupted)
    found = shrink(failed, time_s=60.0)
    assert not found.is_complete
    assert found.result.rule == failed.rule
