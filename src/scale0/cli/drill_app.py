"""`scale0 drill`: what can be typed. Each command reads the network, makes a plan, asks, and lets `drill.py` run it.

A drill is for the brave and the careful alike: `--dry-run` shows the plan and does nothing; before a process or a link
of somebody's network is touched, its name must be typed, or `--yes` be given.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import msgspec
import typer

from scale0.cli.options import DEFAULT_BROKER, AsJson, AuthFile, BrokerAddress, addresses, keyed, leave, reader
from scale0.errors import UsageError

if TYPE_CHECKING:
    from scale0.cli.drill import Terms
    from scale0.cli.drill_faults import Fault
    from scale0.cli.drill_plan import Plan, Survey

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="""
Break something on purpose, and account for every task that was in flight.

\b
  [bold]scale0 drill kill-worker[/bold]                   a worker of its own
  [bold]scale0 drill kill-broker eu-2 --dry-run[/bold]    what would happen?
  [bold]scale0 drill kill-broker eu-2 --abort-if 'errors>5%'[/bold]
  [bold]scale0 drill partition eu-1 eu-2 --for 10s[/bold]
""",
    epilog="Exit codes: 0 nothing lost and recovered, 1 not so, 6 aborted by a condition, 130 by Ctrl-C.",
)

Signal = Annotated[Literal["KILL", "TERM", "STOP"], typer.Option(help="STOP pauses it for a while: see --for.")]
For = Annotated[str, typer.Option("--for", metavar="TIME", help="How long it lasts, before it is mended.")]
AbortIf = Annotated[
    list[str] | None,
    typer.Option("--abort-if", metavar="CONDITION", help="'errors>5%', 'lost>0', 'p99>2s', 'recovery>20s'; repeat it."),
]
Service = Annotated[
    str | None, typer.Option("--service", metavar="NAME", help="Send to this service, not to the drill's own.")
]
Body = Annotated[str | None, typer.Option("--body", metavar="JSON", help="Its argument, as for scale0 call.")]
Rate = Annotated[str, typer.Option("--rate", metavar="RATE", help="Tasks per second.")]
TaskTimeout = Annotated[str, typer.Option("--timeout", "-t", metavar="TIME", help="How long each task may take.")]
Workers = Annotated[int, typer.Option(min=1, max=64, help="Of the drill's own service.")]
Work = Annotated[str, typer.Option("--work", metavar="TIME", help="How long a task of the drill's own service takes.")]
Idempotent = Annotated[bool, typer.Option("--idempotent/--not-idempotent", help="Whether that service may be retried.")]
Before = Annotated[str, typer.Option("--before", metavar="TIME", help="How long the load runs before the fault.")]
After = Annotated[str, typer.Option("--after", metavar="TIME", help="How long it runs on when all is well again.")]
Limit = Annotated[str, typer.Option("--limit", metavar="TIME", help="How long recovery may take at most.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan, and do nothing.")]


class Typed(msgspec.Struct, frozen=True):
    """The options that all drills share, as they were typed."""

    broker: BrokerAddress = DEFAULT_BROKER
    service: Service = None
    body: Body = None
    rate: Rate = "200/s"
    timeout: TaskTimeout = "10s"
    workers: Workers = 2
    work: Work = "50ms"
    is_idempotent: Idempotent = True
    before: Before = "3s"
    after: After = "3s"
    limit: Limit = "60s"
    abort_if: AbortIf = None
    is_yes: Yes = False
    is_dry: DryRun = False
    is_json: AsJson = False

    def terms(self) -> Terms:
        from scale0.cli import drill_words as words
        from scale0.cli.call_command import read_arguments
        from scale0.cli.drill import Terms
        from scale0.cli.drill_load import SERVICE, Ask

        if self.body is not None and self.service is None:
            raise UsageError("--body is for a service of yours: name it with --service")
        args, kwargs = read_arguments(self.body)
        ask = Ask(words.per_second(self.rate), words.seconds(self.timeout), self.service or SERVICE, args, kwargs)
        return Terms(
            ask,
            before_s=words.seconds(self.before),
            after_s=words.seconds(self.after),
            limit_s=words.seconds(self.limit),
            conditions=[words.condition(text) for text in self.abort_if or []],
            workers=self.workers,
            work_s=words.seconds(self.work),
            is_idempotent=self.is_idempotent,
        )


def sharing(command: Callable[..., None]) -> Callable[..., None]:
    """A command that has the shared options, too, and gets them as its first argument."""
    hints = {**get_type_hints(command, include_extras=True), **get_type_hints(Typed, include_extras=True)}
    own = list(inspect.signature(command).parameters.values())[1:]
    shared = list(inspect.signature(Typed).parameters.values())
    options = [parameter.replace(annotation=hints[parameter.name]) for parameter in (*own, *shared)]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        command(Typed(**{parameter.name: given.pop(parameter.name) for parameter in shared}), **given)

    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in options}
    return keyed(run)


@app.command(name="kill-broker")
@sharing
def kill_broker(
    typed: Typed,
    victim: Annotated[str | None, typer.Argument(metavar="BROKER", help="Its name; else the least harmful.")] = None,
    signal: Signal = "KILL",
    lasts: For = "10s",
) -> None:
    """Kill a broker of this machine, or pause it. It is not started again: that is your supervisor's part.

    \b
      scale0 drill kill-broker
      scale0 drill kill-broker eu-2 --signal STOP --for 10s
    """
    from scale0.cli import drill_plan

    command = f"scale0 drill kill-broker -b {typed.broker}"
    _run_on_process(typed, lambda survey: drill_plan.kill_broker(survey, victim, command), signal, lasts)


@app.command(name="kill-worker")
@sharing
def kill_worker(
    typed: Typed,
    victim: Annotated[str | None, typer.Argument(metavar="WORKER", help="Its name; else the least harmful.")] = None,
    signal: Signal = "KILL",
    lasts: For = "10s",
) -> None:
    """Kill a worker of this machine, or pause it: one of yours, or one that the drill starts for itself.

    \b
      scale0 drill kill-worker
      scale0 drill kill-worker --service resize --body 640
    """
    from scale0.cli import drill_plan

    def make_plan(survey: Survey) -> Plan:
        if victim is None and typed.service is None:
            return drill_plan.kill_own_worker(survey, typed.workers)
        command = f"scale0 drill kill-worker -b {typed.broker}"
        return drill_plan.kill_worker(survey, victim, typed.service or "", command)

    _run_on_process(typed, make_plan, signal, lasts)


@app.command()
@sharing
def partition(
    typed: Typed,
    pair: Annotated[
        list[str] | None, typer.Argument(metavar="[BROKER BROKER]", help="Two brokers; else the quietest ones.")
    ] = None,
    lasts: For = "10s",
    is_one_way: Annotated[
        bool, typer.Option("--one-way", help="Only what the first sends to the second is lost.")
    ] = False,
    auth_file: AuthFile = None,
) -> None:
    """Let two brokers hear nothing of one another for a while. Needs credentials, as scale0 ctl does.

    \b
      scale0 drill partition eu-1 eu-2 --for 10s
      scale0 drill partition eu-1 eu-2 --one-way
    """
    from scale0.cli import drill_plan, manage_command
    from scale0.cli.drill_faults import PartitionFault
    from scale0.cli.drill_words import seconds
    from scale0.client.manager import manage

    if pair and len(pair) != 2:
        raise UsageError("a partition is between two brokers\nname both, or none")
    chosen, for_s = (pair[0], pair[1]) if pair else None, seconds(lasts)
    known = manage_command.read_credentials(auth_file) if not typed.is_dry else None

    def do(address: str, command: str, arguments: dict[str, Any]) -> Any:
        assert known is not None, "a dry run does nothing"
        return manage(address, command, arguments, auth_id=known.auth_id, auth_password=known.auth_password)

    def make_fault(plan: Plan) -> Fault:
        assert plan.sides is not None, "a partition has two sides"
        return PartitionFault(*plan.sides, for_s, do, is_one_way=is_one_way)

    def make_plan(survey: Survey) -> Plan:
        return drill_plan.partition(survey, chosen, is_one_way=is_one_way)

    _run(typed, make_plan, make_fault, f"for {for_s:g} s")


def _run_on_process(typed: Typed, make_plan: Callable[[Survey], Plan], signal: str, lasts: str) -> None:
    from scale0.cli.drill_faults import ProcessFault
    from scale0.cli.drill_words import seconds

    for_s = seconds(lasts)
    how = f"SIG{signal}" + (f" for {for_s:g} s" if signal == "STOP" else "")
    _run(typed, make_plan, lambda plan: ProcessFault(plan.process, signal, for_s), how)


def _run(typed: Typed, make_plan: Callable[[Survey], Plan], make_fault: Callable[[Plan], Fault], how: str) -> None:
    """Plan, ask, run, report."""
    from scale0.cli import drill_report, drill_view
    from scale0.cli.call_command import write_json
    from scale0.cli.drill import Drill
    from scale0.cli.drill_plan import Survey, describe
    from scale0.cli.failures import Exit
    from scale0.cli.render import Page

    with reader():
        terms, page = typed.terms(), Page()
        survey = Survey(addresses(typed.broker))
        plan = make_plan(survey)
        if typed.is_dry and typed.is_json:
            write_json(describe(plan), sys.stdout)
            return
        if not typed.is_json:
            page.lines(drill_view.draw_plan(plan, terms, how))
        if typed.is_dry:
            return
        if not typed.is_yes and not plan.is_harmless:
            _confirm(plan.victim)
        with drill_view.screen(page, is_silent=typed.is_json) as show:
            report = Drill(survey, plan, terms, make_fault, show).run()
        if typed.is_json:
            write_json(report.document(), sys.stdout)
        else:
            page.line()
            page.lines(drill_report.draw(report, page.width))
        leave(Exit.INTERRUPTED if report.aborted_by == "interrupted" else report.exit_code())


def _confirm(victim: str) -> None:
    """The victim's name, typed by somebody who means it."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "a drill asks before it strikes, and nobody is here to answer\nsay --yes, or look with --dry-run"
        )
    typed = typer.prompt(f"type {victim} to strike it", default="", show_default=False, err=True)
    if str(typed).strip() != victim:
        raise UsageError(f"{typed!r} is not {victim!r}: nothing was done")
