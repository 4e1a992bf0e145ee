"""One door for all dialects: frames ↔ (dialect, message).

`decode` takes the frames of one message without the ROUTER's routing id and either returns what was said, and in which
dialect, or raises `ProtocolError` with the code that answers it. It never raises anything else, whatever the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from scale0.errors import ProtocolError
from scale0.protocol import dialects, limits, majordomo, native
from scale0.protocol.codes import Code
from scale0.protocol.dialects import Dialect
from scale0.protocol.majordomo import MdpMessage
from scale0.protocol.messages import Message

AnyMessage = Message | MdpMessage

# Dialect and decoder by the seven bytes that begin a native header: one look-up for what is frequent. REQ mode and
# Majordomo, and every kind of mistake, take the longer way below.
_BY_PREFIX = {
    header + bytes((command,)): (dialect, decoder)
    for header, dialect in dialects.DEALER_DIALECTS.items()
    for command, decoder in native.DECODERS.items()
}


def decode(frames: Sequence[bytes]) -> tuple[Dialect, AnyMessage]:
    """The dialect and the message in `frames`."""
    if 0 < len(frames) <= limits.FRAMES_MAX:
        header = frames[0]
        known = _BY_PREFIX.get(header[:7])
        if known is not None:
            return known[0], known[1](header, frames)
    dialect = dialect_of(frames)
    if len(frames) > limits.FRAMES_MAX:
        raise ProtocolError(Code.MALFORMED, f"{len(frames)} frames; at most {limits.FRAMES_MAX} are allowed")
    if dialect.majordomo == 0:
        return dialect, native.decode(frames[1:] if dialect.is_req else frames)
    return dialect, majordomo.decode(dialect, frames[2:] if dialect.majordomo == 1 else frames[1:])


def dialect_of(frames: Sequence[bytes]) -> Dialect:
    """The dialect that the header frame names, which is the first, or the second after an empty one."""
    if not frames:
        raise ProtocolError(Code.MALFORMED, "a message without frames")
    head = frames[0]
    if head:
        prefix = head[:6]
        dialect = dialects.DEALER_DIALECTS.get(prefix)
        if dialect is None and len(head) == 6:
            dialect = dialects.MDP2_DIALECTS.get(prefix)
    else:
        head = frames[1] if len(frames) > 1 else b""
        prefix = head[:6]
        dialect = dialects.REQ_DIALECTS.get(prefix)
        if dialect is None and len(head) == 6:
            dialect = dialects.MDP1_DIALECTS.get(prefix)
    if dialect is None:
        raise ProtocolError(Code.MALFORMED, "the header frame names no dialect that Scale0 speaks")
    return dialect


def encode(dialect: Dialect, message: AnyMessage) -> list[bytes]:
    """Frames of `message` as `dialect` lays them out, envelope included."""
    if dialect.majordomo:
        return majordomo.encode(dialect, message)  # type: ignore[arg-type]
    frames = native.ENCODERS[type(message)](dialect.header, message)
    return [b"", *frames] if dialect.is_req else frames
