"""Which config is current, told by every broker to whoever listens: a PUB and a SUB socket of the broker's own.

Rule 23: everything listens to more than one source. What is published is one frame, CONFIGACK in the peers' dialect
with the sender's identity: a version, never a document, so it is no secret. It is repeated each interval, so nothing is
lost for long, and a queue of a few is enough. What is heard is a hint: anybody may say anything there, and the core
fetches what is newer from a peer that it is linked with. What is no such message is counted and dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import zmq
from structlog.typing import FilteringBoundLogger

from scale0.errors import ProtocolError
from scale0.protocol import codec, limits
from scale0.protocol.dialects import PEER
from scale0.protocol.messages import Command, ConfigAck
from scale0.transport.sockets import HANDSHAKE_IVL_MS, NOBLOCK, bind_to, set_dialing

PREFIX: Final = PEER.header + bytes((Command.CONFIGACK,))
"""What each announcement begins with, and what is subscribed to."""

UNHEARD_MAX: Final = 16  # announcements that wait for one listener, or of one publisher; then the next is dropped
HEARD_MAX: Final = 100  # announcements taken at once, before messages and timers have their turn

Context = zmq.Context[zmq.Socket[bytes]]


class Publisher:
    """A bound PUB socket. `endpoint` names the real port."""

    def __init__(self, context: Context, bind: str) -> None:
        self._socket = context.socket(zmq.PUB)
        self._socket.set(zmq.SNDHWM, UNHEARD_MAX)
        self._socket.set(zmq.RCVHWM, UNHEARD_MAX)
        self._socket.set(zmq.HANDSHAKE_IVL, HANDSHAKE_IVL_MS)
        self._socket.set(zmq.MAXMSGSIZE, limits.HEADER_BYTES_MAX)
        self._socket.set(zmq.LINGER, 0)
        self.endpoint = bind_to(self._socket, bind, "--publish")

    def publish(self, message: ConfigAck) -> None:
        """Tell everybody who listens now. Who cannot keep up misses it: PUB never waits."""
        self._socket.send_multipart(codec.encode(PEER, message), NOBLOCK)

    def close(self) -> None:
        self._socket.close()


class Listener:
    """A SUB socket that is connected to the publishers it is told of."""

    def __init__(self, context: Context, log: FilteringBoundLogger) -> None:
        self.garbage = 0  # what came and was no announcement
        self._log = log
        self._endpoints: set[str] = set()
        self._socket = context.socket(zmq.SUB)
        set_dialing(self._socket)
        self._socket.set(zmq.RCVHWM, UNHEARD_MAX)
        self._socket.set(zmq.MAXMSGSIZE, limits.HEADER_BYTES_MAX)
        self._socket.set(zmq.LINGER, 0)
        self._socket.set(zmq.SUBSCRIBE, PREFIX)
        # Ask once while nothing can have come: only a reader that has found its pipe empty is signalled.
        self._socket.get(zmq.EVENTS)

    @property
    def file(self) -> int:
        """Turns readable when `hear` has something to say that it had not before."""
        return int(self._socket.get(zmq.FD))

    def listen(self, endpoints: list[str]) -> None:
        """To these publishers from now on, and to no other."""
        for endpoint in self._endpoints.difference(endpoints):
            self._socket.disconnect(endpoint)
            self._endpoints.discard(endpoint)
        for endpoint in endpoints:
            if endpoint in self._endpoints:
                continue
            try:
                self._socket.set(zmq.IPV6, int("[" in endpoint))
                self._socket.connect(endpoint)
            except zmq.ZMQError as error:
                self._log.error(f"cannot listen to {endpoint!r}: {error}; correct config_pub in the config")
                continue
            self._endpoints.add(endpoint)

    def hear(self) -> Iterator[ConfigAck]:
        """What has come, at most `HEARD_MAX`; `has_more` says whether that was all."""
        receive: Any = self._socket.recv
        for _ in range(HEARD_MAX):
            try:
                frame = receive(NOBLOCK, copy=False)
                is_whole = not frame.more
                while frame.more:  # to the end of the message: its frames come together
                    frame = receive(NOBLOCK, copy=False)
            except zmq.Again:
                return
            message = _decode(frame.bytes) if is_whole else None
            if message is None:
                self.garbage += 1
            else:
                yield message

    @property
    def has_more(self) -> bool:
        return bool(int(self._socket.get(zmq.EVENTS)) & zmq.POLLIN)

    def close(self) -> None:
        self._socket.close()


def _decode(frame: bytes) -> ConfigAck | None:
    """An announcement, or nothing if it is none."""
    try:
        _, message = codec.decode((frame,))
    except ProtocolError:
        return None
    return message if isinstance(message, ConfigAck) and message.identity else None
