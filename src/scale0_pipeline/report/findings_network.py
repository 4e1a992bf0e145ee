"""Findings about the network itself: fail-overs, capacity, flapping workers, clocks, configs, and the record's gaps."""

from __future__ import annotations

import shlex
from typing import Final

from scale0_pipeline import words
from scale0_pipeline.report.book import Book, Row
from scale0_pipeline.report.charts.bars import DAYS
from scale0_pipeline.report.charts.marks import WHOLE
from scale0_pipeline.report.finding import Finding
from scale0_pipeline.units import HOUR_US

OUTAGE_US: Final = 5_000_000
ERRORS_MIN: Final = 20
WORSE: Final = 3.0
"""A config version whose tasks fail this many times as often as those of the others is a finding."""


def failovers(book: Book) -> list[Finding]:
    """A fail-over that cost tasks, or after which nothing was settled for seconds; one that cost nothing is good."""
    found = []
    for row in book.rows("gold/failovers"):
        if row["what"] != "took_over":
            continue
        lost, doubled, outage = (row[key] or 0 for key in ("lost", "doubled", "outage_us"))
        is_dear = lost > 0 or outage > OUTAGE_US
        found.append(
            Finding(
                severity="bad" if lost else "warn" if is_dear or doubled else "ok",
                subject=f"failover {row['broker']} {row['ts_us']}",
                what=f"{words.name(row['broker'])} took over from {words.name(row['partner'])}",
                since=f"at {book.period.show(row['ts_us'])}",
                evidence=f"{words.plural(row['in_flight'] or 0, 'task')} in flight, {words.count(lost)} lost, "
                f"{words.count(doubled)} settled twice, {words.duration(outage)} without an outcome",
                command="scale0 network",
                weight=float(lost),
            )
        )
    return found


def short_of_workers(book: Book) -> list[Finding]:
    """A service with fewer workers than the least that its busiest hour of the week needs."""
    found = []
    by_service: dict[str, list[Row]] = {}
    for row in book.rows("gold/capacity"):
        if row["workers_now"] is not None and row["workers_needed"] is not None:
            by_service.setdefault(row["service"], []).append(row)
    for service, rows in by_service.items():
        peak = max(rows, key=lambda row: int(row["workers_needed"]))
        needed, now = int(peak["workers_needed"]), int(peak["workers_now"])
        if (peak["workers_low"] if peak["workers_low"] is not None else needed) <= now:
            continue
        is_sure = not peak["is_provisional"]
        tried = f"{max(now, 1)}..{needed + 2}"  # nothing can be replayed on no worker
        found.append(
            Finding(
                severity="warn" if is_sure else "ok",
                subject=f"capacity {service}",
                what=f"{words.name(service)} has {now} of the {needed} workers that its busiest hour needs",
                since=hour_of_week(int(peak["hour_of_week"])),
                evidence=f"at least {peak['workers_low']}, at most {peak['workers_high']}"
                + ("" if is_sure else "; provisional, under two weeks of history"),
                command=f"scale0 pipeline whatif --service {shlex.quote(service)} --workers {tried}",
                weight=needed - now,
            )
        )
    return found


def hour_of_week(hour: int) -> str:
    """`Mondays at 14 h`."""
    day = ("Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays")[hour // 24 % len(DAYS)]
    return f"{day} at {hour % 24} h UTC"


def flapping(book: Book) -> list[Finding]:
    """Workers whose sessions come and go."""
    hours = [row for row in book.rows("gold/flaps") if row["is_flapping"]]
    if not hours:
        return []
    sessions: dict[str, int] = {}
    for row in hours:
        sessions[row["worker"]] = sessions.get(row["worker"], 0) + (row["sessions"] or 0)
    order = sorted(sessions, key=lambda worker: (-sessions[worker], worker))
    names, worst = words.listed([words.name(worker) for worker in order]), order[0]
    return [
        Finding(
            severity="warn",
            subject="flaps",
            what=f"{names} {'comes and goes' if len(order) == 1 else 'come and go'}",
            since=book.period.between(
                min(row["hour_us"] for row in hours), max(row["hour_us"] for row in hours) + HOUR_US
            ),
            evidence=f"{words.plural(sessions[worst], 'session')} of {words.name(worst)} while it flapped",
            command="scale0 pipeline hints",
            weight=sum(sessions.values()),
        )
    ]


def drifting(book: Book) -> list[Finding]:
    """Clocks that run away from their broker's."""
    latest: dict[str, Row] = {}
    for row in sorted(book.rows("gold/clock_drift"), key=lambda row: row["hour_us"]):
        latest[row["participant"]] = row
    bad = sorted((row for row in latest.values() if row["is_drifting"]), key=lambda row: -abs(row["drift_ppm"] or 0))
    if not bad:
        return []
    worst = bad[0]
    off = words.duration(abs(worst["offset_us"]))
    drift = words.signed(words.figure(worst["drift_ppm"]), worst["drift_ppm"])
    names = words.listed([words.name(row["participant"]) for row in bad])
    return [
        Finding(
            severity="warn",
            subject="clocks",
            what=f"The {'clock' if len(bad) == 1 else 'clocks'} of {names} {'drifts' if len(bad) == 1 else 'drift'}",
            since=f"seen at {book.period.show(worst['hour_us'])}",
            evidence=f"{words.name(worst['participant'])}: {drift} ppm, off by {off}" + _within(worst["error_us"]),
            command="chronyc tracking   (on that machine)",
            weight=len(bad),
        )
    ]


def _within(error_us: float | None) -> str:
    return f" ±{words.duration(error_us)}" if error_us is not None else ""


def configs(book: Book) -> list[Finding]:
    """A version of the config under which tasks fail far more often than under the others."""
    tasks: dict[str, int] = {}
    errors: dict[str, int] = {}
    first: dict[str, int] = {}
    for row in book.rows("gold/config_drift"):
        version = row["version"]
        tasks[version] = tasks.get(version, 0) + (row["tasks"] or 0)
        errors[version] = errors.get(version, 0) + (row["errors"] or 0)
        first[version] = min(first.get(version, row["first_us"]), row["first_us"])
    found = []
    for version in tasks:
        others, of_others = sum(tasks.values()) - tasks[version], sum(errors.values()) - errors[version]
        if errors[version] < ERRORS_MIN or others == 0:
            continue
        share, usual = errors[version] / tasks[version], of_others / others
        times = words.figure(share / max(usual, 0.001))
        if share > max(usual, 0.001) * WORSE:
            found.append(
                Finding(
                    severity="warn",
                    subject=f"config {version}",
                    what=f"Tasks fail {times} times as often under config {words.name(version)}",
                    since=f"since {book.period.show(first[version])}",
                    evidence=f"{words.percent(share)} of {words.count(tasks[version])}, else {words.percent(usual)}",
                    command="scale0 config history",
                    weight=errors[version],
                )
            )
    return found


def incomplete(book: Book) -> list[Finding]:
    """A record that lacks over 0.1 % of what was counted: then every figure is of a part."""
    known = book.completeness
    share = known.share
    if share is None or share >= WHOLE:
        return []
    return [
        Finding(
            severity="warn",
            subject="record",
            what=f"The record lacks {words.plural(known.lost, 'row')}",
            since=f"{words.percent(share)} is there",
            evidence=f"{words.count(known.recorded)} rows recorded, {words.count(known.counted)} counted",
            command="scale0 pipeline collect",
            weight=known.lost,
        )
    ]
