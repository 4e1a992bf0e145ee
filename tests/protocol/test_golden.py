"""The bytes of every native message, written out: the wire format cannot change unnoticed.

A golden that fails means that older peers no longer understand newer ones: a new version of the dialect is needed then,
not a new golden.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scale0.protocol import codec, dialects, native
from scale0.protocol.commands import COMMANDS
from scale0.protocol.ids import id_prefix, make_id
from scale0.protocol.messages import (
    Cancel,
    ChangeBroker,
    Command,
    Config,
    ConfigAck,
    ConfigChange,
    Connect,
    Disconnect,
    Error,
    ForceNegotiate,
    ManagementRep,
    ManagementReq,
    NeedBroker,
    PeerService,
    PeerStatus,
    Ping,
    Pong,
    Ready,
    ReadyOk,
    ServiceOffer,
    Snapshot,
    SnapshotReq,
    Stream,
    StreamAck,
    Table,
    TableReq,
    Task,
    TaskReply,
)

VERSION = bytes.fromhex("00000001 0000002a 1122334455667788")
NONCE = bytes.fromhex("0102030405060708")
ID = make_id(id_prefix("c-1", NONCE), 7)

PACKED: list[tuple[Any, list[str]]] = [
    (
        Task(
            ID,
            "greet",
            (b"hi", b"", b"there"),
            remaining_ms=60_000,
            attempt=2,
            priority=3,
            flags=1,
            send_time_us=0x0102030405060708,
            behind=5,
            broker_time_us=0x1112131415161718,
            config_version=VERSION,
            options=b"\x80",
        ),
        [
            "534330433031 08"  # dialect, command
            "02 03 01"  # attempt, priority, flags
            "13 05 0001"  # lengths of id, service and options
            "0000ea60 00000005"  # remaining ms, behind
            "0102030405060708 1112131415161718"  # the sender's time, the broker's time
            "00000001 0000002a 1122334455667788"  # config version
            "0102030405060708 632d31 0000000000000007"  # id: nonce, identity, sequence
            "6772656574 80",  # service, options
            "6869",
            "",
            "7468657265",
        ],
    ),
    (
        Task(
            ID, "greet", (b"hi",), remaining_ms=60_000, flags=3, send_time_us=1, config_version=VERSION, options=b"\x80"
        ),
        [
            "534330433031 08"
            "01 01 83"  # flags: resent, partly answered, and the body stands in this frame
            "13 05 0001"
            "0000ea60 00000000"
            "0000000000000001 0000000000000000"
            "00000001 0000002a 1122334455667788"
            "0102030405060708 632d31 0000000000000007"
            "6772656574 80"
            "6869"  # the body
        ],
    ),
    (
        Task(ID, "greet", (b"",), remaining_ms=0, options=b"\x80"),
        [
            "534330433031 08"
            "01 01 80"  # a body of one frame that is empty stands in this frame too
            "13 05 0001"
            "00000000 00000000"
            "0000000000000000 0000000000000000"
            "00000000 00000000 0000000000000000"
            "0102030405060708 632d31 0000000000000007"
            "6772656574 80"
        ],
    ),
    (
        Task(ID, "greet", (), remaining_ms=0, options=b"\x80"),
        [
            "534330433031 08"
            "01 01 00"  # no body at all is something else
            "13 05 0001"
            "00000000 00000000"
            "0000000000000000 0000000000000000"
            "00000000 00000000 0000000000000000"
            "0102030405060708 632d31 0000000000000007"
            "6772656574 80"
        ],
    ),
    (
        TaskReply(
            ID,
            (b"hello",),
            attempt=2,
            status=1,
            part=258,
            final=True,
            time_us=0x0102030405060708,
            wait_us=-1,
            work_us=1_000_000,
            config_version=VERSION,
        ),
        [
            "534330433031 09"
            "02 01 81 13"  # attempt, status, is final and the body stands in this frame, length of id
            "00000102"  # part
            "0102030405060708 ffffffffffffffff 00000000000f4240"  # time, wait (not measured), work
            "00000001 0000002a 1122334455667788"
            "0102030405060708 632d31 0000000000000007"
            "68656c6c6f"  # the body
        ],
    ),
    (
        TaskReply(ID, (b"hello",), part=1, final=False, wait_us=0, work_us=0),
        [
            "534330433031 09"
            "01 00 80 13"  # more parts follow, and the body stands in this frame
            "00000001"
            "0000000000000000 0000000000000000 0000000000000000"
            "00000000 00000000 0000000000000000"
            "0102030405060708 632d31 0000000000000007"
            "68656c6c6f"
        ],
    ),
    (
        TaskReply(ID, (b"",), wait_us=0, work_us=0),
        [
            "534330433031 09"
            "01 00 81 13"
            "00000000"
            "0000000000000000 0000000000000000 0000000000000000"
            "00000000 00000000 0000000000000000"
            "0102030405060708 632d31 0000000000000007"
        ],
    ),
    (
        TaskReply(ID, (b"hello", b""), wait_us=0, work_us=0),
        [
            "534330433031 09"
            "01 00 01 13"
            "00000000"
            "0000000000000000 0000000000000000 0000000000000000"
            "00000000 00000000 0000000000000000"
            "0102030405060708 632d31 0000000000000007",
            "68656c6c6f",
            "",
        ],
    ),
    (
        TaskReply(ID, (), wait_us=0, work_us=0),
        [
            "534330433031 09"
            "01 00 01 13"
            "00000000"
            "0000000000000000 0000000000000000 0000000000000000"
            "00000000 00000000 0000000000000000"
            "0102030405060708 632d31 0000000000000007"
        ],
    ),
    (
        Ping(
            0x0102030405060708,
            heartbeat_interval_ms=2500,
            config_version=VERSION,
            offset_us=-2,
            has_offset=True,
            oldest_unanswered=7,
        ),
        [
            "534330433031 06"
            "0102030405060708 000009c4"  # time, interval
            "01 fffffffffffffffe"  # has an offset, offset
            "0000000000000007"  # oldest unanswered
            "00000001 0000002a 1122334455667788"
        ],
    ),
    (
        Pong(0x0102030405060708, 0x1112131415161718, config_version=VERSION, epoch=9),
        [
            "534330433031 07"
            "0102030405060708 1112131415161718"  # time, echo of the PING's time
            "0000000000000009"  # epoch
            "00000001 0000002a 1122334455667788"
        ],
    ),
    (Stream(0x0102030405060708, (b"one", b"", b"two")), ["534330433031 17 0102030405060708", "6f6e65", "", "74776f"]),
    (Stream(1, (b"one",)), ["534330433031 17 0000000000000001", "6f6e65"]),  # never in the header frame
]

MAPS: list[tuple[Any, int, dict[str, Any]]] = [
    (
        Connect(
            identity="w-1",
            nonce=NONCE,
            services=["greet"],
            config_type="ZPL",
            config_version=VERSION,
            in_flight=[ID],
            home="b-1",
            process="host:1",
            epochs={"b-1": 3},
            covers_ms=7500,
        ),
        1,
        {
            "identity": "w-1",
            "nonce": NONCE,
            "services": ["greet"],
            "config_type": "ZPL",
            "config_version": VERSION,
            "in_flight": [ID],
            "home": "b-1",
            "process": "host:1",
            "epochs": {"b-1": 3},
            "covers_ms": 7500,
        },
    ),
    (
        Config(
            config_type="JSON",
            config_version=VERSION,
            config=b"{}",
            epoch=1,
            pair="b-1",
            heartbeat_interval_ms=2500,
            liveness=3,
        ),
        2,
        {
            "config_type": "JSON",
            "config_version": VERSION,
            "config": b"{}",
            "epoch": 1,
            "pair": "b-1",
            "heartbeat_interval_ms": 2500,
            "liveness": 3,
        },
    ),
    (
        ConfigAck(config_version=VERSION, epoch=1, pair="b-1", heartbeat_interval_ms=2500, liveness=3),
        3,
        {"config_version": VERSION, "epoch": 1, "pair": "b-1", "heartbeat_interval_ms": 2500, "liveness": 3},
    ),
    (
        Ready(
            services=[ServiceOffer("greet"), ServiceOffer("sum", True, 5)],
            capacity=4,
            heartbeat=False,
            heartbeat_interval_ms=2500,
            time_us=1,
            config_version=VERSION,
            in_flight=[ID],
        ),
        4,
        {
            "services": [{"name": "greet"}, {"name": "sum", "idempotent": True, "max_attempts": 5}],
            "capacity": 4,
            "heartbeat": False,
            "heartbeat_interval_ms": 2500,
            "time_us": 1,
            "config_version": VERSION,
            "in_flight": [ID],
        },
    ),
    (
        ReadyOk(heartbeat_interval_ms=2500, time_us=1, capacity=4, refused={"mmi.x": "reserved"}, epoch=1),
        5,
        {"heartbeat_interval_ms": 2500, "time_us": 1, "capacity": 4, "refused": {"mmi.x": "reserved"}, "epoch": 1},
    ),
    (Cancel(id=ID), 10, {"id": ID}),
    (
        NeedBroker(identity="w-1", services=["greet"], tried=["tcp://a:1"]),
        11,
        {"identity": "w-1", "services": ["greet"], "tried": ["tcp://a:1"]},
    ),
    (
        ChangeBroker(identity="b-2", endpoints=["tcp://b:2"], public_key="k", reason="drain"),
        12,
        {"identity": "b-2", "endpoints": ["tcp://b:2"], "public_key": "k", "reason": "drain"},
    ),
    (ForceNegotiate(reason="unknown"), 13, {"reason": "unknown"}),
    (Disconnect(reason="done"), 14, {"reason": "done"}),
    (Disconnect(), 14, {}),
    (Disconnect(reason="done", is_drained=True), 14, {"reason": "done", "is_drained": True}),
    (
        ManagementReq(auth_id="op", auth_password="pw", seq=3, command="drain", arguments={"a": 1}),
        15,
        {"auth_id": "op", "auth_password": "pw", "seq": 3, "command": "drain", "arguments": {"a": 1}},
    ),
    (ManagementRep(seq=3, result=[True]), 16, {"seq": 3, "result": [True]}),
    (
        Error(code=404, text="no", id=ID, seq=3, fatal=True, detail={"near": ["greet"]}),
        17,
        {"code": 404, "text": "no", "id": ID, "seq": 3, "fatal": True, "detail": {"near": ["greet"]}},
    ),
    (
        PeerStatus(
            identity="b-2",
            state="active",
            epoch=1,
            config_version=VERSION,
            heartbeat_interval_ms=2500,
            workers=3,
            clients=1,
            is_full=True,
            services=[PeerService("greet", workers=3, credit=2, queued=1, idempotent=True, max_attempts=3)],
            fallback="in sync",
        ),
        18,
        {
            "identity": "b-2",
            "state": "active",
            "epoch": 1,
            "config_version": VERSION,
            "heartbeat_interval_ms": 2500,
            "workers": 3,
            "clients": 1,
            "is_full": True,
            "services": [
                {"name": "greet", "workers": 3, "credit": 2, "queued": 1, "idempotent": True, "max_attempts": 3}
            ],
            "fallback": "in sync",
        },
    ),
    (
        PeerStatus(
            identity="b-2", state="passive", epoch=2, config_version=VERSION, star="passive", stream=7, ask=8, echo=9
        ),
        18,
        {
            "identity": "b-2",
            "state": "passive",
            "epoch": 2,
            "config_version": VERSION,
            "star": "passive",
            "stream": 7,
            "ask": 8,
            "echo": 9,
        },
    ),
    (Table(seq=1, is_full=True, rows=[{"a": 1}]), 19, {"seq": 1, "is_full": True, "rows": [{"a": 1}]}),
    (TableReq(), 20, {}),
    (Snapshot(what="config", seq=1, state=b"s"), 21, {"what": "config", "seq": 1, "state": b"s"}),
    (SnapshotReq(what="config"), 22, {"what": "config"}),
    (StreamAck(seq=1), 24, {"seq": 1}),
    (
        ConfigChange(seq=4, base=VERSION, document=b"{}", author="op", comment="why"),
        25,
        {"seq": 4, "base": VERSION, "document": b"{}", "author": "op", "comment": "why"},
    ),
]

RAW: list[tuple[Any, str]] = [
    (
        Ready(services=[ServiceOffer("greet")], capacity=4),
        "534330573031 04 82 a8 7365727669636573 91 81 a4 6e616d65 a5 6772656574 a8 6361706163697479 04",
    ),
    (
        Connect(identity="w-1", nonce=NONCE),
        "534330573031 01 82 a8 6964656e74697479 a3 772d31 a5 6e6f6e6365 c4 08 0102030405060708",
    ),
    (Cancel(id=ID), "534330573031 0a 81 a2 6964 c4 13 0102030405060708 632d31 0000000000000007"),
    (Disconnect(), "534330573031 0e 80"),
]
"""A few maps to the last byte: str and bin types, short forms, defaults left out."""


@pytest.mark.parametrize(("message", "golden"), PACKED, ids=lambda value: type(value).__name__)
def test_packed_message_has_these_bytes(message: Any, golden: list[str]) -> None:
    frames = [bytes.fromhex(frame) for frame in golden]
    assert native.encode(b"SC0C01", message) == frames
    assert native.decode(frames) == message


@pytest.mark.parametrize(("message", "command", "parameters"), MAPS, ids=lambda value: type(value).__name__)
def test_rare_message_is_this_map(message: Any, command: int, parameters: dict[str, Any]) -> None:
    (frame,) = native.encode(b"SC0C01", message)
    assert frame[:7] == b"SC0C01" + bytes([command])
    assert msgspec.msgpack.decode(frame[7:]) == parameters
    assert native.decode([b"SC0C01" + bytes([command]) + msgspec.msgpack.encode(parameters)]) == message


@pytest.mark.parametrize(("message", "golden"), RAW, ids=lambda value: type(value).__name__)
def test_rare_message_has_these_bytes(message: Any, golden: str) -> None:
    assert native.encode(b"SC0W01", message) == [bytes.fromhex(golden)]


@pytest.mark.parametrize("message", [Task(ID, "greet", (), 0), TaskReply(ID, ())], ids=["Task", "TaskReply"])
@pytest.mark.parametrize(("size", "is_inline"), [(8191, True), (8192, True), (8193, False)])
def test_body_of_one_frame_stands_in_the_header_frame_up_to_8_kib(message: Any, size: int, is_inline: bool) -> None:
    bare = bytearray(native.encode(b"SC0C01", message)[0])
    body = bytes(range(256)) * 33
    said = msgspec.structs.replace(message, body=(body[:size],))
    bare[9] |= 0x80 if is_inline else 0
    frames = [bytes(bare) + body[:size]] if is_inline else [bytes(bare), body[:size]]
    assert native.encode(b"SC0C01", said) == frames
    assert native.decode(frames) == said


def test_every_command_has_its_golden() -> None:
    assert {command for _, command, _ in MAPS} == set(COMMANDS)
    packed = {native.encode(b"SC0C01", message)[0][6] for message, _ in PACKED}
    assert packed | set(COMMANDS) == set(Command)


def test_result_of_bytes_stands_in_the_header_frame_too() -> None:
    reply = TaskReply(ID, (b"", b"raw"))
    (frame,) = codec.encode(dialects.WORKER, reply)
    assert (frame[9], frame[-3:]) == (0xC1, b"raw")
    dialect, decoded = codec.decode([frame])
    assert (dialect, decoded) == (dialects.WORKER, reply)
    passed_on = codec.encode(dialects.CLIENT, decoded)
    assert passed_on == codec.encode(dialects.CLIENT, reply)


def test_large_result_of_bytes_keeps_its_frames() -> None:
    reply = TaskReply(ID, (b"", bytes(8193)))
    assert [len(frame) for frame in codec.encode(dialects.WORKER, reply)[1:]] == [0, 8193]
