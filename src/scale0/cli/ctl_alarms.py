"""Alarms and the overview, as a terminal shows them: the verdict, five figures, what is raised, the worst services.

An alarm has a cause and a cure; both are shown, for a cause alone leaves whoever is on call where they were. The
overview is not a table but a page of few lines; `scale0 top` is the same page, alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rich.text import Text

from scale0.cli import render
from scale0.cli.render import Cell, Column
from scale0.cli.views import SERVICES, BrokerInfo, Row, View, count, micros, moment, number, text

LEVELS: Final = {"ok": "ok", "warn": "warn", "bad": "bad"}
SERVICES_MAX: Final = 8  # in the overview
ALARMS_MAX: Final = 8


def severity(row: Row) -> Text:
    """What an alarm is: raised and how bad, or over."""
    if row.get("state") == "cleared":
        return Text.assemble(("○", render.STYLES["off"]), " cleared")
    fill = "bad" if row.get("severity") == "bad" else "warn"
    return Text.assemble(("✗" if fill == "bad" else "!", render.STYLES[fill]), f" {fill}")


def _cells(row: Row) -> Sequence[Cell]:
    return (
        severity(row),
        text(row, "name"),
        text(row, "subject"),
        since(row),
        text(row, "cause"),
        text(row, "cure"),
    )


def since(row: Row) -> str:
    """When it was raised, or cleared."""
    at_us = micros(row, "since_us")
    return moment(at_us) if at_us is not None else render.UNKNOWN


def _raised(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.get("state") != "cleared"]


def _verdict(rows: Sequence[Row], broker: BrokerInfo) -> tuple[str, str]:
    raised = _raised(rows)
    if not raised:
        return "ok", f"no alarm is raised {broker.short}"
    bad = sum(row.get("severity") == "bad" for row in raised)
    rest = f", {bad:,} bad" if bad else ""
    return "bad" if bad else "warn", f"{count(len(raised), 'alarm')} raised{rest} {broker.short}"


def _advise(rows: Sequence[Row]) -> str:
    raised = sorted(_raised(rows), key=_rank)
    return text(raised[0], "cure") if raised and raised[0].get("cure") else ""


def _rank(row: Row) -> tuple[Any, ...]:
    return (row.get("state") == "cleared", row.get("severity") != "bad", micros(row, "since_us") or 0)


ALARMS = View(
    "alarm",
    (
        Column("ALARM"),
        Column("NAME", drop=2),
        Column("SUBJECT", drop=1),
        Column("SINCE (UTC)", drop=3),
        Column("CAUSE"),
        Column("CURE", is_wide_only=True),
    ),
    _cells,
    _rank,
    _verdict,
    _advise,
)

# --- the overview -------------------------------------------------------------------------------------------------


def told_verdict(overview: Row) -> Text:
    """The network's verdict, as the broker gave it."""
    verdict = overview.get("verdict")
    told = verdict if isinstance(verdict, dict) else {}
    sentence = render.safe(told.get("text") or "no verdict yet")
    fill = LEVELS.get(str(told.get("level")), "off")
    # The broker's own sentence may begin with the glyph already.
    return render.verdict(fill, sentence[2:] if sentence[:2] in {"● ", "! ", "✗ ", "– "} else sentence)


def figures(overview: Row) -> list[tuple[str, str]]:
    """The five figures: what each is called, and what it is."""
    found = overview.get("figures")
    row: Row = found if isinstance(found, dict) else {}
    p50, p99 = render.ms(micros(row, "p50_us")), render.ms(micros(row, "p99_us"))
    return [
        ("tasks/s", number(row, "tasks_per_s")),
        ("p50·p99", f"{p50}·{p99} ms"),
        ("queued", f"{number(row, 'queued')}·{render.seconds(micros(row, 'oldest_us'))} s"),
        ("errors/min", number(row, "errors_per_min")),
        ("free", f"{number(row, 'free')}/{number(row, 'capacity')}"),
    ]


def alarm_lines(overview: Row, limit: int = ALARMS_MAX) -> list[Text]:
    """Each alarm that is raised: what, why, and under it what to do."""
    rows = sorted(_raised(rows_of(overview, "alarms")), key=_rank)
    lines: list[Text] = []
    for row in rows[:limit]:
        subject = f" {text(row, 'subject')}" if row.get("subject") else ""
        glyph = severity(row)
        lines.append(Text.assemble(glyph[:1], f" {text(row, 'name')}{subject}: {text(row, 'cause')}"))
        if row.get("cure"):
            lines.append(Text(f"  → {text(row, 'cure')}", style="dim"))
    if len(rows) > limit:
        lines.append(Text(f"  and {len(rows) - limit:,} more: scale0 ctl alarms", style="dim"))
    return lines


def rows_of(overview: Row, key: str) -> list[Row]:
    found = overview.get(key)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def draw_overview(overview: Row, *, width: int | None, is_wide: bool = False) -> list[Text]:
    """The overview as lines: verdict, figures, alarms, the services that need a look most."""
    lines = [told_verdict(overview)]
    shown = [Text.assemble((f"{title} ", "dim"), (value, "bold")) for title, value in figures(overview)]
    lines.append(Text("   ").join(shown))
    lines += alarm_lines(overview)
    services = sorted(rows_of(overview, "services"), key=SERVICES.rank)[:SERVICES_MAX]
    if services:
        cells = [SERVICES.cells(row) for row in services]
        lines += ["", *render.table(SERVICES.columns, cells, width=width, is_wide=is_wide)]  # type: ignore[list-item]
    elif advice := SERVICES.advise(services):
        lines.append(Text.assemble(("Next:", "bold"), " ", advice))
    return [line if isinstance(line, Text) else Text(line) for line in lines]
