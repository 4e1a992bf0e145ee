"""`scale0 sim`: its options, as they are typed. `sim_command.py` has the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scale0.cli.options import AsJson, leave, reader

WORLD, RUNS, OUTPUT = "The world", "How much", "What to show"

Seed = Annotated[int | None, typer.Option(min=0, metavar="N", help="The world that this seed makes, once.")]
SeedRanges = Annotated[
    str | None, typer.Option("--seeds", metavar="A..B", help="Many: 0..1000 ends before 1000; 5000.. has no end.")
]
Brokers = Annotated[
    int | None, typer.Option(min=1, max=9, help="So many, in one group; 1 is a broker alone.", rich_help_panel=WORLD)
]
Fallbacks = Annotated[
    int | None, typer.Option(min=0, max=9, help="So many of them have a fallback broker.", rich_help_panel=WORLD)
]
Workers = Annotated[int | None, typer.Option(min=1, max=500, help="So many workers.", rich_help_panel=WORLD)]
Clients = Annotated[int | None, typer.Option(min=1, max=500, help="So many clients.", rich_help_panel=WORLD)]
Faults = Annotated[
    str | None,
    typer.Option(metavar="KINDS", help="Kinds of faults with commas, all, none, or list.", rich_help_panel=WORLD),
]
OnlyFaults = Annotated[
    str | None,
    typer.Option(
        "--only-faults",
        metavar="NUMBERS",
        help="Of the faults only these, by number: 3,7-9.",
        rich_help_panel=WORLD,
    ),
]
Without = Annotated[
    str | None,
    typer.Option(metavar="GUESTS", help="Leave out majordomo, req, nuisances, twins.", rich_help_panel=WORLD),
]
Steps = Annotated[
    int | None, typer.Option(min=0, help="Steps with faults, for each seed.", show_default="3000", rich_help_panel=RUNS)
]
Hours = Annotated[
    float | None,
    typer.Option(min=0.001, help="Hours of virtual time with faults, instead of steps.", rich_help_panel=RUNS),
]
For = Annotated[
    str | None,
    typer.Option("--for", metavar="TIME", help="Seed after seed for so long: 90s, 10m, 8h.", rich_help_panel=RUNS),
]
Jobs = Annotated[
    int | None, typer.Option(min=1, max=256, help="Processes for many seeds; all cores.", rich_help_panel=RUNS)
]
Shrinking = Annotated[
    float,
    typer.Option(
        "--shrink", min=0.0, metavar="SECONDS", help="How long to look for a shorter trace; 0: not at all.",
        rich_help_panel=RUNS,
    ),
]  # fmt: skip
TraceFile = Annotated[
    Path | None, typer.Option("--trace", metavar="FILE", help="Write every message there.", rich_help_panel=OUTPUT)
]
Timeline = Annotated[
    int, typer.Option(min=0, metavar="N", help="Faults to show at most; the last ones.", rich_help_panel=OUTPUT)
]
Coverage = Annotated[bool, typer.Option("--coverage", help="The coverage table, line by line.", rich_help_panel=OUTPUT)]
RequireCoverage = Annotated[
    bool,
    typer.Option("--require-coverage", help="Exit with 5 if something was never exercised.", rich_help_panel=OUTPUT),
]


def sim(
    seed: Seed = None,
    seeds: SeedRanges = None,
    brokers: Brokers = None,
    fallbacks: Fallbacks = None,
    workers: Workers = None,
    clients: Clients = None,
    faults: Faults = None,
    only_faults: OnlyFaults = None,
    without: Without = None,
    steps: Steps = None,
    hours: Hours = None,
    for_: For = None,
    jobs: Jobs = None,
    shrink_s: Shrinking = 30.0,
    trace: TraceFile = None,
    timeline: Timeline = 25,
    is_showing_coverage: Coverage = False,
    is_requiring_coverage: RequireCoverage = False,
    is_json: AsJson = False,
) -> None:
    """A whole network in one process, in virtual time, with faults: does every promise hold?

    The same options give the same run, to the byte. Of a broken rule you see the shortest trace that was found.

    \b
      scale0 sim --seed 7                              one broker
      scale0 sim --brokers 3 --fallbacks 1 --hours 2   a network, for two hours
      scale0 sim --brokers 2 --faults broker-crashes,network-is-parted
      scale0 sim --faults list                         which kinds there are
      scale0 sim --seed 7 --trace messages.txt         every message, in order
      scale0 sim --for 10m                             many, on all cores
      scale0 sim --seeds 0..1000 --coverage            and what they exercised
    """
    from scale0.cli import sim_command
    from scale0.cli.render import Page

    options = sim_command.Options(
        seed=seed,
        seeds=seeds,
        brokers=brokers,
        fallbacks=fallbacks,
        workers=workers,
        clients=clients,
        faults=faults,
        only_faults=only_faults,
        without=without,
        steps=steps,
        hours=hours,
        for_=for_,
        jobs=jobs,
        shrink_s=shrink_s,
        trace=trace,
        timeline=timeline,
        is_showing_coverage=is_showing_coverage,
        is_requiring_coverage=is_requiring_coverage,
        is_json=is_json,
    )
    with reader():
        leave(sim_command.run(options, Page()))
