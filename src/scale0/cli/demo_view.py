"""What the demo shows while it runs: a live table in a terminal, a few plain lines each second anywhere else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from rich.text import Text

from scale0.cli import render
from scale0.cli.demo_load import Figures
from scale0.cli.render import Column
from scale0.cli.views import Row, count, is_late

BARS = "▁▂▃▄▅▆▇█"
TREND = 24  # points of the little curve beside each rate
EVENTS_MAX = 8


class Snapshot(msgspec.Struct):
    """Everything that one screen shows."""

    elapsed_s: float
    seconds: float
    endpoint: str
    figures: dict[str, Figures]
    services: list[Row]
    workers: list[Row]  # of the broker that is asked
    brokers: list[Row]
    trends: dict[str, list[float]]
    events: list[tuple[float, str, str]]  # when, fill, what
    totals: tuple[int, int, int, int]  # submitted, replied, errors, open


COLUMNS = (
    Column("SERVICE"),
    Column("TASKS/s", is_number=True),
    Column("TREND", drop=2),
    Column("p50 ms", is_number=True),
    Column("p99 ms", is_number=True),
    Column("QUEUED", is_number=True),
    Column("ERRORS", is_number=True),
    Column("WORKERS, LEAST RECENTLY USED FIRST", drop=1),
)


def draw(snapshot: Snapshot, width: int | None) -> list[Text]:
    """The lines of the live screen."""
    lines = [_headline(snapshot), _progress(snapshot, min(width or 80, 80)), Text("")]
    lines += render.table(COLUMNS, [_row(snapshot, service) for service in snapshot.figures], width=width)
    lines.append(Text(""))
    lines.append(Text.assemble(("brokers  ", "dim"), _brokers(snapshot)))
    submitted, replied, errored, still_open = snapshot.totals
    lines.append(
        Text.assemble(
            ("books    ", "dim"),
            f"{submitted:,} submitted = {replied:,} replied + {count(errored, 'error')} + {still_open:,} open",
        )
    )
    lines += [_event(event) for event in snapshot.events[-EVENTS_MAX:]]
    return lines


def draw_plain(snapshot: Snapshot) -> Text:
    """One line a second, for a pipe or a log."""
    parts = []
    for service, figures in snapshot.figures.items():
        parts.append(
            f"{service} {render.figure(figures.tasks_per_s)}/s"
            f" p50 {render.ms(figures.p50_us)} p99 {render.ms(figures.p99_us)} ms"
            f" queued {_queued(snapshot, service)} errors {figures.errored:,}"
            f" lru {' '.join(identity for identity, _fill in _lru(snapshot.workers, service)) or render.UNKNOWN}"
        )
    parts.append(_brokers(snapshot).plain)
    return Text(f"{snapshot.elapsed_s:4.0f} s  " + " · ".join(parts))


def draw_event(event: tuple[float, str, str]) -> Text:
    return _event(event)


def _headline(snapshot: Snapshot) -> Text:
    workers = count(sum(row.get("workers") or 0 for row in snapshot.brokers), "worker")
    gone = [row for row in snapshot.services if row.get("state") == "no worker"]
    fill = "warn" if gone or any(is_late(row) for row in snapshot.workers) else "ok"
    gone_brokers = [row for row in snapshot.brokers if row.get("state") != "active"]
    fill = "bad" if gone_brokers else fill
    brokers = count(len(snapshot.brokers), "broker")
    return render.verdict(fill, f"Scale0 demo: {brokers}, {workers}, 3 services, 1 client at {snapshot.endpoint}")


def _brokers(snapshot: Snapshot) -> Text:
    """Each broker with its state, its workers, and the tasks that were passed on to it."""
    parts = []
    for row in snapshot.brokers:
        state = str(row.get("state"))
        fill, glyph = ("ok", "●") if state == "active" else ("ok", "○") if state == "joining" else ("bad", "✗")
        known = row.get("workers")
        workers = "" if known is None else f", {count(known, 'worker')}"
        passed_on = f", {row['forwarded']:,} tasks passed on to it" if row.get("forwarded") else ""
        name = render.safe(row.get("identity", "?"))
        parts.append(Text.assemble((glyph, render.STYLES[fill]), f" {name} {state}{workers}{passed_on}"))
    return Text("  ").join(parts)


def _progress(snapshot: Snapshot, width: int) -> Text:
    room = max(10, width - 14)
    done = min(room, int(room * snapshot.elapsed_s / snapshot.seconds)) if snapshot.seconds else room
    clock = f" {min(snapshot.elapsed_s, snapshot.seconds):4.0f} of {snapshot.seconds:.0f} s"
    return Text.assemble(("█" * done, render.STYLES["ok"]), ("░" * (room - done), "dim"), clock)


def _row(snapshot: Snapshot, service: str) -> Sequence[Any]:
    figures = snapshot.figures[service]
    workers = Text("  ").join(
        Text.assemble(("✗" if fill == "bad" else "!" if fill == "warn" else "●", render.STYLES[fill]), " ", identity)
        for identity, fill in _lru(snapshot.workers, service)
    )
    return (
        service,
        render.figure(figures.tasks_per_s),
        Text(trend(snapshot.trends.get(service, [])), style=render.STYLES["ok"]),
        render.ms(figures.p50_us),
        render.ms(figures.p99_us),
        _queued(snapshot, service),
        f"{figures.errored:,}",
        workers if workers.plain else Text.assemble(("✗", render.STYLES["bad"]), " no worker"),
    )


def trend(values: Sequence[float]) -> str:
    """A curve of one line, scaled to its own highest point."""
    shown = list(values)[-TREND:]
    top = max(shown, default=0.0)
    curve = "".join(BARS[min(len(BARS) - 1, int(value / top * len(BARS)))] if top else BARS[0] for value in shown)
    return curve.ljust(TREND)


def _lru(workers: Sequence[Row], service: str) -> list[tuple[str, str]]:
    """The service's workers, the next to be used first; those without a free slot come last."""
    serving = [row for row in workers if service in (row.get("services") or [])]
    serving.sort(key=lambda row: (row.get("lru") is None, row.get("lru") or 0, str(row.get("identity"))))
    return [(render.safe(row.get("identity", "?")), "warn" if is_late(row) else "ok") for row in serving]


def _queued(snapshot: Snapshot, service: str) -> str:
    for row in snapshot.services:
        if row.get("name") == service:
            return render.figure(row.get("queued"))
    return render.UNKNOWN


def _event(event: tuple[float, str, str]) -> Text:
    when_s, fill, what = event
    glyph = {"ok": "●", "warn": "!", "bad": "✗", "off": "–"}[fill]
    return Text.assemble((f"{when_s:5.1f} s  ", "dim"), (glyph, render.STYLES[fill]), " ", what)
