"""Managing brokers that have keys: from anywhere, and for the whole network, up to each peer's `max_role`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from scale0.client.manager import manage
from scale0.errors import SessionRefused
from scale0.protocol.network import Document
from scale0.testing import TestBroker, TestNetwork, managed_by
from tests.integration.key_room import KeyRoom, started
from tests.integration.networks import until

PASSWORD = "open sesame"


@pytest.fixture
def room(tmp_path: Path) -> KeyRoom:
    room = KeyRoom(tmp_path)
    room.allow("broker-2", kind="peer", identities=["broker-2"])
    room.allow("desk", kind="client", manage=True)
    return room


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    return {"management": {**managed_by(tmp_path, {"ann": PASSWORD}), "plain_peers": "none"}}


def ask(room: KeyRoom, broker: TestBroker, command: str, key: str = "desk", endpoint: str = "", **more: Any) -> Any:
    told: dict[str, Any] = {"auth_id": "ann", "auth_password": PASSWORD, "timeout_s": 30.0, **more}
    return manage(endpoint or broker.endpoint, command, **told, **room.keys(broker, name=key))


def document(broker: TestBroker) -> Document:
    return broker.server.broker.state.config.document


def test_over_an_encrypted_socket_a_broker_is_managed_from_anywhere(room: KeyRoom, settings: dict[str, Any]) -> None:
    broker = room.broker("broker-1", settings=settings, bind="tcp://0.0.0.0:0")
    with started(broker):
        here = broker.endpoint.replace("0.0.0.0", "127.0.0.1")
        assert ask(room, broker, "list", endpoint=here)["rows"][0]["identity"] == "broker-1"
        assert ask(room, broker, "drain", endpoint=here)["state"] == "draining"
        audit = ask(room, broker, "list", endpoint=here, arguments={"what": "audit"})["rows"]
        assert {row["source"] for row in audit} == {room.public("desk")}, "who it was is told by his key, too"
        with pytest.raises(SessionRefused, match="401"):
            ask(room, broker, "list", endpoint=here, auth_password="guess")
        with pytest.raises(SessionRefused, match="may not manage"):
            ask(room, broker, "list", key="client", endpoint=here)


def test_a_peer_that_proved_its_key_passes_commands_on_up_to_its_max_role(
    room: KeyRoom, settings: dict[str, Any]
) -> None:
    first = room.broker("broker-1", settings=settings)
    with started(first):
        second = room.broker("broker-2", joins=first, settings=settings)
        with started(second):
            TestNetwork([first, second]).wait()
            done = ask(room, first, "balance", brokers="all")
            assert done["complete"] is True, "operate is what the document grants by default"
            beyond = ask(room, first, "heal", brokers=["broker-2"])["results"]
            assert [(row["broker"], row["code"]) for row in beyond] == [("broker-2", 403)]
            assert "raise max_role of broker-1" in beyond[0]["text"]
            entries = [msgspec.structs.replace(entry, max_role="admin") for entry in document(first).brokers]
            wanted = msgspec.structs.replace(document(first), brokers=entries)
            first.manage("config_apply", document=msgspec.json.encode(wanted).decode())
            until(lambda: document(second) == document(first), "the other one has it")
            granted = ask(room, first, "heal", brokers=["broker-2"])["results"]
            assert [(row["broker"], row["code"]) for row in granted] == [("broker-2", 200)]
