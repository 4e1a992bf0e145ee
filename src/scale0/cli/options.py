"""What several commands share: their common options, how they reach a broker, and how they end.

Each option has one name and one meaning in every command. ZeroMQ is imported when a broker is asked and not before, so
that `--help` is quick.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from scale0.errors import UsageError

DEFAULT_BROKER = "tcp://127.0.0.1:5555"
LISTING_TIMEOUT_S = 5.0  # a broker answers for itself, and at once
KEYS = "Where brokers ask for keys"

BrokerAddress = Annotated[
    str,
    typer.Option("--broker", "-b", envvar="SCALE0_BROKER", metavar="ADDRESS", help="The broker; several with commas."),
]
Timeout = Annotated[float, typer.Option("--timeout", "-t", min=0.001, metavar="SECONDS", help="How long to wait.")]
AsJson = Annotated[bool, typer.Option("--json", help="The answer as JSON, with raw units.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Ask again each second; with --json, a line each time.")]
Wide = Annotated[bool, typer.Option("--wide", help="Every column, whatever the width.")]
Check = Annotated[bool, typer.Option("--check", help="Exit with 1 unless the verdict is good.")]
NoSave = Annotated[bool, typer.Option("--no-save", help="Do not keep the brokers' config for the next start.")]
AuthFile = Annotated[
    Path | None, typer.Option(envvar="SCALE0_AUTH_FILE", help="A file of mode 600 that holds id:password.")
]

Key = Annotated[
    str | None,
    typer.Option(
        "--key",
        envvar="SCALE0_KEY",
        metavar="NAME",
        rich_help_panel=KEYS,
        help="This side's key: its name, or its file.",
    ),
]
ServerKey = Annotated[
    str | None,
    typer.Option(
        "--server-key",
        envvar="SCALE0_SERVER_KEY",
        metavar="KEY",
        rich_help_panel=KEYS,
        help="The broker's public key; of several brokers, with commas.",
    ),
]


def keyed(function: Callable[..., None]) -> Callable[..., None]:
    """Decorator of a command that connects: it has `--key` and `--server-key`, and whatever it does uses them."""

    @functools.wraps(function)
    def command(*args: Any, key: str | None = None, server_key: str | None = None, **kwargs: Any) -> None:
        with using_keys(key, server_key):
            function(*args, **kwargs)

    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    for name, annotation in (("key", Key), ("server_key", ServerKey)):
        parameters.append(inspect.Parameter(name, kind, default=None, annotation=annotation))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


@contextlib.contextmanager
def using_keys(key: str | None, server_key: str | None) -> Iterator[None]:
    """While the block runs, clients and workers of this process and of its children have these keys, if any."""
    told = {"SCALE0_KEY": key, "SCALE0_SERVER_KEY": server_key}
    before = {name: os.environ.get(name) for name in told}
    os.environ.update({name: value for name, value in told.items() if value})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def addresses(broker: str) -> list[str]:
    """The addresses in an option or variable that may hold several."""
    from scale0.protocol.network_addresses import is_address

    found = [address for address in broker.replace(",", " ").split() if address]
    for address in found:
        if not is_address(address):
            raise UsageError(f"{address!r} is not an address\nit looks like {DEFAULT_BROKER}")
    if not found:
        raise UsageError(f"no broker's address was given\nit looks like {DEFAULT_BROKER}")
    return found


def connected(broker: str, timeout_s: float = 60.0, *, is_saving: bool = False) -> Any:
    """A client of the brokers at these addresses, which may keep the config that it gets for the next one."""
    from scale0.cli import saving
    from scale0.client import Client

    given = addresses(broker)
    return Client(given, timeout=timeout_s, save_config=saving.file_for("client", given) if is_saving else None)


@contextlib.contextmanager
def asking(broker: str) -> Iterator[Callable[[str], bytes]]:
    """While the block runs: a function that calls a built-in service by its name and returns its document."""
    with reader(), connected(broker, LISTING_TIMEOUT_S) as client:

        def ask(service: str) -> bytes:
            document: bytes = client.call(service, returns=bytes)
            return document

        yield ask


def show_listing(
    name: str, broker: str, is_json: bool, is_watching: bool, is_wide: bool, is_checking: bool = False
) -> None:
    """One listing, as it is or again each second."""
    from scale0.cli import listings
    from scale0.cli.render import Page

    options = listings.Options(is_json, is_watching, is_wide, is_checking)
    with asking(broker) as ask:
        leave(listings.show(name, ask, options, Page()))


@contextlib.contextmanager
def reader() -> Iterator[None]:
    """Whoever reads our output may go early, as in `scale0 services | head`: that is no error."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python's flush at exit must not complain
        raise typer.Exit from None


def leave(code: int) -> None:
    """End the command with this exit code."""
    if code:
        raise typer.Exit(int(code))
