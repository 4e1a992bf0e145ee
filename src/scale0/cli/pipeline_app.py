"""`scale0 pipeline`: what brokers recorded becomes tables, reports and advice. `pipeline_command.py` has the engine.

The pipeline is an extra. Nothing here imports it before a command needs it, and where it is missing the command says
how to add it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from scale0.cli.options import DEFAULT_BROKER, AsJson, AuthFile, BrokerAddress, Timeout, keyed, leave, reader

TABLES, LOOK, BRING, OPERATE = "Tables", "Look", "Bring in", "Operate"

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="""
Trends, reports and advice from what brokers recorded, on Spark.

\b
  [bold]scale0 broker --telemetry[/bold]          a broker that records every task
  [bold]scale0 pipeline run --once[/bold]         makes tables of what is recorded
  [bold]scale0 pipeline report[/bold]             one page that tells what happened
  [bold]scale0 why TASK[/bold]                    the life of one task
\b
Does it not start? [bold]scale0 pipeline doctor[/bold] says what is missing.
""",
)

Data = Annotated[
    str | None,
    typer.Option(
        "--data",
        "-d",
        envvar="SCALE0_DATA",
        metavar="URL",
        help="Where segments and tables lie: a directory, or a URL.",
        show_default="$XDG_STATE_HOME/scale0/data",
    ),
]
Master = Annotated[
    str, typer.Option(envvar="SCALE0_SPARK", metavar="MASTER", help="Spark's master: spark://host:port.")
]
Since = Annotated[
    str | None, typer.Option(metavar="TIME", help="From then on: 24h, 7d, 2026-03-01 or 2026-03-01T14:00 (UTC).")
]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Up to then, written alike.", show_default="now")]


@app.command(rich_help_panel=TABLES)
def run(
    data: Data = None,
    master: Master = "local[*]",
    is_once: Annotated[bool, typer.Option("--once", help="Catch up with what is recorded, and end.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="How often to look for more.")] = 2.0,
    is_json: AsJson = False,
) -> None:
    """Keep the tables fresh, until Ctrl-C; or with --once, catch up and end.

    One pipeline writes at a time: a second one ends at once, and names the first. Where it stopped or was killed, the
    next one goes on: every row is counted once.
    """
    from scale0.cli import pipeline_command

    with reader():
        leave(pipeline_command.run(data, master, None if is_once else interval, is_json))


@app.command(rich_help_panel=TABLES)
def backfill(
    day: Annotated[str, typer.Option(metavar="DATE", help="The day, in UTC: 2026-03-01.")],
    data: Data = None,
    master: Master = "local[*]",
    is_json: AsJson = False,
) -> None:
    """Make one day of every table anew from its segments; a running pipeline goes on meanwhile."""
    from scale0.cli import pipeline_command

    leave(pipeline_command.backfill(data, master, day, is_json))


@app.command(rich_help_panel=TABLES)
def compact(data: Data = None, master: Master = "local[*]", is_json: AsJson = False) -> None:
    """Merge small files of the tables, and delete those that nobody reads any more."""
    from scale0.cli import pipeline_command

    leave(pipeline_command.compact(data, master, is_json))


@app.command(rich_help_panel=LOOK)
def report(
    data: Data = None,
    since: Since = None,
    until: Until = None,
    out: Annotated[Path, typer.Option("--out", "-o", dir_okay=False, help="The page to write.")] = Path("report.html"),
    is_json: AsJson = False,
) -> None:
    """One page that tells what happened: verdict, trends, latencies, fail-overs, capacity, cost.

    It needs no network to be read and no Spark to be written: the tables are read as they are, so run the pipeline
    first. Without --since it tells of all that is recorded.
    """
    from scale0.cli import pipeline_command

    leave(pipeline_command.report(data, since, until, out, is_json))


@app.command(rich_help_panel=LOOK)
def whatif(
    service: Annotated[str, typer.Option(metavar="NAME", help="The service.")],
    workers: Annotated[str, typer.Option(metavar="RANGE", help="How many workers: 2..40, 2..40..2 or 1,2,4,8.")],
    policy: Annotated[
        str, typer.Option(metavar="NAME", help="Who gets the next task: lru, random, round_robin …")
    ] = "lru",
    slots: Annotated[
        int | None, typer.Option(min=1, help="Tasks that a worker does at once.", show_default="as recorded")
    ] = None,
    data: Data = None,
    since: Since = None,
    until: Until = None,
    master: Master = "local[*]",
    is_json: AsJson = False,
) -> None:
    """Replay recorded tasks with more workers, or fewer: the curve of latency and cost.

    The tasks of the busiest hour of the last week, or of the hours between --since and --until, go through the real
    routing, once for each number of workers. The method is checked on another day, and the error is printed.

    \b
      scale0 pipeline whatif --service render --workers 2..40
      scale0 pipeline whatif --service render --workers 8 --policy random
    """
    from scale0.cli import pipeline_command

    with reader():
        leave(pipeline_command.whatif(data, service, workers, policy, slots, (since, until), master, is_json))


@app.command(rich_help_panel=BRING)
@keyed
def collect(
    broker: BrokerAddress = DEFAULT_BROKER,
    data: Data = None,
    auth_file: AuthFile = None,
    timeout: Timeout = 60.0,
    is_json: AsJson = False,
) -> None:
    """Fetch what the brokers of a network recorded, where they share no storage with the pipeline.

    It asks every broker of the network that can be reached, and takes what is missing here; what was fetched before is
    not fetched again. Needs the management password.
    """
    from scale0.cli import pipeline_command

    leave(pipeline_command.collect(data, broker, auth_file, timeout, is_json))


@app.command("import", rich_help_panel=BRING)
def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="JSON lines, one event each: columns as in docs/telemetry.md.")
    ],
    data: Data = None,
    master: Master = "local[*]",
    is_json: AsJson = False,
) -> None:
    """Bring in events from a file of JSON lines. Lines that are none go to quarantine; the same file counts once."""
    from scale0.cli import pipeline_command

    leave(pipeline_command.import_lines(data, master, file, is_json))


@app.command(rich_help_panel=BRING)
def generate(
    data: Data = None,
    events: Annotated[str, typer.Option(metavar="N", help="How many tasks: 50000, 200k, 10M.")] = "100k",
    days: Annotated[int, typer.Option(min=1, max=400, help="Over so many days before today.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="The same seed makes the same days.")] = 1,
    is_calm: Annotated[bool, typer.Option("--calm", help="No incidents, fail-overs or lost rows.")] = False,
    is_json: AsJson = False,
) -> None:
    """Make up realistic days to try things on: load that rises and falls, incidents, fail-overs, late and lost rows."""
    from scale0.cli import pipeline_command

    leave(pipeline_command.generate(data, events, days, seed, not is_calm, is_json))


@app.command(rich_help_panel=OPERATE)
def doctor(data: Data = None, master: Master = "local[*]", is_json: AsJson = False) -> None:
    """Check Java, versions, jars, paths and the lease, and say how to mend what is wrong."""
    from scale0.cli import pipeline_command

    leave(pipeline_command.doctor(data, master, is_json))


@app.command(rich_help_panel=OPERATE)
@keyed
def hints(
    broker: BrokerAddress = DEFAULT_BROKER,
    data: Data = None,
    mode: Annotated[
        Literal["off", "shadow", "advise", "enforce"], typer.Option(help="What brokers do with them.")
    ] = "shadow",
    is_sending: Annotated[
        bool, typer.Option("--send", help="Send them to the broker; else they are only shown.")
    ] = False,
    auth_file: AuthFile = None,
    timeout: Timeout = 10.0,
    is_json: AsJson = False,
) -> None:
    """Show the advice that the tables hold, with its evidence; with --send, give it to a broker.

    Advice is bounded and expires: without a new one brokers go back to plain least recently used. In shadow, the
    default, a broker only notes what it would have done.
    """
    from scale0.cli import pipeline_command

    leave(pipeline_command.hints(data, broker, mode, is_sending, auth_file, timeout, is_json))


def why(
    task: Annotated[str, typer.Argument(metavar="TASK", help="A task's id, or the beginning of one.")],
    data: Data = None,
    is_json: AsJson = False,
) -> None:
    """What became of one task: where it waited, who was free, its attempts, and when, with error bars.

    It is told from what brokers recorded (scale0 broker --telemetry). The beginning of an id is enough if there is only
    one such task.
    """
    from scale0.cli import pipeline_command

    with reader():
        leave(pipeline_command.why(data, task, is_json))
