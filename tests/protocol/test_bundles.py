"""Several messages in one frame: what goes in comes out, limits hold, and whatever else comes is refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scale0.errors import ProtocolError
from scale0.protocol import codec, dialects
from scale0.protocol.bundles import BUNDLE, bundle, is_bundle, runs, unbundle
from scale0.protocol.limits import BUNDLE_BYTES_MAX, BUNDLE_MESSAGES_MAX, BUNDLED_BYTES_MAX
from scale0.protocol.messages import Command, Ping

HEADER = b"SC0C01"
SMALL = HEADER + b"\x06" + b"x" * 40

frames = st.binary(min_size=1, max_size=BUNDLED_BYTES_MAX + 10)
messages = st.lists(
    st.one_of(frames.map(lambda frame: [frame]), st.lists(frames, min_size=1, max_size=3)), max_size=100
)


def refusal(frame: bytes) -> str:
    with pytest.raises(ProtocolError) as caught:
        unbundle(frame)
    assert caught.value.code == 400
    return caught.value.text


def head(count: int, lengths: list[int]) -> bytes:
    return HEADER + bytes((BUNDLE,)) + struct.pack(f">H{len(lengths)}I", count, *lengths)


def test_bytes_of_a_bundle_are_these() -> None:
    ping = b"SC0C01\x06one"
    pong = b"SC0C01\x07three"
    expected = "534330433031 1a 0002 0000000a 0000000c"
    assert bundle([ping, pong]) == bytes.fromhex(expected) + ping + pong


def test_byte_of_a_bundle_is_no_commands() -> None:
    assert BUNDLE not in {int(command) for command in Command}


@given(inside=st.lists(st.binary(max_size=200), min_size=1, max_size=BUNDLE_MESSAGES_MAX))
def test_messages_come_out_as_they_went_in(inside: list[bytes]) -> None:
    frame = bundle([HEADER + b"\x06", *inside[1:]])
    assert is_bundle(frame)
    assert unbundle(frame) == [HEADER + b"\x06", *inside[1:]]


@given(rest=st.binary(max_size=300))
@example(rest=b"")
@example(rest=b"\x00\x01")
@example(rest=b"\x00\x01\xff\xff\xff\xff")
def test_any_bytes_are_messages_or_a_protocol_error(rest: bytes) -> None:
    frame = HEADER + bytes((BUNDLE,)) + rest
    try:
        inside = unbundle(frame)
    except ProtocolError:
        assert refusal(frame)
    else:
        assert bundle(inside)[6:] == frame[6:]


def test_bundle_that_is_none_is_refused_by_what_is_wrong() -> None:
    assert "0 messages" in refusal(head(0, []))
    assert f"{BUNDLE_MESSAGES_MAX + 1} messages" in refusal(head(BUNDLE_MESSAGES_MAX + 1, []))
    assert "ends before" in refusal(head(2, [1]))
    assert "do not add up" in refusal(head(1, [9]) + b"short")
    assert "do not add up" in refusal(head(1, [1]) + b"long")
    assert "bytes" in refusal(HEADER + bytes((BUNDLE,)))
    assert f"{BUNDLE_BYTES_MAX:,}" in refusal(head(1, [BUNDLE_BYTES_MAX]) + bytes(BUNDLE_BYTES_MAX))


def test_bundle_in_a_bundle_is_refused_like_an_unknown_command() -> None:
    (inside,) = unbundle(bundle([bundle([SMALL])]))
    with pytest.raises(ProtocolError) as caught:
        codec.decode([inside])
    assert caught.value.code == 501


@pytest.mark.parametrize("dialect", [dialects.CLIENT, dialects.WORKER, dialects.PEER])
def test_no_message_is_taken_for_a_bundle(dialect: dialects.Dialect) -> None:
    assert not is_bundle(codec.encode(dialect, Ping(time_us=26))[0])
    assert not any(is_bundle(dialect.header + bytes((command,))) for command in Command)


@given(messages=messages)
@example(messages=[])
@example(messages=[[SMALL]])
@example(messages=[[SMALL]] * (BUNDLE_MESSAGES_MAX + 1))
@example(messages=[[SMALL], [b"large" * BUNDLED_BYTES_MAX], [SMALL]])
@example(messages=[[b"x" * BUNDLED_BYTES_MAX]] * 20)
def test_runs_keep_order_and_every_limit(messages: list[list[bytes]]) -> None:
    cut = list(runs(messages))
    assert [message for run in cut for message in run] == messages
    for run in cut:
        if len(run) > 1:
            assert all(len(message) == 1 and len(message[0]) <= BUNDLED_BYTES_MAX for message in run)
            assert unbundle(bundle([message[0] for message in run]))


def test_runs_are_as_long_as_they_may_be() -> None:
    assert [len(run) for run in runs([[SMALL]] * 130)] == [64, 64, 2]
    assert [len(run) for run in runs([[SMALL], [SMALL, b"body"], [SMALL], [SMALL]])] == [1, 1, 2]
    assert [len(run) for run in runs([[b"x" * BUNDLED_BYTES_MAX]] * 8)] == [7, 1]
