"""The frames of ZeroMQ RFC 7 and RFC 18, as tables; and what they do not allow."""

from __future__ import annotations

import pytest

from scale0.errors import ProtocolError
from scale0.protocol import codec
from scale0.protocol.dialects import MDP1_CLIENT, MDP1_WORKER, MDP2_CLIENT, MDP2_WORKER, Dialect
from scale0.protocol.majordomo import (
    MdpDisconnect,
    MdpHeartbeat,
    MdpMessage,
    MdpReady,
    MdpReply,
    MdpRequest,
    MdpResult,
    MdpTask,
)

TO_BROKER: list[tuple[Dialect, MdpMessage, list[bytes]]] = [
    # RFC 7: an empty frame, "MDPC01", the service, the body; there is no command byte.
    (MDP1_CLIENT, MdpRequest("echo", (b"a",)), [b"", b"MDPC01", b"echo", b"a"]),
    (MDP1_CLIENT, MdpRequest("echo", (b"a", b"", b"c")), [b"", b"MDPC01", b"echo", b"a", b"", b"c"]),
    (MDP1_CLIENT, MdpRequest("echo", (b"",)), [b"", b"MDPC01", b"echo", b""]),
    (MDP1_CLIENT, MdpRequest("mmi.service", (b"echo",)), [b"", b"MDPC01", b"mmi.service", b"echo"]),
    # RFC 7: an empty frame, "MDPW01", the command's byte.
    (MDP1_WORKER, MdpReady("echo"), [b"", b"MDPW01", b"\x01", b"echo"]),
    (MDP1_WORKER, MdpReply(b"to", (b"a",)), [b"", b"MDPW01", b"\x03", b"to", b"", b"a"]),
    (MDP1_WORKER, MdpReply(b"to", (b"", b"b")), [b"", b"MDPW01", b"\x03", b"to", b"", b"", b"b"]),
    (MDP1_WORKER, MdpHeartbeat(), [b"", b"MDPW01", b"\x04"]),
    (MDP1_WORKER, MdpDisconnect(), [b"", b"MDPW01", b"\x05"]),
    # RFC 18: no empty frame ahead, and a command's byte for clients too.
    (MDP2_CLIENT, MdpRequest("echo", (b"a",)), [b"MDPC02", b"\x01", b"echo", b"a"]),
    (MDP2_CLIENT, MdpRequest("echo", (b"a", b"b")), [b"MDPC02", b"\x01", b"echo", b"a", b"b"]),
    (MDP2_WORKER, MdpReady("echo"), [b"MDPW02", b"\x01", b"echo"]),
    (MDP2_WORKER, MdpReply(b"to", (b"a",), final=False), [b"MDPW02", b"\x03", b"to", b"", b"a"]),
    (MDP2_WORKER, MdpReply(b"to", (b"a",)), [b"MDPW02", b"\x04", b"to", b"", b"a"]),
    (MDP2_WORKER, MdpHeartbeat(), [b"MDPW02", b"\x05"]),
    (MDP2_WORKER, MdpDisconnect(), [b"MDPW02", b"\x06"]),
]

FROM_BROKER: list[tuple[Dialect, MdpMessage, list[bytes]]] = [
    (MDP1_CLIENT, MdpResult("echo", (b"a", b"b")), [b"", b"MDPC01", b"echo", b"a", b"b"]),
    (MDP1_WORKER, MdpTask(b"to", (b"a",)), [b"", b"MDPW01", b"\x02", b"to", b"", b"a"]),
    (MDP1_WORKER, MdpTask(b"to", (b"a", b"b")), [b"", b"MDPW01", b"\x02", b"to", b"", b"a", b"b"]),
    (MDP1_WORKER, MdpHeartbeat(), [b"", b"MDPW01", b"\x04"]),
    (MDP1_WORKER, MdpDisconnect(), [b"", b"MDPW01", b"\x05"]),
    (MDP2_CLIENT, MdpResult("echo", (b"a",), final=False), [b"MDPC02", b"\x02", b"echo", b"a"]),
    (MDP2_CLIENT, MdpResult("echo", (b"a",)), [b"MDPC02", b"\x03", b"echo", b"a"]),
    (MDP2_WORKER, MdpTask(b"to", (b"a",)), [b"MDPW02", b"\x02", b"to", b"", b"a"]),
    (MDP2_WORKER, MdpHeartbeat(), [b"MDPW02", b"\x05"]),
    (MDP2_WORKER, MdpDisconnect(), [b"MDPW02", b"\x06"]),
]


@pytest.mark.parametrize(("dialect", "message", "frames"), TO_BROKER)
def test_frames_to_the_broker_are_the_standards(dialect: Dialect, message: MdpMessage, frames: list[bytes]) -> None:
    assert codec.encode(dialect, message) == frames
    assert codec.decode(frames) == (dialect, message)


@pytest.mark.parametrize(("dialect", "message", "frames"), FROM_BROKER)
def test_frames_from_the_broker_are_the_standards(dialect: Dialect, message: MdpMessage, frames: list[bytes]) -> None:
    assert codec.encode(dialect, message) == frames


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        # Valid commands that only the broker sends: unexpected, answered by DISCONNECT.
        ([b"", b"MDPW01", b"\x02", b"to", b"", b"a"], 501),
        ([b"MDPW02", b"\x02", b"to", b"", b"a"], 501),
        ([b"MDPC02", b"\x02", b"echo", b"a"], 501),
        ([b"MDPC02", b"\x03", b"echo", b"a"], 501),
        # Not messages of the standard at all.
        ([b"", b"MDPC01"], 400),
        ([b"", b"MDPC01", b"echo"], 400),  # a body frame is required
        ([b"", b"MDPC01", b"", b"a"], 400),  # a service is required
        ([b"", b"MDPC01", b"\xff\xfe", b"a"], 400),
        ([b"", b"MDPC01", b"s" * 129, b"a"], 400),
        ([b"MDPC02"], 501),
        ([b"MDPC02", b"\x01"], 400),
        ([b"MDPC02", b"\x01", b"echo"], 400),
        ([b"", b"MDPW01"], 400),
        ([b"", b"MDPW01", b""], 400),
        ([b"", b"MDPW01", b"\x01"], 400),
        ([b"", b"MDPW01", b"\x01", b""], 400),
        ([b"", b"MDPW01", b"\x01", b"echo", b"more"], 400),  # exactly one service
        ([b"", b"MDPW01", b"\x01\x01", b"echo"], 400),
        ([b"", b"MDPW01", b"\x03", b"to", b""], 400),  # a body frame is required
        ([b"", b"MDPW01", b"\x03", b"to", b"and", b"a"], 400),  # exactly one address, then an empty frame
        ([b"", b"MDPW01", b"\x03", b"", b"to", b"a"], 400),
        ([b"", b"MDPW01", b"\x04", b"more"], 400),
        ([b"", b"MDPW01", b"\x05", b"more"], 400),
        ([b"", b"MDPW01", b"\x06"], 400),  # 0.2's DISCONNECT
        ([b"MDPW02"], 400),
        ([b"MDPW02", b"\x00"], 400),
        ([b"MDPW02", b"\x07"], 400),
        ([b"MDPW02", b"\x04", b"to", b"and", b"a"], 400),
        ([b"MDPW02", b"\x05", b"more"], 400),
        ([b"MDPW02", b"\x06", b"more"], 400),
    ],
)
def test_what_the_standards_do_not_allow_is_refused(frames: list[bytes], code: int) -> None:
    with pytest.raises(ProtocolError) as refusal:
        codec.decode(frames)
    assert refusal.value.code == code


def test_partial_reply_has_no_frames_in_version_one() -> None:
    with pytest.raises(AssertionError, match="no partial replies"):
        codec.encode(MDP1_CLIENT, MdpResult("echo", (b"a",), final=False))
