"""A day of a small network, written as tables by hand: quick, without Spark, and with every kind of trouble in it.

`render` is overloaded from 14:00 to 14:40, `ocr` raises now and then, one worker flaps, one clock drifts, a fail-over
loses two tasks, a config change comes at noon, and the recorder of eu-2 loses rows at 9.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from scale0_pipeline.gold import schema_of
from scale0_pipeline.report.histogram import bucket_of
from scale0_pipeline.units import DAY_US, HOUR_US, MINUTE_US, SECOND_US

DAY = date(2026, 3, 2)  # a Monday
START_US = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp()) * SECOND_US
SERVICES = {
    "render": (40_000, 0.6, 30.0),
    "ocr": (9_000, 0.9, 12.0),
    "thumbs": (1_800, 0.4, 8.0),
    "mail": (300, 0.5, 3.0),
}
"""Of each service its median work in µs, the spread of its logarithm, and its tasks a minute at noon."""

Rows = list[dict[str, Any]]


def write(place: Path, name: str, rows: Rows) -> None:
    """A table of these rows; columns that a row lacks are null."""
    schema = schema_of(name)
    filled = [{"day": DAY, **row} for row in rows]
    table = pa.Table.from_pylist([{field: row.get(field) for field in schema.names} for row in filled], schema)
    target = place / "tables" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    write_deltalake(str(target), table, partition_by=["day"] if "day" in schema.names else None, mode="append")


def day_of(us: int) -> date:
    return DAY + timedelta(days=(us - START_US) // DAY_US)


CODES = {"replied": 200, "failed": 500, "error": 504, "refused": 429}


def cells_of(
    rng: np.random.Generator, service: str, at_us: int, tasks: int, *, stress: float = 0.0, failing: float = 0.0
) -> Rows:
    """Facts of some tasks at one time. Under stress they wait, are late, and are refused."""
    median, spread, _ = SERVICES.get(service, (5_000, 0.5, 1.0))
    work = (median * np.exp(rng.normal(0, spread, tasks))).astype(np.int64) + 20
    queue = np.minimum(rng.exponential(200 + stress * 4_000_000, tasks).astype(np.int64), 9_900_000)
    network = rng.integers(150, 700, tasks)
    latency = np.minimum(work + queue + network, 10_000_000)
    kind = np.where(rng.random(tasks) < failing, 1, 0)  # the places of CODES
    kind = np.where(latency >= 10_000_000, 2, kind)
    kind = np.where(rng.random(tasks) < stress * 0.1, 3, kind)
    bucket = np.where(kind == 3, -3, bucket_of(latency))
    keys, places = np.unique(kind * 10_000 + bucket + 3, return_inverse=True)
    is_told, is_accepted = kind < 2, kind < 3
    sums = {
        "count": np.ones(tasks),
        "latency_us": latency * is_accepted,
        "queue_us": queue * is_accepted,
        "worker_us": work * is_told,
        "network_us": network * is_told,
        "network_count": is_told,
        "request_bytes": np.full(tasks, 400),
        "reply_bytes": is_told * 2_000,
    }
    totals = {name: np.bincount(places, values, len(keys)).astype(np.int64).tolist() for name, values in sums.items()}
    outcomes = list(CODES)
    return [
        {"day": day_of(at_us), "minute_us": at_us, "service": service, "broker": "eu-1", "retries": 0, "batch": 1,
         "outcome": outcomes[key // 10_000], "code": CODES[outcomes[key // 10_000]], "bucket": key % 10_000 - 3,
         **{name: values[place] for name, values in totals.items()}}
        for place, key in enumerate(keys.tolist())
    ]  # fmt: skip


def load(at_us: int) -> float:
    """The day's course: quiet at night, busy at noon."""
    hour = (at_us - START_US) % DAY_US / HOUR_US
    return 0.25 + 0.75 * max(0.0, np.sin((hour - 5) / 15 * np.pi)) if 5 <= hour <= 20 else 0.25


def facts(since_us: int, minutes: int, *, every: int = 5, seed: int = 1, with_trouble: bool = True) -> Rows:
    """The facts of some minutes; those of five are filed under the first, which a page of a day cannot tell apart."""
    rng = np.random.default_rng(seed)
    cells: Rows = []
    for minute in range(0, minutes, every):
        at_us = since_us + minute * MINUTE_US
        clock = (at_us - START_US) % DAY_US // MINUTE_US
        for service, (_, _, rate) in SERVICES.items():
            is_stressed = with_trouble and service == "render" and 14 * 60 <= clock < 14 * 60 + 40
            is_failing = with_trouble and service == "ocr" and 9 * 60 <= clock < 9 * 60 + 25
            tasks = int(rng.poisson(every * rate * load(at_us) * (1.6 if is_stressed else 1.0)))
            cells += cells_of(rng, service, at_us, tasks, stress=float(is_stressed), failing=0.08 * is_failing)
    return cells


def hours(cells: Rows) -> Rows:
    """`service_1h`, as far as the report reads it."""
    sums: dict[tuple[int, str], int] = {}
    for cell in cells:
        key = (cell["minute_us"] // HOUR_US * HOUR_US, cell["service"])
        sums[key] = sums.get(key, 0) + cell["count"]
    return [{"day": day_of(at), "hour_us": at, "service": service, "count": n} for (at, service), n in sums.items()]


def splits(cells: Rows, seed: int = 2) -> Rows:
    """`facts/split`: the parts of each hour, drawn around the means of its cells."""
    rng = np.random.default_rng(seed)
    rows: Rows = []
    by_hour: dict[int, Rows] = {}
    for cell in cells:
        by_hour.setdefault(cell["minute_us"] // HOUR_US * HOUR_US, []).append(cell)
    for at, some in by_hour.items():
        told = max(1, sum(cell["network_count"] for cell in some))
        for part in ("queue", "worker", "network"):
            mean = sum(cell[f"{part}_us"] for cell in some) / told
            drawn = bucket_of((mean * np.exp(rng.normal(-0.3, 0.8, 200))).astype(np.int64))
            values, counts = np.unique(drawn, return_counts=True)
            rows += [
                {"day": day_of(at), "hour_us": at, "service": "render", "part": part, "bucket": int(value),
                 "count": int(number), "batch": 1}
                for value, number in zip(values, counts, strict=True)
            ]  # fmt: skip
    return rows


def sessions() -> Rows:
    """Twelve workers; one comes late, one leaves for an hour, and w-07 flaps through the evening."""
    rows: Rows = []
    for number in range(12):
        worker = f"w-{number:02d}"
        spans: list[tuple[int, int | None]] = [(0, None)]
        if number == 3:
            spans = [(0, 10 * HOUR_US), (11 * HOUR_US, None)]
        if number == 9:
            spans = [(6 * HOUR_US, None)]
        if number == 7:
            spans = [
                (18 * HOUR_US + n * 6 * MINUTE_US, 18 * HOUR_US + n * 6 * MINUTE_US + 4 * MINUTE_US) for n in range(30)
            ]
        rows += [
            {"day": DAY, "worker": worker, "broker": "eu-1", "boot": "b", "opened_us": START_US + since, "why": "lost",
             "closed_us": None if until is None else START_US + until, "services": '["render"]', "capacity": 8}
            for since, until in spans
        ]  # fmt: skip
    return rows


def burns() -> Rows:
    rows: Rows = []
    for minute in range(24 * 60):
        at = START_US + minute * MINUTE_US
        is_hot = 14 * 60 + 5 <= minute < 14 * 60 + 50
        rows.append(
            {"day": DAY, "minute_us": at, "service": "render", "window": "5m·1h", "threshold": 14.4, "volume": 1_000,
             "burn_short": 90.0 if is_hot else 0.1, "burn_long": 40.0 if is_hot else 0.1, "objective": 0.999,
             "is_alerting": is_hot}
        )  # fmt: skip
    return rows


def hour(number: int) -> int:
    return START_US + number * HOUR_US


def network() -> dict[str, Rows]:
    """What the network did that day."""
    noon, at = START_US + 12 * HOUR_US, START_US + 16 * HOUR_US + 754 * SECOND_US
    failover = {"day": DAY, "ts_us": at, "broker": "eu-1b", "partner": "eu-1", "what": "took_over", "epoch": 4,
                "in_flight": 118, "replied": 96, "rerouted": 4, "retried": 14, "errored": 2, "lost": 2, "doubled": 1,
                "outage_us": 1_900_000}  # fmt: skip
    recorded = [
        {"day": DAY, "hour_us": hour(n), "broker": broker, "counted": 4_000, "unknown": 0,
         "recorded": 2_760 if (broker, n) == ("eu-2", 9) else 4_000,
         "completeness": 0.69 if (broker, n) == ("eu-2", 9) else 1.0}
        for n in range(24) for broker in ("eu-1", "eu-2", "us-1")
    ]  # fmt: skip
    clocks = [
        {"day": DAY, "hour_us": hour(23), "participant": f"w-{n:02d}", "role": "worker", "samples": 3_000,
         "offset_us": 12_400.0 if n == 5 else (n - 6) * 180.0, "error_us": 300 + 40 * n,
         "drift_ppm": 140.0 if n == 5 else 0.4, "is_drifting": n == 5}
        for n in range(12)
    ]  # fmt: skip
    flaps = [
        {"day": DAY, "hour_us": hour(18 + n), "worker": "w-07", "broker": "eu-1", "sessions": 10, "penalty": 5_000.0,
         "is_flapping": True}
        for n in range(3)
    ]  # fmt: skip
    configs = [
        {"day": DAY, "hour_us": hour(n), "version": version, "brokers": 3, "workers": 12, "tasks": 2_000, "errors": 12,
         "first_us": max(hour(n), since), "last_us": min(hour(n + 1), until), "is_current": until > hour(n + 1)}
        for version, since, until in (("1.41", hour(0), noon + HOUR_US // 2), ("1.42", noon, hour(24)))
        for n in range(24) if since < hour(n + 1) and hour(n) < until
    ]  # fmt: skip
    return {
        "gold/failovers": [failover],
        "gold/completeness_1h": recorded,
        "gold/clock_drift": clocks,
        "gold/flaps": flaps,
        "gold/config_drift": configs,
        "silver/config_applied": [
            {"day": DAY, "ts_us": noon, "broker": "eu-1", "version": "1.42", "former": "1.41", "author": "ada"}
        ],
        "silver/gaps": [
            {"day": DAY, "broker": "eu-2", "boot": "b", "seq_lo": 10, "seq_hi": 1_249, "rows": 1_240, "why": "dropped"}
        ],
        "silver/worker_sessions": sessions(),
        "gold/slo_burn": burns(),
    }  # fmt: skip


def advice() -> dict[str, Rows]:
    """Capacity, cost, edges, hints and rules."""
    capacity = [
        {"service": service, "hour_of_week": at, "offered_per_s": load(hour(at)) * rate / 60,
         "work_us_mean": float(median), "erlangs": 1.0, "workers_needed": needed, "workers_low": max(1, needed - 2),
         "workers_high": needed + 3, "workers_now": 12, "slots_per_worker": 8.0, "weeks": 3, "is_provisional": False}
        for service, (median, _, rate) in SERVICES.items() for at in range(168)
        if (needed := 1 + int(load(hour(at)) * (17 if service == "render" else 6)))
    ]  # fmt: skip
    clients: dict[str, float] = {"web-1": 0.5, "batch": 0.3, "mobile": 0.15, "cron": 0.05}
    costs: Rows = [
        {"day": DAY, "service": service, "client": client, "count": int(9_000 * share), "share": share,
         "work_us": int(median * rate * 700 * share), "request_bytes": int(4e6 * share),
         "reply_bytes": int(2e7 * share)}
        for service, (median, _, rate) in SERVICES.items() for client, share in clients.items()
    ]  # fmt: skip
    edges = [
        {"day": DAY, "hour_us": hour(9), "client": row["client"], "service": row["service"], "worker": "w-01",
         "count": row["count"], "errors": 3, "latency_us": row["work_us"] * 2, "work_us": row["work_us"]}
        for row in costs
    ]  # fmt: skip
    hint = {"hint_id": "h1", "kind": "damp", "subject": "w-07", "service": "render", "bound": 0.5, "mode": "shadow",
            "reason": "30 sessions in 3 hours", "evidence_from_us": START_US, "evidence_to_us": START_US + HOUR_US,
            "completeness": 1.0, "made_us": START_US, "expires_us": hour(24), "is_held_out": False}  # fmt: skip
    return {
        "gold/capacity": capacity,
        "gold/cost_1d": costs,
        "gold/edges_1h": edges,
        "gold/hints": [hint],
        "gold/hint_scores": [
            {"hint_id": "h1", "scored_us": START_US + HOUR_US, "predicted": 0.4, "observed": 0.35, "control": 0.6,
             "score": 0.9, "verdict": "helped"}
        ],
        "quality/results": [
            {"day": DAY, "batch": 1, "table": "facts/minute", "rule": "counts are positive", "rows": 10, "failed": 0,
             "is_broken": False, "sample": None}
        ],
    }  # fmt: skip


def write_day(place: Path) -> None:
    """The whole day, with a calm one before it."""
    calm = facts(START_US - DAY_US, 24 * 60, every=60, seed=3, with_trouble=False)
    busy = facts(START_US, 24 * 60)
    write(place, "facts/minute", calm + busy)
    write(place, "gold/service_1h", hours(calm + busy))
    write(place, "facts/split", splits(calm + busy))
    for name, rows in {**network(), **advice()}.items():
        write(place, name, rows)
