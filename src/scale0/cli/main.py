"""The commands, as they are typed. Each collects its options and hands them to its engine in a module of its own.

Engines are imported when their command runs: `scale0 --help` must not wait for ZeroMQ. `run` is the only place where an
exception ends the process; see `failures.py` for what the user sees then.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from scale0.cli import (
    broker_options,
    config_app,
    ctl_app,
    ctl_completion,
    drill_app,
    failures,
    help_text,
    keys_app,
    narrow,
    operate_app,
    pipeline_app,
    sim_app,
    user_app,
)
from scale0.cli.failures import Exit
from scale0.cli.options import (
    DEFAULT_BROKER,
    AsJson,
    BrokerAddress,
    Check,
    NoSave,
    Timeout,
    Watch,
    Wide,
    addresses,
    connected,
    keyed,
    leave,
    reader,
    show_listing,
)
from scale0.errors import Scale0Error

app = typer.Typer(
    name="scale0",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""
\b
Start a broker, serve, ask. In three terminals:
\b
  [bold]scale0 broker[/bold]                         routes tasks, on port 5555
  [bold]scale0 worker examples.greet:worker[/bold]   serves them; start as many as you like
  [bold]scale0 call greet '"Ada"'[/bold]             sends one: JSON in, JSON out
\b
Nothing at hand yet? [bold]scale0 demo[/bold] shows all of it in two minutes.
""",
    epilog="Exit codes: 0 good, 1 bad answer, 2 usage, 3 unreachable, 4 refused, 5 partial, "
    "6 drill aborted, 7 a rule was broken.",
)

RUN, ASK, LOOK, OPERATE = "Run", "Ask", "Look", "Operate"


def _version(is_wanted: bool) -> None:
    if is_wanted:
        from scale0 import __version__

        typer.echo(f"scale0 {__version__}")
        raise typer.Exit


@app.callback()
def root(
    is_verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show tracebacks of errors.")] = False,
    _is_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    if is_verbose:
        os.environ["SCALE0_DEBUG"] = "1"


# --- run ----------------------------------------------------------------------------------------------------------


@app.command(rich_help_panel=RUN)
def broker(
    bind: broker_options.Bind = None,
    backend: broker_options.Backend = None,
    config: broker_options.ConfigFile = None,
    identity: broker_options.Identity = None,
    join: broker_options.Join = None,
    group: broker_options.Group = None,
    publish: broker_options.Publish = None,
    state_dir: broker_options.StateDir = None,
    is_stateless: broker_options.NoState = False,
    is_log_json: broker_options.LogJson = False,
    is_quiet: broker_options.Quiet = False,
    is_verbose: broker_options.Verbose = False,
    is_insecure: broker_options.Insecure = False,
    key: broker_options.Key = None,
    allowed: broker_options.Allowed = None,
    server_key: broker_options.ServerKey = None,
    is_recording: broker_options.Telemetry = False,
    telemetry_dir: broker_options.TelemetryDir = None,
    telemetry_data: broker_options.TelemetryData = None,
    telemetry_keep: broker_options.TelemetryKeep = 30.0,
    telemetry_cap: broker_options.TelemetryCap = 20.0,
    telemetry_sample: broker_options.TelemetrySample = None,
    manage: broker_options.Manage = None,
    manage_users: broker_options.ManageUsers = None,
    manage_tls_cert: broker_options.ManageTlsCert = None,
    manage_tls_key: broker_options.ManageTlsKey = None,
    manage_host: broker_options.ManageHost = None,
) -> None:
    """Start a broker. It says on stdout when it is ready and where; Ctrl-C drains it and ends it.

    \b
      scale0 broker
      scale0 broker --bind tcp://127.0.0.1:0                a free port
      scale0 broker --join tcp://127.0.0.1:5555             a second one
      scale0 broker --config network.toml --identity eu-2   one of several
      scale0 broker --manage 127.0.0.1:8480                 a page for operators
      scale0 broker --key eu-1 --bind tcp://10.0.0.1:5555   encrypted: scale0 keys
    """
    from scale0.cli import broker_command, broker_manage

    if is_verbose:
        os.environ["SCALE0_DEBUG"] = "1"
    who: dict[str, Any] = {"config": config, "identity": identity, "group": group}
    where: dict[str, Any] = {"bind": bind, "backend": backend, "publish": publish, "is_insecure": is_insecure}
    keys: dict[str, Any] = {"key": key, "allowed": allowed, "server_key": server_key}
    state: dict[str, Any] = {"state_dir": state_dir, "is_stateless": is_stateless}
    log: dict[str, Any] = {"is_log_json": is_log_json, "is_verbose": is_verbose, "is_quiet": is_quiet}
    options = broker_command.BrokerOptions(
        **{**who, **where, **keys, **state, **log},
        join=[address for told in join or [] for address in addresses(told)],
        telemetry=broker_command.TelemetryOptions(
            telemetry_dir, telemetry_data, telemetry_keep, telemetry_cap, telemetry_sample or []
        )
        if is_recording
        else None,
        manage=broker_manage.ManageOptions(manage, manage_users, manage_tls_cert, manage_tls_key, manage_host or []),
    )
    leave(broker_command.run(options))


@app.command(rich_help_panel=RUN)
@keyed
def worker(
    target: Annotated[str, typer.Argument(metavar="MODULE:APP", help="Where the Worker object is.")],
    broker: Annotated[
        str | None,
        typer.Option("--broker", "-b", metavar="ADDRESS", help="Instead of the addresses in the code."),
    ] = None,
    capacity: Annotated[int | None, typer.Option(min=1, help="Tasks at once, in each process.")] = None,
    processes: Annotated[int, typer.Option(min=1, help="How many processes; one that crashes is started again.")] = 1,
    is_reloading: Annotated[bool, typer.Option("--reload", help="Restart when the source changes.")] = False,
    is_not_saving: NoSave = False,
    is_verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more, and show tracebacks.")] = False,
) -> None:
    """Serve what a module offers. Ctrl-C finishes what has begun and leaves cleanly.

    \b
      scale0 worker tasks:worker
      scale0 worker tasks:worker --processes 4 --capacity 8
      scale0 worker tasks:worker --reload           while developing
    """
    from scale0.cli import worker_command

    if is_verbose:
        os.environ["SCALE0_DEBUG"] = "1"
    worker_command.configure_logging(is_verbose)
    command = worker_command.WorkerCommand(
        target=target,
        brokers=addresses(broker) if broker else [],
        capacity=capacity,
        processes=processes,
        is_reloading=is_reloading,
        is_verbose=is_verbose,
        is_saving=not is_not_saving,
    )
    leave(worker_command.run(command))


@app.command(rich_help_panel=RUN)
def demo(
    seconds: Annotated[float, typer.Option(min=6.0, max=600.0, help="How long the load runs.")] = 18.0,
    report: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="Where the report goes.", show_default="the directory for temporary files"),
    ] = None,
    is_brief: Annotated[bool, typer.Option("--no-report", help="Leave out Spark and the report.")] = False,
    is_staying: Annotated[
        bool | None,
        typer.Option("--stay/--no-stay", help="Stay up until Ctrl-C, to look around.", show_default="in a terminal"),
    ] = None,
) -> None:
    """See it all at work: two brokers, six workers, a load, a page, workers and a broker killed, books, a report."""
    from scale0.cli import demo as engine
    from scale0.cli import demo_page
    from scale0.cli.render import Page

    out = report if report is not None else Path(tempfile.gettempdir()) / "scale0-demo-report.html"
    page = Page()
    stays = demo_page.is_wanted(page) if is_staying is None else is_staying
    leave(engine.run(seconds, None if is_brief else out, page, is_staying=stays))


# --- ask ----------------------------------------------------------------------------------------------------------


@app.command(rich_help_panel=ASK)
@keyed
def call(
    service: Annotated[
        str,
        typer.Argument(metavar="SERVICE", help="The service's name.", autocompletion=ctl_completion.names("services")),
    ],
    argument: Annotated[
        str | None,
        typer.Argument(metavar="JSON", help="An array: arguments; an object: keyword arguments; '-': stdin."),
    ] = None,
    broker: BrokerAddress = DEFAULT_BROKER,
    timeout: Timeout = 60.0,
    priority: Annotated[int, typer.Option(min=0, max=3, help="0 background, 1 normal, 2 high, 3 urgent.")] = 1,
    is_streaming: Annotated[bool, typer.Option("--stream", "-s", help="Print each part as it comes.")] = False,
    is_raw: Annotated[bool, typer.Option("--raw", help="Bytes in, bytes out; without an argument from stdin.")] = False,
    is_not_saving: NoSave = False,
) -> None:
    """Send one task and print its reply.

    \b
      scale0 call greet '"Ada"'             one argument
      scale0 call add '[1, 2]'              two
      scale0 call resize '{"width": 80}'    by name
      scale0 call --stream count 3          a line a part
    """
    from scale0.cli import call_command

    wanted = call_command.Call(service, argument, timeout, priority, is_streaming, is_raw)
    args, kwargs = call_command.prepare(wanted, call_command.default_stdin())
    with reader(), connected(broker, is_saving=not is_not_saving) as client:
        leave(call_command.run(client, wanted, args, kwargs, sys.stdout))


# --- look ---------------------------------------------------------------------------------------------------------


@app.command(rich_help_panel=LOOK)
@keyed
def services(
    broker: BrokerAddress = DEFAULT_BROKER,
    is_json: AsJson = False,
    is_watching: Watch = False,
    is_wide: Wide = False,
    is_checking: Check = False,
) -> None:
    """Can each service be served?"""
    show_listing("services", broker, is_json, is_watching, is_wide, is_checking)


@app.command(rich_help_panel=LOOK)
@keyed
def workers(
    broker: BrokerAddress = DEFAULT_BROKER,
    is_json: AsJson = False,
    is_watching: Watch = False,
    is_wide: Wide = False,
    is_checking: Check = False,
) -> None:
    """Who is slow, silent or stuck? Least recently used first."""
    show_listing("workers", broker, is_json, is_watching, is_wide, is_checking)


@app.command(rich_help_panel=LOOK)
@keyed
def clients(
    broker: BrokerAddress = DEFAULT_BROKER,
    is_json: AsJson = False,
    is_watching: Watch = False,
    is_wide: Wide = False,
    is_checking: Check = False,
) -> None:
    """Who presses?"""
    show_listing("clients", broker, is_json, is_watching, is_wide, is_checking)


@app.command(rich_help_panel=LOOK)
@keyed
def brokers(
    broker: BrokerAddress = DEFAULT_BROKER,
    is_json: AsJson = False,
    is_watching: Watch = False,
    is_wide: Wide = False,
    is_checking: Check = False,
) -> None:
    """Who serves, and do its books balance?"""
    show_listing("brokers", broker, is_json, is_watching, is_wide, is_checking)


@app.command(rich_help_panel=LOOK)
@keyed
def network(
    broker: BrokerAddress = DEFAULT_BROKER,
    is_json: AsJson = False,
    is_watching: Watch = False,
    is_wide: Wide = False,
    is_checking: Check = False,
) -> None:
    """Who serves with whom? Brokers, groups, links, workers of each service, config versions."""
    show_listing("network", broker, is_json, is_watching, is_wide, is_checking)


@app.command(name="dead-letters", rich_help_panel=LOOK)
@keyed
def dead_letters(
    broker: BrokerAddress = DEFAULT_BROKER,
    is_json: AsJson = False,
    is_watching: Watch = False,
    is_wide: Wide = False,
    is_checking: Check = False,
) -> None:
    """Which tasks failed their last attempt?"""
    show_listing("dead_letters", broker, is_json, is_watching, is_wide, is_checking)


# --- operate ------------------------------------------------------------------------------------------------------


app.command(rich_help_panel=OPERATE, hidden=True)(operate_app.manage)
app.command(rich_help_panel=OPERATE)(operate_app.failback)
app.add_typer(ctl_app.app, name="ctl", rich_help_panel=OPERATE)
app.command("top", rich_help_panel=LOOK)(operate_app.top)
app.add_typer(config_app.app, name="config", rich_help_panel=OPERATE)
app.add_typer(keys_app.app, name="keys", rich_help_panel=OPERATE)
app.add_typer(user_app.app, name="user", rich_help_panel=OPERATE)
app.add_typer(drill_app.app, name="drill", rich_help_panel=OPERATE)
app.command(rich_help_panel=OPERATE)(sim_app.sim)
app.add_typer(pipeline_app.app, name="pipeline", rich_help_panel=OPERATE)
app.command(rich_help_panel=LOOK)(pipeline_app.why)
help_text.tidy(app)

# --- the process --------------------------------------------------------------------------------------------------


def run() -> None:
    """The entry point of the `scale0` script."""
    open_closed_streams()
    sys.exit(main(sys.argv[1:]))


def open_closed_streams() -> None:
    """Who closes our output, as `>&-` does, does not want it: it goes nowhere. Python has `None` in its place."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # until the process ends
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def main(arguments: list[str]) -> int:
    """Run one command line and say how the process ends."""
    try:
        result = narrow.narrowed(app, arguments)(arguments, prog_name="scale0", standalone_mode=False)
    except typer.TyperException as error:
        message = error.format_message()
        if message:  # without one, help was shown instead
            failures.complain(*failures.explain_usage(message, getattr(error, "ctx", None)))
        return Exit.USAGE
    except (typer.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    except Scale0Error as error:
        return failures.report(error)
    except Exception as error:
        return failures.report(error)
    return result if isinstance(result, int) else Exit.GOOD
