"""`scale0 config`: the network's document, from the file on a desk to every broker, and back.

Looking (show, diff, history) needs no password, as any client may ask a built-in service; changing (apply, rollback)
goes through the management commands, with their credentials. Files are checked and converted without any broker.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from scale0.cli.options import (
    DEFAULT_BROKER,
    AsJson,
    AuthFile,
    BrokerAddress,
    Check,
    Timeout,
    Wide,
    addresses,
    asking,
    keyed,
    leave,
    show_listing,
)

Format = Literal["json", "xml", "zpl", "toml", "zfl"]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="""
See, check and change the network's config: one document for all brokers.

\b
  [bold]scale0 config show > network.toml[/bold]   what runs, as a file
  [bold]scale0 config check network.toml[/bold]    is it right?
  [bold]scale0 config diff network.toml[/bold]     what would change?
  [bold]scale0 config apply network.toml[/bold]    change it, on every broker
  [bold]scale0 config rollback 41[/bold]           back to what ran before
""",
)

SettingsFile = Annotated[
    Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="A document: .toml, .json, .zpl or .xml.")
]
Comment = Annotated[str, typer.Option("--comment", "-m", help="Why; it stands in the history.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; without a terminal nothing is asked anyway.")]
Force = Annotated[bool, typer.Option("--force", help="Also while no config broker can be reached: opens a new epoch.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]

LOOK, CHANGE, FILES = "Look", "Change", "Files"


@app.command(rich_help_panel=LOOK)
@keyed
def show(
    broker: BrokerAddress = DEFAULT_BROKER,
    to: Annotated[Format | None, typer.Option("--as", help="The document alone, in this format.")] = None,
    version: Annotated[str | None, typer.Option(metavar="N", help="A version of the history: 41 or 1.41.")] = None,
    is_json: AsJson = False,
) -> None:
    """What does the network run? As TOML, with a comment on who runs it: a file that can be edited and applied.

    \b
      scale0 config show
      scale0 config show --version 41 --as zpl
    """
    from scale0.cli import config_command

    with asking(broker) as ask:
        leave(config_command.show(ask, to, version, is_json))


@app.command(rich_help_panel=LOOK)
@keyed
def diff(
    before: Annotated[str, typer.Argument(metavar="A", help="A version, or a file.")],
    after: Annotated[
        str | None, typer.Argument(metavar="B", help="Another; without it, what runs is compared.")
    ] = None,
    broker: BrokerAddress = DEFAULT_BROKER,
    is_checking: Annotated[bool, typer.Option("--check", help="Exit with 1 if they differ.")] = False,
) -> None:
    """What differs, and whom it touches?

    \b
      scale0 config diff 41 42            two versions
      scale0 config diff 41               a version, and what runs
      scale0 config diff network.toml     what runs, and what apply makes of it
      scale0 config diff a.toml b.zpl     two files, whatever their formats
    """
    from scale0.cli import config_command, config_source

    are_files = [config_source.is_file(word) for word in (before, after) if word is not None]
    if after is not None and all(are_files):
        leave(config_command.diff_files(Path(before), Path(after), is_checking))
        return
    with asking(broker) as ask:
        leave(config_command.diff(ask, before, after, is_checking))


@app.command(rich_help_panel=LOOK)
@keyed
def history(
    broker: BrokerAddress = DEFAULT_BROKER,
    is_json: AsJson = False,
    is_wide: Wide = False,
    is_checking: Check = False,
) -> None:
    """Who changed what, and when? The newest first, with what lost in a partition."""
    show_listing("config_history", broker, is_json, False, is_wide, is_checking)


@app.command(rich_help_panel=CHANGE)
@keyed
def apply(
    file: SettingsFile,
    comment: Comment = "",
    broker: BrokerAddress = DEFAULT_BROKER,
    is_forced: Force = False,
    is_yes: Yes = False,
    is_dry_run: DryRun = False,
    auth_file: AuthFile = None,
    timeout: Timeout = 30.0,
) -> None:
    """Change the network's config to what a file says, and wait until every reachable broker runs it.

    Shows first what changes and whom it touches. The change is made from the version that was shown: if somebody else
    was faster, it is refused. Exit code 5: it holds, and some brokers are behind. Credentials: as for scale0 ctl.

    \b
      scale0 config apply network.toml --dry-run
      scale0 config apply network.toml -m "eu-2 goes to maintenance"
    """
    from scale0.cli import config_change, config_source
    from scale0.cli.render import Page

    wanted = config_source.read_file(file)
    terms = config_change.Terms(comment, timeout, is_forced, is_yes, is_dry_run)
    manage = config_change.manager(addresses(broker), auth_file, terms)
    with asking(broker) as ask:
        door = config_change.Door(ask, manage, Page(), config_change.operator())
        leave(config_change.apply(wanted, door, terms))


@app.command(rich_help_panel=CHANGE)
@keyed
def rollback(
    version: Annotated[str, typer.Argument(metavar="VERSION", help="As in the history: 41, 1.41 or 1.41.ab12cd34.")],
    comment: Comment = "",
    broker: BrokerAddress = DEFAULT_BROKER,
    is_forced: Force = False,
    is_yes: Yes = False,
    is_dry_run: DryRun = False,
    auth_file: AuthFile = None,
    timeout: Timeout = 30.0,
) -> None:
    """Run again what an older version said. It gets a new number, for time does not go back."""
    from scale0.cli import config_change
    from scale0.cli.render import Page

    terms = config_change.Terms(comment, timeout, is_forced, is_yes, is_dry_run)
    manage = config_change.manager(addresses(broker), auth_file, terms)
    with asking(broker) as ask:
        door = config_change.Door(ask, manage, Page(), config_change.operator())
        leave(config_change.rollback(version, door, terms))


@app.command(rich_help_panel=FILES)
def check(file: SettingsFile) -> None:
    """Is a file right? Names every mistake with its line, its key and what is allowed there."""
    from scale0.cli import config_files

    leave(config_files.check(file))


@app.command(rich_help_panel=FILES)
def convert(
    file: SettingsFile,
    to: Annotated[Format, typer.Option("--to", help="The format to write.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", dir_okay=False, help="Where to; else to stdout.")] = None,
) -> None:
    """The same document in another format, without loss."""
    from scale0.cli import config_files

    leave(config_files.convert(file, to, out))
