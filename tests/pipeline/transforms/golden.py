"""The figures of a generated day, reckoned in plain Python from its segments, by other code than the pipeline's.

A row counts once, however often it was delivered. Of two settlements of a task the first one counts.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from scale0.telemetry import catalogue
from scale0.telemetry.place import Place

MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US

Row = dict[str, Any]


def rows_of(place: Place) -> list[Row]:
    """Every row of every segment, once."""
    found: dict[tuple[str, str, int], Row] = {}
    for broker in catalogue.brokers(place):
        for entry in catalogue.read(place, broker):
            table = pq.read_table(pa.BufferReader(place.read_bytes(entry.path)))
            for row in table.to_pylist():
                found.setdefault((row["broker"], row["boot"], row["seq"]), row)
    return list(found.values())


def surplus(tasks: list[Row]) -> list[Row]:
    """Settlements of origins beyond the first of each task."""
    by_id: defaultdict[tuple[str, str, int], list[Row]] = defaultdict(list)
    for row in tasks:
        if row["role"] == "origin" and row["outcome"] != "refused":
            by_id[row["client"], row["nonce"], row["sequence"]].append(row)
    ordered = (sorted(rows, key=lambda row: row["ts_us"]) for rows in by_id.values())
    return [row for rows in ordered for row in rows[1:]]


def origins(tasks: list[Row]) -> list[Row]:
    """What counts as a task: rows of origins, each task once."""
    doubled = {(row["broker"], row["boot"], row["seq"]) for row in surplus(tasks)}
    return [row for row in tasks if row["role"] == "origin" and (row["broker"], row["boot"], row["seq"]) not in doubled]


def queue_us(row: Row) -> int:
    earlier = sum(one["ended_us"] - one["dispatched_us"] for one in row["attempts"] or [])
    until_us = row["ts_us"] if row["dispatched_us"] is None else row["dispatched_us"]
    return int(until_us - row["received_us"] - earlier)


def exact_percentile(durations: Iterable[int], share: float) -> int | None:
    ordered = sorted(durations)
    return ordered[math.ceil(share * len(ordered) - 1e-9) - 1] if ordered else None


def services(tasks: list[Row], period: Callable[[Row], Any]) -> dict[tuple[Any, str], Row]:
    """Of each period and service: counts, sums, and durations to take percentiles of."""
    groups: defaultdict[tuple[Any, str], list[Row]] = defaultdict(list)
    for row in origins(tasks):
        groups[period(row), row["service"]].append(row)
    return {key: _service(rows) for key, rows in groups.items()}


def _service(rows: list[Row]) -> Row:
    accepted = [row for row in rows if row["outcome"] != "refused"]
    told = [row for row in rows if row["work_us"] is not None]
    codes = Counter(row["code"] for row in rows)
    outcomes = Counter(row["outcome"] for row in rows)
    return {
        "count": len(rows),
        "replied": outcomes["replied"],
        "failed": outcomes["failed"],
        "errors": outcomes["error"],
        "refused": outcomes["refused"],
        "late": codes[408] + codes[504],
        "lost": codes[502],
        "over_limit": codes[429] + codes[503],
        "latency_us": sum(row["ts_us"] - row["received_us"] for row in accepted),
        "queue_us": sum(queue_us(row) for row in accepted),
        "worker_us": sum(row["wait_us"] + row["work_us"] for row in told),
        "network_us": sum(row["ts_us"] - row["dispatched_us"] - row["wait_us"] - row["work_us"] for row in told),
        "network_count": len(told),
        "request_bytes": sum(row["request_bytes"] for row in rows),
        "reply_bytes": sum(row["reply_bytes"] for row in rows),
        "retries": sum(max(row["attempt"] - 1, 0) for row in rows),
        "durations": [row["ts_us"] - row["received_us"] for row in accepted],
        "queues": [queue_us(row) for row in rows if row["dispatched_us"] is not None],
    }


def burn(minutes: dict[tuple[int, str], Row], service: str, minute_us: int, length_us: int, allowed: float) -> float:
    """The burn rate of a service in the window of this length that ends with a minute."""
    within = [row for (at_us, name), row in minutes.items() if name == service and 0 <= minute_us - at_us < length_us]
    bad = sum(row["failed"] + row["late"] + row["lost"] + row["over_limit"] for row in within)
    return float(bad / sum(row["count"] for row in within) / allowed)


def in_flight(tasks: list[Row], brokers: set[str], at_us: int) -> Counter[str]:
    """What became of the tasks that two brokers had at a time."""
    fates: Counter[str] = Counter()
    for row in origins(tasks):
        if (
            row["broker"] not in brokers
            or row["outcome"] == "refused"
            or not row["received_us"] <= at_us <= row["ts_us"]
        ):
            continue
        is_answered = row["outcome"] == "replied"
        fates["lost" if row["code"] == 502 else "errored" if not is_answered else _way(row)] += 1
    return fates


def _way(row: Row) -> str:
    return "rerouted" if row["via"] else "retried" if row["attempt"] > 1 else "replied"


def detail(row: Row) -> Row:
    return dict(msgspec.json.decode(row["detail"] or "{}"))
