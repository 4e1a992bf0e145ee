"""`python -m tests.chaos`: real faults, many cycles, and a summary; or, with --pipeline, kills of the pipeline.

Exit code 0: everything held; 1: a breach.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.chaos import disks, topologies
from tests.chaos.faults import FAULTS
from tests.chaos.plan import make_plan
from tests.chaos.run import ChaosRun, say

if TYPE_CHECKING:
    from tests.chaos.pipeline_run import PipelineRun

CYCLES = 500
FOR_S = 3_600.0
OUT = Path("out") / "chaos"


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    known = topologies.available()
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--cycles", type=int, default=CYCLES, help=f"how many faults; {CYCLES} by default")
    parser.add_argument("--seed", type=int, help="which faults in which order; any by default, and it is told")
    parser.add_argument("--faults", default="", metavar="NAME,…", help=f"only these: {', '.join(FAULTS)}")
    parser.add_argument("--topologies", default=",".join(known), metavar="NAME,…", help=f"of {', '.join(known)}")
    parser.add_argument("--for", dest="for_s", type=float, default=FOR_S, metavar="S", help="no new cycle after this")
    parser.add_argument("--interval", type=float, default=topologies.INTERVAL_S, metavar="S", help="of heartbeats")
    parser.add_argument("--untimed", action="store_true", help="measure times, and judge none: the machine is busy")
    parser.add_argument("--pipeline", type=int, metavar="N", help="kill the pipeline so often, and break nothing else")
    parser.add_argument("--keep", action="store_true", help="keep the logs even if everything held")
    parser.add_argument("--out", type=Path, default=OUT, help=f"where logs go; {OUT} by default")
    told = parser.parse_args(arguments)
    told.faults = [name for name in told.faults.split(",") if name]
    told.topologies = [name for name in told.topologies.split(",") if name]
    for name in told.faults:
        if name not in FAULTS:
            parser.error(f"there is no fault {name!r}; there are {', '.join(FAULTS)}")
    for name in told.topologies:
        if name not in known:
            parser.error(f"there is no topology {name!r}; there are {', '.join(known)}")
    if told.cycles < 1 or told.for_s <= 0 or told.interval <= 0 or (told.pipeline is not None and told.pipeline < 1):
        parser.error("--cycles, --for, --interval and --pipeline are above zero")
    return told


def main(arguments: list[str]) -> int:
    told = read_arguments(arguments)
    seed = told.seed if told.seed is not None else random.SystemRandom().randrange(10**6)
    if told.pipeline is not None:
        from tests.chaos.pipeline_run import PipelineRun  # which needs the extra `pipeline`

        directory = make_directory(told.out, seed)
        say(f"{told.pipeline} kills of the pipeline, seed {seed}\n")
        return play(PipelineRun(told.pipeline, directory, seed, sys.stdout), directory, is_kept=told.keep)
    disks.enter_own_space(arguments)
    chosen = [topologies.available()[name] for name in told.topologies]
    has_disks = disks.SPACE in os.environ
    plan = make_plan(seed, told.cycles, chosen, told.faults, has_disks=has_disks)
    if not plan:
        print(f"error: none of {', '.join(told.faults)} fits {', '.join(told.topologies)}", file=sys.stderr)
        return 2
    without = "" if has_disks else "; no mount namespace here, so no read-only disk"
    say(f"{len(plan)} cycles, seed {seed}, topologies {', '.join(told.topologies)}{without}\n")
    directory = make_directory(told.out, seed)
    timing = {"interval_s": told.interval, "is_timed": not told.untimed, "limit_s": told.for_s}
    return play(ChaosRun(plan, directory, **timing, out=sys.stdout), directory, is_kept=told.keep)


def make_directory(out: Path, seed: int) -> Path:
    directory = (out / f"seed-{seed}-{time.strftime('%H%M%S')}").resolve()
    directory.mkdir(parents=True)
    return directory


def play(run: ChaosRun | PipelineRun, directory: Path, *, is_kept: bool) -> int:
    """The run, its summary, and what is left of it on disk. The exit code."""
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))  # both end it in order
    try:
        run.run()
    except KeyboardInterrupt:
        run.breaches.append("interrupted")
    say(run.report())
    if run.breaches or is_kept:
        say(f"logs and journals: {directory}\n")
    else:
        shutil.rmtree(directory)
    return 1 if run.breaches else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
