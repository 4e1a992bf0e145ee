"""`scale0 ctl`, as it is typed: a command for everything in the management vocabulary.

Nothing is listed here twice. Each listing becomes `scale0 ctl NAME`, each command `scale0 ctl NAME TARGET --option …`,
with words, options, defaults and help made from `management/vocabulary.py`; so a command that is added there can be
typed at once. Only what people say otherwise stands here: short names, and which arguments come by position.
"""

from __future__ import annotations

import inspect
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import msgspec
import typer

from scale0.cli import ctl_completion, ctl_config_app, help_text
from scale0.cli.ctl_reach import Reach, reaching
from scale0.cli.options import AsJson, Check, Watch, Wide, keyed, leave, reader
from scale0.errors import UsageError
from scale0.management.vocabulary import COMMANDS, LISTINGS, Command, Listing

LOOK, CHANGE, MORE = "Look", "Change", "More"

SHORT: Final = {
    "kick_worker": "kick",
    "cancel_task": "cancel",
    "retry_dead_letter": "retry",
    "reload_config": "reload",
    "forget_broker": "forget",
}
"""What people say for short; the long name is understood too."""

POSITIONAL: Final = {"test_task": ("service", "body")}
"""Arguments by position, where it is not just the target."""

ELSEWHERE: Final = frozenset({"list", "snapshot", "hints", "config_check", "config_apply", "config_rollback"})
"""Commands with a form of their own: `ctl list`, `ctl config …`; those of programs are left to `ctl run`."""

PROGRAMS: Final = frozenset({"segments", "segment"})
"""Commands that programs use; they are not shown in the help."""

HELP: Final = {
    "worker": "Its identity, as scale0 ctl workers has it.",
    "reason": "Told to the worker, and kept in the audit log.",
    "task": "Its id, or the beginning of one.",
    "service": "The service's name.",
    "body": "What is sent, as JSON.",
    "timeout_s": "How long the task may take.",
    "connection": "As scale0 ctl error-clients has it; without one, all.",
    "broker": "Its identity, as scale0 ctl network has it.",
    "peer": "The other broker's identity.",
    "for_s": "It heals by itself after so long.",
    "lost": "What is dropped.",
}
"""What an argument means, for people."""


class Words(help_text.Group):
    """A group whose commands may be written with `_` as the vocabulary has them."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, cmd_name) or super().get_command(ctx, cmd_name.replace("_", "-"))


app = typer.Typer(
    cls=Words,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="""
See and change a broker, or the whole network, with the commands that the page has too.

\b
  [bold]scale0 ctl overview[/bold]                        is all well?
  [bold]scale0 ctl workers --filter 'state:full'[/bold]   some rows of a listing
  [bold]scale0 ctl drain eu-2[/bold]                      by name; --all: every broker
  [bold]scale0 ctl test-task render '{}'[/bold]           who answers, how fast?

Credentials come from SCALE0_AUTH_ID and SCALE0_AUTH_PASSWORD, or from --auth-file; make some with scale0 user add.
""",
    epilog="Exit codes: 0 good, 1 bad answer, 2 usage, 3 unreachable, 4 refused, 5 done by some brokers, not by all.",
)

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask to type the name.")]
Everyone = Annotated[bool, typer.Option("--all", help="On every broker of the network.")]
On = Annotated[
    list[str] | None,
    typer.Option(
        "--on",
        metavar="BROKER",
        help="On this broker of the network; may be given again.",
        show_default="the one that is asked",
        autocompletion=ctl_completion.names("network"),
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="BROKER",
        help="On these brokers of the network.",
        show_default="the one that is asked",
        autocompletion=ctl_completion.names("network"),
    ),
]
FilterWords = Annotated[
    str, typer.Option("--filter", "-f", metavar="WORDS", help="Such as 'state:full svc:render* hb>3s is:problem'.")
]
Sort = Annotated[
    str, typer.Option("--sort", metavar="KEY", help="By this key; -KEY: downwards; problems: worst first.")
]
Limit = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="At most so many rows.", show_default="all")]


# --- listings -----------------------------------------------------------------------------------------------------


def show(
    reach: Reach,
    what: Annotated[
        str, typer.Argument(metavar="LISTING", help="As in scale0 ctl --help.", autocompletion=ctl_completion.listings)
    ],
    filter_words: FilterWords = "",
    sort: Sort = "",
    limit: Limit = None,
    is_json: AsJson = False,
    is_watching: Watch = False,
    is_wide: Wide = False,
    is_checking: Check = False,
) -> None:
    """Any listing by its name; each has a command of its own too."""
    from scale0.cli import ctl_command, listings
    from scale0.cli.ctl_doors import Query
    from scale0.cli.render import Page

    name = ctl_command.find_listing(what)
    options = listings.Options(is_json, is_watching, is_wide, is_checking)
    with reader():
        leave(ctl_command.show(name, reach.door(), Query(filter_words, sort, limit), options, Page()))


def _listing(listing: Listing) -> Any:
    """`scale0 ctl NAME`: the listing, with the options that every listing has."""

    def command(reach: Reach, **given: Any) -> None:
        show(reach, what=listing.name, **given)

    own = [p for p in inspect.signature(show, eval_str=True).parameters.values() if p.name != "what"]
    command.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
    command.__doc__ = f"{listing.summary[0].upper()}{listing.summary[1:]}."
    return command


def audit(
    reach: Reach,
    is_verifying: Annotated[
        bool, typer.Option("--verify", help="Check that no record of the file was changed, removed or moved.")
    ] = False,
    file: Annotated[
        str | None, typer.Option("--file", metavar="FILE", help="The file to verify, on this machine.")
    ] = None,
    filter_words: FilterWords = "",
    sort: Sort = "",
    limit: Limit = None,
    is_json: AsJson = False,
    is_watching: Watch = False,
    is_wide: Wide = False,
) -> None:
    """Who did what, or was denied it, the newest first; with --verify, whether the file is whole."""
    if is_verifying or file is not None:
        from scale0.cli import ctl_audit

        leave(ctl_audit.verify(file, is_json))
        return
    show(reach, "audit", filter_words, sort, limit, is_json, is_watching, is_wide)


# --- commands -----------------------------------------------------------------------------------------------------


def perform(reach: Reach, command: Command, given: dict[str, Any]) -> None:
    """Carry out a command with the words that were typed."""
    from scale0.cli import ctl_command
    from scale0.cli.render import Page

    is_json, is_yes, is_all = given.pop("is_json"), given.pop("is_yes"), given.pop("is_all")
    named = given.pop("brokers", None) or given.pop("on", None) or []
    if is_all and named:
        raise UsageError("--all and names of brokers exclude one another; give one of them")
    arguments = {name: value for name, value in given.items() if value is not None}
    brokers: Any = "all" if is_all else list(named) or "own"
    wanted = ctl_command.Wanted(command, arguments, brokers, is_json, is_yes)
    with reader():
        leave(ctl_command.run(wanted, reach.door(), Page(), ctl_command.operator()))


def _command(command: Command) -> Any:
    """`scale0 ctl NAME`: words and options from the fields of its arguments."""

    def made(reach: Reach, **given: Any) -> None:
        perform(reach, command, given)

    by_position = POSITIONAL.get(command.name, (command.target,) if command.target else ())
    fields = sorted(msgspec.structs.fields(command.arguments), key=lambda field: field.name not in by_position)
    kind = inspect.Parameter.KEYWORD_ONLY
    own = [_parameter(field, field.name in by_position) for field in fields]
    if by_position:
        own.append(inspect.Parameter("on", kind, default=None, annotation=On))
    else:
        own.insert(0, inspect.Parameter("brokers", kind, default=None, annotation=Names))
    own += [
        inspect.Parameter("is_all", kind, default=False, annotation=Everyone),
        inspect.Parameter("is_json", kind, default=False, annotation=AsJson),
        inspect.Parameter("is_yes", kind, default=False, annotation=Yes),
    ]
    first = inspect.Parameter("reach", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Reach)
    made.__signature__ = inspect.Signature([first, *own])  # type: ignore[attr-defined]
    role = command.role.text
    asks = " It asks for the name to be typed." if command.tier > 2 else ""
    made.__doc__ = f"{command.summary[0].upper()}{command.summary[1:]}. Needs the role {role}.{asks}"
    return made


def _parameter(field: msgspec.structs.FieldInfo, is_positional: bool) -> inspect.Parameter:
    """An argument of the vocabulary as a word or an option of the command line."""
    default = ... if field.required else field.default
    if default is msgspec.NODEFAULT:
        default = None
    complete = ctl_completion.of_argument(field.name)
    title = field.name.removesuffix("_s").replace("_", "-")
    plain: Any = _plain(field.type)
    told: Any
    help_text = HELP.get(field.name)
    if is_positional:
        told = typer.Argument(
            metavar=title.upper(), help=help_text, show_default=bool(default), autocompletion=complete
        )
    else:
        option = "--task-timeout" if field.name == "timeout_s" else f"--{title}"  # --timeout is ours: for the answer
        unit = "SECONDS" if field.name.endswith("_s") else None
        told = typer.Option(option, metavar=unit, help=help_text, show_default=bool(default), autocompletion=complete)
    kind = inspect.Parameter.KEYWORD_ONLY
    annotation: Any = Annotated.__class_getitem__((plain, told))  # type: ignore[attr-defined]
    if field.required:
        return inspect.Parameter(field.name, kind, annotation=annotation)
    return inspect.Parameter(field.name, kind, default=default, annotation=annotation)


def _plain(kind: Any) -> Any:
    """The type that a word is read as: optional ones, choices and lists as they are, anything deeper as JSON text."""
    inner = [one for one in get_args(kind) if one is not type(None)] if type(None) in get_args(kind) else [kind]
    known = inner[0] if len(inner) == 1 else str
    if known not in (str, int, float, bool) and get_origin(known) is not Literal:
        known = str
    return known | None if type(None) in get_args(kind) else known


# --- any command, by its name -------------------------------------------------------------------------------------


def run(
    reach: Reach,
    command: Annotated[
        str,
        typer.Argument(
            metavar="COMMAND", help="As in the API: kick_worker, segments, …", autocompletion=ctl_completion.commands
        ),
    ],
    words: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Its arguments.")] = None,
    on: On = None,
    is_all: Everyone = False,
    is_json: AsJson = False,
    is_yes: Yes = False,
) -> None:
    """Any command by its name in the API, with its arguments as key=value.

    \b
      scale0 ctl run failback broker=eu-1
      scale0 ctl run partition eu-2 for_s=10 --json
    """
    from scale0.cli import ctl_command, manage_command

    known = ctl_command.find_command(command)
    given: dict[str, Any] = manage_command.read_arguments(words or [], known.name)
    perform(reach, known, {**given, "on": on, "is_all": is_all, "is_json": is_json, "is_yes": is_yes})


def _register() -> None:
    for listing in LISTINGS.values():
        name = listing.name.replace("_", "-")
        if listing.name == "audit":
            app.command(name, rich_help_panel=LOOK)(keyed(reaching(audit)))
        elif listing.name != "config":  # which is a group of its own; `ctl list config` has the listing
            app.command(name, rich_help_panel=LOOK)(keyed(reaching(_listing(listing))))
    app.command("list", rich_help_panel=LOOK)(keyed(reaching(show)))
    for command in COMMANDS.values():
        if command.name in ELSEWHERE:
            continue
        made, long_name = keyed(reaching(_command(command))), command.name.replace("_", "-")
        short = SHORT.get(command.name, long_name)
        is_hidden = command.name in PROGRAMS
        summary = command.summary[0].upper() + command.summary[1:]
        app.command(short, rich_help_panel=CHANGE, hidden=is_hidden, short_help=f"{summary}.")(made)
        if short != long_name:
            app.command(long_name, hidden=True)(made)
    app.add_typer(ctl_config_app.app, name="config", rich_help_panel=CHANGE)
    app.command("run", rich_help_panel=MORE)(keyed(reaching(run)))


_register()
