"""Tasks that wait or run, and those that failed their last attempt."""

from __future__ import annotations

from typing import Any

import pytest

from scale0.core import task_listings
from scale0.protocol.ids import show_id
from scale0.protocol.messages import Disconnect
from tests.core.desk import Desk, only_task
from tests.core.mesh import group_of


@pytest.fixture
def desk() -> Desk:
    return Desk()


def tasks(desk: Desk) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = desk.manage("list", what="tasks")["rows"]
    return found


def test_nearest_deadline_comes_first(desk: Desk) -> None:
    desk.worker("w", "greet", capacity=1)
    client = desk.client("ada")
    for timeout_s in (30.0, 0.05, 5.0, 60.0, 0.5):
        client.submit("greet", timeout_s=timeout_s)
    assert [row["id"] for row in tasks(desk)] == [show_id(client.id(number)) for number in (2, 5, 3, 1, 4)]
    desk.pass_time(0.2)
    client.submit("greet", timeout_s=1.0)
    numbers = [int(row["id"].rpartition(".")[2]) for row in tasks(desk)]
    assert numbers == [5, 6, 3, 1, 4], "those of which the deadline is filed, and those that are young"


def test_task_tells_where_it_is(desk: Desk) -> None:
    desk.worker("w", "greet", capacity=1)
    client = desk.client("ada")
    client.submit("greet", b"12345", timeout_s=10.0, priority=3)
    client.submit("greet", timeout_s=20.0)
    desk.pass_time(1.0)
    running, waiting = tasks(desk)
    assert running == {
        "id": show_id(client.id(1)),
        "service": "greet",
        "client": "ada",
        "origin": None,
        "state": "in_flight",
        "age_us": 1_000_000,
        "deadline_us": 9_000_000,
        "attempt": 1,
        "worker": "w",
        "via": None,
        "priority": 3,
        "is_cancelled": False,
        "bytes": 5,
    }
    assert (waiting["state"], waiting["worker"], waiting["attempt"]) == ("queued", None, 0)


def test_many_tasks_are_counted_and_the_nearest_of_them_shown(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_listings, "TASKS_MAX", 3)
    desk.worker("w", "greet")
    client = desk.client("ada")
    for number in range(10):
        client.submit("greet", timeout_s=20.0 - number)
    desk.pass_time(0.2)
    told = desk.manage("list", what="tasks")
    assert (told["total"], told["complete"]) == (10, False)
    assert [row["id"] for row in told["rows"]] == [show_id(client.id(number)) for number in (10, 9, 8)]


def test_task_at_a_peer_tells_which(desk: Desk) -> None:
    mesh, (first, second) = group_of(2)
    second.worker("w", "far")
    mesh.run(3.0)
    first.client("ada.of.two")
    first.submit("ada.of.two", 1, "far")
    mesh.run(0.1)
    (row,) = first.rows("tasks")
    assert (row["client"], row["via"], row["worker"], row["origin"]) == ("ada.of.two", second.name, None, None)


def test_dead_letters_are_shown_newest_first(desk: Desk) -> None:
    worker = desk.worker("w", "greet", capacity=2)
    client = desk.client("ada")
    only_task(client.submit("greet"), "w")
    only_task(client.submit("greet"), "w")
    worker.say(Disconnect())
    rows = desk.manage("list", what="dead_letters")["rows"]
    assert [row["id"] for row in rows] == [show_id(client.id(2)), show_id(client.id(1))]
    assert (rows[0]["code"], rows[0]["retries"], rows[0]["client"]) == (502, 0, "ada")
