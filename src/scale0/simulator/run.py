"""Running scenarios: one, to see it; many, to look for the one that fails.

A run ends with its result, never with an exception: a broken rule, a failed assertion of the core and whatever else it
raises are all violations, told with the seed and the step.
"""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from scale0.simulator import collector
from scale0.simulator.scenario import Scenario
from scale0.simulator.schedule import START_S
from scale0.simulator.timeline import Recorder
from scale0.simulator.trace import Trace
from scale0.simulator.world import Violation, World

LOOK_STEPS = 2000  # between two looks
LAST_EVENTS = 30  # told of a violation, beside those that name its task
Look = Callable[[World], None]


class Result(msgspec.Struct):
    """One run."""

    scenario: Scenario
    steps_in_all: int  # with those after healing
    digest: str
    counts: dict[tuple[str, str], int]  # what was exercised: group and name
    outcomes: dict[str, int]  # at the clients: a code, or how the handler ended
    tasks: int
    faults: int
    virtual_s: float
    took_s: float
    violation: str = ""
    rule: str = ""
    failed_at_step: int = 0
    last_events: list[str] = []
    is_interrupted: bool = False

    @property
    def seed(self) -> int:
        return self.scenario.seed

    @property
    def steps(self) -> int:
        """With faults, as asked for."""
        return self.scenario.steps

    @property
    def is_good(self) -> bool:
        return not self.violation

    def report(self) -> str:
        """A violation, with what came before it and how to see it again."""
        lines = [
            f"seed {self.seed}, step {self.failed_at_step}: {self.violation}",
            *self.last_events,
            f"digest {self.digest}",
            f"replay: {self.scenario.command()}",
        ]
        return "\n".join(lines)


def run_seed(seed: int, steps: int) -> Result:
    """Run the world that this seed makes."""
    return run(Scenario(seed, steps))


def run(scenario: Scenario, trace: Trace | None = None, look: Look | None = None) -> Result:
    """Run one world to its end, or to its first violation. `look` is called now and then."""
    with collector.at_rest():
        return _run(scenario, trace, look)


def _run(scenario: Scenario, trace: Trace | None, look: Look | None) -> Result:
    began_s = time.perf_counter()
    world = World(scenario.seed, scenario.profile(), trace)
    if isinstance(trace, Recorder):
        trace.world = world
    steps, end_s = (sys.maxsize, START_S + scenario.hours * 3600) if scenario.hours else (scenario.steps, math.inf)
    ending = play(world, steps, end_s, look)
    for host in world.hosts:
        host.let_go()
    return Result(
        scenario=scenario,
        steps_in_all=world.steps_done,
        digest=world.trace.digest(),
        counts=dict(world.counts),
        outcomes=dict(world.promises.outcomes),
        tasks=world.promises.submitted_count,
        faults=world.faults_injected,
        virtual_s=world.schedule.now - START_S,
        took_s=time.perf_counter() - began_s,
        violation=ending.violation,
        rule=ending.rule,
        failed_at_step=world.steps_done,
        last_events=world.trace.last(LAST_EVENTS, ending.violation) if ending.violation else [],
        is_interrupted=ending.is_interrupted,
    )


class Ending(msgspec.Struct):
    """How a run ended; well, if it says nothing."""

    violation: str = ""
    rule: str = ""
    is_interrupted: bool = False


def play(world: World, steps: int, end_s: float, look: Look | None = None) -> Ending:
    """Trouble for so many steps, or until that time; then healing and what must hold after it."""
    try:
        goes_on = True
        while goes_on and world.steps_done < steps:
            goes_on = world.run(min(world.steps_done + LOOK_STEPS, steps), end_s)
            if look is not None:
                look(world)
        world.end.run()
    except Violation as found:
        return Ending(str(found), found.rule)
    except AssertionError as found:
        return Ending(f"assertion: {_where(found)}", "assertion")
    except Exception as found:  # whatever the core raises is a violation, with its seed
        return Ending(f"{type(found).__name__}: {_where(found)}", "exception")
    except KeyboardInterrupt:
        return Ending(is_interrupted=True)
    return Ending()


class Sum(msgspec.Struct):
    """What many runs come to."""

    seeds: int = 0
    steps: int = 0
    tasks: int = 0
    faults: int = 0
    virtual_s: float = 0.0
    cpu_s: float = 0.0  # that the runs took, over all processes
    counts: dict[tuple[str, str], int] = {}
    outcomes: dict[str, int] = {}
    failed: list[Result] = []

    def add(self, result: Result) -> None:
        self.seeds += 1
        self.steps += result.steps_in_all
        self.tasks += result.tasks
        self.faults += result.faults
        self.virtual_s += result.virtual_s
        self.cpu_s += result.took_s
        for key, number in result.counts.items():
            self.counts[key] = self.counts.get(key, 0) + number
        for name, number in result.outcomes.items():
            self.outcomes[name] = self.outcomes.get(name, 0) + number
        if not result.is_good:
            self.failed.append(result)


def run_seeds(seeds: Iterable[int], steps: int, say: Callable[[str], None]) -> tuple[list[Result], str]:
    """Run all, telling of each that fails. Returns the failed ones and a summary."""
    total = Sum()
    for seed in seeds:
        result = run_seed(seed, steps)
        total.add(result)
        if not result.is_good:
            say(result.report())
        if total.seeds % 25 == 0:
            say(f"{total.seeds} seeds, {total.steps:,} steps, {len(total.failed)} failed")
    rate = total.steps / total.cpu_s if total.cpu_s else 0.0
    summary = (
        f"{total.seeds} seeds, {total.steps:,} steps ({rate:,.0f}/s), {total.faults:,} faults, {total.tasks:,} tasks, "
        f"{len(total.failed)} violations\noutcomes: {_listing(total.outcomes)}\n{coverage(total.counts)}"
    )
    return total.failed, summary


def coverage(counts: dict[tuple[str, str], int]) -> str:
    """What was exercised, and how often."""
    groups: dict[str, Counter[str]] = {}
    for (group, name), number in sorted(counts.items()):
        groups.setdefault(group, Counter())[name] = number
    return "\n".join(f"{group}: {_listing(members)}" for group, members in groups.items())


def _listing(members: dict[str, int]) -> str:
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
