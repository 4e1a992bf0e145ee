"""docs/alarms.md and docs/tracing.md say what the tables of alarms and of metrics say."""

from __future__ import annotations

import re
from pathlib import Path

from scale0.management import alarms, otlp, webhook
from scale0.management.alarm_notes import MEASURED, NOTED, RENAMED
from scale0.management.alarm_rules import RULES

DOCS = Path(__file__).parents[1] / "docs"
ALARMS = (DOCS / "alarms.md").read_text()
TRACING = (DOCS / "tracing.md").read_text()


def table(text: str, head: str) -> list[list[str]]:
    """The rows of the table whose head begins like this."""
    found = re.search(rf"^\| {re.escape(head)}.*\n\|[-| ]+\n((?:\|.*\n)*)", text, re.MULTILINE)
    assert found, f"no table begins with {head!r}"
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in found[1].splitlines()]


def test_every_measured_alarm_stands_there_with_its_thresholds_and_times() -> None:
    told = [
        (row[0].strip("` "), row[1], *(float(cell) for cell in row[3:7]))
        for row in table(ALARMS, "alarm | severity | value")
    ]
    assert told == [
        (rule.name, rule.severity, rule.raise_at, rule.raise_after_s, rule.clear_at, rule.clear_after_s)
        for rule in RULES
    ]


def test_every_alarm_of_the_core_stands_there_with_its_time() -> None:
    told = [(row[0].strip("` "), row[1], float(row[2])) for row in table(ALARMS, "alarm | severity | stays")]
    assert told == [(noted.name, noted.severity, noted.lasts_s) for noted in NOTED.values()]


def test_names_that_the_core_has_for_them_are_told() -> None:
    for name, shown in {**MEASURED, **RENAMED}.items():
        assert f"`{name}`" in ALARMS
        assert f"`{shown}`" in ALARMS


def test_bounds_stand_there() -> None:
    assert f"At most {alarms.RAISED_MAX} alarms" in ALARMS
    assert f"The last {alarms.CLEARED_KEPT} that were cleared" in ALARMS
    assert f"| {webhook.ATTEMPT_S:g} s |" in ALARMS
    assert f"| {webhook.QUEUE_MAX}; the oldest goes first |" in ALARMS
    assert f"| {webhook.AGE_S_MAX / 3600:g} h |" in ALARMS


def test_every_metric_that_is_pushed_stands_there() -> None:
    told = [(row[0].split("`")[1], row[1]) for row in table(TRACING, "metric | unit")]
    known = [(metric.name, metric.unit) for metric in (*otlp.BROKER, *otlp.SHELL, *otlp.SERVICE)]
    assert told == [*known, ("scale0.alarms", "{alarm}")]
    assert f"every {otlp.INTERVAL_S:g} s" in TRACING
    assert f"{otlp.SERVICES_MAX} services" in TRACING
