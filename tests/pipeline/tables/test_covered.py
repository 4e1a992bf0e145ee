"""Sets of intervals behave as sets of numbers."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scale0_pipeline.tables.covered import Covered, Interval, add, missing

intervals = st.tuples(st.integers(1, 60), st.integers(0, 12)).map(lambda pair: (pair[0], pair[0] + pair[1]))


def numbers(of: list[Interval]) -> set[int]:
    return {number for lo, hi in of for number in range(lo, hi + 1)}


@given(st.lists(intervals, max_size=12))
def test_a_set_holds_what_was_added_and_stays_as_short_as_it_can(added: list[Interval]) -> None:
    held: list[Interval] = []
    for lo, hi in added:
        held = add(held, lo, hi)
    assert numbers(held) == numbers(added)
    assert all(after[0] > before[1] + 1 for before, after in pairwise(held))


@given(st.lists(intervals, max_size=12), intervals)
def test_what_is_missing_is_the_difference_of_sets(added: list[Interval], asked: Interval) -> None:
    held: list[Interval] = []
    for lo, hi in added:
        held = add(held, lo, hi)
    gaps = missing(held, *asked)
    assert numbers(gaps) == numbers([asked]) - numbers(added)
    assert gaps == sorted(gaps)


@given(st.lists(st.tuples(st.sampled_from(["eu-1", "eu-2"]), st.sampled_from(["a", "b"]), intervals), max_size=20))
def test_every_number_is_taken_once(segments: list[tuple[str, str, Interval]]) -> None:
    covered = Covered()
    taken = [
        (broker, boot, number)
        for broker, boot, (lo, hi) in segments
        for number in numbers(covered.take(broker, boot, lo, hi))
    ]
    wanted = {(broker, boot, number) for broker, boot, asked in segments for number in numbers([asked])}
    assert sorted(taken) == sorted(wanted)


def test_numbers_that_come_in_order_stay_one_interval() -> None:
    covered = Covered()
    for start in range(1, 1_000_000, 1_000):
        covered.take("eu-1", "boot", start, start + 999)
    assert covered.boots == {"eu-1": {"boot": [(1, 1_000_000)]}}


def test_a_copy_does_not_change_with_the_original() -> None:
    covered = Covered()
    covered.take("eu-1", "boot", 1, 5)
    copy = covered.copy()
    covered.take("eu-1", "boot", 6, 9)
    assert copy.boots == {"eu-1": {"boot": [(1, 5)]}}


def test_an_interval_without_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match=r"5\.\.4 holds no number"):
        add([], 5, 4)
