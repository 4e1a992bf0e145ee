"""Charts of tasks over time: throughput, bad ends by family, and bands of latency."""

from __future__ import annotations

from typing import Final

import numpy as np

from scale0_pipeline import words
from scale0_pipeline.report import histogram, svg
from scale0_pipeline.report.charts.marks import Gap, Mark, draw_gaps, draw_marks
from scale0_pipeline.report.flow import FAMILIES, Floats, Integers
from scale0_pipeline.report.html import Html, el
from scale0_pipeline.report.period import Period
from scale0_pipeline.report.svg import Numbers, Plot
from scale0_pipeline.units import MINUTE_US, SECOND_US

LOW_US: Final = 10.0
"""Latency is drawn from here on at the lowest."""
SMALL: Final = 310
"""The width of a chart that stands beside two others."""


class Bands:
    """p50, p90 and p99 of each bin; null where there was nothing to measure."""

    def __init__(self, counts: histogram.Counts) -> None:
        self.p50 = histogram.percentiles_us(counts, 0.5)
        self.p90 = histogram.percentiles_us(counts, 0.9)
        self.p99 = histogram.percentiles_us(counts, 0.99)

    def ends(self) -> tuple[float, float]:
        """The lowest and the highest value, moved out to where an axis may end."""
        known = [value for value in self.p50 + self.p99 if value is not None]
        return decade_ends(known)


def decade_ends(known: list[float]) -> tuple[float, float]:
    """Ends of a logarithmic axis: 1, 2 or 5 times a power of ten, at least a factor of ten apart."""
    low, high = max(min(known, default=LOW_US), LOW_US), max(max(known, default=LOW_US), LOW_US)
    steps = [step * 10.0**power for power in range(13) for step in (1, 2, 5)]
    bottom = max(step for step in steps if step <= low * 1.0001)
    top = min(step for step in steps if step >= min(high, steps[-1]))
    return bottom, max(top, bottom * 10)


def throughput(period: Period, accepted: Integers, replied: Integers, gaps: list[Gap], marks: list[Mark]) -> Html:
    """Accepted and replied a second: the gap between them is the story."""
    seconds = period.bin_us / SECOND_US
    rates = [[float(value) / seconds for value in numbers] for numbers in (accepted, replied)]
    plot = Plot(period, 180)
    top = svg.nice_top(max(max(rates[0], default=0), max(rates[1], default=0)))
    plot.vertical(0, top)
    levels = svg.linear_ticks(top)
    plot.grid(levels, [words.figure(level) for level in levels])
    draw_gaps(plot, gaps)
    plot.shapes += [
        svg.band(plot, rates[1], rates[0], "fill-warn soft"),
        svg.line(plot, rates[0], "s-text thin"),
        svg.line(plot, rates[1], "s-ok"),
    ]
    draw_marks(plot, marks)
    return plot.done("Tasks accepted and replied a second over time", data_testid="chart-throughput")


def rate_unit(period: Period) -> tuple[int, str]:
    """By what bad ends are counted: the minute, or the second where the page is that fine."""
    return (SECOND_US, "second") if period.is_fine else (MINUTE_US, "minute")


def errors(period: Period, families: dict[str, Integers], gaps: list[Gap], marks: list[Mark]) -> Html:
    """Bars of tasks that ended badly, stacked by family; never stacked on those that ended well."""
    unit_us, unit = rate_unit(period)
    units = period.bin_us / unit_us
    plot = Plot(period, 130)
    totals: Integers = np.asarray(sum(families.values()))
    top = svg.nice_top(float(totals.max(initial=0)) / units)
    scale = plot.vertical(0, top)
    levels = svg.linear_ticks(top, 3)
    plot.grid(levels, [words.figure(level) for level in levels])
    draw_gaps(plot, gaps, is_labelled=False)
    base: Floats = np.zeros(period.bins)
    for family in FAMILIES:
        spots = []
        for index in np.flatnonzero(families[family] > 0).tolist():
            left, right = plot.bin_x(index), plot.bin_x(index + 1)
            high = scale(base[index] + families[family][index] / units)
            low = scale(base[index])
            spots.append((left, high, max(right - left - (0.6 if right - left > 3 else 0), 0.8), low - high))
        base += np.maximum(families[family], 0) / units
        if spots:
            plot.shapes.append(svg.boxes(spots, f"fill-{family}"))
    draw_marks(plot, marks)
    return plot.done(f"Tasks that ended badly, a {unit}, by family", data_testid="chart-errors")


def latency(period: Period, bands: Bands, gaps: list[Gap], marks: list[Mark]) -> Html:
    """p50 as a line, p50–p90 and p90–p99 as bands of one hue, on a logarithmic axis."""
    plot = Plot(period, 220)
    low, high = bands.ends()
    plot.vertical(low, high, is_log=True)
    levels = svg.log_ticks(low, high)
    plot.grid(levels, [words.duration(level) for level in levels])
    draw_gaps(plot, gaps, is_labelled=False)
    plot.shapes += [
        svg.band(plot, bands.p90, bands.p99, "fill-ok faint"),
        svg.band(plot, bands.p50, bands.p90, "fill-ok soft"),
        svg.line(plot, bands.p50, "s-ok"),
    ]
    draw_marks(plot, marks)
    return plot.done("Latency over time: p50, p90 and p99", data_testid="chart-latency", data_points=period.bins)


def small_bands(period: Period, bands: Bands, ends: tuple[float, float], title: str) -> Html:
    """A latency chart the size of a stamp; those beside it share its axis, so that they can be compared."""
    plot = Plot(period, 110, left=52, width=SMALL, top=6)
    plot.vertical(*ends, is_log=True)
    levels = svg.log_ticks(*ends, most=3)
    plot.grid(levels, [words.duration(level) for level in levels])
    plot.shapes += [
        svg.band(plot, bands.p90, bands.p99, "fill-ok faint"),
        svg.band(plot, bands.p50, bands.p90, "fill-ok soft"),
        svg.line(plot, bands.p50, "s-ok"),
    ]
    return plot.done(f"Latency of {title}", class_="small")


def sparkline(values: Numbers, class_: str = "s-ok") -> Html:
    """A line without axes, for the eye alone."""
    known = [value for value in values if value is not None]
    width, height = 120, 24
    if len(known) < 2:
        return svg.drawing(height, "too few values", width=width, class_="spark", aria_hidden="true")
    top = max(known) or 1.0
    pieces: list[str] = []
    is_drawing = False
    for index, value in enumerate(values):
        if value is not None:
            across = index / (len(values) - 1) * (width - 4) + 2
            pieces.append(f"{'L' if is_drawing else 'M'}{svg.place(across)} {svg.place(height - 2 - value / top * 20)}")
        is_drawing = value is not None
    path = el("path", d="".join(pieces), class_=f"line {class_}")
    return svg.drawing(height, "trend", path, width=width, class_="spark", aria_hidden="true")
