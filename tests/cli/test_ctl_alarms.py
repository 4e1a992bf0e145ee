"""Alarms and the overview: the verdict first, five figures, cause and cure."""

from __future__ import annotations

from typing import Any

from scale0.cli import ctl_alarms, listings
from tests.cli import canned

SINCE_US = 1_714_564_800_000_000


def alarm(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "state": "raised",
        "since_us": SINCE_US,
        "severity": "warn",
        "cause": "tasks wait 12 s",
        "cure": "scale0 worker module:app",
        "subject": "ocr",
        **changes,
    }


def overview(**changes: Any) -> dict[str, Any]:
    return {
        "verdict": {"level": "warn", "text": "! ocr waits"},
        "figures": {
            "tasks_per_s": 1204.2,
            "p50_us": 8_000,
            "p99_us": 41_000,
            "queued": 12,
            "oldest_us": 800_000,
            "errors_per_min": 3,
            "free": 31,
            "capacity": 96,
        },
        "alarms": [alarm("queue_old")],
        "services": [canned.service("render"), canned.bare_service("ocr")],
        **changes,
    }


def test_the_five_figures_are_those_of_the_page() -> None:
    assert ctl_alarms.figures(overview()) == [
        ("tasks/s", "1,204"),
        ("p50·p99", "8·41 ms"),
        ("queued", "12·0.8 s"),
        ("errors/min", "3"),
        ("free", "31/96"),
    ]


def test_what_nobody_measured_is_a_dash() -> None:
    assert [value for _title, value in ctl_alarms.figures({})] == ["–", "–·– ms", "–·– s", "–", "–/–"]


def test_the_overview_opens_with_the_verdict_and_its_figures_fit_80_columns() -> None:
    lines = [line.plain for line in ctl_alarms.draw_overview(overview(), width=80)]
    assert lines[0] == "! ocr waits"
    assert len(lines[1]) <= 80
    assert lines[2] == "! queue_old ocr: tasks wait 12 s"
    assert lines[3] == "  → scale0 worker module:app"
    assert lines[6].startswith("ocr ")  # the worst service first


def test_more_alarms_than_there_is_room_for_are_counted() -> None:
    many = overview(alarms=[alarm(f"alarm-{number}") for number in range(20)])
    lines = [line.plain for line in ctl_alarms.alarm_lines(many, 2)]
    assert lines[-1] == "  and 18 more: scale0 ctl alarms"


def test_bad_alarms_come_first_and_cleared_ones_last() -> None:
    rows = [alarm("a"), alarm("b", state="cleared"), alarm("c", severity="bad", cure="start it")]
    listing = listings.parse(canned.listing("alarms", *rows))
    lines = [line.plain for line in listings.draw(listing, ctl_alarms.ALARMS, width=None, is_wide=False)]
    assert lines[0] == "✗ 2 alarms raised, 1 bad (eu-1, config v42)"
    assert [line.split()[2] for line in lines[2:5]] == ["c", "a", "b"]
    assert "2024-05-01 12:00:00" in lines[2]
    assert lines[-1] == "Next: start it"
