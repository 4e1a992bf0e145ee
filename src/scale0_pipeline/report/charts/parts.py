"""Where time goes: the mean seconds of queue, worker and network stacked, and the percentiles of each on its own.

Means add up, so they may be stacked; percentiles do not, so each part has a chart of its own, and all share one axis.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from scale0_pipeline import words
from scale0_pipeline.report import histogram, svg
from scale0_pipeline.report.charts.lines import SMALL, decade_ends
from scale0_pipeline.report.charts.marks import Gap, Mark, draw_gaps, draw_marks
from scale0_pipeline.report.flow import Floats, Flow
from scale0_pipeline.report.html import Html
from scale0_pipeline.report.period import Period
from scale0_pipeline.report.svg import Plot

PART_NAMES: Final = ("queue", "worker", "network")


def means_us(flow: Flow) -> dict[str, Floats]:
    """The mean time of a task in each part, a bin; NaN where nothing was accepted, or nobody told."""
    accepted = flow.accepted.sum(axis=0).astype(np.float64)
    told = flow.total("network_count").astype(np.float64)
    over = {"queue": accepted, "worker": told, "network": told}
    with np.errstate(divide="ignore", invalid="ignore"):
        return {part: np.where(number > 0, flow.total(f"{part}_us") / number, np.nan) for part, number in over.items()}


def stacked(flow: Flow, gaps: list[Gap], marks: list[Mark]) -> Html:
    """Mean seconds of a task, stacked."""
    period = flow.period
    means = {part: np.nan_to_num(values) for part, values in means_us(flow).items()}
    is_known = flow.accepted.sum(axis=0) > 0
    plot = Plot(period, 150)
    top = svg.nice_top(float(sum(means.values()).max(initial=0)))  # type: ignore[union-attr]
    plot.vertical(0, top)
    levels = svg.linear_ticks(top, 3)
    plot.grid(levels, [words.duration(level) for level in levels])
    draw_gaps(plot, gaps, is_labelled=False)
    base: Floats = np.zeros(period.bins)
    for part in PART_NAMES:
        upper = base + means[part]
        low = [float(value) if known else None for value, known in zip(base, is_known, strict=True)]
        high = [float(value) if known else None for value, known in zip(upper, is_known, strict=True)]
        plot.shapes.append(svg.band(plot, low, high, f"fill-{part}"))
        base = upper
    draw_marks(plot, marks)
    return plot.done("Mean time of a task in queue, worker and network", data_testid="chart-parts")


def shared_ends(counts: dict[str, histogram.Counts]) -> tuple[float, float]:
    """One axis for all parts: from their lowest p50 to their highest p99."""
    known = [
        value
        for part in PART_NAMES
        for share in (0.5, 0.99)
        for value in histogram.percentiles_us(counts[part], share)
        if value
    ]
    return decade_ends(known)


def percentile_chart(period: Period, counts: histogram.Counts, ends: tuple[float, float], part: str) -> Html:
    """p50 and p99 of one part."""
    plot = Plot(period, 130, left=52, width=SMALL, top=6)
    plot.vertical(*ends, is_log=True)
    levels = svg.log_ticks(*ends, most=4)
    plot.grid(levels, [words.duration(level) for level in levels])
    p50, p99 = (histogram.percentiles_us(counts, share) for share in (0.5, 0.99))
    plot.shapes += [
        svg.band(plot, p50, p99, f"fill-{part} soft"),
        svg.line(plot, p50, f"s-{part}"),
    ]
    return plot.done(f"{part}: p50 and p99 over time", class_="small")
