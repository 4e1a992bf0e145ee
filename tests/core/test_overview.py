"""The broker at a glance."""

from __future__ import annotations

from typing import Any

import pytest

from scale0.core.overview import WORST
from scale0.core.settings import ServiceSettings
from scale0.protocol.messages import Status
from tests.core.desk import Desk, only_task
from tests.core.mesh import group_of


@pytest.fixture
def desk() -> Desk:
    return Desk(identity="b1")


def look(desk: Desk) -> dict[str, Any]:
    found: dict[str, Any] = desk.manage("list", what="overview")
    return found


def test_quiet_broker_has_figures_and_knows_no_latency(desk: Desk) -> None:
    told = look(desk)
    assert told["schema"] == "scale0.overview/1"
    assert told["figures"] == {
        "tasks_per_s": 0.0,
        "replies_per_s": 0.0,
        "p50_us": None,
        "p99_us": None,
        "errors_per_min": 0,
        "queued": 0,
        "oldest_us": None,
        "free": 0,
        "capacity": 0,
    }
    assert told["services"] == []
    assert [row["identity"] for row in told["brokers"]] == ["b1"]


def test_figures_tell_room_and_waiting(desk: Desk) -> None:
    worker, client = desk.worker("w", "greet", capacity=2), desk.client("ada")
    desk.worker("x", "other", capacity=3)
    tasks = [client.submit("greet", timeout_s=60) for _ in range(4)]
    desk.pass_time(1.5)
    figures = look(desk)["figures"]
    assert (figures["queued"], figures["oldest_us"]) == (2, 1_500_000)
    assert (figures["free"], figures["capacity"]) == (3, 5)
    worker.reply(only_task(tasks[0], "w"), status=Status.FAILED)
    desk.pass_time(5.0)
    figures = look(desk)["figures"]
    assert figures["p99_us"] is not None
    assert figures["errors_per_min"] == 1


def test_services_that_need_somebody_most_come_first() -> None:
    desk = Desk(service={"hopeless": ServiceSettings(), "unused": ServiceSettings()})
    desk.worker("w", "busy", "idle", capacity=1)
    client = desk.client("ada")
    client.submit("busy", timeout_s=60)
    client.submit("busy", timeout_s=60)
    client.submit("hopeless", timeout_s=60)
    names = [row["name"] for row in look(desk)["services"]]
    assert names == ["hopeless", "busy", "unused", "idle"]


def test_only_the_worst_services_are_shown(desk: Desk) -> None:
    desk.worker("w", *(f"s{number:02}" for number in range(20)))
    told = look(desk)
    assert len(told["services"]) == WORST
    assert told["counts"]["services"] == 20


def test_workers_are_counted_by_state(desk: Desk) -> None:
    desk.worker("full", "greet", capacity=1)
    desk.client("ada").submit("greet", timeout_s=60)
    desk.worker("ready", "greet")
    desk.worker("draining", "greet", capacity=0)
    counts = look(desk)["counts"]
    assert (counts["workers"], counts["workers_full"], counts["workers_draining"]) == (3, 1, 1)
    assert (counts["clients"], counts["tasks"], counts["in_flight"]) == (1, 1, 1)


def test_network_is_in_it() -> None:
    _, (first, second) = group_of(2)
    told = first.manage("list", what="overview")
    assert {row["identity"]: row["link"] for row in told["brokers"]} == {first.name: "self", second.name: "up"}
    assert (told["counts"]["brokers"], told["counts"]["brokers_linked"]) == (2, 1)
