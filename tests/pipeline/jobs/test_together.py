"""Jobs that are done side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from scale0_pipeline.jobs.together import Job, by_urgency, side_by_side


def test_a_job_begins_as_soon_as_what_it_waits_for_is_done_whatever_else_goes_on() -> None:
    is_last_done = threading.Event()

    def slow() -> bool:
        assert is_last_done.wait(10)
        return True

    def last() -> bool:
        is_last_done.set()
        return True

    jobs = [Job("slow", slow), Job("quick", lambda: True), Job("last", last, after=("quick", "of another run"))]
    first, *others = side_by_side(jobs, threads=2)
    assert (first, sorted(others)) == ("quick", ["last", "slow"])


def test_a_job_sees_what_was_done_about_the_end_of_those_before_it() -> None:
    known: list[str] = []
    jobs = [Job("a", lambda: True), Job("b", lambda: known == ["a"], after=("a",))]
    for name in side_by_side(jobs):
        known.insert(0, name)
    assert known == ["b", "a"]


def test_jobs_that_had_nothing_to_do_are_not_told_and_hold_nobody_up() -> None:
    assert list(side_by_side([Job("idle", lambda: False), Job("b", lambda: True, after=("idle",))])) == ["b"]


def test_after_a_failure_no_job_is_begun() -> None:
    begun: list[str] = []

    def doing(name: str) -> Callable[[], bool]:
        def do() -> bool:
            begun.append(name)
            if name == "broken":
                raise ValueError(name)
            return True

        return do

    jobs = [Job("broken", doing("broken")), Job("next", doing("next")), Job("b", doing("b"), after=("broken",))]
    with pytest.raises(ValueError, match="broken"):
        list(side_by_side(jobs, threads=1))
    assert begun == ["broken"]


def test_what_most_others_wait_for_comes_first() -> None:
    jobs = [
        Job("alone", bool),
        Job("wide", bool),
        Job("long", bool),
        Job("left", bool, after=("wide",)),
        Job("right", bool, after=("wide", "long")),
        Job("end", bool, after=("right", "of another run")),
    ]
    assert [job.name for job in by_urgency(jobs)] == ["wide", "long", "right", "alone", "left", "end"]
