"""`scale0 services`, `workers`, `network` and other listings: ask a built-in service, show its answer.

The broker answers `scale0.services` and its like with one JSON document, so the listing that a person reads and the
document that `--json` prints come from the same bytes. `--watch` asks again each second: a screen that is drawn
anew in a terminal, one JSON line each time with `--json`.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Callable, Iterator

import msgspec
from rich.console import Group
from rich.live import Live
from rich.text import Text

from scale0.cli import render
from scale0.cli.failures import Exit
from scale0.cli.more_views import VIEWS
from scale0.cli.render import Page
from scale0.cli.views import BrokerInfo, Row, View
from scale0.errors import ProtocolError


class Listing(msgspec.Struct):
    """The document that a built-in service answers with."""

    schema: str
    rows: list[Row]
    at: str = ""
    complete: bool = True
    broker: BrokerInfo = msgspec.field(default_factory=BrokerInfo)
    total: int | None = None  # rows that meet the filter, if there was one
    all: int | None = None  # rows without any filter


Ask = Callable[[str], bytes]
"""Calls a built-in service by its name and returns the JSON document."""


class Shown(msgspec.Struct, frozen=True):
    """A listing as it is shown, and what a script is told of it."""

    lines: list[Text]
    fill: str = "ok"
    is_complete: bool = True


Picture = Callable[[bytes, int | None, bool], Shown]
"""Makes of a document what is shown of it, for a width and with every column or not."""


class Options(msgspec.Struct, frozen=True):
    is_json: bool = False
    is_watching: bool = False
    is_wide: bool = False
    is_checking: bool = False
    interval_s: float = 1.0


def parse(document: bytes) -> Listing:
    """The listing in `document`, or `ProtocolError` if it is none."""
    try:
        return msgspec.json.decode(document, type=Listing)
    except msgspec.DecodeError as error:
        raise ProtocolError(400, f"the broker's answer is not a listing: {error}") from error


def draw(listing: Listing, view: View, *, width: int | None, is_wide: bool) -> list[Text]:
    """The lines of a listing: verdict, table, what stands below it, next command."""
    rows = sorted(view.digest(listing.rows), key=view.rank)
    lines = [render.verdict(*view.verdict(rows, listing.broker))]
    if rows:
        lines += render.table(view.columns, [view.cells(row) for row in rows], width=width, is_wide=is_wide)
    lines += view.sections(rows, is_wide)
    if not listing.complete:
        lines.append(Text.assemble(("!", render.STYLES["warn"]), " not complete: the broker left rows out"))
    if advice := view.advise(rows):
        lines.append(Text.assemble(("Next:", "bold"), " ", advice))
    return lines


def picture_of(view: View) -> Picture:
    """How a listing with this view is shown."""

    def draw_document(document: bytes, width: int | None, is_wide: bool) -> Shown:
        listing = parse(document)
        fill, _sentence = view.verdict(view.digest(listing.rows), listing.broker)
        return Shown(draw(listing, view, width=width, is_wide=is_wide), fill, listing.complete)

    return draw_document


def show(
    name: str,
    ask: Ask,
    options: Options,
    page: Page,
    ended: threading.Event | None = None,
    picture: Picture | None = None,
) -> Exit:
    """Ask for listing `name` and show it, once or until the watcher has seen enough (Ctrl-C, or `ended`)."""
    ended = ended or threading.Event()
    picture = picture or picture_of(VIEWS[name])
    if not options.is_watching:
        document = ask(f"scale0.{name}")
        shown = picture(document, page.width, options.is_wide)
        if options.is_json:
            _write_json(document)
        else:
            page.lines(shown.lines)
        return _exit(shown, options)
    with contextlib.suppress(KeyboardInterrupt):
        _watch(picture, _asked_again(name, ask, options, ended), options, page)
    return Exit.GOOD


def _asked_again(name: str, ask: Ask, options: Options, ended: threading.Event) -> Iterator[bytes]:
    while not ended.is_set():
        yield ask(f"scale0.{name}")
        ended.wait(options.interval_s)


def _watch(picture: Picture, documents: Iterator[bytes], options: Options, page: Page) -> None:
    if options.is_json:
        for document in documents:
            picture(document, None, options.is_wide)  # one that cannot be read is no listing
            _write_json(document)
        return
    if not page.can_redraw:
        for document in documents:
            page.lines(picture(document, None, options.is_wide).lines)
            page.line()
        return
    with Live(console=page.console, auto_refresh=False, screen=True, vertical_overflow="crop") as live:
        for document in documents:
            lines = picture(document, page.console.width, options.is_wide).lines
            live.update(Group(*(page.plain(line) for line in lines)), refresh=True)


def _exit(shown: Shown, options: Options) -> Exit:
    if not shown.is_complete:
        return Exit.PARTIAL
    return Exit.BAD_ANSWER if options.is_checking and shown.fill in {"warn", "bad"} else Exit.GOOD


def _write_json(document: bytes) -> None:
    """One line, pure ASCII: what a worker calls itself cannot move the cursor."""
    sys.stdout.write(json.dumps(json.loads(document), separators=(",", ":")) + "\n")
    sys.stdout.flush()
