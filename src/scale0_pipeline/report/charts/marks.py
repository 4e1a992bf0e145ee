"""What lies under and over every chart of tasks: hatched gaps of the record, and marks of what was done to the network.

A gap stays a gap. Where recorders lost rows the chart is hatched and says how many; a low figure there means that less
was seen, not that less happened.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scale0_pipeline import words
from scale0_pipeline.report import svg
from scale0_pipeline.report.html import Html, el, join
from scale0_pipeline.report.svg import Plot
from scale0_pipeline.units import HOUR_US

WHOLE: Final = 0.999
"""A record with less than this share of what was counted is shown as incomplete."""
MARKS_MAX: Final = 40
LABEL_WIDTH: Final = 150


class Gap(msgspec.Struct, frozen=True):
    """A time of which the record lacks rows."""

    since_us: int
    until_us: int
    lost: int


class Mark(msgspec.Struct, frozen=True):
    """Something that was done to the network, or that it did: a glyph at a time, and its words."""

    at_us: int
    glyph: str
    words: str


def gaps_of(hours: list[dict[str, object]]) -> list[Gap]:
    """The incomplete hours of `gold/completeness_1h`, joined where they touch."""
    lost: dict[int, int] = {}
    counted: dict[int, int] = {}
    for row in hours:
        at, number, whole = row["hour_us"], row["recorded"] or 0, row["counted"] or 0
        assert isinstance(at, int)
        assert isinstance(number, int)
        assert isinstance(whole, int)
        lost[at] = lost.get(at, 0) + max(0, whole - number)
        counted[at] = counted.get(at, 0) + whole
    gaps: list[Gap] = []
    for at in sorted(hour for hour in lost if lost[hour] > counted[hour] * (1 - WHOLE)):
        if gaps and gaps[-1].until_us == at:
            gaps[-1] = Gap(gaps[-1].since_us, at + HOUR_US, gaps[-1].lost + lost[at])
        else:
            gaps.append(Gap(at, at + HOUR_US, lost[at]))
    return gaps


def draw_gaps(plot: Plot, gaps: list[Gap], *, is_labelled: bool = True) -> None:
    """Hatches the gaps, under everything else; those that have room for it are labelled."""
    room = float(plot.left)
    for gap in gaps:
        left, right = plot.x(gap.since_us), plot.x(gap.until_us)
        if right - left < 0.5:
            continue
        text = f"recorder lost {words.plural(gap.lost, 'row')}"
        spot = (left, plot.top, right - left, plot.bottom - plot.top)
        plot.under.append(el("g", el("title", text), svg.boxes([spot], "hatch")))
        start = min(left, plot.right - LABEL_WIDTH)
        if is_labelled and start >= room:
            plot.over.append(svg.label(start + 3, plot.bottom - 5, text, "note"))
            room = start + LABEL_WIDTH


def draw_marks(plot: Plot, marks: list[Mark]) -> None:
    """A thin line and a glyph above it for each; the words show on hovering, and stand in the sections."""
    inside = [mark for mark in marks if plot.period.since_us <= mark.at_us < plot.period.until_us]
    for mark in inside[:MARKS_MAX]:
        across = svg.place(plot.x(mark.at_us))
        plot.over.append(
            el(
                "g",
                el("title", f"{plot.period.show(mark.at_us)} {mark.words}"),
                el("path", d=f"M{across} {plot.top - 2}V{plot.bottom}", class_="mark"),
                el("text", mark.glyph, x=across, y=plot.top - 4, class_="tick m"),
            )
        )


def hatching() -> Html:
    """The pattern of hatches, once a page."""
    stripe = el("path", d="M-1 7L7 -1M-1 1L1 -1M5 7L7 5", class_="stripe")
    pattern = el("pattern", stripe, id="hatch", width=6, height=6, patternUnits="userSpaceOnUse")
    return el("svg", el("defs", pattern), width=0, height=0, aria_hidden="true", class_="defs")


def legend(entries: list[tuple[str, str]]) -> Html:
    """Colours and their words."""
    return el("p", join(el("span", el("i", class_=class_), text) for class_, text in entries), class_="legend")
