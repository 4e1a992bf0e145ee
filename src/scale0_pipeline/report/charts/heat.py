"""The heat map of latency: every task of the period in one picture.

Time goes right, latency goes up by quarters of an octave, and the shade is the logarithm of the count in nine steps of
cividis, which reads the same for all kinds of eyes. Two populations, a slow worker or a time limit show as bands that
no percentile could show. Cells of a shade are one path, so the map stays small.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from scale0_pipeline import words
from scale0_pipeline.buckets import PER_OCTAVE
from scale0_pipeline.report import histogram, svg
from scale0_pipeline.report.charts.marks import Gap, Mark, draw_gaps, draw_marks
from scale0_pipeline.report.flow import Integers
from scale0_pipeline.report.html import Html, el, join
from scale0_pipeline.report.period import Period
from scale0_pipeline.report.svg import Plot

SHADES: Final = 9
QUARTERS: Final = PER_OCTAVE // histogram.MERGED
ROWS_MIN: Final = 12
HEIGHT_MAX: Final = 300


def shades(counts: Integers) -> Integers:
    """The shade of each cell, 1 to 9 by the logarithm of its count; 0 where there is nothing."""
    most = int(counts.max(initial=0))
    if most <= 0:
        return np.zeros_like(counts)
    scaled = np.log1p(np.maximum(counts, 0)) / math.log1p(most)
    return np.where(counts > 0, np.clip(np.ceil(scaled * SHADES), 1, SHADES).astype(np.int64), 0)


def rows_in_use(counts: Integers) -> tuple[int, int]:
    """The first row of buckets that has a task, and one past the last; never fewer than a few."""
    used = np.flatnonzero(counts.sum(axis=0) > 0)
    first, last = (int(used[0]), int(used[-1]) + 1) if len(used) else (0, ROWS_MIN)
    while last - first < ROWS_MIN:
        first, last = max(0, first - 1), last + 1
    return first, last


def heat_map(period: Period, latency: histogram.Counts, gaps: list[Gap], marks: list[Mark]) -> Html:
    """Time × latency, shaded by count."""
    counts = histogram.quarter_octaves(latency)
    first, last = rows_in_use(counts)
    cell = min(7.0, HEIGHT_MAX / (last - first))
    plot = Plot(period, round(cell * (last - first)) + svg.TOP + svg.BOTTOM)
    low, high = (2.0 ** (row / QUARTERS) for row in (first, last))
    plot.vertical(low, high, is_log=True)
    levels = svg.log_ticks(low, high)
    draw_gaps(plot, gaps, is_labelled=False)
    plot.shapes.append(_cells(plot, shades(counts)[:, first:last], cell))
    plot.grid(levels, [words.duration(level) for level in levels])
    draw_marks(plot, marks)
    return plot.done("Heat map of latency over time", data_testid="chart-heat")


def _cells(plot: Plot, shade: Integers, cell: float) -> Html:
    """Strokes as thick as a cell, in units of cells: eight bytes a cell, and none for a neighbour of its shade."""
    strokes: dict[int, list[str]] = {}
    for row in range(shade.shape[1]):
        column = shade[:, row]
        edges = np.flatnonzero(np.diff(column)) + 1
        for start, end in zip([0, *edges.tolist()], [*edges.tolist(), len(column)], strict=True):
            if column[start]:
                strokes.setdefault(int(column[start]), []).append(f"M{start} {row}h{end - start}")
    wide = (plot.right - plot.left) / plot.period.bins
    move = f"translate({plot.left} {svg.place(plot.bottom - cell / 2)}) scale({wide:.4f} {-cell:.4f})"
    paths = [el("path", d="".join(strokes[step]), class_=f"heat{step}") for step in sorted(strokes)]
    return el("g", *paths, transform=move, class_="cells")


def heat_legend(latency: histogram.Counts) -> Html:
    """What the shades stand for."""
    most = int(histogram.quarter_octaves(latency).max(initial=0))
    steps = join(el("i", class_=f"bg-heat{step}") for step in range(1, SHADES + 1))
    return el("p", el("span", "1 task ", steps, f" {words.count(most)} a cell, by logarithm"), class_="legend heat")
