"""The six figures at the top, each against the period before.

Three say how much (tasks, worker time, waiting), three how well (replied, p50, p99). A change is told with its
direction, and judged only where a direction is better: more tasks are neither good nor bad. Without an earlier period
there is nothing to compare, and that is said, not shown as growth from zero.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from scale0_pipeline import words
from scale0_pipeline.report import histogram
from scale0_pipeline.report.book import Book
from scale0_pipeline.report.flow import CALLER, Flow
from scale0_pipeline.units import SECOND_US

NOTABLE: Final = 0.1
"""A change of under a tenth is not judged."""


class Figure(msgspec.Struct):
    """A figure: its name, its value as text, how it changed, whether that is worse, and its course."""

    name: str
    value: str
    change: str
    is_worse: bool
    trend: list[float | None]


def six(book: Book) -> list[Figure]:
    """The figures, in reading order."""
    now, then = book.flow, book.before
    has_before = then.tasks > 0
    tasks_per_s = now.tasks / (book.period.length_us / SECOND_US)
    return [
        Figure(
            f"tasks ({words.figure(tasks_per_s)}/s)",
            words.count(now.tasks),
            _change(now.tasks, then.tasks if has_before else None),
            False,
            _list(now.count.sum(axis=0)),
        ),
        _replied(now, then, has_before),
        _percentile("p50 latency", 0.5, now, then, has_before),
        _percentile("p99 latency", 0.99, now, then, has_before),
        _waiting(now, then, has_before),
        Figure(
            "worker time",
            words.duration(float(now.sums["worker_us"].sum())),
            _change(float(now.sums["worker_us"].sum()), float(then.sums["worker_us"].sum()) if has_before else None),
            False,
            _list(now.total("worker_us")),
        ),
    ]


def replied_share(flow: Flow) -> float | None:
    """Of the tasks that their caller did not spoil, how many were replied to."""
    counted = flow.tasks - int(flow.families[CALLER].sum())
    return 1 - int(flow.bad.sum()) / counted if counted > 0 else None


def _replied(now: Flow, then: Flow, has_before: bool) -> Figure:
    share, former = replied_share(now), replied_share(then) if has_before else None
    count, bad = now.count.sum(axis=0), now.bad.sum(axis=0)
    trend: list[float | None] = [
        1 - float(lost) / float(all_) if all_ else None for lost, all_ in zip(bad, count, strict=True)
    ]
    change, is_worse = "no earlier record", False
    if share is not None and former is not None:
        points = (share - former) * 100
        change = f"{words.signed(words.figure(points), points)} points"
        change = "as before" if abs(points) < 0.005 else change
        is_worse = points < -0.05
    return Figure("replied", words.percent(share), change, is_worse, trend)


def _percentile(name: str, share: float, now: Flow, then: Flow, has_before: bool) -> Figure:
    value = histogram.percentile_us(now.latency.sum(axis=0), share)
    former = histogram.percentile_us(then.latency.sum(axis=0), share) if has_before else None
    trend = histogram.percentiles_us(now.latency, share)
    return Figure(name, words.duration(value), _change(value, former), _grew(value, former), trend)


def _waiting(now: Flow, then: Flow, has_before: bool) -> Figure:
    value, former = mean_queue_us(now), mean_queue_us(then) if has_before else None
    accepted = now.accepted.sum(axis=0)
    trend: list[float | None] = [
        float(queue) / float(tasks) if tasks else None
        for queue, tasks in zip(now.total("queue_us"), accepted, strict=True)
    ]
    return Figure("mean wait", words.duration(value), _change(value, former), _grew(value, former), trend)


def mean_queue_us(flow: Flow) -> float | None:
    """How long a task waited for a worker, on average."""
    accepted = int(flow.accepted.sum())
    return float(flow.sums["queue_us"].sum()) / accepted if accepted else None


def _change(value: float | None, former: float | None) -> str:
    """`+12 %`, `×3.2`, `as before`."""
    if value is None or former is None or former <= 0:
        return "no earlier record"
    ratio = value / former
    if ratio >= 2:
        return f"×{words.figure(ratio)}"
    share = ratio - 1
    return "as before" if abs(share) < 0.005 else words.signed(words.percent(share), share)


def _grew(value: float | None, former: float | None) -> bool:
    """Of a figure that should be low: whether it grew by more than is usual."""
    return value is not None and former is not None and former > 0 and value / former - 1 > NOTABLE


def _list(numbers: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> list[float | None]:
    return [float(number) for number in numbers]
