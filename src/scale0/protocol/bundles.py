"""A bundle: small messages for one connection, one after another in one frame.

Most of what a short task costs is not its rules but its way: every message is a system of frames, wake-ups and copies
of its own, for the broker and for ZeroMQ's threads on both sides. Whoever has several messages for one connection at
the same moment sends them as one. Nothing waits for a bundle to fill, and nothing else changes: each message in it
counts as if it had come alone, in its order. So a bundle is an envelope and no command, and no rule knows of it.

    dialect (6 bytes) · 26 · number of messages (2) · length of each (4 each) · the messages' header frames, whole
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final

from scale0.errors import ProtocolError
from scale0.protocol.codes import Code
from scale0.protocol.limits import BUNDLE_BYTES_MAX, BUNDLE_MESSAGES_MAX, BUNDLED_BYTES_MAX

BUNDLE: Final = 26
"""Stands where a command's byte stands. The commands are `messages.Command`, and none of them has this number."""

_HEAD: Final = struct.Struct(">6sBH")
_LENGTHS: Final = [struct.Struct(f">{count}I") for count in range(BUNDLE_MESSAGES_MAX + 1)]
_HEAD_BYTES: Final = _HEAD.size
_LENGTH_BYTES: Final = 4
_DIALECT_BYTES: Final = 6
_BYTE: Final = bytes((BUNDLE,))


def is_bundle(frame: bytes) -> bool:
    """Whether a message that begins with this frame is a bundle, if it is anything."""
    return frame[6:7] == _BYTE


def bundle(messages: Sequence[bytes]) -> bytes:
    """One frame with `messages` in it, each of one frame and all in one dialect."""
    count = len(messages)
    head = _HEAD.pack(messages[0][:_DIALECT_BYTES], BUNDLE, count)
    return b"".join((head, _LENGTHS[count].pack(*map(len, messages)), *messages))


def unbundle(frame: bytes) -> list[bytes]:
    """The messages in a bundle. Any other bytes raise `ProtocolError`."""
    size = len(frame)
    if not _HEAD_BYTES <= size <= BUNDLE_BYTES_MAX:
        raise ProtocolError(Code.MALFORMED, f"a bundle of {size:,} bytes; at most {BUNDLE_BYTES_MAX:,} are allowed")
    _, _, count = _HEAD.unpack_from(frame)
    if not 0 < count <= BUNDLE_MESSAGES_MAX:
        raise ProtocolError(Code.MALFORMED, f"a bundle of {count} messages; 1 to {BUNDLE_MESSAGES_MAX} are allowed")
    lengths = _LENGTHS[count]
    begin = _HEAD_BYTES + lengths.size
    if size < begin:
        raise ProtocolError(Code.MALFORMED, "a bundle that ends before the lengths of its messages")
    ends = list(accumulate(lengths.unpack_from(frame, _HEAD_BYTES), initial=begin))
    if ends[-1] != size:
        raise ProtocolError(Code.MALFORMED, "a bundle whose lengths do not add up to its own")
    return [frame[at:end] for at, end in pairwise(ends)]


def unbundled(frame: bytes) -> list[tuple[bytes]]:
    """The same, each as the frames of a message of its own."""
    return list(zip(unbundle(frame), strict=True))


def runs(messages: Sequence[Sequence[bytes]]) -> Iterator[Sequence[Sequence[bytes]]]:
    """`messages` cut into runs, in order: each may be one bundle, or is a single message that travels alone."""
    begin = 0
    size = _HEAD_BYTES
    for at, frames in enumerate(messages):
        length = _LENGTH_BYTES + len(frames[0])
        is_small = len(frames) == 1 and length <= _LENGTH_BYTES + BUNDLED_BYTES_MAX
        size += length
        if at > begin and (not is_small or size > BUNDLE_BYTES_MAX or at - begin == BUNDLE_MESSAGES_MAX):
            yield messages[begin:at]
            begin, size = at, _HEAD_BYTES + length
        if not is_small:
            yield messages[at : at + 1]
            begin, size = at + 1, _HEAD_BYTES
    if begin < len(messages):
        yield messages[begin:]
