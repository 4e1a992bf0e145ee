"""`scale0 config apply` and `rollback`: show what changes, ask, change it, and wait until every broker runs it.

A change is made from the version that was shown. If somebody was faster the network refuses it, so that nobody undoes
what they have not seen. The change holds as soon as it has a version. A broker that cannot be reached gets it when it
is back, and is not waited for; one that is reachable and still behind when `--timeout` is over makes the exit code 5.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import typer
from rich.text import Text

from scale0.cli import config_diff, config_source, failures, listings, render
from scale0.cli.config_command import who_runs
from scale0.cli.config_source import Ask, Running, Source
from scale0.cli.failures import Exit
from scale0.cli.history_view import document_of
from scale0.cli.manage_command import read_credentials
from scale0.cli.render import Page
from scale0.errors import Scale0Error, SessionRefused, TaskError, Unreachable
from scale0.protocol import documents
from scale0.protocol.network_diff import diff

POLL_S: Final = 0.2  # how often the brokers are asked whether they run it
_REFUSED: Final = frozenset({400, 409, 413, 429, 503})

Manage = Callable[[str, dict[str, Any]], Any]
"""Has a broker carry out a command, and returns its result."""


class Terms(msgspec.Struct, frozen=True):
    """What was asked for on the command line."""

    comment: str = ""
    timeout_s: float = 30.0
    is_forced: bool = False
    is_yes: bool = False
    is_dry_run: bool = False


class Door(msgspec.Struct, frozen=True):
    """How the network is asked and changed, and how the operator is."""

    ask: Ask
    manage: Manage
    page: Page
    confirm: Callable[[str], bool] | None = None  # None: nobody is there to ask
    pause: Callable[[float], object] = threading.Event().wait


def apply(wanted: Source, door: Door, terms: Terms) -> Exit:
    """Make the network's config what a file says."""
    now = config_source.running(door.ask)
    arguments = {
        "document": documents.canonical(wanted.document).decode(),
        "base": now.version,
        "comment": terms.comment,
        "force": terms.is_forced,
    }
    return _change(now, wanted, "config_apply", arguments, door, terms)


def rollback(version: str, door: Door, terms: Terms) -> Exit:
    """Make the network's config what an older version said."""
    row = config_source.find(listings.parse(door.ask("scale0.config_history")).rows, version)
    target = Source(str(row["version"]), document_of(row))
    arguments = {"version": target.name, "comment": terms.comment, "force": terms.is_forced}
    return _change(config_source.running(door.ask), target, "config_rollback", arguments, door, terms)


def _change(now: Running, wanted: Source, command: str, arguments: dict[str, Any], door: Door, terms: Terms) -> Exit:
    page = door.page
    changes = diff(now.document, wanted.document.over(now.document))
    if not changes:
        page.line(render.verdict("ok", render.safe(f"nothing to change: {now.network} runs it as {now.version}")))
        return Exit.GOOD
    rows = listings.parse(door.ask("scale0.network")).rows
    page.lines(config_diff.draw(changes, rows, f"{now.version} → {wanted.name}"))
    if terms.is_dry_run:
        page.line("dry run: nothing was changed")
        return Exit.GOOD
    question = f"Apply {'this change' if len(changes) == 1 else f'these {len(changes)} changes'} to {now.network}?"
    if not terms.is_yes and door.confirm is not None and not door.confirm(render.safe(question)):
        page.line("not applied")
        return Exit.BAD_ANSWER
    try:
        result = door.manage(command, arguments)
    except TaskError as error:
        if error.code not in _REFUSED:
            raise
        return _refused(error, now)
    return _await_all(str(result.get("version", "?")) if isinstance(result, dict) else "?", door, terms.timeout_s)


def _refused(error: TaskError, now: Running) -> Exit:
    what, *rest = str(error).splitlines()
    if error.code == 409:
        rest.append(f"what changed meanwhile: scale0 config diff {now.version}; then apply again")
    failures.complain(what, *rest)
    return Exit.REFUSED


# --- until everybody has it ---------------------------------------------------------------------------------------


def _await_all(version: str, door: Door, timeout_s: float) -> Exit:
    """Ask until every broker that can be asked runs `version` or a newer one, and say who does not."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            now = config_source.running(door.ask)
        except Scale0Error as error:
            # The change may have disabled the very broker that is asked.
            why = str(error).partition("\n")[0]
            sentence = f"applied {version}, but who runs it cannot be asked: {why}"
            door.page.line(render.verdict("warn", render.safe(sentence)))
            return Exit.PARTIAL
        is_there = _place(now.version) >= _place(version)
        if (is_there and not now.behind) or time.monotonic() >= deadline_s:
            return _tell(version, now, is_there, door.page)
        door.pause(POLL_S)


def _tell(version: str, now: Running, is_there: bool, page: Page) -> Exit:
    who = who_runs(now) if is_there else f"the broker that was asked still runs {now.version}"
    is_whole = is_there and not now.behind
    fill = "ok" if is_whole and not now.unknown else "warn"
    page.line(render.verdict(fill, render.safe(f"applied {version} to {now.network}: {who}")))
    if is_whole:
        return Exit.GOOD
    page.line(Text.assemble(("Next:", "bold"), " scale0 network   (who is behind?)"))
    return Exit.PARTIAL


def _place(version: str) -> tuple[int, ...]:
    """Epoch and number, by which versions are ordered."""
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


# --- the real door ------------------------------------------------------------------------------------------------


def manager(endpoints: Sequence[str], auth_file: Path | None, terms: Terms) -> Manage:
    """Commands go to the first of the brokers that answers. Missing credentials are told before anything is asked."""
    if terms.is_dry_run:
        return _nobody
    credentials = read_credentials(auth_file)

    def manage(command: str, arguments: dict[str, Any]) -> Any:
        from scale0.client.manager import manage as ask_one

        tried: dict[str, str] = {}
        for endpoint in endpoints:
            try:
                return ask_one(
                    endpoint,
                    command,
                    arguments,
                    auth_id=credentials.auth_id,
                    auth_password=credentials.auth_password,
                    timeout_s=terms.timeout_s,
                )
            except SessionRefused:
                raise
            except Unreachable as error:
                tried |= error.tried
        raise Unreachable(tried, terms.timeout_s)

    return manage


def _nobody(command: str, _arguments: dict[str, Any]) -> Any:
    raise AssertionError(f"a dry run sends no {command}")


def operator() -> Callable[[str], bool] | None:
    """How to ask whoever sits at the terminal; `None` if nobody does."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    return lambda question: typer.confirm(question, default=False, err=True)
