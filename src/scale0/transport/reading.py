"""What the loop needs rarely of a message that it reads: its further frames, and whose connection it came by.

Every message is read to its last frame, whatever it holds; what is over a limit is dropped, and refused at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import zmq

from scale0.errors import ProtocolError
from scale0.protocol import limits
from scale0.protocol.codes import Code
from scale0.transport.sockets import NOBLOCK


def user_of(frame: Any) -> str:
    """The key of the connection that this frame came by, as the handshake has shown it."""
    try:
        return str(frame.get("User-Id"))
    except (zmq.ZMQError, AttributeError):
        return ""


def read_on(receive: Callable[..., Any], begun: Sequence[bytes]) -> list[bytes]:
    """The frames of a message that has more than two. Over a limit it is still read to its end, and then refused."""
    frames = list(begun)
    count, size = len(frames), sum(map(len, frames))
    has_more = True
    while has_more:
        frame = receive(NOBLOCK, False)
        has_more = frame.more
        count += 1
        size += len(frame)
        if count <= limits.FRAMES_MAX and size <= limits.MESSAGE_BYTES_MAX:
            frames.append(frame.bytes)
    if count > limits.FRAMES_MAX:
        raise ProtocolError(Code.MALFORMED, f"{count} frames; at most {limits.FRAMES_MAX} are allowed")
    if size > limits.MESSAGE_BYTES_MAX:
        raise ProtocolError(Code.TOO_LARGE, f"{size:,} bytes; at most {limits.MESSAGE_BYTES_MAX:,} are allowed")
    return frames
