"""Which days of a derived table are made anew, and from what."""

from __future__ import annotations

from datetime import date, timedelta

from scale0_pipeline.jobs.derive import day_task, plan_days
from scale0_pipeline.tables.files import DataFile
from scale0_pipeline.transforms.registry import Derived
from tests.pipeline.jobs.world import make_days

MONDAY = date(2026, 1, 5)


def derived(name: str, *inputs: str, lookback_days: int = 0, is_snapshot: bool = False) -> Derived:
    return Derived(name, inputs, make_days, lookback_days, is_snapshot)


def file(day: int, lo: int, hi: int) -> DataFile:
    """Of the nth day from Monday on."""
    return DataFile(f"{day}-{lo}-{hi}", 1, 1, MONDAY + timedelta(day), lo, hi)


def numbers(days: tuple[date, ...]) -> list[int]:
    return [(day - MONDAY).days for day in days]


def test_only_days_with_files_newer_than_the_table_are_made() -> None:
    task = plan_days(derived("gold/x", "facts/y"), [[file(0, 1, 4), file(1, 5, 5), file(1, 1, 4)]], 4, 5)
    assert (numbers(task.days), numbers(task.input_days), task.through) == ([1], [1], 5)


def test_a_merged_file_does_not_make_its_day_new() -> None:
    task = plan_days(derived("gold/x", "facts/y"), [[file(0, 1, 4), file(1, 5, 5)]], 5, 6)
    assert task.days == ()


def test_a_table_that_looks_back_changes_on_the_days_after_too() -> None:
    files = [file(day, 1, 1) for day in range(9)]
    task = day_task(derived("gold/x", "facts/y", lookback_days=3), {MONDAY}, {one.day for one in files if one.day}, 1)
    assert numbers(task.days) == [0, 1, 2, 3]
    late = day_task(derived("gold/x", "facts/y", lookback_days=3), {MONDAY + timedelta(8)}, {MONDAY}, 1)
    assert numbers(late.days) == [8], "days without data are not made"
    task = plan_days(derived("gold/x", "facts/y", lookback_days=3), [[*files, file(8, 2, 2)]], 1, 2)
    assert (numbers(task.days), numbers(task.input_days)) == ([8], [5, 6, 7, 8])


def test_a_snapshot_reads_as_far_back_as_it_says() -> None:
    files = [[file(day, 1, 1) for day in range(9)]]
    task = plan_days(derived("gold/x", "facts/y", lookback_days=2, is_snapshot=True), files, 0, 1)
    assert (numbers(task.days), numbers(task.input_days)) == ([8], [6, 7, 8])
    whole = plan_days(derived("gold/x", "facts/y", is_snapshot=True), files, 0, 1)
    assert numbers(whole.input_days) == list(range(9))
