"""Periods, their bins and their axis."""

from __future__ import annotations

import numpy as np
import pytest

from scale0_pipeline.report.period import BINS_MAX, Period, make_period, stretches, ticks
from scale0_pipeline.units import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from tests.pipeline.report.sample import START_US


@pytest.mark.parametrize(
    ("length_us", "bin_us"),
    [
        (20 * SECOND_US, SECOND_US),
        (10 * MINUTE_US, 2 * SECOND_US),
        (HOUR_US, MINUTE_US),
        (DAY_US, 5 * MINUTE_US),
        (7 * DAY_US, HOUR_US),
        (30 * DAY_US, 3 * HOUR_US),
        (400 * DAY_US, 2 * DAY_US),
    ],
)
def test_the_bins_suit_the_period(length_us: int, bin_us: int) -> None:
    period = make_period(START_US, START_US + length_us)
    assert period.bin_us == bin_us
    assert period.bins <= BINS_MAX + 1


@pytest.mark.parametrize(
    "length_us", [1, SECOND_US, 17 * SECOND_US, 16 * MINUTE_US, 3 * HOUR_US, 90 * DAY_US, 9_000 * DAY_US]
)
@pytest.mark.parametrize("most", [3, 9])
def test_the_axis_has_some_labels_but_not_many(length_us: int, most: int) -> None:
    labels = ticks(make_period(START_US + 1, START_US + 1 + length_us), most)
    assert len(labels) <= most + 2
    assert length_us < 2 * SECOND_US or labels


def test_midnight_is_labelled_with_its_day() -> None:
    labels = dict(ticks(make_period(START_US - HOUR_US, START_US + 2 * HOUR_US), 9))
    assert labels[START_US] == "2 Mar"
    assert labels[START_US + HOUR_US] == "01:00"


def test_a_period_is_widened_to_whole_bins() -> None:
    period = make_period(START_US + 30 * SECOND_US, START_US + HOUR_US + 1)
    assert (period.since_us, period.until_us) == (START_US, START_US + HOUR_US + MINUTE_US)
    assert len(period.starts_us()) == period.bins == 61


def test_the_period_before_ends_where_this_one_begins() -> None:
    period = make_period(START_US, START_US + DAY_US)
    assert period.before().until_us == period.since_us
    assert period.before().bins == period.bins


def test_a_stretch_is_told_in_words() -> None:
    period = Period(START_US, START_US + DAY_US, 5 * MINUTE_US)
    two, three = START_US + 14 * HOUR_US, START_US + 14 * HOUR_US + 40 * MINUTE_US
    assert period.between(two, three) == "from 14:00 to 14:40"
    assert period.between(two, period.until_us) == "since 14:00"
    assert period.between(period.since_us, period.until_us) == "throughout"
    week = make_period(START_US, START_US + 7 * DAY_US)
    assert week.between(two, three) == "from 2 Mar 14:00 to 2 Mar 14:40"


def test_stretches_close_small_gaps() -> None:
    is_so = np.array([0, 1, 1, 0, 1, 0, 0, 0, 1], dtype=bool)
    assert stretches(is_so, bridge=0) == [(1, 3), (4, 5), (8, 9)]
    assert stretches(is_so, bridge=1) == [(1, 5), (8, 9)]
    assert stretches(is_so, bridge=3) == [(1, 9)]
    assert stretches(np.zeros(3, dtype=bool)) == []


def test_a_wider_period_covers_the_same_time() -> None:
    period = Period(START_US, START_US + 7 * MINUTE_US, MINUTE_US)
    wide = period.wider(3)
    assert (wide.bins, wide.bin_us, wide.since_us) == (3, 3 * MINUTE_US, START_US)
    assert wide.until_us >= period.until_us
