"""What ctl shows of tasks, events, audit, keys and ignored connections, and of listings that nobody described."""

from __future__ import annotations

from typing import Any

import pytest

from scale0.cli import ctl_views, listings
from scale0.management.vocabulary import LISTINGS
from tests.cli import canned


def drawn(name: str, *rows: dict[str, Any], width: int | None = None, is_wide: bool = False) -> list[str]:
    listing = listings.parse(canned.listing(name, *rows))
    lines = listings.draw(listing, ctl_views.view_of(name, listing.rows), width=width, is_wide=is_wide)
    return [line.plain for line in lines]


TASK = {
    "id": "app.00aa.7",
    "service": "render",
    "client": "app",
    "state": "in_flight",
    "age_us": 1_500_000,
    "deadline_us": 8_500_000,
    "attempt": 2,
    "worker": "w-12",
    "priority": 1,
    "bytes": 80,
}
RECORD = {
    "seq": 4,
    "at": "2024-05-01T12:00:00.123Z",
    "user": "ops",
    "role": "admin",
    "door": "managementreq",
    "source": "local",
    "command": "drain",
    "target": "",
    "outcome": "denied",
    "code": 403,
}


@pytest.mark.parametrize("name", sorted(LISTINGS))
def test_every_listing_of_the_vocabulary_can_be_shown_empty(name: str) -> None:
    if name != "overview":  # which is no table
        assert drawn(name)[0]


def test_tasks_open_with_how_many_wait_and_run_and_the_nearest_deadline_comes_first() -> None:
    queued = {**TASK, "id": "app.00aa.9", "state": "queued", "deadline_us": 200_000, "worker": None}
    lines = drawn("tasks", TASK, queued)
    assert lines[0] == "● 2 tasks, 1 queued, 1 in flight (eu-1, config v42)"
    assert [line.split()[0] for line in lines[2:]] == ["app.00aa.9", "app.00aa.7"]
    assert "in flight" in lines[3]


def test_a_task_that_waits_and_one_that_runs_have_their_glyphs() -> None:
    text = "\n".join(drawn("tasks", TASK, {**TASK, "id": "app.00aa.9", "state": "queued"}))
    assert "● in flight" in text
    assert "○ queued" in text


def test_a_narrow_terminal_keeps_what_matters_of_a_task() -> None:
    lines = drawn("tasks", TASK, width=60)
    assert lines[1].split()[:2] == ["TASK", "SERVICE"]
    assert lines[-1].startswith("+")
    assert all(len(line) <= 60 for line in lines[1:])


def test_a_denial_stands_out_in_the_audit_log() -> None:
    lines = drawn("audit", RECORD, {**RECORD, "seq": 3, "outcome": "done", "code": 200})
    assert lines[0] == "● 2 records, 1 failed or denied (eu-1, config v42)"
    assert "2024-05-01 12:00:00" in lines[2]
    assert "! denied" in lines[2]
    assert "● done" in lines[3]
    assert "audit --verify" in lines[-1]


def test_a_long_result_of_an_event_is_cut() -> None:
    event = {"at": "2024-05-01T12:00:00Z", "kind": "command", "actor": "ops", "result": "x" * 200}
    assert len(drawn("events", event)[2]) < 160


def test_the_worst_ignored_connection_has_its_cure() -> None:
    row = {"connection": "0012", "bad": 3.0, "penalty_us": 4_000_000, "ignored": 7, "reason": "malformed"}
    lines = drawn("error_clients", {**row, "connection": "0001", "penalty_us": 0}, row)
    assert lines[0] == "! 2 connections sent what is malformed, 1 ignored now (eu-1, config v42)"
    assert lines[-1].startswith("Next: scale0 ctl clear-error-client 0012 ")


def test_keys_say_how_many_are_in_use() -> None:
    row = {"key": "a" * 40, "name": "web", "kind": "client", "serve": [], "call": ["*"], "until": None, "sessions": 2}
    assert drawn("keys", row)[0] == "● 1 key, 1 in use (eu-1, config v42)"
    assert "scale0 keys new" in drawn("keys")[-1]


def test_the_config_says_who_is_behind() -> None:
    lines = drawn("config", canned.config(behind=["us-1"]))
    assert lines[0] == "! v42 current, us-1 behind; 3 brokers of prod (eu-1, config v42)"


def test_a_listing_without_a_view_is_shown_by_its_keys() -> None:
    lines = drawn("gadgets", {"worker": "w", "age_us": 1_500_000, "is_new": True, "tags": ["a", "b"], "deep": {}})
    assert lines[0] == "● 1 gadget (eu-1, config v42)"
    assert lines[1].split() == ["WORKER", "AGE", "s", "IS", "NEW", "TAGS"]
    assert lines[2].split() == ["w", "1.5", "yes", "a", "b"]


@pytest.mark.parametrize("name", ["tasks", "events", "audit", "keys", "error_clients", "network_workers", "alarms"])
def test_hostile_names_stay_text(name: str) -> None:
    hostile = "[red]\x1b[2J\u202e"
    row = dict.fromkeys(LISTINGS[name].columns, hostile)
    text = "\n".join(drawn(name, row, is_wide=True))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[red]" in text
