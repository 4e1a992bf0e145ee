"""Books that are written by hand: a flow of a few services, filled where a test wants it."""

from __future__ import annotations

import numpy as np

from scale0_pipeline.report import histogram
from scale0_pipeline.report.book import Book, empty_book
from scale0_pipeline.report.flow import Flow, empty_flow
from scale0_pipeline.report.period import Period, make_period
from scale0_pipeline.units import DAY_US, HOUR_US
from tests.pipeline.report.sample import START_US

DAY = make_period(START_US, START_US + DAY_US)
BINS_AN_HOUR = HOUR_US // DAY.bin_us


def book_of(*services: str, period: Period = DAY) -> Book:
    """A book in which nothing has happened yet."""
    book = empty_book(period)
    book.flow = empty_flow(period, list(services) or ["render"])
    book.before = empty_flow(period.before(), list(services) or ["render"])
    return book


def add_tasks(
    flow: Flow,
    service: str = "render",
    hours: tuple[float, float] = (0, 24),
    *,
    tasks: int = 100,
    latency_us: int = 20_000,
    queue_us: int = 100,
    bad: dict[str, int] | None = None,
) -> None:
    """In each bin of these hours so many tasks, of which `bad` ended badly, by family; refused ones took no time."""
    index = flow.services.index(service)
    bins = np.arange(int(hours[0] * BINS_AN_HOUR), int(hours[1] * BINS_AN_HOUR))
    families = bad or {}
    accepted = tasks - families.get("refused", 0)
    flow.count[index, bins] += tasks
    flow.accepted[index, bins] += accepted
    for family, number in families.items():
        flow.families[family][index, bins] += number
    for column, each in (("latency_us", latency_us), ("queue_us", queue_us), ("worker_us", latency_us - queue_us)):
        flow.sums[column][index, bins] += accepted * each
    flow.sums["network_count"][index, bins] += accepted
    place = histogram.places(histogram.bucket_of(np.array([latency_us])))[0]
    flow.latency[bins, place] += accepted
    flow.by_service[index, place] += accepted * len(bins)
    if index < len(flow.shown):
        flow.shown[index, bins, place] += accepted
