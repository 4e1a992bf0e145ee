"""Charts without a time axis: ranked bars, ledgers of fail-overs, clock offsets with whiskers, capacity of a week."""

from __future__ import annotations

import math
from typing import Final

import msgspec

from scale0_pipeline import words
from scale0_pipeline.report import svg
from scale0_pipeline.report.html import Html, el
from scale0_pipeline.report.svg import Scale

ROW: Final = 22
LABELS: Final = 170
VALUES: Final = 150
OFFSETS: Final = 220
"""Room for the words behind the bars, and behind offsets."""
CHARACTERS_MAX: Final = 24
HOURS_OF_WEEK: Final = 168
WORKERS_MIN: Final = 3.0
"""The least that a week's axis ends at: there are no halves of workers."""
DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class Bar(msgspec.Struct):
    """A row: its parts as (value, fill), and the words at its end."""

    name: str
    parts: list[tuple[float, str]]
    note: str


def bars(rows: list[Bar], label: str, *, is_whole: bool = False) -> Html:
    """Horizontal bars; with `is_whole` each fills the width, and its parts are shares of it."""
    most = max((sum(value for value, _ in row.parts) for row in rows), default=0) or 1.0
    shapes: list[Html] = []
    for index, row in enumerate(rows):
        top = index * ROW + 4
        whole = (sum(value for value, _ in row.parts) or 1.0) if is_whole else most
        scale = Scale(0, whole, 0, svg.WIDTH - LABELS - VALUES)
        shapes.append(_name(row.name, top + 14))
        left = float(LABELS)
        for value, fill in row.parts:
            width = scale(value)
            if value > 0:
                shapes.append(svg.boxes([(left, top + 3, max(width, 1.0), ROW - 8)], fill))
            left += width
        shapes.append(svg.label((svg.WIDTH - VALUES if is_whole else left) + 8, top + 14, row.note, "name"))
    return svg.drawing(len(rows) * ROW + 8, label, *shapes)


def _name(name: str, y: float) -> Html:
    shown = words.name(name)
    short = shown if len(shown) <= CHARACTERS_MAX else f"{shown[: CHARACTERS_MAX - 1]}…"
    return el("text", el("title", shown), short, x=LABELS - 8, y=y, class_="name e")


class Offset(msgspec.Struct):
    """A clock: how far it is off, how well that is known, and whether it drifts."""

    name: str
    offset_us: float
    error_us: float | None
    is_drifting: bool
    note: str


def offsets(rows: list[Offset]) -> Html:
    """Offsets around zero, with whiskers as long as their errors. The axis bends, so that µs and s fit on it."""
    reach = max((abs(row.offset_us) + (row.error_us or 0) for row in rows), default=1.0) or 1.0
    end = _bent(reach)
    scale = Scale(-end, end, LABELS, svg.WIDTH - OFFSETS)
    height = len(rows) * ROW + 26
    shapes: list[Html] = []
    for level in _offset_ticks(reach):
        across = svg.place(scale(_bent(level)))
        shapes.append(el("path", d=f"M{across} 0V{height - 22}", class_="axis" if level == 0 else "grid"))
        caption = words.signed(words.duration(level), level) if level else "0"
        shapes.append(el("text", caption, x=across, y=height - 8, class_="tick m"))
    for index, row in enumerate(rows):
        y = index * ROW + 14
        error = row.error_us or 0
        low, high = scale(_bent(row.offset_us - error)), scale(_bent(row.offset_us + error))
        colour = "warn" if row.is_drifting else "ok"
        shapes.append(_name(row.name, y + 4))
        shapes.append(el("path", d=f"M{svg.place(low)} {y}H{svg.place(high)}", class_=f"line thin s-{colour}"))
        shapes.append(el("circle", cx=svg.place(scale(_bent(row.offset_us))), cy=y, r=3.5, class_=f"fill-{colour}"))
        shapes.append(svg.label(svg.WIDTH - OFFSETS + 8, y + 4, row.note, "name"))
    return svg.drawing(height, "Clock offsets of workers against their brokers", *shapes)


def _bent(us: float) -> float:
    """A logarithm that goes through zero: straight below a millisecond, bent above."""
    return math.copysign(math.log1p(abs(us) / 1_000), us)


def _offset_ticks(reach_us: float) -> list[float]:
    levels = [level for level in (1e3, 1e4, 1e5, 1e6, 1e7, 1e8) if level <= reach_us][-2:] or [reach_us]
    return [-level for level in levels[::-1]] + [0.0] + levels


class Week(msgspec.Struct):
    """What a service needs by hour of the week: workers, and between which numbers that lies."""

    needed: list[float | None]
    low: list[float | None]
    high: list[float | None]
    now: float | None


def week(one: Week, title: str) -> Html:
    """Workers that are needed through the week, the interval around them, and those that there are."""
    width, height, left, bottom = 460, 110, 34, 90
    known = [value for value in (*one.high, *one.needed, one.now) if value is not None]
    top = max(svg.nice_top(max(known, default=1)), WORKERS_MIN)
    down = Scale(0, top, bottom, 8)
    across = Scale(0, HOURS_OF_WEEK, left, width - 8)
    shapes: list[Html] = []
    for level in svg.linear_ticks(top, 3):
        y = svg.place(down(level))
        shapes.append(el("path", d=f"M{left} {y}H{width - 8}", class_="grid"))
        shapes.append(el("text", words.figure(level), x=left - 5, y=y, dy="4", class_="tick e"))
    for day, word in enumerate(DAYS):
        shapes.append(svg.label(across(day * 24 + 12), bottom + 15, word, "tick m"))
    bands: list[tuple[float, float, float, float]] = []
    levels: list[tuple[float, float, float, float]] = []
    for first, last in _runs(one):
        needed, low, high = one.needed[first], one.low[first], one.high[first]
        start, wide = across(first), across(last) - across(first)
        if low is not None and high is not None:
            bands.append((start, down(high), wide, max(down(low) - down(high), 1.0)))
        levels.append((start, down(needed or 0) - 1, wide, 2.0))
    shapes += [svg.boxes(bands, "fill-ok faint"), svg.boxes(levels, "fill-ok")]
    if one.now is not None:
        y = svg.place(down(one.now))
        shapes.append(el("path", d=f"M{left} {y}H{width - 8}", class_="line thin dash s-text"))
    return svg.drawing(height, f"Workers that {title} needs through the week", *shapes, width=width, class_="small")


def _runs(one: Week) -> list[tuple[int, int]]:
    """Hours in a row that need the same, as (first, one past the last); hours that nobody knows are left out."""
    runs: list[tuple[int, int]] = []
    hours = list(zip(one.needed, one.low, one.high, strict=True))
    for hour, values in enumerate(hours):
        if values[0] is None:
            continue
        if runs and runs[-1][1] == hour and hours[runs[-1][0]] == values:
            runs[-1] = (runs[-1][0], hour + 1)
        else:
            runs.append((hour, hour + 1))
    return runs
