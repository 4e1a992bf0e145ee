"""Which config is current, told by every broker to whoever listens: a PUB and a SUB socket of the broker's own.

Rule 23: everything listens to more than one source. What is published is one frame, CONFIGACK in the peers' dialect
with the sender's identity: a version, never a document, so it is no secret. It is repeated each interval, so nothing is
lost for long, and a queue of a few is enough. What is heard is a hint: anybody may say anything there, and the core
fetches what is newer from a peer that it is linked with. What is no such message is counted and dropped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import zmq
from structlog.typing import FilteringBoundLogger

from scale0.errors import ProtocolError
from scale0.protocol import codec, limits
from scale0.protocol.dialects import PEER
from scale0.protocol.messages import Command, ConfigAck
from scale0.transport import zap
from scale0.transport.key_files import KeyPair, make_pair, use
from scale0.transport.monitor import Events
from scale0.transport.sockets import HANDSHAKE_IVL_MS, NOBLOCK, bind_to, set_dialing

PREFIX: Final = PEER.header + bytes((Command.CONFIGACK,))
"""What each announcement begins with, and what is subscribed to."""

UNHEARD_MAX: Final = 16  # announcements that wait for one listener, or of one publisher; then the next is dropped
HEARD_MAX: Final = 100  # announcements taken at once, before messages and timers have their turn

_FAILED: Final = (
    int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
    | int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL)
    | int(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
)

Context = zmq.Context[zmq.Socket[bytes]]


class Publisher:
    """A bound PUB socket. `endpoint` names the real port."""

    def __init__(self, context: Context, bind: str, pair: KeyPair | None = None) -> None:
        self._socket = context.socket(zmq.PUB)
        if pair is not None:
            zap.require(self._socket, pair.secret)
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
    """A SUB socket that is connected to the publishers it is told of.

    A handshake that fails ends a connection for good, as ZeroMQ has it: the publisher may not know our key yet, or may
    have another one than the first that we know. So `try_again` connects anew, by its next key.
    """

    def __init__(self, context: Context, log: FilteringBoundLogger, pair: KeyPair | None = None) -> None:
        self.garbage = 0  # what came and was no announcement
        self._log = log
        self._pair = pair
        self._endpoints: dict[str, list[str]] = {}  # with the keys that each may have, the next to try first
        self._socket = context.socket(zmq.SUB)
        self._events = Events(context, self._socket, _FAILED)
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

    def listen(self, endpoints: list[str], public_keys: Mapping[str, list[str]] | None = None) -> None:
        """To these publishers from now on, and to no other."""
        keys = {endpoint: list((public_keys or {}).get(endpoint, ())) for endpoint in endpoints}
        for endpoint, known in list(self._endpoints.items()):
            if sorted(known) != sorted(keys.get(endpoint, ["gone"])):
                del self._endpoints[endpoint]
                self._socket.disconnect(endpoint)
        for endpoint in endpoints:
            if endpoint not in self._endpoints:
                self._connect(endpoint, keys[endpoint])

    def try_again(self) -> None:
        """Connect anew where a handshake has failed; to be called from time to time."""
        for _event, endpoint in list(self._events.read()):
            keys = self._endpoints.get(endpoint)
            if keys is not None:
                with contextlib.suppress(zmq.ZMQError):  # ZeroMQ has let go of it by itself
                    self._socket.disconnect(endpoint)
                self._connect(endpoint, [*keys[1:], *keys[:1]])

    def _connect(self, endpoint: str, keys: list[str]) -> None:
        try:
            self._socket.set(zmq.IPV6, int("[" in endpoint))
            if keys:
                use(self._socket, keys[0], self._pair or make_pair())
            else:
                self._socket.set(zmq.PLAIN_SERVER, 0)  # as it was before any key
            self._socket.connect(endpoint)
        except (zmq.ZMQError, ValueError) as error:
            self._log.error(f"cannot listen to {endpoint!r}: {error}; correct config_pub or public_key in the config")
            self._endpoints.pop(endpoint, None)
            return
        self._endpoints[endpoint] = keys

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
        self._events.close()
        self._socket.close()


def _decode(frame: bytes) -> ConfigAck | None:
    """An announcement, or nothing if it is none."""
    try:
        _, message = codec.decode((frame,))
    except ProtocolError:
        return None
    return message if isinstance(message, ConfigAck) and message.identity else None
