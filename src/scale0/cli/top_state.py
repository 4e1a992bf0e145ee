"""What `scale0 top` knows: the last answers of the broker, how old they are, and what follows for the screen. Pure.

Values are never made up. While answers come, the clock counts the age of the last one; after 3 s it turns amber, after
10 s a banner says that nothing is heard, values are greyed and actions are off, as on the page.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from rich.text import Text

from scale0.cli import ctl_views, render
from scale0.cli.render import Cell, Column
from scale0.cli.views import Row, View
from scale0.errors import ProtocolError
from scale0.management import filters

AGEING_S: Final = 3.0
STALE_S: Final = 10.0
PROBLEM: Final = "is:problem"

SCREENS: Final[dict[str, tuple[str, str]]] = {
    "s": ("services", "services"),
    "w": ("workers", "workers"),
    "c": ("clients", "clients"),
    "b": ("network", "brokers"),
    "k": ("tasks", "tasks"),
    "d": ("dead_letters", "dead letters"),
    "a": ("alarms", "alarms"),
    "e": ("events", "events"),
}
"""`g` and a letter: the listing that the lower half shows, and what it is called; the letters are the page's."""

COLOURS: Final = {"ok": "#4aa8ff", "warn": "#ffd75e", "bad": "#f4503f", "off": "#7d8794"}
_BY_STYLE: Final = {
    f"{weight}{render.STYLES[fill]}": f"{weight}{colour}"
    for fill, colour in COLOURS.items()
    for weight in ("", "bold ")
}
CELL_MIN: Final = 24  # a cell is cut to a third of the width, but not below this


class Seen(msgspec.Struct):
    """The last that was heard, by listing, and when; `error` says why nothing newer came."""

    overview: Row | None = None
    broker: Row = {}
    documents: dict[str, dict[str, Any]] = {}
    heard_s: float | None = None
    error: str = ""

    def age_s(self, now_s: float) -> float | None:
        return None if self.heard_s is None else max(0.0, now_s - self.heard_s)


def condition(age_s: float | None) -> str:
    """`live`, `ageing`, `stale`; before the first answer `waiting`."""
    if age_s is None:
        return "waiting"
    return "stale" if age_s >= STALE_S else "ageing" if age_s >= AGEING_S else "live"


def clock(seen: Seen, now_s: float) -> Text:
    """Who was asked, and how old the answer is."""
    age_s = seen.age_s(now_s)
    state = condition(age_s)
    who = " · ".join(render.safe(seen.broker[key]) for key in ("network", "identity") if seen.broker.get(key))
    told = "waiting" if age_s is None else f"{'live' if state == 'live' else state} {age_s:.1f} s"
    fill = {"live": "ok", "ageing": "warn", "stale": "bad", "waiting": "off"}[state]
    return Text.assemble(f"{who}  " if who else "", ("●" if state == "live" else "!", COLOURS[fill]), f" {told}")


def banner(seen: Seen, now_s: float) -> str:
    """What is wrong with the answers; empty if nothing is."""
    age_s = seen.age_s(now_s)
    if condition(age_s) not in {"stale", "waiting"} or (age_s is None and not seen.error):
        return ""
    why = f": {render.safe(seen.error)}" if seen.error else ""
    if age_s is None:
        return f"no answer yet{why}"
    return f"nothing heard for {age_s:.0f} s{why}; what is shown is old, and actions are off"


# --- rows ---------------------------------------------------------------------------------------------------------


class Lines(msgspec.Struct):
    """What one table shows."""

    title: Text
    columns: list[Column]
    rows: list[tuple[str, list[Text]]]  # each with its key
    kept: list[Row]
    empty: str = ""


def lines_of(name: str, document: dict[str, Any] | None, words: str, width: int) -> Lines:
    """The listing `name` as a table of this width: problems first, only rows that meet the filter."""
    rows: list[Row] = list((document or {}).get("rows") or [])
    view = ctl_views.view_of(name, rows)
    title = name.replace("_", " ").upper()
    try:
        kept = [dict(row) for row in filters.Filter(words).rows(rows)]
        wrong = ""
    except ProtocolError as error:
        kept, wrong = [], error.text
    kept = sorted(view.digest(kept), key=view.rank)
    problems = sum(filters.severity(row) > 0 for row in rows)
    told = f" {len(rows):,}" if len(kept) == len(rows) else f" {len(kept):,} of {len(rows):,}"
    heading = Text.assemble((title, "bold"), told if document is not None else "")
    if problems:
        heading.append_text(Text.assemble("  ", ("!", COLOURS["warn"]), f" problems {problems:,}"))
    if words:
        heading.append_text(Text.assemble("  ", (f"/{render.safe(words)}", COLOURS["off"])))
    cells = [[_cut(coloured(cell), max(CELL_MIN, width // 3)) for cell in view.cells(row)] for row in kept]
    shown = fit(view.columns, cells, width)
    columns = [view.columns[place] for place in shown]
    made = [
        (key_of(row, place), [line[at] for at in shown])
        for place, (row, line) in enumerate(zip(kept, cells, strict=True))
    ]
    return Lines(heading, columns, made, list(kept), wrong or _empty(view, rows, words, document))


def fit(columns: Sequence[Column], rows: Sequence[Sequence[Text]], width: int) -> list[int]:
    """The columns that fit, by the same order as in `scale0 workers`; each takes one cell more for the gap."""
    shown = [place for place, column in enumerate(columns) if not column.is_wide_only]
    widths = {place: max([len(columns[place].title), *(row[place].cell_len for row in rows)]) + 2 for place in shown}
    while sum(widths[place] for place in shown) > width:
        droppable = [place for place in shown if columns[place].drop]
        if not droppable:
            break
        shown.remove(max(droppable, key=lambda place: columns[place].drop))
    return shown


def _empty(view: View, rows: Sequence[Row], words: str, document: dict[str, Any] | None) -> str:
    if document is None:
        return "waiting for the broker"
    if rows and words:
        return f"no {view.noun} matches {render.safe(words)}; Esc shows all"
    advice = view.advise(rows)
    return f"no {view.noun}" + (f"; {advice}" if advice else "")


def _cut(cell: Text, cells: int) -> Text:
    """At most so wide; Enter shows all of it."""
    cell.truncate(cells, overflow="ellipsis")
    return cell


def coloured(cell: Cell) -> Text:
    """The cell with the colours that this screen has: its background is known, a terminal's is not."""
    text = cell.copy() if isinstance(cell, Text) else Text(cell)
    text.spans = [span._replace(style=_BY_STYLE.get(str(span.style), span.style)) for span in text.spans]
    return text


def key_of(row: Row, place: int) -> str:
    """What names a row over the seconds, so that the cursor stays where it was."""
    for key in ("identity", "id", "connection"):
        if row.get(key):
            return f"{row[key]}"
    if row.get("name"):
        return f"{row['name']} {row.get('subject', '')}"
    return f"{row.get('at', '')} {place}"


def toggle_problems(words: str) -> str:
    """The filter with `is:problem`, or without it if it was there."""
    known = words.split()
    return " ".join([word for word in known if word != PROBLEM] if PROBLEM in known else [*known, PROBLEM])


def line_of(name: str, words: str = "") -> str:
    """The command line that shows the same."""
    said = ["scale0", "ctl", name.replace("_", "-")]
    return shlex.join([*said, "--filter", words] if words else said)
