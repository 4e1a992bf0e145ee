"""Running seeds: one, to replay it; many, to look for the one that fails."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from scale0.simulator.world import Violation, World


class Result(msgspec.Struct):
    """One seed's run."""

    seed: int
    steps: int  # with faults, as asked for
    steps_in_all: int  # with those after healing
    digest: str
    counts: Counter[tuple[str, str]]
    outcomes: Counter[str]
    tasks: int
    faults: int
    violation: str = ""
    rule: str = ""
    failed_at_step: int = 0
    last_events: list[str] = []

    @property
    def is_good(self) -> bool:
        return not self.violation

    def report(self) -> str:
        """A violation, with what came before it and how to see it again."""
        lines = [
            f"seed {self.seed}, step {self.failed_at_step}: {self.violation}",
            *self.last_events,
            f"digest {self.digest}",
            f"replay: python -m scale0.simulator --seed {self.seed} --steps {self.steps}",
        ]
        return "\n".join(lines)


def run_seed(seed: int, steps: int) -> Result:
    """Run one world to its end. A violation ends it early and is told in the result; it does not raise."""
    world = World(seed)
    violation = rule = ""
    try:
        for _ in range(steps):
            world.step()
        world.end.run()
    except Violation as found:
        violation, rule = str(found), found.rule
    except AssertionError as found:
        violation, rule = f"assertion: {_where(found)}", "assertion"
    except Exception as found:  # whatever the core raises is a violation, with its seed
        violation, rule = f"{type(found).__name__}: {_where(found)}", "exception"
    return Result(
        seed=seed,
        steps=steps,
        steps_in_all=world.steps_done,
        digest=world.trace.digest(),
        counts=world.counts,
        outcomes=world.promises.outcomes,
        tasks=world.promises.submitted_count,
        faults=world.faults_injected,
        violation=violation,
        rule=rule,
        failed_at_step=world.steps_done,
        last_events=world.trace.last(30, violation) if violation else [],
    )


def run_seeds(seeds: Iterable[int], steps: int, say: Callable[[str], None]) -> tuple[list[Result], str]:
    """Run all, telling of each that fails. Returns the failed ones and a summary."""
    failed: list[Result] = []
    counts: Counter[tuple[str, str]] = Counter()
    outcomes: Counter[str] = Counter()
    started_s = time.perf_counter()
    done = steps_in_all = tasks = faults = 0
    for seed in seeds:
        result = run_seed(seed, steps)
        counts.update(result.counts)
        outcomes.update(result.outcomes)
        done += 1
        steps_in_all += result.steps_in_all
        tasks += result.tasks
        faults += result.faults
        if not result.is_good:
            failed.append(result)
            say(result.report())
        if done % 25 == 0:
            say(f"{done} seeds, {steps_in_all:,} steps, {len(failed)} failed")
    took_s = time.perf_counter() - started_s
    summary = (
        f"{done} seeds, {steps_in_all:,} steps ({steps_in_all / took_s:,.0f}/s), {faults:,} faults, {tasks:,} tasks, "
        f"{len(failed)} violations\noutcomes: {_listing(outcomes)}\n{coverage(counts)}"
    )
    return failed, summary


def coverage(counts: Counter[tuple[str, str]]) -> str:
    """What was exercised, and how often."""
    groups: dict[str, Counter[str]] = {}
    for (group, name), number in sorted(counts.items()):
        groups.setdefault(group, Counter())[name] = number
    return "\n".join(f"{group}: {_listing(members)}" for group, members in groups.items())


def _listing(members: Counter[str]) -> str:
    return " · ".join(f"{name} {number:,}" for name, number in sorted(members.items()))


def _where(error: BaseException) -> str:
    """The error and the innermost lines of the source that raised it."""
    frames: list[str] = []
    at = error.__traceback__
    while at is not None:
        code = at.tb_frame.f_code
        frames.append(f"{code.co_filename.rsplit('scale0/', 1)[-1]}:{at.tb_lineno} {code.co_name}")
        at = at.tb_next
    return f"{error} in {' > '.join(frames[-5:])}"
