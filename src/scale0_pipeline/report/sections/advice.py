"""Configs and how tasks fared under them; how many workers are needed; and how former advice turned out."""

from __future__ import annotations

from typing import Final

from scale0_pipeline import words
from scale0_pipeline.report.book import Row
from scale0_pipeline.report.charts.bars import HOURS_OF_WEEK, Week, week
from scale0_pipeline.report.charts.marks import legend
from scale0_pipeline.report.charts.strips import Piece, Strip, strips
from scale0_pipeline.report.findings_network import hour_of_week
from scale0_pipeline.report.html import Child, Html, el, join
from scale0_pipeline.report.section import Scene, Section, data_table, empty, figure, name, short_table, state
from scale0_pipeline.units import HOUR_US

VERSIONS_MAX: Final = 12
WEEKS_MAX: Final = 6


class Version:
    """One version of the config: the hours in which it was used, and how tasks fared."""

    def __init__(self, rows: list[Row]) -> None:
        self.hours = sorted(row["hour_us"] for row in rows)
        self.tasks = sum(row["tasks"] or 0 for row in rows)
        self.errors = sum(row["errors"] or 0 for row in rows)
        self.brokers = max(row["brokers"] or 0 for row in rows)
        self.workers = max(row["workers"] or 0 for row in rows)
        self.first_us = min(row["first_us"] or row["hour_us"] for row in rows)
        self.last_us = max(row["last_us"] or row["hour_us"] for row in rows)
        self.is_current = bool(max(rows, key=lambda row: row["hour_us"])["is_current"])


def configs(scene: Scene) -> Section:
    """Versions in use over time, and what became of tasks under each."""
    by_version: dict[str, list[Row]] = {}
    for row in scene.book.rows("gold/config_drift"):
        by_version.setdefault(row["version"], []).append(row)
    kicker = "Config versions"
    if not by_version:
        body = empty("No config version was recorded; a network's document gives one:", "scale0 config apply FILE")
        return Section("configs", kicker, "No config version was recorded", body)
    versions = {text: Version(rows) for text, rows in by_version.items()}
    order = sorted(versions, key=lambda text: -versions[text].last_us)
    newest = max(hour for one in versions.values() for hour in one.hours)
    current = next((text for text in order if versions[text].is_current and newest in versions[text].hours), order[0])
    lagging = [
        text for text in order if text != current and versions[text].last_us >= versions[current].last_us - HOUR_US
    ]
    title = f"{words.plural(len(order), 'version')} in use, {words.name(current)} at the end"
    title += (
        f"; {words.listed([words.name(text) for text in lagging])} still in use within its last hour" if lagging else ""
    )
    chart = strips(
        scene.period,
        [
            Strip(
                text,
                [
                    Piece(
                        versions[text].first_us,
                        versions[text].last_us,
                        "s-ok soft" if text == current else "s-off soft",
                    )
                ],
            )
            for text in order[:VERSIONS_MAX]
        ],
        "When each config version was in use",
        testid="chart-configs",
    )
    cells = [_fared(scene, text, versions[text], text == current) for text in order]
    heads = ["version", "state", "first", "last", "tasks", "ended badly", "brokers", "workers"]
    body = figure(chart, data=data_table(heads, cells, numbers={4, 5, 6, 7}))
    return Section("configs", kicker, title, body)


def _fared(scene: Scene, text: str, one: Version, is_current: bool) -> list[Child]:
    return [
        name(text),
        state("ok", "●", "current") if is_current else state("off", "○", "former"),
        scene.period.show(one.first_us),
        scene.period.show(one.last_us),
        words.count(one.tasks),
        words.percent(one.errors / one.tasks if one.tasks else None),
        words.count(one.brokers),
        words.count(one.workers),
    ]


def capacity(scene: Scene) -> Section:
    """Workers that each service needs through the week, and how former advice turned out."""
    by_service: dict[str, list[Row]] = {}
    for row in scene.book.rows("gold/capacity"):
        by_service.setdefault(row["service"], []).append(row)
    kicker = "Capacity, and past advice"
    if not by_service:
        body = join(
            [empty("There is no advice yet: it needs an hour of tasks.", "scale0 pipeline run --once"), scores(scene)]
        )
        return Section("capacity", kicker, "No advice on capacity yet", body)
    peaks = {service: max(rows, key=lambda row: row["workers_needed"] or 0) for service, rows in by_service.items()}
    order = sorted(peaks, key=lambda service: (_surplus(peaks[service]), service))
    short = [service for service in order if _surplus(peaks[service]) < 0]
    title = "Every service has the workers that its busiest hour needs"
    if short:
        names, verb = words.listed([words.name(service) for service in short]), "has" if len(short) == 1 else "have"
        title = f"{names} {verb} fewer workers than the busiest hour needs"
    elif all(peak["workers_now"] is None for peak in peaks.values()):
        most = max(order, key=lambda service: peaks[service]["workers_needed"] or 0)
        title = f"{words.name(most)} needs the most workers, {peaks[most]['workers_needed']} in its busiest hour"
    is_provisional = any(peak["is_provisional"] for peak in peaks.values())
    note = "Provisional: under two weeks of history, so no hour of the week was seen twice." if is_provisional else ""
    stamps = [
        el(
            "figure",
            el("figcaption", name(service), f" needs {peaks[service]['workers_needed']}, has {_now(peaks[service])}"),
            week(_week(by_service[service]), service),
        )
        for service in order[:WEEKS_MAX]
    ]
    cells = [_peak(service, peaks[service]) for service in order]
    heads = ["service", "has", "needs", "at least", "at most", "busiest hour", "asked for /s", "held a slot", "weeks"]
    body = join(
        [
            legend([("l-text dash", "workers now"), ("l-ok", "needed"), ("b-ok faint", "between which it lies")]),
            el("div", *stamps, class_="stamps pairs"),
            el("p", note, class_="muted") if note else None,
            data_table(heads, cells, numbers={1, 2, 3, 4, 6, 7, 8}),
            scores(scene),
        ]
    )
    return Section("capacity", kicker, title, body)


def _surplus(peak: Row) -> int:
    now, needed = peak["workers_now"], peak["workers_needed"]
    return int(now) - int(needed) if now is not None and needed is not None else 0


def _now(peak: Row) -> str:
    return words.UNKNOWN if peak["workers_now"] is None else str(peak["workers_now"])


def _peak(service: str, peak: Row) -> list[Child]:
    return [
        name(service),
        _now(peak),
        *(words.figure(peak[key]) for key in ("workers_needed", "workers_low", "workers_high")),
        hour_of_week(int(peak["hour_of_week"])),
        words.figure(peak["offered_per_s"]),
        words.duration(peak["work_us_mean"]),
        words.figure(peak["weeks"]),
    ]


def _week(rows: list[Row]) -> Week:
    made = Week([None] * HOURS_OF_WEEK, [None] * HOURS_OF_WEEK, [None] * HOURS_OF_WEEK, None)
    for row in rows:
        hour = int(row["hour_of_week"]) % HOURS_OF_WEEK
        made.needed[hour], made.low[hour], made.high[hour] = (
            row[key] for key in ("workers_needed", "workers_low", "workers_high")
        )
        made.now = row["workers_now"] if row["workers_now"] is not None else made.now
    return made


def scores(scene: Scene) -> Html:
    """Advice that was given, and how it turned out against what was left alone."""
    hints = {row["hint_id"]: row for row in scene.book.rows("gold/hints")}
    scored = {row["hint_id"]: row for row in scene.book.rows("gold/hint_scores")}
    title = Html("<h3>Past advice</h3>")
    if not hints and not scored:
        return join([title, empty("No advice was given in this period.")])
    cells: list[list[Child]] = []
    for hint_id in {**hints, **scored}:
        hint, score = hints.get(hint_id, {}), scored.get(hint_id, {})
        cells.append(
            [
                f"{hint.get('kind') or 'advice'} {words.name(hint.get('subject'))}",
                str(hint.get("mode") or words.UNKNOWN) + (", held out" if hint.get("is_held_out") else ""),
                str(hint.get("reason") or words.UNKNOWN),
                *(words.figure(score.get(key)) for key in ("predicted", "observed", "control")),
                str(score.get("verdict") or "not scored yet"),
            ]
        )
    heads = ["advice", "mode", "why", "predicted", "observed", "without it", "verdict"]
    return join([title, *short_table(heads, cells, numbers={3, 4, 5})])
