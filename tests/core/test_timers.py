"""Buckets of time."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from scale0.core.timers import Timetable


def test_empty_timetable_wants_nothing() -> None:
    timetable: Timetable[str, str] = Timetable(0.1)
    assert timetable.next_s == math.inf
    assert timetable.due(1e9) == []


def test_removed_thing_never_falls_due() -> None:
    timetable: Timetable[str, str] = Timetable(0.1)
    bucket = timetable.add("a", "A", 5.0)
    timetable.add("b", "B", 5.0)
    timetable.remove("a", bucket)
    assert timetable.due(6.0) == ["B"]
    assert len(timetable) == 0


@given(st.lists(st.floats(0, 1000), max_size=50), st.lists(st.floats(0, 1100), max_size=50))
def test_nothing_fires_early_and_all_fire_at_most_one_resolution_late(ats: list[float], looks: list[float]) -> None:
    timetable: Timetable[int, int] = Timetable(0.5)
    for n, at_s in enumerate(ats):
        timetable.add(n, n, at_s)
    waiting = dict(enumerate(ats))
    for now in sorted(looks):
        assert timetable.next_s > now or waiting
        for n in timetable.due(now):
            assert waiting.pop(n) <= now
        assert all(at_s > now - 0.5 for at_s in waiting.values())
        assert timetable.next_s > now


@given(st.floats(0, 1e6), st.sampled_from([0.01, 0.02, 0.05, 0.1, 1.0]))
def test_what_is_promised_for_a_time_is_due_at_that_time(at_s: float, resolution_s: float) -> None:
    timetable: Timetable[str, str] = Timetable(resolution_s)
    timetable.add("a", "A", at_s)
    assert timetable.next_s > at_s
    assert timetable.due(timetable.next_s) == ["A"]


def test_a_time_that_rounds_down_onto_the_edge_of_its_bucket_is_filed_under_the_next_one() -> None:
    timetable: Timetable[str, str] = Timetable(0.02)
    timetable.add("a", "A", 1026.1)  # times 50 it is 51,304.999…
    assert timetable.due(1026.1) == []
    assert timetable.next_s > 1026.1
