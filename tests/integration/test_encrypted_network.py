"""Several brokers with keys: joining, config, forwarding, redirects and fail-over, all encrypted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scale0 import Client
from scale0.protocol.network import BrokerEntry, Document
from scale0.testing import TestBroker, TestNetwork
from tests.integration.key_room import KeyRoom, started
from tests.integration.networks import until


@pytest.fixture
def room(tmp_path: Path) -> KeyRoom:
    room = KeyRoom(tmp_path)
    room.allow("broker-2", kind="peer", identities=["broker-2"])
    return room


@contextlib.contextmanager
def two(room: KeyRoom, **how: Any) -> Iterator[list[TestBroker]]:
    """A broker, and one that has joined it."""
    first = room.broker("broker-1", **how)
    with started(first):
        second = room.broker("broker-2", joins=first, **how)
        with started(second):
            TestNetwork([first, second]).wait()
            yield [first, second]


def document(broker: TestBroker) -> Document:
    return broker.server.broker.state.config.document


def test_a_broker_that_joins_enters_its_public_key(room: KeyRoom) -> None:
    with two(room) as brokers:
        for broker in brokers:
            keys = {entry.identity: entry.public_key for entry in document(broker).brokers}
            assert keys == {"broker-1": room.public("broker-1"), "broker-2": room.public("broker-2")}
            peers = broker.server.broker.state.network.peers.values()
            assert [peer.is_proven for peer in peers] == [True]


def test_a_broker_whose_key_may_not_join_does_not(room: KeyRoom) -> None:
    room.revoke("broker-2")
    first = room.broker("broker-1")
    with started(first):
        second = room.broker("broker-2", joins=first)
        with started(second):
            guard = first.server.guard
            assert guard is not None
            until(lambda: guard.doorkeeper.refused > 4, "it tries again and again")
            assert second.server.broker.state.mode == "joining"
            room.allow("broker-2", kind="peer")
            TestNetwork([first, second]).wait()


def test_a_task_is_forwarded_between_brokers(room: KeyRoom) -> None:
    with two(room) as (first, second), room.worker(second).start(), room.client(first) as client:
        assert client.call("double", 21) == 42
        until(lambda: first.server.broker.state.network.peers["broker-2"].forwarded > 0, "it went to the other broker")


def test_a_change_of_config_is_heard_from_the_publisher_and_spreads(room: KeyRoom) -> None:
    with two(room) as (first, second):
        heard: list[str] = []
        core = second.server.broker
        hear = core.heard_version

        def listening(identity: str, version: bytes, now: float) -> list[Any]:
            heard.append(identity)
            return hear(identity, version, now)

        core.heard_version = listening  # type: ignore[method-assign]
        until(lambda: "broker-1" in heard, "it is published, each interval")
        changed = msgspec.structs.replace(document(first), default_timeout_s=17.0)
        first.manage("config_apply", document=msgspec.json.encode(changed).decode())
        until(lambda: document(second).default_timeout_s == 17.0, "the other one has it")


def test_a_drain_moves_client_and_worker_to_a_broker_that_they_never_heard_of(room: KeyRoom) -> None:
    """CHANGEBROKER carries the public key of the other broker."""
    with two(room) as (first, second), room.worker(first).start(), room.client(first) as client:
        assert client.call("double", 1) == 2
        first.manage("drain")
        until(lambda: len(second.listing("clients")["rows"]) == 1, "the client went there")
        until(lambda: len(second.listing("workers")["rows"]) == 1, "and the worker")
        assert client.call("double", 2) == 4


def test_a_killed_broker_s_people_find_the_other_one(room: KeyRoom) -> None:
    """What they learned of the network includes its keys."""
    with two(room) as (first, second), room.worker(first).start(), room.client(first) as client:
        assert client.call("double", 1) == 2
        first.kill()
        assert client.call("double", 2, timeout=60.0) == 4
        assert len(second.listing("clients")["rows"]) == 1
        first.start()


def test_needbroker_is_asked_encrypted(room: KeyRoom) -> None:
    """A client whose preferred broker is down asks the other one it was given, which names itself."""
    with two(room) as (first, second), room.worker(second).start():
        first.kill()
        with room.client(first, second, connect_timeout=2.0) as client:
            assert client.call("double", 5, timeout=60.0) == 10
        first.start()


def test_a_saved_config_has_the_keys_for_the_next_start(room: KeyRoom) -> None:
    saved = room.directory / "saved.json"
    with two(room) as (first, second), room.worker(second).start():
        with room.client(first, save_config=saved) as client:
            assert client.call("double", 1) == 2
        first.kill()
        with room.client(first, save_config=saved, connect_timeout=2.0) as client:
            assert client.call("double", 2, timeout=60.0) == 4
        first.start()


def test_a_fallback_broker_takes_over_with_its_own_key(room: KeyRoom) -> None:
    with two(room) as (first, second), room.worker(first, second).start(), room.client(first, second) as client:
        assert client.call("double", 1) == 2
        entries = [
            msgspec.structs.replace(entry, fallback_broker="broker-2" if entry.identity == "broker-1" else "")
            for entry in document(first).brokers
        ]
        wanted = msgspec.structs.replace(document(first), brokers=entries, takeover_timeout_s=1.0)
        first.manage("config_apply", document=msgspec.json.encode(wanted).decode())
        until(lambda: own_row(first)["fallback"] == "in sync", "the fallback follows")
        until(lambda: len(second.server.broker.state.sessions) == 2, "and has the sessions")
        copies = second.server.broker.state.sessions.by_identity.values()
        assert {session.key for session in copies} == {room.public("client"), room.public("worker")}
        first.kill()
        assert client.call("double", 21, timeout=60.0) == 42
        assert own_row(second)["state"] == "active"
        first.start()


def own_row(broker: TestBroker) -> dict[str, Any]:
    rows = {row["identity"]: row for row in broker.listing("network")["rows"]}
    row: dict[str, Any] = rows[broker.identity]
    return row


def test_a_client_with_a_key_goes_to_no_address_without_one(room: KeyRoom) -> None:
    """A broker of the network that has no key is not used: nobody can be led to speak plainly."""
    with two(room) as (first, _):
        plain = BrokerEntry(identity="plain", endpoints=["tcp://127.0.0.1:9"])
        wanted = msgspec.structs.replace(document(first), brokers=[*document(first).brokers, plain])
        first.manage("config_apply", document=msgspec.json.encode(wanted).decode())
        client: Client
        with room.client(first) as client:
            client.call("scale0.services", returns=bytes)
            known = client._driver.engine.session.link.endpoints.known
            assert "tcp://127.0.0.1:9" not in known
            assert len(known) == 2
        until(lambda: first.server.broker.state.counters["alarm_link_refused"] > 0, "and no broker dials it plainly")
