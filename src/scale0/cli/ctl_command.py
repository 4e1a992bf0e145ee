"""`scale0 ctl`: show a listing, or have a command carried out by one broker or by several.

What a command may cost decides how it is asked for, by the tier that the vocabulary gives it. Whoever types `scale0 ctl
drain eu-2` has named verb and object, so tiers 1 and 2 are carried out. Tier 3 wants the object's name to be typed once
more, in a terminal; without one it is refused unless `--yes` stands there. What goes to all brokers at once is treated
as tier 3, and its object is the network.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec
import typer
from rich.text import Text

from scale0.cli import ctl_alarms, ctl_results, ctl_views, listings, render
from scale0.cli.ctl_doors import Brokers, Door, Query
from scale0.cli.failures import Exit
from scale0.cli.listings import Picture, Shown
from scale0.cli.render import Page
from scale0.cli.views import Row, View, count
from scale0.errors import ProtocolError, UsageError
from scale0.management.vocabulary import COMMANDS, LISTINGS, Command

CONFIRMED_TIER: Final = 3
PEERS_S: Final = 0.3  # how long peers may take to tell of their workers
Typed = Callable[[str], str]
"""Shows a question, and returns what was typed."""


class Wanted(msgspec.Struct, frozen=True):
    """A command as it was asked for."""

    command: Command
    arguments: dict[str, Any] = {}
    brokers: Brokers = "own"
    is_json: bool = False
    is_yes: bool = False

    @property
    def target(self) -> str:
        """The object that the arguments name, if they name one."""
        value = self.arguments.get(self.command.target) if self.command.target else None
        return str(value) if value else ""

    @property
    def tier(self) -> int:
        if not self.command.is_change:
            return 1
        return CONFIRMED_TIER if self.brokers == "all" and self.command.tier > 1 else self.command.tier


# --- listings -----------------------------------------------------------------------------------------------------


def find_listing(word: str) -> str:
    """The listing that a word means: `dead-letters` is `dead_letters`."""
    name = word.replace("-", "_")
    if name not in LISTINGS:
        raise UsageError(f"no listing {word!r}\nthere are {', '.join(LISTINGS)}")
    return name


def show(name: str, door: Door, query: Query, options: listings.Options, page: Page) -> Exit:
    """Show one listing, once or again each second."""
    if name == "network_workers":  # the broker asks its peers when it is asked: what they say is there a moment later
        door.listing(name, Query())
        time.sleep(PEERS_S)

    def ask(_service: str) -> bytes:
        return msgspec.json.encode(door.listing(name, query))

    return listings.show(name, ask, options, page, picture=picture_of(name, query))


def picture_of(name: str, query: Query) -> Picture:
    """How a listing is shown, and how it is if only a part of it was asked for."""
    if name == "overview":
        return _overview

    def draw(document: bytes, width: int | None, is_wide: bool) -> Shown:
        listing = listings.parse(document)
        view = ctl_views.view_of(name, listing.rows)
        if query.filter:
            view = _filtered(view, listing, query.filter)
        if query.sort:
            view = msgspec.structs.replace(view, rank=lambda _row: ())
        lines = listings.draw(listing, view, width=width, is_wide=is_wide)
        if query.limit is not None and listing.total is not None and listing.total > len(listing.rows):
            told = f"{len(listing.rows):,} of {listing.total:,}: --limit {listing.total} shows all"
            lines.append(Text(told, style="dim"))
        fill, _sentence = view.verdict(view.digest(listing.rows), listing.broker)
        return Shown(lines, fill, listing.complete)

    return draw


def _filtered(view: View, listing: listings.Listing, words: str) -> View:
    """Of a part of the rows nothing can be said but how many there are."""
    found = listing.total if listing.total is not None else len(listing.rows)
    of = f" of {listing.all:,}" if listing.all is not None else ""
    noun = view.noun if (listing.all if listing.all is not None else found) == 1 else f"{view.noun}s"
    match = "matches" if found == 1 else "match"
    sentence = f"{found:,}{of} {noun} {match} {render.safe(words)} {listing.broker.short}"
    return msgspec.structs.replace(
        view, verdict=lambda _rows, _broker: ("ok" if found else "off", sentence), advise=lambda _rows: ""
    )


def _overview(document: bytes, width: int | None, is_wide: bool) -> Shown:
    overview = read_overview(msgspec.json.decode(document))
    verdict = overview.get("verdict")
    fill = str(verdict.get("level", "off")) if isinstance(verdict, dict) else "off"
    return Shown(ctl_alarms.draw_overview(overview, width=width, is_wide=is_wide), fill)


def read_overview(document: Any) -> Row:
    """The overview in a listing's document: it is its one row, or stands beside what all listings have."""
    if not isinstance(document, dict):
        raise ProtocolError(400, "the broker's answer is no overview")
    rows = document.get("rows")
    found = rows[0] if isinstance(rows, list) and rows and "figures" not in document else document
    if not isinstance(found, dict) or "figures" not in found:
        raise ProtocolError(501, "this broker has no overview: it is older than scale0 ctl")
    return found


# --- commands -----------------------------------------------------------------------------------------------------


def find_command(word: str) -> Command:
    """The command that a word means: `kick-worker` is `kick_worker`."""
    command = COMMANDS.get(word.replace("-", "_"))
    if command is None:
        raise UsageError(f"no command {word!r}\nthere are {', '.join(COMMANDS)}")
    return command


def check(command: Command, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments, if they are such as the command takes."""
    try:
        msgspec.convert(arguments, command.arguments, strict=True)
    except msgspec.ValidationError as error:
        takes = ", ".join(field.name for field in msgspec.structs.fields(command.arguments)) or "no argument"
        raise UsageError(f"{command.name}: {error}\nit takes {takes}") from None
    return arguments


def run(wanted: Wanted, door: Door, page: Page, typed: Typed | None) -> Exit:
    """Make sure that it is meant, have it carried out, and tell what came of it."""
    check(wanted.command, wanted.arguments)
    if wanted.tier >= CONFIRMED_TIER and not wanted.is_yes:
        confirm(wanted, door, page, typed)
    answer = door.carry_out(wanted.command.name, wanted.arguments, wanted.brokers)
    if wanted.is_json:
        write_line(answer.document())
    else:
        page.lines(ctl_results.draw(wanted.command, answer, wanted.target))
    return ctl_results.end(answer)


def confirm(wanted: Wanted, door: Door, page: Page, typed: Typed | None) -> None:
    """Have the object's name typed, or refuse."""
    name = wanted.command.name.replace("_", "-")
    if typed is None:
        raise UsageError(
            f"{name} wants to be confirmed, and nobody is at a terminal\nif it is surely meant: add --yes\n"
            f"what it does: {wanted.command.summary}"
        )
    object_name, effect = describe(wanted, door)
    question = Page(sys.stderr)
    question.line(Text.assemble(("!", render.STYLES["warn"]), " ", (f"{name}: {wanted.command.summary}", "bold")))
    if effect:
        question.line(f"  {effect}")
    if typed(f"Type {render.safe(object_name)} to go on: ").strip() != object_name:
        raise UsageError(f"{name} was not confirmed: nothing was changed")


def describe(wanted: Wanted, door: Door) -> tuple[str, str]:
    """The name that is to be typed, and what the command touches."""
    if wanted.target:
        return wanted.target, ""
    if isinstance(wanted.brokers, list):
        return ",".join(wanted.brokers), f"it goes to {count(len(wanted.brokers), 'broker')}"
    document = door.listing("network" if wanted.brokers == "all" else "brokers")
    broker, rows = document.get("broker") or {}, document.get("rows") or []
    if wanted.brokers == "all":
        name = str(broker.get("network") or "all")
        return name, f"it goes to all {count(len(rows), 'broker')} of {render.safe(name)}"
    row = rows[0] if rows else {}
    parts = [count(int(row[key]), noun) for key, noun in _TOUCHED if isinstance(row.get(key), int)]
    return str(broker.get("identity", "?")), f"it has {', '.join(parts)}" if parts else ""


_TOUCHED: Final = (
    ("workers", "worker"),
    ("clients", "client"),
    ("queued", "queued task"),
    ("in_flight", "running task"),
)


def operator() -> Typed | None:
    """How to ask whoever sits at the terminal; `None` if nobody does."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None

    def ask(question: str) -> str:
        answer: str = typer.prompt(question.removesuffix(": "), default="", show_default=False, err=True)
        return answer

    return ask


def write_line(document: Any) -> None:
    """One line of pure ASCII JSON: what a worker calls itself cannot move the cursor."""
    sys.stdout.write(json.dumps(msgspec.to_builtins(document), separators=(",", ":")) + "\n")
    sys.stdout.flush()
