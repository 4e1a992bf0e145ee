"""The tasks of a period as arrays: bins × services × sums, and histograms of latency.

All that a page says of tasks comes from one fold over cells, so that no two figures of it can disagree. A cell is a
row of `facts/minute`; where the period is so short that a minute is too coarse, single tasks are made into cells of
the same shape. The arrays have a size that is known before the first row is read: at most `SERVICES_MAX` services have
a place of their own, the rest share the last one, `other`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from scale0_pipeline import task_times
from scale0_pipeline.buckets import NONE
from scale0_pipeline.gold import Gold, schema_of
from scale0_pipeline.report import histogram
from scale0_pipeline.report.period import Period

SERVICES_MAX: Final = 200
SHOWN_MAX: Final = 6
"""Services that have charts of their own."""
OTHER: Final = "other"

LATE, LOST, OVER_LIMIT, CALLER, FAILED = "late", "lost", "refused", "caller", "failed"
FAMILIES: Final = (LATE, LOST, OVER_LIMIT, CALLER, FAILED)
"""How a task may end badly: too late, its worker lost, over a limit, by its caller's own doing, by its handler."""

SUMS: Final = ("latency_us", "queue_us", "worker_us", "network_us", "network_count", "retries")
BYTES: Final = ("request_bytes", "reply_bytes")
COLUMNS: Final = ("minute_us", "service", "code", "outcome", "bucket", "count", *SUMS, *BYTES)

OF_TASKS: Final = (
    *("ts_us", "service", "code", "outcome", "latency_us", "queue_us", "worker_us_total", "network_us"),
    *("attempt", "request_bytes", "reply_bytes", "weight"),
)
TASKS: Final = pa.schema([schema_of("silver/tasks").field(column) for column in OF_TASKS])

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def family_of(code: int, outcome: str) -> str | None:
    """The family of a bad end; null of a good one."""
    if outcome == "replied":
        return None
    if outcome == "failed":
        return FAILED
    by_code = {408: LATE, 504: LATE, 502: LOST, 429: OVER_LIMIT, 503: OVER_LIMIT}
    return by_code.get(code, CALLER)


class Flow(msgspec.Struct):
    """What became of the tasks. The first axis is services (in the order of `services`), the last one bins."""

    period: Period
    services: list[str]
    count: Integers
    accepted: Integers
    families: dict[str, Integers]
    sums: dict[str, Integers]
    latency: histogram.Counts  # bins × buckets, of all services
    by_service: histogram.Counts  # services × buckets, of the whole period
    shown: histogram.Counts  # the first SHOWN_MAX services × bins × buckets
    codes: dict[tuple[str, int, str], int]  # of (service, code, outcome), bad ends only

    @property
    def tasks(self) -> int:
        return int(self.count.sum())

    @property
    def bad(self) -> Integers:
        """Services × bins: tasks that did not end well, those that the caller spoilt left out."""
        return sum((self.families[family] for family in FAMILIES if family != CALLER), np.zeros_like(self.count))

    @property
    def failed(self) -> Integers:
        """Services × bins: every task that did not end in a reply."""
        return sum(self.families.values(), np.zeros_like(self.count))

    def total(self, column: str) -> Integers:
        """A sum over all services, per bin."""
        return np.asarray(self.sums[column].sum(axis=0))


def empty_flow(period: Period, services: list[str]) -> Flow:
    """Nothing, in the shape of the period."""
    shape = (len(services), period.bins)
    return Flow(
        period=period,
        services=services,
        count=np.zeros(shape, np.int64),
        accepted=np.zeros(shape, np.int64),
        families={family: np.zeros(shape, np.int64) for family in FAMILIES},
        sums={column: np.zeros(shape, np.int64) for column in (*SUMS, *BYTES)},
        latency=histogram.empty(period.bins),
        by_service=histogram.empty(len(services)),
        shown=histogram.empty(min(SHOWN_MAX, len(services)), period.bins),
        codes={},
    )


def read_flow(gold: Gold, period: Period, services: list[str] | None = None) -> Flow:
    """Reads and folds the cells of a period. Services are those with the most tasks, if they are not given."""
    names = services if services is not None else busiest(gold, period)
    flow = empty_flow(period, names)
    for batch in cells(gold, period):
        fold(flow, batch)
    for batch in doubled(gold, period):
        fold(flow, batch)
    return flow


def busiest(gold: Gold, period: Period) -> list[str]:
    """The services of a period, those with the most tasks first; `other` stands for the rest, if there is one."""
    if period.is_fine:
        counts = _by_service(_tasks(gold, period, ["service", "weight"]))
    else:
        of_service = ["service", "count"]
        hours = gold.batches("gold/service_1h", period.since_us, period.until_us, of_service)
        counts = _by_service(hours)
        if not counts:  # the derived tables are not made yet
            counts = _by_service(gold.batches("facts/minute", period.since_us, period.until_us, of_service))
    order = sorted(counts, key=lambda name: (-counts[name], name))
    return order if 0 < len(order) <= SERVICES_MAX else [*order[: SERVICES_MAX - 1], OTHER]


def _by_service(batches: Iterable[pa.RecordBatch]) -> dict[str, int]:
    """Tasks of each service, from batches of services and numbers."""
    counts: dict[str, int] = {}
    for batch in batches:
        numbers = pc.fill_null(batch.column(1), 1)
        grouped = pa.table([batch.column(0), numbers], ["service", "n"]).group_by("service").aggregate([("n", "sum")])
        for name, number in zip(grouped["service"].to_pylist(), grouped["n_sum"].to_pylist(), strict=True):
            counts[name or ""] = counts.get(name or "", 0) + number
    return counts


def cells(gold: Gold, period: Period) -> Iterator[pa.RecordBatch]:
    """The cells of a period, a batch at a time."""
    if not period.is_fine:
        yield from gold.batches("facts/minute", period.since_us, period.until_us, COLUMNS)
        return
    for batch in _tasks(gold, period, OF_TASKS):
        yield cell_of_tasks(batch)


def doubled(gold: Gold, period: Period) -> Iterator[pa.RecordBatch]:
    """What must be taken out again: tasks settled twice around a fail-over, as cells that count below zero."""
    rows = gold.rows("silver/doubled", period.since_us, period.until_us).to_pylist()
    for row in rows:
        row.update(
            latency_us=task_times.latency_us(row),
            queue_us=task_times.queue_us(row),
            worker_us_total=task_times.worker_us(row),
            network_us=task_times.network_us(row),
            weight=-(row["weight"] or 1),
        )
    if rows:
        yield cell_of_tasks(pa.RecordBatch.from_pylist([{name: row[name] for name in OF_TASKS} for row in rows], TASKS))


def _tasks(gold: Gold, period: Period, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    return gold.batches("silver/tasks", period.since_us, period.until_us, columns, pc.field("is_origin"))


def cell_of_tasks(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Single tasks as cells: each row counts as many tasks as it stands for."""
    weight = integers(batch["weight"], missing=1)
    latency = integers(batch["latency_us"])
    is_refused = pc.equal(batch["outcome"], "refused").fill_null(False).to_numpy(zero_copy_only=False)
    knows_network = pc.is_valid(batch["network_us"]).to_numpy(zero_copy_only=False)
    sums = {
        "latency_us": np.where(is_refused, 0, latency) * weight,
        "queue_us": integers(batch["queue_us"]) * weight,
        "worker_us": integers(batch["worker_us_total"]) * weight,
        "network_us": integers(batch["network_us"]) * weight,
        "network_count": knows_network.astype(np.int64) * weight,
        "retries": np.maximum(integers(batch["attempt"]) - 1, 0) * weight,
        "request_bytes": integers(batch["request_bytes"]) * weight,
        "reply_bytes": integers(batch["reply_bytes"]) * weight,
    }
    bucket = np.where(is_refused, NONE, histogram.bucket_of(latency))
    arrays: list[Any] = [batch["ts_us"], batch["service"], batch["code"], batch["outcome"], bucket, weight]
    return pa.RecordBatch.from_arrays([pa.array(array) for array in [*arrays, *sums.values()]], names=list(COLUMNS))


def fold(flow: Flow, batch: pa.RecordBatch) -> None:
    """Adds a batch of cells."""
    number = integers(batch["count"])
    bins = flow.period.bin_of(integers(batch["minute_us"]))
    service = service_places(flow.services, batch["service"])
    flat = service * flow.period.bins + bins
    histogram.add(flow.count, flat, number)
    for column, sums in flow.sums.items():
        histogram.add(sums, flat, integers(batch[column]))
    ends = pa.table([batch["code"], batch["outcome"]], ["code", "outcome"])
    for code, outcome in {
        (row["code"], row["outcome"]) for row in ends.group_by(ends.column_names).aggregate([]).to_pylist()
    }:
        same = pc.and_(pc.equal(batch["code"], code), pc.equal(batch["outcome"], outcome))
        is_same = same.fill_null(False).to_numpy(zero_copy_only=False)
        if outcome != "refused":
            histogram.add(flow.accepted, flat[is_same], number[is_same])
        family = family_of(code or 0, outcome or "")
        if family is not None:
            histogram.add(flow.families[family], flat[is_same], number[is_same])
            by_service = np.bincount(service[is_same], number[is_same], len(flow.services))
            for index in np.flatnonzero(by_service).tolist():
                key = (flow.services[index], code or 0, outcome or "")
                flow.codes[key] = flow.codes.get(key, 0) + round(by_service[index])
    _fold_latency(flow, integers(batch["bucket"], missing=NONE), bins, service, number)


def _fold_latency(flow: Flow, bucket: Integers, bins: Integers, service: Integers, number: Integers) -> None:
    took_time = bucket != NONE
    spot, bins, service, number = (
        histogram.places(bucket[took_time]),
        bins[took_time],
        service[took_time],
        number[took_time],
    )
    width = histogram.SIZE + 1
    histogram.add(flow.latency, bins * width + spot, number)
    histogram.add(flow.by_service, service * width + spot, number)
    is_shown = service < len(flow.shown)
    place = (service * flow.period.bins + bins) * width + spot
    histogram.add(flow.shown, place[is_shown], number[is_shown])


def service_places(services: list[str], column: pa.Array) -> Integers:
    """Where each service is kept; unknown ones in the last place, which is `other` if there are unknown ones."""
    found = pc.index_in(column, pa.array(services, pa.string()))
    return integers(found, missing=len(services) - 1)


def integers(column: Any, missing: int = 0) -> Integers:
    """A column as an array of whole numbers."""
    filled = pc.fill_null(column.cast(pa.int64()), missing)
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.int64)
