"""Drawing: scales, axes and the few shapes that all charts are made of.

A drawing is `WIDTH` units wide and is scaled to the page, so a unit is about a pixel. Colours are names of the style
sheet's variables (`ok`, `warn`, …), never values, so that one drawing serves light, dark and paper. Coordinates have
one decimal: enough for the eye, and a third of the bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from scale0_pipeline import words
from scale0_pipeline.report.html import Child, Html, el, join
from scale0_pipeline.report.period import Period, ticks

WIDTH: Final = 960
LEFT: Final = 64
RIGHT: Final = 12
TOP: Final = 16
BOTTOM: Final = 22
TICKS_MAX: Final = 9
FEW_TICKS: Final = 3
"""Labels of a time axis, on a wide and on a small drawing."""

Numbers = Sequence[float | None]


class Scale:
    """From a value to a place: linear, or by logarithm, between two ends."""

    def __init__(self, low: float, high: float, start: float, end: float, *, is_log: bool = False) -> None:
        assert high > low
        assert low > 0 or not is_log
        self.low, self.high, self.start, self.end, self.is_log = low, high, start, end, is_log

    def __call__(self, value: float) -> float:
        """Where a value stands; one outside the ends stands at the end."""
        value = min(max(value, self.low), self.high)
        if self.is_log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def nice_top(value: float) -> float:
    """The round number at or above a value, on which an axis may end."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    steps = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
    return next(step * power for step in steps if value <= step * power * (1 + 1e-9))


def linear_ticks(top: float, most: int = 4) -> list[float]:
    """Round values from 0 to the top of an axis."""
    power = 10.0 ** math.floor(math.log10(top / most))
    step = next(times * power for times in (1, 2, 5, 10) if top / most <= times * power * (1 + 1e-9))
    return [step * index for index in range(int(top / step + 1e-9) + 1)]


def log_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round values between two ends: powers of ten, thinned to a few; with others between them where there is room."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        values = sorted(step * 10.0**power for power in decades for step in steps)
        chosen = [value for value in values if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
        if len(chosen) <= most + 1:
            return chosen
    return chosen[:: math.ceil(len(chosen) / most)]


def place(value: float) -> str:
    """A coordinate, in as few characters as the eye needs."""
    return f"{value:.1f}".removesuffix(".0")


class Plot:
    """A drawing with a time axis: shapes are added, axes come with it, `done` gives the element."""

    def __init__(self, period: Period, height: int, *, left: int = LEFT, width: int = WIDTH, top: int = TOP) -> None:
        self.period, self.height, self.width = period, height, width
        self.left, self.right, self.top, self.bottom = left, width - RIGHT, top, height - BOTTOM
        self.x = Scale(period.since_us, period.until_us, self.left, self.right)
        self.y: Scale | None = None
        self.under: list[Html] = []
        self.shapes: list[Html] = []
        self.over: list[Html] = []

    def vertical(self, low: float, high: float, *, is_log: bool = False) -> Scale:
        """Sets the vertical scale, drawn upwards."""
        self.y = Scale(low, high, self.bottom, self.top, is_log=is_log)
        return self.y

    def bin_x(self, index: int) -> float:
        """The left edge of a bin."""
        return self.x(self.period.since_us + index * self.period.bin_us)

    def middle_x(self, index: int) -> float:
        return (self.bin_x(index) + self.bin_x(index + 1)) / 2

    def grid(self, values: Iterable[float], show: Iterable[str]) -> None:
        """Horizontal lines with their values on the left."""
        assert self.y is not None
        for value, label in zip(values, show, strict=True):
            level = place(self.y(value))
            self.under.append(el("path", d=f"M{self.left} {level}H{self.right}", class_="grid"))
            self.under.append(el("text", label, x=self.left - 6, y=level, dy="4", class_="tick e"))

    def done(self, label: str, **attributes: object) -> Html:
        """The whole drawing; `label` is what it says to those who cannot see it."""
        axis = [el("path", d=f"M{self.left} {self.bottom}H{self.right}", class_="axis")]
        for at_us, mark in ticks(self.period, TICKS_MAX if self.width == WIDTH else FEW_TICKS):
            across = self.x(at_us)
            anchor = "tick s" if across < self.left + 14 else "tick e" if across > self.right - 22 else "tick m"
            axis.append(el("path", d=f"M{place(across)} {self.bottom}v4", class_="axis"))
            axis.append(el("text", mark, x=place(across), y=self.bottom + 16, class_=anchor))
        cursor = el("path", d=f"M0 {self.top}V{self.bottom}", class_="cursor")
        return drawing(
            self.height,
            label,
            *self.under,
            *self.shapes,
            *axis,
            *self.over,
            cursor,
            width=self.width,
            data_bins=self.period.bins,
            data_since=self.period.since_us,
            data_left=self.left,
            data_right=self.right,
            **attributes,
        )


def drawing(height: float, label: str, *shapes: Child, width: float = WIDTH, **attributes: object) -> Html:
    """An SVG element; `label` is read aloud in place of it."""
    box = f"0 0 {place(width)} {place(height)}"
    return el("svg", *shapes, viewBox=box, role="img", aria_label=label, **attributes)


def line(plot: Plot, values: Numbers, class_: str) -> Html:
    """A line through the bins that have a value; where one has none, the line stops."""
    assert plot.y is not None
    pieces: list[str] = []
    alone: list[str] = []
    is_drawing = False
    for index, value in enumerate(values):
        if value is None:
            is_drawing = False
            continue
        spot = f"{place(plot.middle_x(index))} {place(plot.y(value))}"
        pieces.append(f"{'L' if is_drawing else 'M'}{spot}")
        if not is_drawing and (index + 1 == len(values) or values[index + 1] is None):
            alone.append(f"M{spot}h0")
        is_drawing = True
    return join(
        [
            el("path", d="".join(pieces), class_=f"line {class_}"),
            el("path", d="".join(alone), class_=f"line dot {class_}") if alone else None,
        ]
    )


def band(plot: Plot, low: Numbers, high: Numbers, class_: str) -> Html:
    """The area between two lines, as wide as its bins, cut where either has no value."""
    assert plot.y is not None
    pieces: list[str] = []
    run: list[int] = []
    for index in range(len(low) + 1):
        if index < len(low) and low[index] is not None and high[index] is not None:
            run.append(index)
        elif run:
            pieces.append(_outline(plot, run, low, high))
            run = []
    return el("path", d="".join(pieces), class_=class_)


def _outline(plot: Plot, run: list[int], low: Numbers, high: Numbers) -> str:
    assert plot.y is not None
    upper = [(plot.middle_x(index), plot.y(high[index] or 0)) for index in run]
    lower = [(plot.middle_x(index), plot.y(low[index] or 0)) for index in run]
    if len(run) == 1:  # a bin without neighbours is drawn as wide as it is
        left, right = plot.bin_x(run[0]), plot.bin_x(run[0] + 1)
        upper, lower = [(left, upper[0][1]), (right, upper[0][1])], [(left, lower[0][1]), (right, lower[0][1])]
    corners = [f"{place(across)} {place(down)}" for across, down in upper + lower[::-1]]
    return "M" + "L".join(corners) + "Z"


def boxes(spots: Iterable[tuple[float, float, float, float]], class_: str, **attributes: object) -> Html:
    """Rectangles (x, y, width, height) as one path."""
    pieces = [f"M{place(x)} {place(y)}h{place(w)}v{place(h)}h{place(-w)}z" for x, y, w, h in spots]
    return el("path", d="".join(pieces), class_=class_, **attributes)


def label(x: float, y: float, words_: str, class_: str = "tick") -> Html:
    return el("text", words.visible(words_), x=place(x), y=place(y), class_=class_)
