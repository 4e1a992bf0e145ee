"""The watch over a broker: listings in, alarms, events and a verdict out; and what it adds to listings."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from scale0.errors import ProtocolError
from scale0.management.audit import Audit
from scale0.management.events import Events
from scale0.management.views import Views
from scale0.management.vitals import Rows, Shell, Vitals
from scale0.management.vocabulary import Role
from scale0.management.watch import LOOK_S, Watch
from scale0.transport.logs import make_log
from tests.management.engine import who

WORKERS = [{"identity": f"w-{number}", "stuck": 0} for number in range(1_200)]


class Core:
    """Answers listings as the core does, in pieces of 500."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.rows: dict[str, list[dict[str, Any]]] = {
            "services": [{"name": "ocr", "workers": 0, "queued": 12, "oldest_us": 90_000_000}],
            "network": [{"identity": "b1", "state": "active", "link": "self", "is_self": True}],
            "brokers": [{"identity": "b1", "dead_letters": 0}],
            "keys": [],
        }
        self.failing: set[str] = set()

    def ask(self, command: str, arguments: dict[str, Any]) -> Future[Any]:
        self.asked.append((command, arguments))
        answer: Future[Any] = Future()
        what = arguments.get("what", "brokers") if command == "list" else arguments["parts"][0]
        if what in self.failing:
            answer.set_exception(ProtocolError(503, "not now"))
        elif command == "list":
            rows = self.rows.get(what, [])
            answer.set_result({"schema": f"scale0.{what}/1", "rows": rows, "broker": {"identity": "b1"}})
        else:
            answer.set_result({"seq": 1, "parts": {part: self._piece(part, arguments) for part in arguments["parts"]}})
        return answer

    def _piece(self, part: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if part == "overview":
            return {"figures": {"queued": 12}, "services": []}
        rows = WORKERS if part == "workers" else self.rows[part]
        start = int(arguments.get("after") or 0)
        end = start + 500
        return {"rows": rows[start:end], "after": str(end) if end < len(rows) else None, "total": len(rows)}


@pytest.fixture
def core() -> Core:
    return Core()


@pytest.fixture
def events() -> Events:
    return Events("b1")


def shell() -> Shell:
    return Shell(identity="b1", at_us=time.time_ns() // 1000, cpu_percent=12.5, rss_bytes=7_000_000, connections=3)


@pytest.fixture
def watch(core: Core, events: Events) -> Watch:
    def step(work: Callable[[], None]) -> None:
        work()

    return Watch(core.ask, shell, step, events, make_log(is_quiet=True))


def test_it_looks_every_few_seconds_at_all_rows_of_all_listings(core: Core, watch: Watch) -> None:
    looks: list[tuple[Vitals, Rows]] = []
    watch.on_vitals = lambda vitals, rows: looks.append((vitals, rows))
    watch.tick(100.0)
    watch.tick(100.0 + LOOK_S - 1)
    ((vitals, rows),) = looks
    assert rows.workers is not None
    assert len(rows.workers) == 1_200
    assert vitals.workers is not None
    assert vitals.workers.count == 1_200
    assert [command for command, _ in core.asked].count("snapshot") == 3
    watch.tick(100.0 + LOOK_S)
    assert len(looks) == 2


def test_what_cannot_be_asked_is_unknown_and_the_rest_is_seen(core: Core, watch: Watch) -> None:
    core.failing = {"services", "workers"}
    looks: list[Rows] = []
    watch.on_vitals = lambda vitals, rows: looks.append(rows)
    watch.tick(100.0)
    assert (looks[0].services, looks[0].workers) == (None, None)
    assert looks[0].network


def test_alarms_of_the_core_are_events_and_are_pushed(watch: Watch, events: Events) -> None:
    pushed: list[list[dict[str, Any]]] = []
    watch.on_alarms = pushed.append
    watch.heard("drill", "a drill is on")
    assert [row["state"] for row in pushed[0]] == ["raised"]
    assert events.rows()[0]["kind"] == "alarm"
    assert watch.seen.raised[0]["cause"] == "a drill is on"
    assert watch.seen.verdict["level"] in ("warn", "bad")


def test_a_condition_that_lasts_is_raised(core: Core, watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 1_000.0
    monkeypatch.setattr("scale0.management.watch.time.monotonic", lambda: clock)
    for _ in range(60):
        clock += LOOK_S
        watch.tick(clock)
    assert "service_without_worker" in [row["name"] for row in watch.seen.raised]


# --- what is added to listings ----------------------------------------------------------------------------------------


@pytest.fixture
def views(core: Core, watch: Watch, events: Events, tmp_path: Path) -> Views:
    return Views(core.ask, watch, events, Audit(tmp_path / "audit.log"))


def shown(views: Views, command: str, **arguments: Any) -> dict[str, Any]:
    answer = views.complete(who(Role.ADMIN), command, arguments)
    assert answer is not None
    document: dict[str, Any] = answer.result(1)
    return document


def test_events_alarms_and_audit_are_listings_like_others(views: Views, events: Events) -> None:
    events.add("command", actor="ann", command="drain")
    for name, count in (("events", 1), ("alarms", 0), ("audit", 0)):
        document = shown(views, "list", what=name)
        assert (document["schema"], len(document["rows"])) == (f"scale0.{name}/1", count)
        assert document["broker"] == {"identity": "b1"}
    events.add("command", actor="bob", command="drain")
    assert [row["actor"] for row in shown(views, "list", what="events", limit=1)["rows"]] == ["bob"]


def test_the_own_broker_gets_what_its_process_knows(views: Views, watch: Watch) -> None:
    assert shown(views, "list")["rows"][0]["rss_bytes"] is None, "not looked yet: unknown"
    watch.tick(100.0)
    row = shown(views, "list", what="brokers")["rows"][0]
    assert (row["cpu_percent"], row["rss_bytes"], row["connections"]) == (12.5, 7_000_000, 3)


def test_the_overview_gets_verdict_and_alarms_and_a_snapshot_any_part(views: Views, events: Events) -> None:
    events.add("state", result="active")
    parts = shown(views, "snapshot", parts=["overview", "services", "events"])["parts"]
    assert parts["overview"]["figures"] == {"queued": 12}
    assert parts["overview"]["verdict"]["level"] == "ok"
    assert parts["overview"]["alarms"] == []
    assert parts["services"]["rows"][0]["name"] == "ocr"
    assert (parts["events"]["total"], parts["events"]["after"]) == (1, None)
    assert set(shown(views, "snapshot", parts=["audit"])["parts"]) == {"audit"}


def test_what_the_core_has_alone_is_left_to_it(views: Views) -> None:
    assert views.complete(who(Role.VIEW), "list", {"what": "workers"}) is None
    assert views.complete(who(Role.VIEW), "snapshot", {"parts": ["workers"]}) is None
    assert views.complete(who(Role.VIEW), "drain", {}) is None


def test_a_refusal_of_the_core_is_passed_on(views: Views, core: Core) -> None:
    core.failing = {"brokers"}
    answer = views.complete(who(Role.VIEW), "list", {"what": "events"})
    assert answer is not None
    assert isinstance(answer.exception(1), ProtocolError)
