"""The six figures."""

from __future__ import annotations

from scale0_pipeline.report.figures import mean_queue_us, replied_share, six
from tests.pipeline.report.books import add_tasks, book_of


def test_there_are_six_and_without_an_earlier_period_they_say_so() -> None:
    book = book_of()
    add_tasks(book.flow)
    figures = six(book)
    assert [figure.value for figure in figures[:2]] == ["28,800", "100 %"]
    assert len(figures) == 6
    assert {figure.change for figure in figures} == {"no earlier record"}
    assert not any(figure.is_worse for figure in figures)


def test_what_grew_is_told_and_judged_only_where_less_is_better() -> None:
    book = book_of()
    add_tasks(book.flow, tasks=150, latency_us=60_000, queue_us=1_000, bad={"late": 2})
    add_tasks(book.before)
    tasks, replied, p50, p99, wait, worker = six(book)
    assert (tasks.change, tasks.is_worse) == ("+50 %", False)
    assert (replied.change, replied.is_worse) == ("−1.33 points", True)
    assert p50.is_worse
    assert p99.change.startswith("×")
    assert (wait.change, wait.is_worse) == ("×10", True)
    assert not worker.is_worse


def test_what_callers_spoil_does_not_count_against_the_network() -> None:
    book = book_of()
    add_tasks(book.flow, bad={"caller": 50})
    assert replied_share(book.flow) == 1.0


def test_nothing_has_no_share_and_no_mean() -> None:
    flow = book_of().flow
    assert replied_share(flow) is None
    assert mean_queue_us(flow) is None


def test_unknown_values_leave_gaps_in_the_course() -> None:
    book = book_of()
    add_tasks(book.flow, hours=(1, 2))
    p50 = six(book)[2]
    assert p50.trend[0] is None
    assert p50.trend[13] is not None
