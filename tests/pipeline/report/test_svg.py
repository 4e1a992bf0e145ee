"""Scales, ticks and shapes."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scale0_pipeline.report import svg
from scale0_pipeline.report.charts.bars import Week, _runs
from scale0_pipeline.report.charts.lines import decade_ends
from scale0_pipeline.report.period import make_period
from scale0_pipeline.report.svg import Plot, Scale
from scale0_pipeline.units import MINUTE_US
from tests.pipeline.report.sample import START_US

HOUR = make_period(START_US, START_US + 60 * MINUTE_US)


def test_a_scale_maps_its_ends_and_holds_what_is_outside() -> None:
    scale = Scale(0, 10, 100, 0)
    assert [scale(value) for value in (-5, 0, 5, 10, 99)] == [100, 100, 50, 0, 0]


def test_a_logarithmic_scale_gives_equal_room_to_equal_factors() -> None:
    scale = Scale(1, 1_000, 0, 3, is_log=True)
    assert [round(scale(value), 6) for value in (1, 10, 100, 1_000)] == [0, 1, 2, 3]


@given(st.floats(min_value=1e-6, max_value=1e15))
def test_an_axis_ends_at_a_round_number_not_far_above(value: float) -> None:
    top = svg.nice_top(value)
    assert value <= top * (1 + 1e-6)
    assert top <= value * 1.51
    levels = svg.linear_ticks(top)
    assert 2 <= len(levels) <= 6
    assert levels[-1] <= top * (1 + 1e-6)


@given(st.floats(min_value=10, max_value=1e11), st.floats(min_value=1, max_value=1e6))
def test_logarithmic_ticks_lie_within_the_axis(low: float, factor: float) -> None:
    bottom, top = decade_ends([low, low * factor])
    assert bottom <= low * 1.001
    for most in (3, 5):
        levels = svg.log_ticks(bottom, top, most)
        assert 1 <= len(levels) <= most + 1
        assert all(bottom * 0.999 <= level <= top * 1.001 for level in levels)


def test_a_line_stops_where_there_is_no_value() -> None:
    plot = Plot(HOUR, 100)
    plot.vertical(0, 10)
    drawn = svg.line(plot, [1, 2, None, None, 3, None, 4, 5], "s-ok")
    path = re.search(r'd="([^"]+)"', drawn)
    assert path is not None
    assert path[1].count("M") == 3
    assert "dot" in drawn  # the lonely value is a dot


def test_a_band_is_cut_where_either_edge_has_no_value() -> None:
    plot = Plot(HOUR, 100)
    plot.vertical(0, 10)
    drawn = svg.band(plot, [1, 1, None, 1], [2, 2, 2, 2], "fill-ok")
    assert drawn.count("Z") == 2


def test_values_stand_above_lower_ones() -> None:
    plot = Plot(HOUR, 100)
    scale = plot.vertical(0, 10)
    heights = [scale(value) for value in range(11)]
    assert all(above > below for above, below in itertools.pairwise(heights))
    assert heights[0] == plot.bottom
    assert heights[-1] == plot.top


@pytest.mark.parametrize(("value", "text"), [(1.0, "1"), (1.25, "1.2"), (-3.0, "-3"), (0.04, "0.0")])
def test_coordinates_are_short(value: float, text: str) -> None:
    assert svg.place(value) in (text, text.removesuffix(".0"))


def test_hours_of_a_week_that_need_the_same_are_one_box() -> None:
    needed: list[float | None] = [None] * 168
    needed[3:6] = [2, 2, 4]
    week = Week(needed, list(needed), list(needed), None)
    assert _runs(week) == [(3, 5), (5, 6)]
