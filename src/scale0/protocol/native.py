"""The native dialect: one header frame, then the body frames; a small body stands in the header frame itself.

Few frames are what makes a broker fast. The header frame holds six bytes that name the dialect and its version, the
command's byte, and then packed fields (big-endian; TASK, TASKREPLY, PING, PONG) or a msgpack map (all others). What is
too short, too long or not of its type raises `ProtocolError` with the code that answers the sender, and nothing else.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from scale0.errors import ProtocolError
from scale0.protocol import bounds, limits
from scale0.protocol.codes import Code
from scale0.protocol.commands import ALIASES, COMMANDS
from scale0.protocol.messages import (
    Body,
    Command,
    Message,
    Ping,
    Pong,
    Rare,
    Stream,
    Task,
    TaskReply,
)

PREFIX_BYTES = 7  # six of the dialect, one of the command

# attempt, priority, flags, id length, service length, options length, remaining ms, behind, send time, broker time,
# config
_TASK = struct.Struct(">BBBBBHIIqq16s")
# attempt, status, is final, id length, part, time, wait, work, config
_TASKREPLY = struct.Struct(">BBBBIqqq16s")
# time, interval, has offset, offset, oldest unanswered, config
_PING = struct.Struct(">qIBqQ16s")
# time, echo, epoch, config
_PONG = struct.Struct(">qqQ16s")
_STREAM = struct.Struct(">Q")  # seq

# The same with the prefix ahead: one call packs a whole header, where joining pieces would copy it twice.
_TASK_HEADER = struct.Struct(">6sB" + _TASK.format[1:])
_TASKREPLY_HEADER = struct.Struct(">6sB" + _TASKREPLY.format[1:])

_TASK_FIELDS = _TASK_HEADER.size
_TASKREPLY_FIELDS = _TASKREPLY_HEADER.size
_PRIORITIES = limits.PRIORITIES
_ID_MIN, _ID_MAX = limits.ID_BYTES_MIN, limits.ID_BYTES_MAX
_SERVICE_MAX, _OPTIONS_MAX = limits.SERVICE_BYTES_MAX, limits.OPTIONS_BYTES_MAX
_INLINE_MAX = limits.INLINE_BYTES_MAX
_INLINE = 0x80  # in TASK's flags and in TASKREPLY's final byte: what follows the last field is the whole body
_AFTER_EMPTY = 0x40  # beside it, in TASKREPLY only: an empty frame stands before that body, as in a result of bytes
_FINAL_AT = 9  # where that byte of a TASKREPLY stands
_COMMAND_BYTES = {command: bytes((command,)) for command in Command}


def encode(header: bytes, message: Message) -> list[bytes]:
    """Frames of `message` in the dialect that `header` names."""
    return ENCODERS[type(message)](header, message)


def decode(frames: Sequence[bytes]) -> Message:
    """The message in `frames`, the header frame first. Any other bytes raise `ProtocolError`."""
    header = frames[0]
    if len(header) < PREFIX_BYTES:
        raise ProtocolError(Code.MALFORMED, "the header frame ends before its command")
    decoder = DECODERS.get(header[6])
    if decoder is None:
        raise ProtocolError(Code.UNEXPECTED, f"unknown command {header[6]}")
    message: Message = decoder(header, frames)
    return message


# --- packed -------------------------------------------------------------------------------------------------------

_TASK_COMMAND = int(Command.TASK)
_TASKREPLY_COMMAND = int(Command.TASKREPLY)
_PING_BYTE = _COMMAND_BYTES[Command.PING]
_PONG_BYTE = _COMMAND_BYTES[Command.PONG]
_STREAM_BYTE = _COMMAND_BYTES[Command.STREAM]


def encode_task(header: bytes, task: Task) -> list[bytes]:
    service = task.service.encode()
    task_id, options, body = task.id, task.options, task.body
    is_inline = len(body) == 1 and len(body[0]) <= _INLINE_MAX
    packed = _TASK_HEADER.pack(
        header,
        _TASK_COMMAND,
        task.attempt,
        task.priority,
        task.flags | _INLINE if is_inline else task.flags,
        len(task_id),
        len(service),
        len(options),
        task.remaining_ms,
        task.behind,
        task.send_time_us,
        task.broker_time_us,
        task.config_version,
    )
    if is_inline:
        return [b"".join((packed, task_id, service, options, body[0]))]
    return [packed + task_id + service + options, *body]


def decode_task(header: bytes, frames: Sequence[bytes]) -> Task:
    try:
        (
            attempt,
            priority,
            flags,
            id_length,
            service_length,
            options_length,
            remaining_ms,
            behind,
            send_time_us,
            broker_time_us,
            config_version,
        ) = _TASK.unpack_from(header, PREFIX_BYTES)
        service_at = _TASK_FIELDS + id_length
        options_at = service_at + service_length
        service = header[service_at:options_at].decode()
    except (struct.error, UnicodeDecodeError) as error:
        raise ProtocolError(Code.MALFORMED, f"TASK: {error}") from None
    end = options_at + options_length
    if flags & _INLINE:
        flags ^= _INLINE
        is_fit = len(frames) == 1 and end <= len(header) <= end + _INLINE_MAX
        body: Body = (header[end:],)
    else:
        is_fit = len(header) == end
        body = tuple(frames[1:])
    if not is_fit:
        raise ProtocolError(Code.MALFORMED, "TASK: the header frame's length does not fit its fields")
    if (
        not _ID_MIN <= id_length <= _ID_MAX
        or not 0 < service_length <= _SERVICE_MAX
        or priority >= _PRIORITIES
        or options_length > _OPTIONS_MAX
    ):
        raise ProtocolError(Code.MALFORMED, "TASK: the id, the service, the priority or the options are out of bounds")
    # The id is typed by hand: calling NewType costs as much as the slice.
    return Task(
        header[_TASK_FIELDS:service_at],  # type: ignore[arg-type]
        service,
        body,
        remaining_ms,
        attempt,
        priority,
        flags,
        send_time_us,
        behind,
        broker_time_us,
        config_version,
        header[options_at:end],
    )


def encode_taskreply(header: bytes, reply: TaskReply) -> list[bytes]:
    received, body = reply.received, reply.body
    if received:  # a broker passes it on: only the dialect changes
        passed_on = header + received[6:]
        return [passed_on] if received[_FINAL_AT] & _INLINE else [passed_on, *body]
    marks = _inline_marks(body)
    packed = _TASKREPLY_HEADER.pack(
        header,
        _TASKREPLY_COMMAND,
        reply.attempt,
        reply.status,
        reply.final | marks,
        len(reply.id),
        reply.part,
        reply.time_us,
        reply.wait_us,
        reply.work_us,
        reply.config_version,
    )
    return [packed + reply.id + body[-1]] if marks else [packed + reply.id, *body]


def as_it_came(reply: TaskReply) -> Body:
    """The frames of a reply that came in some, as they were."""
    received = reply.received
    return (received,) if received[_FINAL_AT] & _INLINE else (received, *reply.body)


def _inline_marks(body: Body) -> int:
    """How a reply's body stands in the header frame; 0 if it does not."""
    count = len(body)
    if count == 1 and len(body[0]) <= _INLINE_MAX:
        return _INLINE
    if count == 2 and not body[0] and len(body[1]) <= _INLINE_MAX:
        return _INLINE | _AFTER_EMPTY
    return 0


def decode_taskreply(header: bytes, frames: Sequence[bytes]) -> TaskReply:
    try:
        attempt, status, final, id_length, part, time_us, wait_us, work_us, config_version = _TASKREPLY.unpack_from(
            header, PREFIX_BYTES
        )
    except struct.error as error:
        raise ProtocolError(Code.MALFORMED, f"TASKREPLY: {error}") from None
    end = _TASKREPLY_FIELDS + id_length
    if final & _INLINE:
        is_fit = len(frames) == 1 and end <= len(header) <= end + _INLINE_MAX
        body: Body = (b"", header[end:]) if final & _AFTER_EMPTY else (header[end:],)
        final &= ~(_INLINE | _AFTER_EMPTY)
    else:
        is_fit = len(header) == end
        body = tuple(frames[1:])
    if not is_fit or not _ID_MIN <= id_length <= _ID_MAX or status > 2:
        raise ProtocolError(Code.MALFORMED, "TASKREPLY: the header frame does not fit its fields")
    return TaskReply(
        header[_TASKREPLY_FIELDS:end],  # type: ignore[arg-type]
        body,
        attempt,
        status,
        part,
        final != 0,
        time_us,
        wait_us,
        work_us,
        config_version,
        header,
    )


def encode_ping(header: bytes, ping: Ping) -> list[bytes]:
    fields = _PING.pack(
        ping.time_us,
        ping.heartbeat_interval_ms,
        ping.has_offset | ping.offset_bits << 1,
        ping.offset_us,
        ping.oldest_unanswered,
        ping.config_version,
    )
    return [header + _PING_BYTE + fields]


def decode_ping(header: bytes, frames: Sequence[bytes]) -> Ping:
    _expect(header, frames, _PING, "PING")
    time_us, interval_ms, flags, offset_us, oldest, version = _PING.unpack_from(header, PREFIX_BYTES)
    return Ping(time_us, interval_ms, version, offset_us, flags & 1 != 0, oldest, flags >> 1)


def encode_pong(header: bytes, pong: Pong) -> list[bytes]:
    return [header + _PONG_BYTE + _PONG.pack(pong.time_us, pong.echo_us, pong.epoch, pong.config_version)]


def decode_pong(header: bytes, frames: Sequence[bytes]) -> Pong:
    _expect(header, frames, _PONG, "PONG")
    time_us, echo_us, epoch, version = _PONG.unpack_from(header, PREFIX_BYTES)
    return Pong(time_us, echo_us, version, epoch)


def encode_stream(header: bytes, stream: Stream) -> list[bytes]:
    return [header + _STREAM_BYTE + _STREAM.pack(stream.seq), *stream.changes]


def decode_stream(header: bytes, frames: Sequence[bytes]) -> Stream:
    _expect(header, frames[:1], _STREAM, "STREAM")
    return Stream(_STREAM.unpack_from(header, PREFIX_BYTES)[0], tuple(frames[1:]))


def _expect(header: bytes, frames: Sequence[bytes], layout: struct.Struct, name: str) -> None:
    if len(header) != PREFIX_BYTES + layout.size or len(frames) != 1:
        raise ProtocolError(Code.MALFORMED, f"{name}: one frame of {PREFIX_BYTES + layout.size} bytes is expected")


# --- maps of parameters -------------------------------------------------------------------------------------------

_COMMAND_OF: dict[type[Any], bytes] = {kind: _COMMAND_BYTES[command] for command, kind in COMMANDS.items()}

# They list up to 4,096 ids, or carry a document.
_LONG = {
    Command.CONNECT,
    Command.READY,
    Command.CONFIG,
    Command.CONFIGCHANGE,
    Command.MANAGEMENTREQ,
    Command.MANAGEMENTREP,
    Command.PEERSTATUS,
    Command.TABLE,
    Command.SNAPSHOT,
}


# Of each command: what it becomes, and how long its header may be. These are made once, for each message needs them.
_RARE = {
    int(command): (kind, limits.LONG_HEADER_BYTES_MAX if command in _LONG else limits.HEADER_BYTES_MAX)
    for command, kind in COMMANDS.items()
}
_pack_map = msgspec.msgpack.Encoder().encode
_unpack_map = msgspec.msgpack.Decoder(dict[str, Any]).decode


def encode_rare(header: bytes, message: Rare) -> list[bytes]:
    return [header + _COMMAND_OF[type(message)] + _pack_map(message)]


def decode_rare(header: bytes, frames: Sequence[bytes]) -> Rare:
    kind, most = _RARE[header[6]]
    if len(frames) != 1 or len(header) > most:
        name = Command(header[6]).name
        raise ProtocolError(Code.MALFORMED, f"{name}: one frame of at most {most:,} bytes is expected")
    try:
        parameters = _unpack_map(header[PREFIX_BYTES:])
        if not parameters.keys().isdisjoint(ALIASES):
            parameters = {_current_name(name): value for name, value in parameters.items()}
        message = msgspec.convert(parameters, kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ProtocolError(Code.MALFORMED, f"{Command(header[6]).name}: {error}") from None
    bounds.check(message)
    return message


def _current_name(name: str) -> str:
    """The parameter's name of today; names that have not changed pass through."""
    while name in ALIASES:
        name = ALIASES[name]
    return name


ENCODERS: dict[type[Any], Callable[[bytes, Any], list[bytes]]] = {
    Task: encode_task,
    TaskReply: encode_taskreply,
    Ping: encode_ping,
    Pong: encode_pong,
    Stream: encode_stream,
    **dict.fromkeys(COMMANDS.values(), encode_rare),
}
DECODERS: dict[int, Callable[[bytes, Sequence[bytes]], Any]] = {
    Command.TASK: decode_task,
    Command.TASKREPLY: decode_taskreply,
    Command.PING: decode_ping,
    Command.PONG: decode_pong,
    Command.STREAM: decode_stream,
    **dict.fromkeys(COMMANDS, decode_rare),
}
