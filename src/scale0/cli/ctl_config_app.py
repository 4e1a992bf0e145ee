"""`scale0 ctl config`: what `scale0 config` does, through the doors of management.

The same documents, the same pictures and the same rules (`config_command.py`, `config_change.py`); but everything goes
by MANAGEMENTREQ or HTTP with the operator's credentials, so it works from afar, and a change asks for the network's
name as every change of tier 3 does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from scale0.cli.config_app import Comment, DryRun, Force, Format, SettingsFile
from scale0.cli.ctl_reach import Reach, reaching
from scale0.cli.options import AsJson, Check, Wide, keyed, leave, reader
from scale0.errors import TaskRefused, UsageError

app = typer.Typer(no_args_is_help=True, help="See, compare and change the network's config; as scale0 config.")

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask to type the network's name.")]


def asker(door: Any) -> Callable[[str], bytes]:
    """Listings of a door, asked for as `config_command` and `config_change` do."""

    def ask(service: str) -> bytes:
        return msgspec.json.encode(door.listing(service.removeprefix("scale0.")))

    return ask


def changer(door: Any) -> Callable[[str, dict[str, Any]], Any]:
    """Commands of a door, carried out as `config_change` wants it."""
    from scale0.errors import ProtocolError

    def manage(command: str, arguments: dict[str, Any]) -> Any:
        try:
            return door.carry_out(command, arguments).result
        except ProtocolError as error:  # what HTTP refused reads as what MANAGEMENTREQ refused
            raise TaskRefused(error.code, error.text) from error

    return manage


def show(
    reach: Reach,
    to: Annotated[Format | None, typer.Option("--as", help="The document alone, in this format.")] = None,
    version: Annotated[str | None, typer.Option(metavar="N", help="A version of the history: 41 or 1.41.")] = None,
    is_json: AsJson = False,
) -> None:
    """What does the network run? As TOML: a file that can be edited and applied."""
    from scale0.cli import config_command

    with reader():
        leave(config_command.show(asker(reach.door()), to, version, is_json))


def diff(
    reach: Reach,
    before: Annotated[str, typer.Argument(metavar="A", help="A version, or a file.")],
    after: Annotated[
        str | None, typer.Argument(metavar="B", help="Another; without it, what runs is compared.")
    ] = None,
    is_checking: Annotated[bool, typer.Option("--check", help="Exit with 1 if they differ.")] = False,
) -> None:
    """What differs, and whom it touches? Versions or files; with one of them, what runs is the other."""
    from scale0.cli import config_command, config_source

    with reader():
        if after is not None and config_source.is_file(before) and config_source.is_file(after):
            leave(config_command.diff_files(Path(before), Path(after), is_checking))
            return
        leave(config_command.diff(asker(reach.door()), before, after, is_checking))


def history(reach: Reach, is_json: AsJson = False, is_wide: Wide = False, is_checking: Check = False) -> None:
    """Who changed what, and when? The newest first, with what lost in a partition."""
    from scale0.cli import listings
    from scale0.cli.render import Page

    options = listings.Options(is_json, False, is_wide, is_checking)
    with reader():
        leave(listings.show("config_history", asker(reach.door()), options, Page()))


def apply(
    reach: Reach,
    file: SettingsFile,
    comment: Comment = "",
    is_forced: Force = False,
    is_yes: Yes = False,
    is_dry_run: DryRun = False,
) -> None:
    """Change the network's config to what a file says, and wait until every reachable broker runs it."""
    from scale0.cli import config_change, config_source

    wanted = config_source.read_file(file)
    terms = config_change.Terms(comment, reach.timeout_s, is_forced, is_yes, is_dry_run)
    leave(config_change.apply(wanted, _door(reach, "config apply", terms), terms))


def rollback(
    reach: Reach,
    version: Annotated[str, typer.Argument(metavar="VERSION", help="As in the history: 41, 1.41 or 1.41.ab12cd34.")],
    comment: Comment = "",
    is_forced: Force = False,
    is_yes: Yes = False,
    is_dry_run: DryRun = False,
) -> None:
    """Run again what an older version said. It gets a new number, for time does not go back."""
    from scale0.cli import config_change

    terms = config_change.Terms(comment, reach.timeout_s, is_forced, is_yes, is_dry_run)
    leave(config_change.rollback(version, _door(reach, "config rollback", terms), terms))


def _door(reach: Reach, command: str, terms: Any) -> Any:
    """The way to the network, which asks for its name before it changes anything."""
    from scale0.cli import config_change, config_source, ctl_command, render
    from scale0.cli.render import Page

    door, typed = reach.door(), ctl_command.operator()
    ask = asker(door)
    if typed is None and not (terms.is_yes or terms.is_dry_run):
        raise UsageError(
            f"{command} wants to be confirmed, and nobody is at a terminal\nif it is surely meant: add --yes"
        )

    def confirm(question: str) -> bool:
        assert typed is not None
        network = config_source.running(ask).network
        Page(sys.stderr).line(question)
        return typed(f"Type {render.safe(network)} to go on: ").strip() == network

    return config_change.Door(ask, changer(door), Page(), None if terms.is_yes else confirm)


_COMMANDS: list[tuple[str, str, Callable[..., None]]] = [
    ("show", "Look", show),
    ("diff", "Look", diff),
    ("history", "Look", history),
    ("apply", "Change", apply),
    ("rollback", "Change", rollback),
]
for _name, _panel, _function in _COMMANDS:
    app.command(_name, rich_help_panel=_panel)(keyed(reaching(_function)))
