"""Majordomo 0.1 (ZeroMQ RFC 7) and 0.2 (RFC 18): frames to messages and back.

Both say the same things with other frames: 0.1 has an empty frame ahead and no command byte between client and broker;
0.2 has neither envelope nor that exception, and knows PARTIAL. A worker's REQUEST and REPLY carry exactly one address
frame and an empty one; the address is opaque to workers, and Scale0 puts a token there, never a routing id.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from scale0.errors import ProtocolError
from scale0.protocol import limits
from scale0.protocol.codes import Code
from scale0.protocol.dialects import Dialect, Role
from scale0.protocol.messages import Body


class MdpRequest(msgspec.Struct, gc=False):
    """Client → broker: a request for a service."""

    service: str
    body: Body


class MdpResult(msgspec.Struct, gc=False):
    """Broker → client: PARTIAL or FINAL; 0.1 knows only the final reply."""

    service: str
    body: Body
    final: bool = True


class MdpReady(msgspec.Struct, gc=False):
    """Worker → broker: its one service."""

    service: str


class MdpTask(msgspec.Struct, gc=False):
    """Broker → worker: a request, under an opaque address."""

    address: bytes
    body: Body


class MdpReply(msgspec.Struct, gc=False):
    """Worker → broker: PARTIAL or FINAL under the address that came with the request."""

    address: bytes
    body: Body
    final: bool = True


class MdpHeartbeat(msgspec.Struct, gc=False):
    """Either way, after READY."""


class MdpDisconnect(msgspec.Struct, gc=False):
    """Either way: the session is over."""


MdpMessage = MdpRequest | MdpResult | MdpReady | MdpTask | MdpReply | MdpHeartbeat | MdpDisconnect

_READY, _REQUEST = b"\x01", b"\x02"
_PARTIAL = {2: b"\x03"}
_FINAL = {1: b"\x03", 2: b"\x04"}
_HEARTBEAT = {1: b"\x04", 2: b"\x05"}
_DISCONNECT = {1: b"\x05", 2: b"\x06"}
_CLIENT_REQUEST, _CLIENT_PARTIAL, _CLIENT_FINAL = b"\x01", b"\x02", b"\x03"


def encode(dialect: Dialect, message: MdpMessage) -> list[bytes]:
    """Frames of `message`, the envelope's empty frame included."""
    version = dialect.majordomo
    head = [b"", dialect.header] if version == 1 else [dialect.header]
    match message:
        case MdpResult(service, body, final):
            if version == 1:
                assert final, "Majordomo 0.1 has no partial replies: join them first"
                return [*head, service.encode(), *body]
            return [*head, _CLIENT_FINAL if final else _CLIENT_PARTIAL, service.encode(), *body]
        case MdpTask(address, body):
            return [*head, _REQUEST, address, b"", *body]
        case MdpHeartbeat():
            return [*head, _HEARTBEAT[version]]
        case MdpDisconnect():
            return [*head, _DISCONNECT[version]]
        case MdpReady(service):
            return [*head, _READY, service.encode()]
        case MdpReply(address, body, final):
            command = _FINAL[version] if final else _PARTIAL[version]
            return [*head, command, address, b"", *body]
        case MdpRequest(service, body):
            command_frames = [] if version == 1 else [_CLIENT_REQUEST]
            return [*head, *command_frames, service.encode(), *body]


def decode(dialect: Dialect, frames: Sequence[bytes]) -> MdpMessage:
    """What a client or worker said; `frames` begin after the header frame."""
    if dialect.role is Role.CLIENT:
        return _decode_client(dialect.majordomo, frames)
    return _decode_worker(dialect.majordomo, frames)


def _decode_client(version: int, frames: Sequence[bytes]) -> MdpRequest:
    if version == 2:
        if not frames or frames[0] != _CLIENT_REQUEST:
            raise ProtocolError(Code.UNEXPECTED, "a Majordomo client may only send REQUEST")
        frames = frames[1:]
    if len(frames) < 2:
        raise ProtocolError(Code.MALFORMED, "REQUEST needs a service and at least one body frame")
    return MdpRequest(_service(frames[0]), tuple(frames[1:]))


def _decode_worker(version: int, frames: Sequence[bytes]) -> MdpMessage:
    if not frames:
        raise ProtocolError(Code.MALFORMED, "a Majordomo worker's message needs a command frame")
    command = frames[0]
    if command == _READY:
        if len(frames) != 2:
            raise ProtocolError(Code.MALFORMED, "READY carries exactly one service")
        return MdpReady(_service(frames[1]))
    if command in (_FINAL[version], _PARTIAL.get(version)):
        # RFC 7 and 18: exactly one address frame, then an empty frame, then at least one body frame.
        if len(frames) < 4 or frames[2] != b"":
            raise ProtocolError(Code.MALFORMED, "a reply carries one address, an empty frame and a body")
        return MdpReply(frames[1], tuple(frames[3:]), command == _FINAL[version])
    if command == _HEARTBEAT[version] and len(frames) == 1:
        return MdpHeartbeat()
    if command == _DISCONNECT[version] and len(frames) == 1:
        return MdpDisconnect()
    if command == _REQUEST:
        raise ProtocolError(Code.UNEXPECTED, "only the broker sends REQUEST to a worker")
    raise ProtocolError(Code.MALFORMED, "not a command of a Majordomo worker")


def _service(frame: bytes) -> str:
    if not 0 < len(frame) <= limits.SERVICE_BYTES_MAX:
        raise ProtocolError(Code.MALFORMED, "a service name has 1 to 128 bytes")
    try:
        return frame.decode()
    except UnicodeDecodeError:
        raise ProtocolError(Code.MALFORMED, "a service name is UTF-8") from None
