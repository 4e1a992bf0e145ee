"""Services that the broker itself serves, and the listings behind them (rule 34)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scale0.protocol.messages import TaskReply
from tests.core.desk import Client, Desk, codes, only_task


@pytest.fixture
def desk() -> Desk:
    return Desk(identity="b1", advertise=["tcp://127.0.0.1:5555"])


def ask(client: Client, service: str) -> dict[str, Any]:
    (_, reply), *_ = client.submit(service)
    assert isinstance(reply, TaskReply)
    return msgspec.json.decode(reply.body[0], type=dict[str, Any])


def test_every_listing_says_its_schema_and_broker(desk: Desk) -> None:
    client = desk.client("ada")
    for name in ("services", "workers", "clients", "brokers", "config", "dead_letters"):
        document = ask(client, f"scale0.{name}")
        assert document["schema"] == f"scale0.{name}/1"
        assert document["complete"] is True
        assert document["broker"]["identity"] == "b1"


def test_services_show_state_and_figures(desk: Desk) -> None:
    worker = desk.worker("w", "busy", "idle", capacity=2)
    client = desk.client("ada")
    tasks = [only_task(client.submit("busy"), "w") for _ in range(2)]
    client.submit("busy")
    rows = {row["name"]: row for row in ask(client, "scale0.services")["rows"]}
    assert (rows["busy"]["state"], rows["busy"]["queued"], rows["busy"]["free"]) == ("full", 1, 0)
    assert rows["busy"]["p99_us"] is None, "what is not known is null, never 0"
    worker.reply(tasks[0])
    desk.pass_time(10, steps=200)
    rows = {row["name"]: row for row in ask(client, "scale0.services")["rows"]}
    assert rows["busy"]["state"] == "no worker"
    assert rows["busy"]["p99_us"] is not None


def test_workers_show_their_place_in_the_lru_queue(desk: Desk) -> None:
    for name in ("w1", "w2", "w3"):
        desk.worker(name, "greet")
    client = desk.client("ada")
    client.submit("greet")
    rows = ask(client, "scale0.workers")["rows"]
    assert [(row["identity"], row["lru"], row["state"]) for row in rows] == [
        ("w1", None, "full"),
        ("w2", 1, "ready"),
        ("w3", 2, "ready"),
    ]


def test_broker_row_adds_up(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    worker.reply(only_task(client.submit("greet"), "w"))
    client.submit("greet")
    (row,) = ask(client, "scale0.brokers")["rows"]
    assert row["accepted"] == row["replied"] + row["errored"] + row["queued"] + row["in_flight"]
    assert (row["workers"], row["clients"], row["in_flight"]) == (1, 1, 1)


def test_unknown_service_of_the_broker_is_404(desk: Desk) -> None:
    assert codes(desk.client("ada").submit("scale0.secrets")) == [("ada", 404)]


def test_draining_broker_still_shows_itself(desk: Desk) -> None:
    client = desk.client("ada")
    desk.worker("w", "greet")
    client.submit("greet")
    desk.manage("drain")
    assert ask(client, "scale0.brokers")["broker"]["state"] == "draining"
