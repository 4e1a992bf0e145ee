"""`python -m scale0.simulator`: seeds in this one process, plainly, as a profiler likes it. People use `scale0 sim`.

Seeds below 1,000,000 are worlds whose brokers do not know one another, those from there on are networks.
"""

from __future__ import annotations

import argparse
import sys

from scale0.simulator.profiles import NETWORKS
from scale0.simulator.run import coverage, run_seed, run_seeds
from scale0.simulator.scenario import read_seeds

SEEDS = f"0..100,{NETWORKS}..{NETWORKS + 50}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scale0.simulator", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one, and tell its digest")
    parser.add_argument("--seeds", default=SEEDS, help=f"run these: FIRST..LAST, the last one not included ({SEEDS})")
    parser.add_argument("--steps", type=int, default=1500, help="steps with faults, for each seed (1500)")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        result = run_seed(arguments.seed, arguments.steps)
        print(coverage(result.counts))
        print(result.report() if not result.is_good else f"seed {result.seed} holds, digest {result.digest}")
        return 0 if result.is_good else 1
    failed, summary = run_seeds(read_seeds(arguments.seeds), arguments.steps, lambda line: print(line, flush=True))
    print(summary)
    for result in failed:
        print(f"failed: seed {result.seed}: {result.violation}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
