"""Alarms of real brokers: what happens to a network reaches the receiver of its webhook, and the verdict."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from scale0.management.vocabulary import Principal, Role
from scale0.testing import TestBroker, TestNetwork, running_network
from tests.management.receivers import Receiver, receiver

LIMIT_S = 60.0
LOOKER = Principal("ana", Role.VIEW, "test")


@pytest.fixture
def far_end() -> Iterator[Receiver]:
    with receiver() as running:
        yield running


@pytest.fixture
def network(far_end: Receiver) -> Iterator[TestNetwork]:
    management = {"webhook": f"{far_end.url}/alarms"}
    with running_network(2, management=management, default_heartbeat_interval_s=0.2) as running:
        yield running


def await_alarm(far_end: Receiver, name: str, by: str) -> dict[str, Any]:
    """The first message about this alarm from this broker."""
    while True:
        message = json.loads(far_end.next().body)
        if (message["alarm"]["name"], message["broker"]) == (name, by):
            alarm: dict[str, Any] = message["alarm"]
            return alarm


def listing(asked: TestBroker, what: str) -> dict[str, Any]:
    """As every door gets it: through the gate."""
    found: dict[str, Any] = asked.server.management.gate.ask(LOOKER, "list", {"what": what}).result(LIMIT_S)
    return found


def test_what_the_core_tells_is_posted_at_once_and_listed(network: TestNetwork, far_end: Receiver) -> None:
    first = network.brokers[0]
    first.manage("partition", peer="broker-2", for_s=0.1)
    alarm = await_alarm(far_end, "drill", by="broker-1")
    assert alarm["severity"] == "warn"
    assert "broker-2" in alarm["cause"]
    assert [row["name"] for row in listing(first, "alarms")["rows"]] == ["drill"]


def test_a_killed_broker_is_an_alarm_and_the_verdict(network: TestNetwork, far_end: Receiver) -> None:
    first, second = network.brokers
    second.kill()
    alarm = await_alarm(far_end, "broker_gone", by="broker-1")
    assert (alarm["state"], alarm["subject"], alarm["severity"]) == ("raised", "broker-2", "bad")
    assert alarm["cause"].startswith("broker broker-2 is silent for")
    overview = listing(first, "overview")
    (row,) = overview.get("rows") or [overview]
    assert row["verdict"] == {"level": "bad", "text": "✗ 1 broker gone"}
    assert [each["name"] for each in row["alarms"]] == ["broker_gone"]
