"""Whom `scale0 ctl` and `scale0 top` speak to: the options that all their commands share, and the door behind them.

Every command has them, so they are written once and added to each function's signature by `reaching`; the function gets
one `Reach` instead. That way the commands that are made from the vocabulary and those that are written by hand take
exactly the same words.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from scale0.cli.options import DEFAULT_BROKER, AuthFile, BrokerAddress, Timeout, addresses
from scale0.errors import UsageError

CONNECTION = "Whom to ask"
PREFIX = "reach_"  # of the parameters, for a command may have a `broker` of its own

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="SCALE0_URL",
        metavar="URL",
        help="Over HTTP instead: the address of a broker's page.",
        show_default=False,
        rich_help_panel=CONNECTION,
    ),
]
CaFile = Annotated[
    Path | None,
    typer.Option(
        "--ca-file",
        envvar="SCALE0_CA_FILE",
        exists=True,
        dir_okay=False,
        help="With --url: certificates to trust besides the system's.",
        rich_help_panel=CONNECTION,
    ),
]


class Reach(msgspec.Struct, frozen=True):
    """What was said of whom to ask."""

    broker: str = DEFAULT_BROKER
    url: str | None = None
    ca_file: Path | None = None
    auth_file: Path | None = None
    timeout_s: float = 10.0

    def door(self) -> Any:
        """The door; missing credentials are told before anything is asked."""
        from scale0.cli.ctl_doors import HttpDoor, RequestDoor
        from scale0.cli.manage_command import read_credentials

        if self.url is None and self.ca_file is not None:
            raise UsageError("--ca-file goes with --url: MANAGEMENTREQ has keys, not certificates")
        credentials = read_credentials(self.auth_file)
        if self.url is not None:
            return HttpDoor(self.url, credentials, self.timeout_s, self.ca_file)
        return RequestDoor(addresses(self.broker), credentials, self.timeout_s)


def _shared() -> list[inspect.Parameter]:
    kind = inspect.Parameter.KEYWORD_ONLY
    known: dict[str, tuple[Any, Any]] = {
        "broker": (_in_panel(BrokerAddress, "--broker", "-b"), DEFAULT_BROKER),
        "url": (Url, None),
        "ca_file": (CaFile, None),
        "auth_file": (_in_panel(AuthFile, "--auth-file"), None),
        "timeout_s": (_in_panel(Timeout, "--timeout", "-t"), 10.0),
    }
    return [
        inspect.Parameter(PREFIX + name, kind, default=default, annotation=annotation)
        for name, (annotation, default) in known.items()
    ]


def _in_panel(annotation: Any, *names: str) -> Any:
    """The same option, by these names, shown among those of whom to ask."""
    moved = copy.copy(annotation.__metadata__[0])
    moved.rich_help_panel = CONNECTION
    moved.default, moved.param_decls = names[0], names[1:]  # where an annotation has the names of an option
    return Annotated[annotation.__origin__, moved]


def reaching(function: Callable[..., None]) -> Callable[..., None]:
    """A command whose first parameter is a `Reach`: it gets the options of one in its place."""
    first, *own = inspect.signature(function, eval_str=True).parameters.values()
    parameters = [*(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own), *_shared()]

    @functools.wraps(function)
    def command(**given: Any) -> None:
        told = {name.removeprefix(PREFIX): given.pop(name) for name in list(given) if name.startswith(PREFIX)}
        reach = Reach(**told)
        function(**{first.name: reach}, **given)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command
