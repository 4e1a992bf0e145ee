"""What `scale0 sim --json` writes. The document of one run depends on its scenario alone: the same bytes each time."""

from __future__ import annotations

from typing import Any

import msgspec

from scale0.cli.sim_many import Done
from scale0.simulator import coverage_table
from scale0.simulator.run import Result
from scale0.simulator.shrink import Shrunk
from scale0.simulator.timeline import Strike

SCHEMA = "scale0.sim/1"
SCHEMA_MANY = "scale0.sims/1"
Found = tuple[Shrunk, list[Strike]] | None


def one(result: Result, strikes: list[Strike], found: Found) -> dict[str, Any]:
    """One run."""
    return {
        "schema": SCHEMA,
        "complete": not result.is_interrupted,
        "verdict": "held" if result.is_good else "violated",
        **_facts(result),
        "tasks": result.tasks,
        "outcomes": dict(sorted(result.outcomes.items())),
        "counts": _nested(result.counts),
        "timeline": [msgspec.to_builtins(strike) for strike in strikes],
        "shortest": _shortest(found),
    }


def many(done: Done, found: Found) -> dict[str, Any]:
    """Many runs."""
    total = done.sum
    return {
        "schema": SCHEMA_MANY,
        "complete": not done.is_interrupted,
        "verdict": "violated" if total.failed else "held",
        "seeds": total.seeds,
        "steps": total.steps,
        "tasks": total.tasks,
        "faults": total.faults,
        "virtual_s": total.virtual_s,
        "took_s": done.took_s,
        "jobs": done.jobs,
        "outcomes": dict(sorted(total.outcomes.items())),
        "failed": [_facts(result) for result in total.failed],
        "coverage": [msgspec.to_builtins(line) for line in coverage_table.lines(total.counts)],
        "shortest": _shortest(found),
    }


def _facts(result: Result) -> dict[str, Any]:
    return {
        "seed": result.seed,
        "command": result.scenario.command(),
        "steps": result.steps_in_all,
        "faults": result.faults,
        "virtual_s": result.virtual_s,
        "digest": result.digest,
        "rule": result.rule,
        "violation": result.violation,
    }


def _shortest(found: Found) -> dict[str, Any] | None:
    if found is None:
        return None
    shrunk, strikes = found
    timeline = [msgspec.to_builtins(strike) for strike in strikes]
    return {**_facts(shrunk.result), "timeline": timeline, "last_events": shrunk.result.last_events}


def _nested(counts: coverage_table.Counts) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for (group, name), number in sorted(counts.items()):
        nested.setdefault(group, {})[name] = number
    return nested
