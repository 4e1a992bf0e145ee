"""How rows cross the pipe from a broker to its recorder, and how they lie in the write-ahead log.

A frame is a kind, a length and a payload. Tasks are raw records; everything else is MessagePack. All frames of one
`Records` go together in one chunk, in the order in which they must be read: names before the rows that use them, and
the word that all numbers are void after them.

The log holds such chunks, each behind a mark, its length and a checksum. So a log that was cut off anywhere, or whose
end was never written, is read up to its last whole chunk.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

import msgspec

from scale0.events import TASK, Attempt, Note, Records


class Kind(IntEnum):
    """What a frame holds."""

    ORDER = 1  # what a recorder is to do; the first frame of a pipe
    HELLO = 2  # whose rows follow; the first frame of a log
    NAMES = 3
    ATTEMPTS = 4
    NOTES = 5
    TASKS = 6
    FORGET = 7  # all numbers of names are void
    GOODBYE = 8  # the run is over


_HEAD: Final = struct.Struct("<BI")
_CHUNK: Final = struct.Struct("<4sII")
_SEQ: Final = struct.Struct("<Q")  # the beginning of a task's record
_MARK: Final = b"S0W2"  # of this layout of records
HEAD_BYTES: Final = _HEAD.size
LOG_HEAD_BYTES: Final = _CHUNK.size
FRAME_BYTES_MAX: Final = 64 * 1024 * 1024  # what is announced as longer is no frame


class Order(msgspec.Struct):
    """What a recorder is to do: where its files are, where segments go, and what is kept of them."""

    directory: str
    data: str  # a path or a URL
    keep_s: float = 30 * 86_400.0
    cap_bytes: int = 20 * 1024**3  # of a broker's segments, and of those that wait to be shipped: more is deleted
    rates: dict[str, int] = {}  # service → tasks for one row


class Hello(msgspec.Struct):
    """One run of a broker. `anchor_us` is the wall clock when its monotonic clock was 0.

    At the beginning of a log `seq` is the last row that was sealed before.
    """

    broker: str
    boot: str
    anchor_us: int
    group: str = ""
    seq: int = 0


class Goodbye(msgspec.Struct):
    """A run is over. `clean`: the broker says so itself; else its recorder does, who has heard no more of it."""

    last_seq: int
    at_s: float
    clean: bool = True


class Malformed(ValueError):
    """Bytes that are no frames."""


_encoder = msgspec.msgpack.Encoder()
_order = msgspec.msgpack.Decoder(Order)
_hello = msgspec.msgpack.Decoder(Hello)
_goodbye = msgspec.msgpack.Decoder(Goodbye)
_names = msgspec.msgpack.Decoder(list[tuple[int, str]])
_attempts = msgspec.msgpack.Decoder(list[Attempt])
_notes = msgspec.msgpack.Decoder(list[Note])


def frame(kind: Kind, content: object = None) -> bytes:
    """One frame; `content` becomes MessagePack."""
    payload = _encoder.encode(content)
    return _HEAD.pack(kind, len(payload)) + payload


def encode(records: Records) -> bytes:
    """The chunk of what a broker has to record."""
    parts = []
    if records.names:
        parts.append(frame(Kind.NAMES, records.names))
    if records.attempts:
        parts.append(frame(Kind.ATTEMPTS, records.attempts))
    if records.notes:
        parts.append(frame(Kind.NOTES, records.notes))
    if records.tasks:
        parts.append(_HEAD.pack(Kind.TASKS, TASK.size * len(records.tasks)))
        parts += records.tasks
    if records.is_forgetting:
        parts.append(frame(Kind.FORGET))
    return b"".join(parts)


def whole(buffer: bytes | bytearray) -> int:
    """How many bytes at the beginning of `buffer` are whole frames."""
    at, size = 0, len(buffer)
    while at + _HEAD.size <= size:
        kind, length = _HEAD.unpack_from(buffer, at)
        if length > FRAME_BYTES_MAX or kind not in _KNOWN:
            raise Malformed(f"kind {kind} with {length:,} bytes is no frame")
        if at + _HEAD.size + length > size:
            break
        at += _HEAD.size + length
    return at


def split(chunk: bytes) -> Iterator[tuple[Kind, memoryview]]:
    """The frames of a chunk."""
    view, at = memoryview(chunk), 0
    while at < len(view):
        try:
            number, length = _HEAD.unpack_from(view, at)
            kind = Kind(number)
        except (struct.error, ValueError) as error:
            raise Malformed(f"no frame begins at byte {at}: {error}") from error
        payload = view[at + _HEAD.size : at + _HEAD.size + length]
        if len(payload) < length or (kind is Kind.TASKS and length % TASK.size):
            raise Malformed(f"the frame at byte {at} is not whole")
        yield kind, payload
        at += _HEAD.size + length


def without_rows(chunk: bytes) -> bytes:
    """What later rows need of a chunk that cannot be kept: names, the clock, and the end of the run.

    At most all names that are valid at its end, so that many of them joined are no more than one.
    """
    names: list[bytes] = []
    others: list[bytes] = []
    for kind, payload in split(chunk):
        if kind is Kind.NAMES:
            names.append(frame(kind, read_names(payload)))
        elif kind is Kind.FORGET:
            names = [frame(kind)]
        elif kind in (Kind.HELLO, Kind.GOODBYE):
            others.append(_HEAD.pack(kind, len(payload)) + bytes(payload))
        elif kind is Kind.NOTES:
            needed = [note for note in read_notes(payload) if note.kind in ("anchor", "boot")]
            others += [frame(kind, needed)] if needed else []
    return b"".join([*names, *others])


def last_seq(chunk: bytes) -> int:
    """The number of the last row in a chunk, 0 if it has none. Of tasks that is the last one: numbers only rise."""
    last = 0
    for kind, payload in split(chunk):
        if kind is Kind.TASKS and payload:
            last = max(last, _SEQ.unpack_from(payload, len(payload) - TASK.size)[0])
        elif kind is Kind.NOTES:
            last = max([last, *(note.seq for note in read_notes(payload))])
    return last


def read_order(payload: memoryview) -> Order:
    return _order.decode(payload)


def read_hello(payload: memoryview) -> Hello:
    return _hello.decode(payload)


def read_goodbye(payload: memoryview) -> Goodbye:
    return _goodbye.decode(payload)


def read_names(payload: memoryview) -> list[tuple[int, str]]:
    return _names.decode(payload)


def read_attempts(payload: memoryview) -> list[Attempt]:
    return _attempts.decode(payload)


def read_notes(payload: memoryview) -> list[Note]:
    return _notes.decode(payload)


# --- in the log -----------------------------------------------------------------------------------------------------


def log_head(chunk: bytes) -> bytes:
    """What goes ahead of a chunk in the log."""
    return _CHUNK.pack(_MARK, len(chunk), zlib.crc32(chunk))


def read_log(content: bytes) -> Iterator[bytes]:
    """The whole chunks of a log, from its beginning to the first that is torn or damaged."""
    view, at = memoryview(content), 0
    while at + _CHUNK.size <= len(view):
        mark, length, checksum = _CHUNK.unpack_from(view, at)
        chunk = bytes(view[at + _CHUNK.size : at + _CHUNK.size + length])
        if mark != _MARK or len(chunk) < length or zlib.crc32(chunk) != checksum:
            return
        yield chunk
        at += _CHUNK.size + length


_KNOWN: Final = frozenset(int(kind) for kind in Kind)
