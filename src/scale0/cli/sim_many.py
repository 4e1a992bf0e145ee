"""Many seeds on all cores: for so long, or until they are done, or until Ctrl-C. What failed is told at once.

SIGTERM ends it as Ctrl-C does, with the sums so far: a shell that runs it in the background keeps Ctrl-C from it.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import msgspec

from scale0.cli import render
from scale0.cli.sim_progress import Progress
from scale0.cli.views import count
from scale0.errors import UsageError
from scale0.simulator.lanes import Lanes
from scale0.simulator.run import Result, Sum
from scale0.simulator.scenario import Scenario, Seeds

FAILURES_TOLD_MAX = 20  # in full; of more only their number


class Wanted(msgspec.Struct):
    """What to run."""

    seeds: Seeds
    scenario: Scenario  # of which each run has another seed
    time_s: float | None  # None: until the seeds are done
    jobs: int


class Done(msgspec.Struct):
    """What came of it."""

    sum: Sum
    took_s: float
    jobs: int
    is_interrupted: bool = False
    left_out: int = 0  # seeds whose world cannot be as the options want it


def run(wanted: Wanted, progress: Progress) -> Done:
    """Run them, and say how far it is."""
    began_s = time.monotonic()
    done = Done(Sum(), 0.0, wanted.jobs)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Lanes(wanted.jobs) as lanes:
            for result in lanes.results(_scenarios(wanted, began_s, done)):
                if result is not None and result.is_interrupted:
                    done.is_interrupted = True
                    break
                if result is not None:
                    _take(result, done, progress)
                done.took_s = time.monotonic() - began_s
                progress.say(how_far(wanted, done))
    except KeyboardInterrupt:
        done.is_interrupted = True
    finally:
        signal.signal(signal.SIGTERM, before)
    done.took_s = time.monotonic() - began_s
    return done


def _scenarios(wanted: Wanted, began_s: float, done: Done) -> Iterator[Scenario]:
    for seed in wanted.seeds:
        if wanted.time_s is not None and time.monotonic() - began_s >= wanted.time_s:
            return
        scenario = msgspec.structs.replace(wanted.scenario, seed=seed)
        try:
            scenario.profile()
        except UsageError:
            if not done.sum.seeds and not done.left_out:
                raise  # most likely none of them can be
            done.left_out += 1
            continue
        yield scenario


def _take(result: Result, done: Done, progress: Progress) -> None:
    done.sum.add(result)
    if not result.is_good and len(done.sum.failed) <= FAILURES_TOLD_MAX:
        where = f"seed {result.seed}, step {result.failed_at_step}"
        progress.tell(render.verdict("bad", f"{where}: {render.safe(result.violation)}"))
        progress.tell(f"  replay: {result.scenario.command()}")


def how_far(wanted: Wanted, done: Done) -> str:
    """The line that is shown meanwhile."""
    total, number = done.sum, wanted.seeds.number
    of = f" of {number:,}" if number is not None else ""
    rate = total.steps / done.took_s if done.took_s else 0.0
    figures = [
        f"{total.seeds:,}{of} seeds",
        f"{rate:,.0f} steps/s",
        count(total.faults, "fault"),
        count(len(total.failed), "violation"),
        _left(wanted, done),
    ]
    return " · ".join(figures)


def _left(wanted: Wanted, done: Done) -> str:
    """How long it still takes."""
    left_s: float | None = None
    if wanted.seeds.number is not None and done.sum.seeds:
        left_s = done.took_s / done.sum.seeds * (wanted.seeds.number - done.sum.seeds)
    if wanted.time_s is not None:
        left_s = min(left_s if left_s is not None else wanted.time_s, wanted.time_s - done.took_s)
    return "until Ctrl-C" if left_s is None else f"{clock(max(0.0, left_s))} left"


def clock(seconds: float) -> str:
    """Minutes and seconds, and hours if there are any."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
