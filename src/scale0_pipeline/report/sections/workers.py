"""Workers: who was there, who came and went, and whose clock is off."""

from __future__ import annotations

import itertools
from datetime import date
from typing import Final

from scale0_pipeline import words
from scale0_pipeline.report.book import Row
from scale0_pipeline.report.charts.bars import Offset, offsets
from scale0_pipeline.report.charts.marks import legend
from scale0_pipeline.report.charts.strips import Piece, Strip, strips
from scale0_pipeline.report.html import Child, Html, join
from scale0_pipeline.report.period import Period
from scale0_pipeline.report.section import Scene, Section, data_table, empty, figure, name, state
from scale0_pipeline.units import DAY_US

WORKERS_MAX: Final = 24
CLOCKS_MAX: Final = 16


class Presence:
    """When one worker had a session, joined where sessions touch or overlap."""

    def __init__(self, worker: str, rows: list[Row], period: Period) -> None:
        self.worker = worker
        self.spans: list[tuple[int, int]] = []
        self.sessions = len({(row["broker"], row["boot"], row["opened_us"]) for row in rows})
        for row in sorted(rows, key=lambda row: row["opened_us"]):
            since = max(row["opened_us"], period.since_us)
            until = min(_seen_until(row), period.until_us)
            if self.spans and since <= self.spans[-1][1]:
                self.spans[-1] = (self.spans[-1][0], max(until, self.spans[-1][1]))
            elif until > since:
                self.spans.append((since, until))

    def share(self, period: Period) -> float:
        """Of the time since it was first seen, how much it was there."""
        if not self.spans:
            return 0.0
        return sum(until - since for since, until in self.spans) / max(period.until_us - self.spans[0][0], 1)


def presences(scene: Scene) -> list[Presence]:
    """Every worker of the period, those that were away most first."""
    by_worker: dict[str, list[Row]] = {}
    for row in scene.book.rows("silver/worker_sessions"):
        by_worker.setdefault(row["worker"], []).append(row)
    all_ = [Presence(worker, rows, scene.period) for worker, rows in by_worker.items()]
    return sorted(all_, key=lambda one: (one.share(scene.period), -one.sessions, one.worker))


def _seen_until(row: Row) -> int:
    """When a session ended. Each day that it touched has a row, and one that is open then says so as far as that."""
    if row["closed_us"] is not None:
        return int(row["closed_us"])
    days: int = (row["day"] - date(1970, 1, 1)).days
    return (days + 1) * DAY_US


def workers(scene: Scene) -> Section:
    """Availability, flaps and clocks."""
    found = presences(scene)
    kicker = "Workers"
    if not found:
        body = join([empty("No worker was recorded. Start one:", "scale0 worker module:app"), clocks(scene)])
        return Section("workers", kicker, "No worker was recorded", body)
    flaps = flapping(scene)
    away = [one for one in found if one.share(scene.period) < 0.99]
    title = f"{words.plural(len(found), 'worker')}, {len(away) or 'none'} of them away for over 1 % of the time"
    if flaps:
        worst = max(flaps, key=lambda worker: flaps[worker])
        title += f"; {words.name(worst)} came and went {words.plural(flaps[worst], 'time')} in its worst hour"
    shown = found[:WORKERS_MAX]
    chart = strips(
        scene.period,
        [Strip(one.worker, _pieces(one, scene.period), "!" if one.worker in flaps else "") for one in shown],
        "When each worker was there",
        testid="chart-workers",
    )
    cells: list[list[Child]] = [
        [
            name(one.worker),
            state("warn", "!", "flapping") if one.worker in flaps else state("ok", "●", "steady"),
            words.percent(one.share(scene.period)),
            words.count(one.sessions),
        ]
        for one in found
    ]
    summary = "Data" if len(found) == len(shown) else f"Data; the chart has the {len(shown)} that were away most"
    heads = ["worker", "state", "there", "sessions"]
    keys = legend([("b-ok soft", "there"), ("b-warn", "away, after it was first seen")])
    first = figure(chart, legend=keys, data=data_table(heads, cells, summary=summary, numbers={2, 3}))
    return Section("workers", kicker, title, join([first, clocks(scene)]))


def _pieces(one: Presence, period: Period) -> list[Piece]:
    """There, and away since it was first seen."""
    away = [(first[1], then[0]) for first, then in itertools.pairwise(one.spans)]
    if one.spans and period.until_us - one.spans[-1][1] > period.bin_us:  # not one that left with the period's end
        away.append((one.spans[-1][1], period.until_us))
    return [
        *(Piece(*span, "s-ok soft", f"there {period.between(*span)}") for span in one.spans),
        *(Piece(*span, "s-warn", f"away {period.between(*span)}") for span in away),
    ]


def flapping(scene: Scene) -> dict[str, int]:
    """Workers that flapped, with the sessions of their worst hour."""
    most: dict[str, int] = {}
    for row in scene.book.rows("gold/flaps"):
        if row["is_flapping"]:
            most[row["worker"]] = max(most.get(row["worker"], 0), int(row["sessions"] or 0))
    return most


def clocks(scene: Scene) -> Html:
    """The latest offset of each clock, with whiskers as long as its error; the furthest off first."""
    latest: dict[str, Row] = {}
    for row in sorted(scene.book.rows("gold/clock_drift"), key=lambda row: row["hour_us"]):
        if row["offset_us"] is not None:
            latest[row["participant"]] = row
    if not latest:
        return empty("No clock was measured: a worker's is, after its first heartbeats.")
    order = sorted(
        latest.values(), key=lambda row: (not row["is_drifting"], -abs(row["offset_us"]), row["participant"])
    )
    rows = [
        Offset(row["participant"], row["offset_us"], row["error_us"], bool(row["is_drifting"]), _offset(row))
        for row in order[:CLOCKS_MAX]
    ]
    cells: list[list[Child]] = [
        [
            name(row["participant"]),
            state("warn", "!", "drifts") if row["is_drifting"] else state("ok", "●", "steady"),
            words.signed(words.duration(row["offset_us"]), row["offset_us"]),
            words.duration(row["error_us"]),
            words.signed(words.figure(row["drift_ppm"]), row["drift_ppm"]),
            words.count(row["samples"]),
        ]
        for row in order
    ]
    heads = ["worker", "clock", "offset", "known to within", "drift ppm", "samples"]
    title = Html("<h3>Clocks against their broker's</h3>")
    return join([title, figure(offsets(rows), data=data_table(heads, cells, numbers={2, 3, 4, 5}))])


def _offset(row: Row) -> str:
    text = words.signed(words.duration(row["offset_us"]), row["offset_us"])
    within = f" ±{words.duration(row['error_us'])}" if row["error_us"] is not None else ""
    drift = f", {words.signed(words.figure(row['drift_ppm']), row['drift_ppm'])} ppm" if row["is_drifting"] else ""
    return text + within + drift
