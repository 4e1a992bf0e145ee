"""Strips: one row a name, a bar where something held. For presence of workers, burning budgets, versions in use.

Bars that the eye could not tell apart are one bar, so a strip is never longer than its pixels, whether it tells of an
hour or of a month. Where there are few, each says on hovering what it is.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scale0_pipeline import words
from scale0_pipeline.report import svg
from scale0_pipeline.report.html import Html, el
from scale0_pipeline.report.period import Period
from scale0_pipeline.report.svg import Plot

ROW: Final = 20
LABELS: Final = 170
CHARACTERS_MAX: Final = 24
TOLD_MAX: Final = 120
"""Bars of a chart that tell what they are; with more of them nobody hovers over each."""


class Piece(msgspec.Struct, frozen=True):
    """A bar from one moment to another; `colour` is a stroke of the style sheet."""

    since_us: int
    until_us: int
    colour: str
    words: str = ""


class Strip(msgspec.Struct):
    """A row of the chart; later pieces lie over earlier ones."""

    name: str
    pieces: list[Piece]
    glyph: str = ""


def strips(period: Period, rows: list[Strip], label: str, *, testid: str) -> Html:
    """The rows, over the page's time axis; what lies outside the period is cut off."""
    plot = Plot(period, svg.TOP + ROW * len(rows) + svg.BOTTOM - 8, left=LABELS, top=svg.TOP - 8)
    is_telling = sum(len(row.pieces) for row in rows) <= TOLD_MAX
    for index, row in enumerate(rows):
        middle = plot.top + index * ROW + ROW // 2
        shown = words.name(row.name)
        short = shown if len(shown) <= CHARACTERS_MAX else f"{shown[: CHARACTERS_MAX - 1]}…"
        caption = f"{row.glyph} {short}" if row.glyph else short
        plot.under.append(el("text", el("title", shown), caption, x=LABELS - 8, y=middle + 4, class_="name e"))
        plot.under.append(el("path", d=f"M{LABELS} {middle}H{plot.right}", class_="trough"))
        if is_telling:
            plot.shapes += [_told(plot, piece, middle) for piece in row.pieces]
        else:
            plot.shapes += _merged(plot, row.pieces, middle)
    return plot.done(label, data_testid=testid)


def _told(plot: Plot, piece: Piece, middle: int) -> Html:
    spot = el("path", d=_stroke(*_ends(plot, piece), middle), class_=f"bar {piece.colour}")
    return el("g", el("title", piece.words), spot) if piece.words else spot


def _merged(plot: Plot, pieces: list[Piece], middle: int) -> list[Html]:
    """One path a colour; bars that touch, or nearly do, are one."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for piece in sorted(pieces, key=lambda piece: piece.since_us):
        left, right = _ends(plot, piece)
        drawn = spans.setdefault(piece.colour, [])
        if drawn and left - drawn[-1][1] < 0.5:
            drawn[-1] = (drawn[-1][0], max(right, drawn[-1][1]))
        else:
            drawn.append((left, right))
    order = list(dict.fromkeys(piece.colour for piece in pieces))
    return [
        el("path", d="".join(_stroke(*span, middle) for span in spans[colour]), class_=f"bar {colour}")
        for colour in order
    ]


def _ends(plot: Plot, piece: Piece) -> tuple[float, float]:
    left, right = plot.x(piece.since_us), plot.x(piece.until_us)
    return left, max(right, left + 1.0)


def _stroke(left: float, right: float, middle: int) -> str:
    return f"M{svg.place(left)} {middle}H{svg.place(right)}"
