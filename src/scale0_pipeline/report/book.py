"""Everything that a report tells of, read once: rows of the gold tables, small enough to be plain Python.

Reading is apart from judging: `findings` and the sections take a `Book` and touch no file, so a test can write one by
hand. Each table is cut to the columns that are shown, and the largest ones to the rows that matter (only alerting
minutes of the burn rates) or to sums made by pyarrow.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scale0_pipeline.buckets import NONE
from scale0_pipeline.gold import Completeness, Gold
from scale0_pipeline.progress import Progress, silent
from scale0_pipeline.report import histogram
from scale0_pipeline.report.flow import Flow, empty_flow, integers, read_flow
from scale0_pipeline.report.period import FINE_US, Period, make_period
from scale0_pipeline.units import HOUR_US, MINUTE_US

Row = dict[str, Any]

PART_NAMES: Final = ("queue", "worker", "network")
ROWS_MAX: Final = 20_000
"""Of a table that is read row by row; a longer one is cut to its newest rows, and the page says so."""

ORDERED_BY: Final = ("ts_us", "hour_us", "opened_us", "made_us", "scored_us", "day")
PAUSE_US: Final = 5 * MINUTE_US
"""Alerts that are closer than this belong together."""

HELD: Final = (
    "gold/worker_1h",
    "gold/flaps",
    "gold/clock_drift",
    "gold/config_drift",
    "gold/failovers",
    "gold/completeness_1h",
    "gold/hints",
    "gold/hint_scores",
    "silver/worker_sessions",
    "silver/config_applied",
    "silver/gaps",
    "quality/results",
)
"""Tables whose rows of the period are held as they are."""


class Parts(msgspec.Struct):
    """Where time went, by the histograms of its parts: part → bins × buckets, in bins of their own."""

    period: Period
    counts: dict[str, histogram.Counts]


class Book(msgspec.Struct):
    """All that is known of a period."""

    period: Period
    flow: Flow
    before: Flow  # the period before, of the same length
    completeness: Completeness
    completeness_before: Completeness
    parts: Parts
    tables: dict[str, list[Row]] = {}
    cut: list[str] = []  # tables that were longer than ROWS_MAX

    def rows(self, name: str) -> list[Row]:
        return self.tables.get(name, [])


def empty_book(period: Period) -> Book:
    """A book of nothing, for tests to write in."""
    flow = empty_flow(period, ["other"])
    nothing = Completeness(0, 0, 0)
    parts = Parts(_part_period(period), {part: histogram.empty(_part_period(period).bins) for part in PART_NAMES})
    return Book(period, flow, empty_flow(period.before(), ["other"]), nothing, nothing, parts)


def read_book(gold: Gold, period: Period, progress: Progress = silent) -> Book:
    """Reads all of it; memory does not grow with the number of tasks."""
    steps = len(HELD) + 6
    progress("tasks of the period", 0, steps)
    flow = read_flow(gold, period)
    progress("tasks of the period before", 1, steps)
    before = period.before()
    book = Book(
        period=period,
        flow=flow,
        before=read_flow(gold, before, flow.services),
        completeness=gold.completeness(period.since_us, period.until_us),
        completeness_before=gold.completeness(before.since_us, before.until_us),
        parts=read_parts(gold, period),
    )
    for done, name in enumerate(HELD, 2):
        progress(name, done, steps)
        rows = in_order(gold.rows(name, period.since_us, period.until_us))
        if rows.num_rows > ROWS_MAX:
            book.cut.append(name)
            rows = rows.slice(rows.num_rows - ROWS_MAX)
        book.tables[name] = rows.to_pylist()
    progress("burn rates, cost, capacity", steps - 4, steps)
    alerting = pc.field("is_alerting")
    book.tables["gold/slo_burn"] = _burns(gold.rows("gold/slo_burn", period.since_us, period.until_us, None, alerting))
    book.tables["gold/capacity"] = gold.rows("gold/capacity").to_pylist()
    book.tables["gold/cost_1d"] = _costs(gold, period)
    book.tables["cost before"] = _costs(gold, before)
    book.tables["gold/edges_1h"] = _edges(gold, period)
    book.tables["losses"] = _losses(gold, period)
    progress("read", steps, steps)
    return book


def in_order(rows: pa.Table) -> pa.Table:
    """The oldest row first, by the first column that tells a time."""
    time = next(column for column in ORDERED_BY if column in rows.column_names)
    return rows.sort_by(time)


def _part_period(period: Period) -> Period:
    """Facts of parts are kept by the hour; single tasks are as fine as the page."""
    if period.is_fine or period.bin_us >= HOUR_US:
        return period
    since, until = period.since_us // HOUR_US * HOUR_US, -(-period.until_us // HOUR_US) * HOUR_US
    return Period(since, until, HOUR_US)


def read_parts(gold: Gold, period: Period) -> Parts:
    """The histograms of queue, worker and network time."""
    cut = _part_period(period)
    parts = Parts(cut, {part: histogram.empty(cut.bins) for part in PART_NAMES})
    if period.is_fine:
        columns = {"queue": "queue_us", "worker": "worker_us_total", "network": "network_us"}
        wanted = ["ts_us", "weight", *columns.values()]
        for batch in gold.batches("silver/tasks", cut.since_us, cut.until_us, wanted, pc.field("is_origin")):
            for part, column in columns.items():
                known = batch.filter(pc.is_valid(batch[column]))
                bucket = histogram.bucket_of(integers(known[column]))
                _add_part(parts, part, integers(known["ts_us"]), bucket, integers(known["weight"], missing=1))
        return parts
    wanted = ["hour_us", "part", "bucket", "count"]
    for batch in gold.batches("facts/split", cut.since_us, cut.until_us, wanted):
        for part in PART_NAMES:
            own = batch.filter(pc.equal(batch["part"], part))
            _add_part(parts, part, *(integers(own[column]) for column in ("hour_us", "bucket", "count")))
    return parts


def _add_part(parts: Parts, part: str, at_us: Any, bucket: Any, number: Any) -> None:
    known = bucket != NONE
    spots = parts.period.bin_of(at_us[known]) * (histogram.SIZE + 1) + histogram.places(bucket[known])
    histogram.add(parts.counts[part], spots, number[known])


def _burns(alerting: pa.Table) -> list[Row]:
    """Alerting minutes as stretches: a row per service, window and time without a pause of over five minutes."""
    if not alerting.num_rows:
        return []
    order = [("service", "ascending"), ("window", "ascending"), ("minute_us", "ascending")]
    table = alerting.sort_by(order)
    minute = integers(table["minute_us"])
    keys = [pc.rank(table[column], tiebreaker="min").to_numpy() for column in ("service", "window")]
    is_new = np.ones(len(minute), dtype=bool)
    is_new[1:] = (np.diff(minute) > PAUSE_US) | (np.diff(keys[0]) != 0) | (np.diff(keys[1]) != 0)
    firsts = np.flatnonzero(is_new)
    lasts = np.append(firsts[1:], len(minute)) - 1
    burns = np.maximum.reduceat(pc.fill_null(table["burn_long"], 0.0).to_numpy(), firsts)
    named = table.select(["service", "window", "threshold", "objective"]).take(pa.array(firsts)).to_pylist()
    for row, first, last, burn in zip(named, minute[firsts], minute[lasts], burns, strict=True):
        row.update(since_us=int(first), until_us=int(last) + MINUTE_US, burn=float(burn))
    return sorted(named, key=lambda row: (-(row["threshold"] or 0), row["since_us"]))[:ROWS_MAX]


def _costs(gold: Gold, period: Period) -> list[Row]:
    """What each service did for each client, over the days that the period touches, the dearest first."""
    numbers = ["count", "work_us", "request_bytes", "reply_bytes"]
    columns = ["service", "client", *numbers]
    return _summed(gold.rows("gold/cost_1d", period.since_us, period.until_us, columns), ["service", "client"], numbers)


def _edges(gold: Gold, period: Period) -> list[Row]:
    """Who asked whom through which service, over the hours that the period touches, the busiest first."""
    keys, numbers = ["client", "service", "worker"], ["count", "errors", "latency_us", "work_us"]
    return _summed(gold.rows("gold/edges_1h", period.since_us, period.until_us, [*keys, *numbers]), keys, numbers)


def _summed(table: pa.Table, keys: list[str], numbers: list[str]) -> list[Row]:
    grouped = table.group_by(keys).aggregate([(column, "sum") for column in numbers])
    named = grouped.rename_columns([column.removesuffix("_sum") for column in grouped.column_names])
    order = [("work_us", "descending"), ("count", "descending"), *((key, "ascending") for key in keys)]
    rows: list[Row] = named.sort_by(order).slice(0, ROWS_MAX).to_pylist()
    return rows


def _losses(gold: Gold, period: Period) -> list[Row]:
    """When recorders told that they could not keep up, and how much they lost."""
    is_loss = pc.field("kind") == "dropped"
    columns = ["ts_us", "broker", "value"]
    table = gold.rows("silver/notes", period.since_us, period.until_us, columns, is_loss)
    rows: list[Row] = table.sort_by("ts_us").slice(0, ROWS_MAX).to_pylist()
    return rows


def period_of(gold: Gold, since_us: int | None, until_us: int | None) -> Period:
    """The period that was asked for; an end that was not named is where the record ends."""
    first, last = gold.extent() or (0, MINUTE_US)
    since = since_us if since_us is not None else first
    until = until_us if until_us is not None else max(last, since + 1)
    if since_us is None and until_us is None and last - first <= FINE_US:
        first, last = _exactly(gold, first, last)
        since, until = first, last
    return make_period(since, until)


def _exactly(gold: Gold, first: int, last: int) -> tuple[int, int]:
    """The first and last task of a short record: minutes would leave most of the page empty."""
    ends = pc.min_max(gold.rows("silver/tasks", first, last, ["ts_us"])["ts_us"]).as_py()
    return (ends["min"], ends["max"] + 1) if ends["min"] is not None else (first, last)
