"""Keys that are replaced while everybody goes on: a participant's, and a broker's."""

from __future__ import annotations

from pathlib import Path

import pytest

from scale0 import Client
from scale0.cli import keys_command
from scale0.protocol import codec
from scale0.protocol.dialects import CLIENT
from scale0.protocol.messages import Connect
from scale0.testing import TestBroker, TestNetwork
from scale0.transport import key_files
from scale0.transport.dealer import Dealer
from tests.integration.key_room import KeyRoom, started
from tests.integration.networks import until


@pytest.fixture
def room(tmp_path: Path) -> KeyRoom:
    return KeyRoom(tmp_path)


def entry_keys(broker: TestBroker, identity: str) -> tuple[str, str]:
    entry = broker.server.broker.state.config.document.broker(identity)
    assert entry is not None
    return entry.public_key, entry.next_public_key


def test_a_client_s_key_is_replaced_and_the_old_one_ends(room: KeyRoom) -> None:
    broker = room.broker("broker-1")
    with started(broker), room.worker(broker).start():
        before = room.client(broker, identity="me")
        assert before.call("double", 1) == 2
        keys_command.rotate(str(room.path("client")), "3s", room.allowed)
        assert before.call("double", 2) == 4, "both are good"
        with room.client(broker) as after:
            assert after.call("double", 3) == 6
        until(lambda: not broker.listing("clients")["rows"], "the old key's time is over")
        before.close()
        with room.client(broker, identity="me") as after:
            assert after.call("double", 4) == 8


def test_a_process_with_the_new_key_takes_the_place_of_its_predecessor(room: KeyRoom) -> None:
    """An identity is its owner's, whichever of the owner's keys it comes by."""
    broker = room.broker("broker-1")
    with started(broker), room.worker(broker).start():
        predecessor = Dealer(key_files.own_pair(room.path("client")))
        predecessor.open(broker.endpoint, room.public("broker-1"))
        predecessor.send(codec.encode(CLIENT, Connect(identity="me", nonce=b"12345678")))
        assert predecessor.socket.poll(60_000)
        keys_command.rotate(str(room.path("client")), "1h", room.allowed)
        predecessor.close()  # as a crash does: nobody says goodbye
        with room.client(broker, identity="me", retry_forever=True) as successor:
            assert successor.call("double", 2, timeout=60.0) == 4


def test_a_broker_s_key_is_replaced_and_everybody_follows(room: KeyRoom) -> None:
    room.allow("broker-2", kind="peer")
    first = room.broker("broker-1", state_dir=room.directory / "first")
    with started(first):
        second = room.broker("broker-2", joins=first)
        with started(second), room.worker(first).start(), room.client(first) as client:
            TestNetwork([first, second]).wait()
            assert client.call("double", 1) == 2
            old = room.public("broker-1")
            keys_command.rotate(str(room.path("broker-1")), "1s", room.allowed)
            new = key_files.load(room.path("broker-1")).next_public
            until(lambda: entry_keys(second, "broker-1") == (old, new), "the network knows the next key ahead")
            endpoints = client._driver.engine.session.link.endpoints
            until(lambda: client.call("double", 2) == 4 and new in endpoints._next_keys.values(), "and the client")
            until(lambda: key_files.own_pair(room.path("broker-1"), {}).public == new, "the time has come")  # type: ignore[union-attr]
            first.seeds = []
            first.restart()
            assert client.call("double", 3, timeout=60.0) == 6
            until(lambda: entry_keys(second, "broker-1") == (new, ""), "and the config has the new one")
            TestNetwork([first, second]).wait()
            rows = {row["identity"] for row in first.listing("clients")["rows"] + second.listing("clients")["rows"]}
            assert len(rows) == 1, "the same client, which was told nothing by anybody but its brokers"
        with Client(first.endpoint, key=room.path("client"), server_key=new) as late:
            late.call("scale0.services", returns=bytes)


def test_a_broker_s_key_that_the_config_does_not_know_is_not_accepted(room: KeyRoom) -> None:
    room.allow("broker-2", kind="peer")
    first = room.broker("broker-1")
    with started(first):
        second = room.broker("broker-2", joins=first, state_dir=room.directory / "second")
        with started(second):
            TestNetwork([first, second]).wait()
            second.kill()
            room.path("broker-2").unlink()
            room.allow("broker-2", kind="peer")  # even though it may join: it is listed, with another key
            second.start()
            until(lambda: second.server.broker.state.counters["alarm_key_differs"] > 0, "it says so itself")
            state = first.server.broker.state
            until(lambda: state.counters["refused_403"] > 0, "it is refused, for its key is not the listed one")
            until(lambda: not state.network.peers["broker-2"].is_linked, "its former link is over")
            assert entry_keys(first, "broker-2")[0] != room.public("broker-2")
