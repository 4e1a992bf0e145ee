"""One door for all dialects: what is encoded is decoded again, and whatever else comes raises `ProtocolError` alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scale0.errors import ProtocolError
from scale0.protocol import codec, dialects, limits
from scale0.protocol.codec import AnyMessage
from scale0.protocol.dialects import Dialect
from scale0.protocol.messages import Command
from tests.protocol import strategies

NATIVE = [dialects.CLIENT, dialects.WORKER, dialects.PEER, dialects.REQ_CLIENT, dialects.REQ_WORKER]
HEADERS = [b"SC0C01", b"SC0W01", b"SC0P01", b"MDPC01", b"MDPW01", b"MDPC02", b"MDPW02"]


def decodes_or_refuses(frames: list[bytes]) -> AnyMessage | None:
    """The message, or None if the frames were refused as they should be; any other exception fails the test."""
    try:
        return codec.decode(frames)[1]
    except ProtocolError as error:
        refused = error
    assert refused.code in (400, 413, 501)
    assert refused.text
    return None


@pytest.mark.parametrize("dialect", NATIVE, ids=lambda dialect: dialect.name)
@given(message=strategies.native)
def test_every_native_message_comes_back_as_it_was(dialect: Dialect, message: Any) -> None:
    assert codec.decode(codec.encode(dialect, message)) == (dialect, message)


@pytest.mark.parametrize("sender", NATIVE, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("receiver", NATIVE, ids=lambda dialect: dialect.name)
@given(reply=strategies.taskreply)
def test_reply_that_is_passed_on_has_the_bytes_of_a_fresh_one(sender: Dialect, receiver: Dialect, reply: Any) -> None:
    _, came = codec.decode(codec.encode(sender, reply))
    passed_on = codec.encode(receiver, came)
    assert passed_on == codec.encode(receiver, reply)
    assert codec.decode(passed_on) == (receiver, reply)


@pytest.mark.parametrize("dialect", list(strategies.MAJORDOMO), ids=lambda dialect: dialect.name)
@given(data=st.data())
def test_every_majordomo_message_comes_back_as_it_was(dialect: Dialect, data: st.DataObject) -> None:
    message = data.draw(strategies.MAJORDOMO[dialect])
    assert codec.decode(codec.encode(dialect, message)) == (dialect, message)


@given(frames=st.lists(st.binary(max_size=40), max_size=6))
@example(frames=[])
@example(frames=[b""])
@example(frames=[b"", b""])
@example(frames=[b"", b"", b"SC0C01"])
def test_any_frames_decode_or_are_refused(frames: list[bytes]) -> None:
    decodes_or_refuses(frames)


@given(
    has_envelope=st.booleans(),
    header=st.sampled_from(HEADERS),
    command=st.integers(0, 255),
    rest=st.binary(max_size=120),
    body=st.lists(st.binary(max_size=20), max_size=4),
)
def test_a_good_header_with_any_bytes_after_it_decodes_or_is_refused(
    has_envelope: bool, header: bytes, command: int, rest: bytes, body: list[bytes]
) -> None:
    envelope = [b""] if has_envelope else []
    decodes_or_refuses([*envelope, header + bytes([command]) + rest, *body])
    decodes_or_refuses([*envelope, header, bytes([command]), rest, *body])


@given(
    message=strategies.native,
    cut=st.integers(0, 200),
    at=st.integers(0, 200),
    insert=st.binary(max_size=4),
)
def test_a_damaged_message_decodes_or_is_refused(message: Any, cut: int, at: int, insert: bytes) -> None:
    header, *body = codec.encode(dialects.CLIENT, message)
    decodes_or_refuses([header[:cut], *body])
    decodes_or_refuses([header[:at] + insert + header[at:], *body])
    decodes_or_refuses([header[:at] + insert + header[at + len(insert) :], *body])


@pytest.mark.parametrize(
    ("frames", "dialect"),
    [
        ([b"SC0C01\x06"], dialects.CLIENT),
        ([b"SC0W01\x06"], dialects.WORKER),
        ([b"SC0P01\x06"], dialects.PEER),
        ([b"", b"SC0C01\x06"], dialects.REQ_CLIENT),
        ([b"", b"SC0W01\x06"], dialects.REQ_WORKER),
        ([b"", b"MDPC01"], dialects.MDP1_CLIENT),
        ([b"", b"MDPW01"], dialects.MDP1_WORKER),
        ([b"MDPC02"], dialects.MDP2_CLIENT),
        ([b"MDPW02"], dialects.MDP2_WORKER),
    ],
)
def test_the_header_frame_names_the_dialect(frames: list[bytes], dialect: Dialect) -> None:
    assert codec.dialect_of(frames) is dialect


@pytest.mark.parametrize(
    "frames",
    [
        [b"SC0X01\x06"],
        [b"SC0C02\x06"],  # a version that does not exist
        [b"sc0c01\x06"],
        [b"SC0C0"],
        [b"", b"SC0P01\x06"],  # a peer has no REQ mode
        [b"MDPC01"],  # 0.1 without its empty frame
        [b"", b"MDPC02"],  # 0.2 with one
        [b"MDPC02\x01"],  # Majordomo's header frame holds six bytes and no more
        [b"", b"MDPW01\x01"],
        [b"", b"", b"MDPC01", b"s", b"b"],
        [b"GET / HTTP/1.1"],
    ],
)
def test_a_header_frame_of_no_dialect_is_refused(frames: list[bytes]) -> None:
    with pytest.raises(ProtocolError, match="names no dialect") as refusal:
        codec.decode(frames)
    assert refusal.value.code == 400


@pytest.mark.parametrize("head", [[b"SC0C01\x08"], [b"", b"SC0C01\x08"], [b"MDPC02", b"\x01", b"echo"]])
def test_too_many_frames_are_refused_whatever_the_dialect(head: list[bytes]) -> None:
    with pytest.raises(ProtocolError, match="frames; at most 32") as refusal:
        codec.decode(head + [b""] * limits.FRAMES_MAX)
    assert refusal.value.code == 400


@given(message=strategies.task)
def test_a_body_of_as_many_frames_as_allowed_passes(message: Any) -> None:
    message.body = (b"",) * (limits.FRAMES_MAX - 1)
    assert codec.decode(codec.encode(dialects.CLIENT, message)) == (dialects.CLIENT, message)


def test_every_command_has_a_decoder() -> None:
    for command in Command:
        with pytest.raises(ProtocolError) as refusal:
            codec.decode([b"SC0C01" + bytes([command])])
        assert refusal.value.code == 400, command
        assert command.name in refusal.value.text


def test_an_unknown_command_is_answered_501() -> None:
    for byte in sorted(set(range(256)) - set(Command)):
        with pytest.raises(ProtocolError) as refusal:
            codec.decode([b"SC0C01" + bytes([byte])])
        assert refusal.value.code == 501
