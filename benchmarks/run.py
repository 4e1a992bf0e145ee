"""All benchmarks, or the named ones: `python benchmarks/run.py [NAME …] [--smoke] [--seconds S] [--repetitions N]`.

Progress goes to stdout while it runs; at the end stand the tables and one verdict line a target, and `out/bench/` holds
`table.md`, `plot.png` and `results.json`. The exit code is 0 when everything could be run, whatever the verdicts are;
with `--strict` a missed target makes it 1.
"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import msgspec

import load
import plot
from measure import Others
from report import Options, Result, Verdict, machine

NAMES = (
    "core_cost",
    "routing",
    "latency",
    "endtoend",
    "workers",
    "idle",
    "restart",
    "forwarding",
    "failover",
    "config_spread",
    "shares",
    "recording",
    "encryption",
    "management",
    "pipeline",
    "freshness",
    "whatif",
)
_QUIET_CORES = 0.1
OUT = Path(__file__).resolve().parent.parent / "out" / "bench"


def main() -> int:
    arguments = _arguments()
    load.is_compiler_used = not arguments.no_compiler
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that children are ended in an orderly way
    started, others = time.monotonic(), Others()
    with tempfile.TemporaryDirectory(prefix="scale0-bench-") as directory:
        options = _options(Path(directory), arguments)
        results, failures = _run(arguments.names or list(NAMES), options)
    text = _text(results, failures, _where(time.monotonic() - started, others.cores()))
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "table.md").write_text(text)
    (arguments.out / "results.json").write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=2))
    has_plot = plot.draw(results, arguments.out / "plot.png")
    print(text)
    drawn = ", plot.png" if has_plot else " (no plot: pip install matplotlib)"
    print(f"written: {arguments.out}/table.md, results.json{drawn}")
    is_missed = any(verdict.is_reached is False for result in results for verdict in result.verdicts)
    return 1 if failures or (arguments.strict and is_missed) else 0


def _run(names: list[str], options: Options) -> tuple[list[Result], list[str]]:
    """A benchmark that fails says so, and the others still run."""
    results, failures = [], []
    for name in names:
        print(f"{name} …", flush=True)
        try:
            results.append(importlib.import_module(name).run(options))
        except Exception as error:
            failures.append(f"{name}: {type(error).__name__}: {error}")
            traceback.print_exc()
    return results, failures


def _where(seconds: float, others_cores: float) -> str:
    """On what it was measured, and how quiet that was."""
    text = ", ".join(f"{key} {value}" for key, value in machine().items())
    text += f"; {seconds:.0f} s. Compare within this run: ratios hold, absolute figures move.\n"
    noise = "quiet" if others_cores < _QUIET_CORES else "not quiet, so costs in µs are too high"
    return f"{text}Other processes used {others_cores:.2f} cores meanwhile: {noise}."


def _text(results: list[Result], failures: list[str], where: str) -> str:
    lines = ["# Benchmarks", "", where, ""]
    lines += [table.markdown() for result in results for table in result.tables]
    verdicts: list[Verdict] = [verdict for result in results for verdict in result.verdicts]
    lines += ["### Verdicts", "", "```", *(verdict.line() for verdict in verdicts)]
    lines += [f"failed   {failure}" for failure in failures]
    reached = sum(verdict.is_reached is True for verdict in verdicts)
    missed = sum(verdict.is_reached is False for verdict in verdicts)
    lines += [
        "```",
        "",
        f"{reached} reached, {missed} missed, {len(verdicts) - reached - missed} open, {len(failures)} failed to run.",
    ]
    return "\n".join(lines) + "\n"


def _options(directory: Path, arguments: argparse.Namespace) -> Options:
    if arguments.smoke:
        return Options(
            directory,
            seconds=0.3,
            warm_up_s=0.1,
            repetitions=1,
            routing_workers=(2,),
            connected_workers=(3, 6),
            heartbeating_workers=(5,),
            restart_workers=5,
            failover_interval_s=0.2,
            failovers=2,
            lost_workers=10,
            spread_workers=30,
            shares_workers=12,
            interval_s=0.5,
            calls=20,
            core_workers=(2, 20),
            core_tasks=500,
            recorded_events=5_000,
            pipeline_events=20_000,
            whatif_tasks=2_000,
            whatif_cells=3,
            fresh_s=8.0,
            page_workers=20,
            page_services=12,
            pages=3,
            page_calls=8,
            handshakes=20,
        )
    chosen = {"pipeline_events": arguments.events} if arguments.events else {}
    return Options(directory, seconds=arguments.seconds, repetitions=arguments.repetitions, **chosen)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Scale0 side by side with its limit and its peers, in one run.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these: {', '.join(NAMES)}")
    parser.add_argument(
        "--smoke", action="store_true", help="tiny sizes: shows that the benchmarks work, measures nothing"
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one measuring window (2)")
    parser.add_argument(
        "--repetitions", type=int, default=3, help="interleaved repetitions, of which the median counts (3)"
    )
    parser.add_argument("--events", type=int, default=0, help="events that the data pipeline is given (10,000,000)")
    parser.add_argument(
        "--out", type=Path, default=OUT, help="where table.md, plot.png and results.json go (out/bench)"
    )
    parser.add_argument("--no-compiler", action="store_true", help="use the load generator in Python, not the one in C")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a target is missed")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in NAMES]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]}; there are {', '.join(NAMES)}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
