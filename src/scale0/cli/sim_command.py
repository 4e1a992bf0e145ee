"""The engine of `scale0 sim`: from options to scenarios, and from results to what is shown.

One seed is run in this process and shown as a story. Many are run on all cores (`sim_many.py`) and shown as sums. In
both cases the first line is the verdict, and a broken rule ends in the shortest run that breaks it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import msgspec

from scale0.cli import sim_json, sim_many, sim_view
from scale0.cli.failures import Exit
from scale0.cli.render import Page
from scale0.cli.sim_progress import Progress
from scale0.errors import UsageError
from scale0.simulator import coverage_table
from scale0.simulator.lanes import cores
from scale0.simulator.profiles import NETWORKS, PAIRS
from scale0.simulator.run import Result
from scale0.simulator.run import run as run_scenario
from scale0.simulator.scenario import STEPS, Scenario, Seeds, read_guests, read_kinds, read_numbers, read_seeds
from scale0.simulator.schedule import START_S
from scale0.simulator.shrink import Shrunk, shrink
from scale0.simulator.timeline import Recorder, Strike
from scale0.simulator.world import World

DEFAULT_SEED = NETWORKS + 2  # a network, and a rough one
EVERYTHING = f"0..,{NETWORKS}..,{PAIRS}.."
UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Options(msgspec.Struct, kw_only=True):
    """The command line. None was not given."""

    seed: int | None = None
    seeds: str | None = None
    brokers: int | None = None
    fallbacks: int | None = None
    workers: int | None = None
    clients: int | None = None
    faults: str | None = None
    only_faults: str | None = None
    without: str | None = None
    steps: int | None = None
    hours: float | None = None
    for_: str | None = None
    jobs: int | None = None
    shrink_s: float = 30.0
    trace: Path | None = None
    timeline: int = 25
    is_showing_coverage: bool = False
    is_requiring_coverage: bool = False
    is_json: bool = False

    @property
    def is_many(self) -> bool:
        return self.seeds is not None or self.for_ is not None


def run(options: Options, page: Page) -> Exit:
    """Carry out the command."""
    if options.faults == "list":
        page.lines(sim_view.kinds())
        return Exit.GOOD
    scenario = scenario_of(options)
    if not options.is_many:
        scenario.profile()  # what cannot be is told before anything runs
        return _one(scenario, options, page)
    if options.trace is not None or options.only_faults is not None:
        what = "--trace and --only-faults are about one run"
        raise UsageError(f"{what}\nname its seed: --seed N, without --seeds and --for")
    wanted = sim_many.Wanted(
        seeds=seeds_of(options),
        scenario=scenario,
        time_s=duration_s(options.for_) if options.for_ is not None else None,
        jobs=options.jobs or cores(),
    )
    return _many(wanted, options, page)


def scenario_of(options: Options) -> Scenario:
    """What the options ask for; many seeds are put in later."""
    if options.hours is not None and options.steps is not None:
        raise UsageError("--hours and --steps both say how long faults go on\nchoose one of them")
    return Scenario(
        seed=DEFAULT_SEED if options.seed is None else options.seed,
        steps=STEPS if options.steps is None else options.steps,
        hours=options.hours or 0.0,
        brokers=options.brokers,
        fallbacks=options.fallbacks,
        workers=options.workers,
        clients=options.clients,
        faults=read_kinds(options.faults) if options.faults is not None else None,
        strikes=read_numbers(options.only_faults) if options.only_faults is not None else None,
        without=read_guests(options.without) if options.without is not None else (),
    )


def seeds_of(options: Options) -> Seeds:
    if options.seed is not None:
        raise UsageError("--seed is one run, --seeds and --for are many\nchoose one of them")
    return read_seeds(options.seeds or EVERYTHING)


def duration_s(text: str) -> float:
    """`90s`, `10m`, `1.5h`; a number alone means seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text.strip())
    if found is None:
        raise UsageError(f"{text!r} is no length of time\nwrite 90s, 10m, or 8h")
    return float(found[1]) * UNITS_S[found[2] or "s"]


# --- one seed -----------------------------------------------------------------------------------------------------


def _one(scenario: Scenario, options: Options, page: Page) -> Exit:
    with _trace_file(options.trace) as file, Progress(page, is_quiet=options.is_json) as progress:
        recorder = Recorder(file)
        result = run_scenario(scenario, recorder, lambda world: progress.say(_how_far(world, scenario)))
        strikes = recorder.finish()
    found = None
    if not options.is_json:
        page.lines(sim_view.story(result, strikes, options.timeline))
    if not result.is_good:
        found = _shrunk(result, options, page)
    if options.is_json:
        _write_json(page, sim_json.one(result, strikes, found))
    elif found is not None:
        page.lines(sim_view.shortest(*found, options.timeline))
    if result.is_interrupted:
        return Exit.INTERRUPTED
    return Exit.GOOD if result.is_good else Exit.VIOLATED


def _shrunk(result: Result, options: Options, page: Page) -> tuple[Shrunk, list[Strike]]:
    """The shortest run that breaks the same rule, and its timeline."""
    with Progress(page, is_quiet=options.is_json) as progress:
        shrunk = shrink(result, options.shrink_s, lambda line: progress.say(f"looking for a shorter trace: {line}"))
    recorder = Recorder()
    run_scenario(shrunk.result.scenario, recorder)
    return shrunk, recorder.finish()


def _how_far(world: World, scenario: Scenario) -> str:
    now_s = world.schedule.now - START_S
    share = now_s / (scenario.hours * 3600) if scenario.hours else world.steps_done / max(1, scenario.steps)
    return f"{share:4.0%}  {world.steps_done:,} steps, {now_s:,.0f} s of virtual time, {world.faults_injected:,} faults"


@contextlib.contextmanager
def _trace_file(path: Path | None) -> Iterator[TextIO | None]:
    if path is None:
        yield None
        return
    try:
        file = path.open("w", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}\nname another file: --trace FILE") from None
    with file:
        yield file


# --- many ---------------------------------------------------------------------------------------------------------


def _many(wanted: sim_many.Wanted, options: Options, page: Page) -> Exit:
    with Progress(page, is_quiet=options.is_json) as progress:
        done = sim_many.run(wanted, progress)
    missed = coverage_table.missed(done.sum.counts)
    found = None
    if not options.is_json:
        page.lines(sim_view.sums(done))
        page.lines(sim_view.coverage(done.sum.counts, is_whole=options.is_showing_coverage))
    if done.sum.failed:
        first = min(done.sum.failed, key=lambda result: (result.failed_at_step, result.seed))
        found = _shrunk(first, options, page)
    if options.is_json:
        _write_json(page, sim_json.many(done, found))
    elif found is not None:
        page.lines(sim_view.shortest(*found, options.timeline))
    if done.sum.failed:
        return Exit.VIOLATED
    if done.is_interrupted:
        return Exit.INTERRUPTED
    return Exit.PARTIAL if missed and options.is_requiring_coverage else Exit.GOOD


def _write_json(page: Page, document: dict[str, Any]) -> None:
    page.file.write(msgspec.json.encode(document).decode() + "\n")
