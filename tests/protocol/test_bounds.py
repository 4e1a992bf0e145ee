"""Bounds of parameters: what the core is given has lengths and ranges that it may rely on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scale0.errors import ProtocolError
from scale0.protocol import bounds, limits, native
from scale0.protocol.commands import COMMANDS
from scale0.protocol.ids import id_prefix, make_id
from scale0.protocol.messages import Command, Connect, Ready, ServiceOffer

NONCE = bytes(8)


def refusal(command: Command, parameters: Any) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        native.decode([b"SC0C01" + bytes([command]) + msgspec.msgpack.encode(parameters)])
    return caught.value


@pytest.mark.parametrize(
    ("command", "parameters"),
    [
        (Command.CONNECT, {"identity": "", "nonce": NONCE}),
        (Command.CONNECT, {"identity": "x" * 129, "nonce": NONCE}),
        (Command.CONNECT, {"identity": "é" * 65, "nonce": NONCE}),  # 65 letters, 130 bytes
        (Command.CONNECT, {"identity": "x", "nonce": bytes(7)}),
        (Command.CONNECT, {"identity": "x", "nonce": bytes(9)}),
        (Command.CONNECT, {"identity": "x", "nonce": NONCE, "services": [""]}),
        (Command.CONNECT, {"identity": "x", "nonce": NONCE, "services": ["s"] * 257}),
        (Command.CONNECT, {"identity": "x", "nonce": NONCE, "config_version": bytes(15)}),
        (Command.CONNECT, {"identity": "x", "nonce": NONCE, "in_flight": [bytes(16)]}),
        (Command.CONNECT, {"identity": "x", "nonce": NONCE, "in_flight": [bytes(20)] * 4097}),
        (Command.CONNECT, {"identity": "x", "nonce": NONCE, "epochs": {"": 1}}),
        (Command.CONNECT, {"identity": "x", "nonce": NONCE, "epochs": {"b": -1}}),
        (Command.CONNECT, {"identity": "x", "nonce": NONCE, "epochs": {"b": 2**63}}),
        (Command.CONNECT, {"identity": "x", "nonce": NONCE, "epochs": {f"b{n}": 1 for n in range(65)}}),
        (Command.CONNECT, {"identity": "x"}),  # the nonce is missing
        (Command.CONNECT, {"identity": 7, "nonce": NONCE}),
        (Command.CONNECT, ["x", NONCE]),
        (Command.CONNECT, {1: 2}),
        (Command.READY, {"services": [{"name": ""}]}),
        (Command.READY, {"services": [{"name": "s" * 129}]}),
        (Command.READY, {"services": [{"name": "s", "max_attempts": 0}]}),
        (Command.READY, {"services": [{"name": "s", "max_attempts": 256}]}),
        (Command.READY, {"services": ["s"]}),
        (Command.READY, {"services": [], "capacity": -1}),
        (Command.READY, {"services": [], "capacity": 4097}),
        (Command.READY, {"services": [], "capacity": 1.5}),
        (Command.READY, {"services": [], "capacity": True}),
        (Command.READY, {"services": [], "heartbeat_interval_ms": -1}),
        (Command.READY, {"services": [], "in_flight": [bytes(145)]}),
        (Command.READYOK, {"heartbeat_interval_ms": -1, "time_us": 0, "capacity": 1}),
        (Command.CANCEL, {"id": b"short"}),
        (Command.CANCEL, {"id": bytes(145)}),
        (Command.NEEDBROKER, {"identity": ""}),
        (Command.NEEDBROKER, {"identity": "x", "tried": ["tcp://a:1"] * 257}),
        (Command.CONFIG, {"config_type": "JSON", "config_version": b"", "config": b""}),
        (Command.CONFIGACK, {"config_version": bytes(17)}),
        (Command.CONFIGACK, {"config_version": bytes(16), "pair": "x" * 129}),
        (Command.CONFIGACK, {"config_version": bytes(16), "liveness": -1}),
        (Command.CONFIGACK, {"config_version": bytes(16), "liveness": 10**6 + 1}),
        (Command.ERROR, {"code": 0, "text": ""}),
        (Command.ERROR, {"code": 2**64 - 1, "text": ""}),
        (Command.ERROR, {"code": 404, "text": "", "id": b"short"}),
        (Command.PEERSTATUS, {"identity": "x" * 129, "state": "", "epoch": 1, "config_version": bytes(16)}),
        (Command.PEERSTATUS, {"identity": "x", "state": "", "epoch": 1, "config_version": bytes(16), "stream": -1}),
        (Command.PEERSTATUS, {"identity": "x", "state": "", "epoch": 1, "config_version": bytes(16), "ask": 2**63}),
    ],
)
def test_parameters_out_of_bounds_are_refused(command: Command, parameters: Any) -> None:
    assert refusal(command, parameters).code == 400


def test_worker_may_list_as_many_tasks_as_it_may_hold() -> None:
    ids = [make_id(id_prefix("x" * limits.IDENTITY_BYTES_MAX, NONCE), n) for n in range(limits.IN_FLIGHT_IDS_MAX)]
    connect = Connect(identity="w", nonce=NONCE, in_flight=list(ids))
    assert native.decode(native.encode(b"SC0W01", connect)) == connect
    ready = Ready(services=[ServiceOffer("s")], in_flight=list(ids))
    assert native.decode(native.encode(b"SC0W01", ready)) == ready


def test_refusal_says_what_came_and_what_is_allowed() -> None:
    error = refusal(Command.CONNECT, {"identity": "x" * 200, "nonce": NONCE})
    assert error.text == "identity: 200 bytes; allowed are 1 to 128"
    error = refusal(Command.CONNECT, {"identity": "x", "nonce": b""})
    assert error.text == "nonce: 0 bytes; allowed are exactly 8"
    error = refusal(Command.READY, {"services": [], "capacity": 5000})
    assert error.text == "capacity: 5000; allowed are 0 to 4096"


def test_process_has_at_most_the_size_of_an_identity() -> None:
    connect = Connect(identity="w", nonce=NONCE, process="x" * limits.IDENTITY_BYTES_MAX)
    assert native.decode(native.encode(b"SC0W01", connect)) == connect
    assert refusal(Command.CONNECT, {"identity": "w", "nonce": NONCE, "process": "x" * 129}).code == 400


@pytest.mark.parametrize("size", [1, limits.SERVICE_BYTES_MAX])
def test_service_name_at_its_bounds_passes(size: int) -> None:
    bounds.check_service("s" * size)


def test_every_command_with_an_identity_is_checked() -> None:
    for command, kind in COMMANDS.items():
        fields = {field.name: field for field in msgspec.structs.fields(kind)}
        if "identity" in fields and command is not Command.CHANGEBROKER:  # a broker's own name, which is only shown
            assert kind in bounds._CHECKS, command.name
