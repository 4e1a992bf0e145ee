"""The one socket of a client or worker: a DEALER, with what ZeroMQ hides turned into sentences.

A session has one connection at a time. `open` closes the one before it, so nothing of an old connection is ever read.
The socket is never blocked on here: `send` says whether the pipe took the message, `drain` takes what has come, and the
shell waits on `fileno` and `monitor_fileno` in its own way. Both are edge-triggered, as libzmq makes them: before
sleeping on them, ask `is_readable` after the last `send` or `drain`, for either of these may swallow the signal.

IMMEDIATE stays off: a CONNECT that is sent before the broker listens waits in the pipe and leaves when it does. What
should not wait there is told by the session, which hears of a broken link through `failures`.

Flags are plain ints, for enum flags would cost as much again as everything else in these loops. So would asking after
each frame whether more follow; a header frame that says that it holds the whole body is believed. If it lied, what
follows would be read as a message of its own, and the codec would refuse that.

Each message that finds ZeroMQ's own thread asleep wakes it, which costs more than the message. So messages that leave
together are encoded first and handed over in one go, by `send_all`; to a broker that takes bundles, in bundles.
"""

from __future__ import annotations

import ipaddress
import itertools
import os
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import zmq

from scale0.core.link_settings import KEY_REFUSED
from scale0.errors import ProtocolError, UsageError
from scale0.protocol import limits
from scale0.protocol.bundles import bundle, is_bundle, runs, unbundle
from scale0.protocol.messages import Command
from scale0.transport.key_files import KeyPair, make_pair, use

DRAIN_MAX: Final = 256  # messages taken at once, before the shell looks at its timers again
HWM_MESSAGES: Final = 20_000  # in either direction; a full pipe makes `send` say False
LINGER_MS: Final = 200  # so that a last DISCONNECT leaves
RECONNECT_MS: Final = 50
RECONNECT_MAX_MS: Final = 1_000  # less than a broker that starts waits for its workers
HANDSHAKE_MS: Final = 2_000
HEARTBEAT_MS: Final = 5_000  # ZMTP's own: finds a dead TCP link; set here, never on the broker's ROUTER
HEARTBEAT_TIMEOUT_MS: Final = 15_000

NOTHING_LISTENS: Final = "nothing listens on that port"
UNKNOWN_NAME: Final = "the name of that machine is not known here: is it written right?"
NEEDS_ENCRYPTION: Final = "the broker requires encryption; this side has none: give key and server_key"
WRONG_KEY: Final = "no handshake: the broker has no encryption, or another key than the one given as server_key"
NO_HANDSHAKE: Final = (
    "no handshake: what listens there is no broker, or one that requires encryption: then give key and server_key"
)
DISCONNECTED: Final = "disconnected"

_NOBLOCK: Final = int(zmq.NOBLOCK)
_MORE: Final = int(zmq.SNDMORE) | int(zmq.NOBLOCK)
_EVENTS: Final = int(zmq.EVENTS)
_POLLIN: Final = int(zmq.POLLIN)
_RCVMORE: Final = int(zmq.RCVMORE)

# Of TASK and TASKREPLY: the byte whose highest bit says that the body stands in the header frame.
_COMMAND_AT: Final = 6
_WHOLE_AT: Final = 9
_WHOLE: Final = 0x80
_MAY_BE_WHOLE: Final = frozenset((int(Command.TASK), int(Command.TASKREPLY)))

_CLOSED: Final = int(zmq.EVENT_CLOSED)
_RETRIED: Final = int(zmq.EVENT_CONNECT_RETRIED)
_LOST: Final = int(zmq.EVENT_DISCONNECTED)
_SHAKEN: Final = int(zmq.EVENT_HANDSHAKE_SUCCEEDED)
_NO_DETAIL: Final = int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
_BAD_PROTOCOL: Final = int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL)
_BAD_AUTH: Final = int(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
_WATCHED: Final = _CLOSED | _RETRIED | _LOST | _SHAKEN | _NO_DETAIL | _BAD_PROTOCOL | _BAD_AUTH
_EVENT: Final = struct.Struct("=H")


class Dealer:
    """A DEALER socket that can be opened again and again. Not thread-safe: one thread at a time owns it."""

    def __init__(self, pair: KeyPair | None = None, *, hwm: int = HWM_MESSAGES) -> None:
        self._pair = pair
        self._hwm = hwm
        self._socket: zmq.Socket[bytes] | None = None
        self._monitor: zmq.Socket[bytes] | None = None
        self._send: Callable[..., Any] = _not_open
        self._recv: Callable[..., Any] = _not_open
        self._get: Callable[..., Any] = _not_open
        self._last_event = 0
        self._is_encrypted = False
        self.endpoint = ""
        self.takes_bundles = False  # the broker has said on this connection that it does

    def open(self, endpoint: str, public_key: str = "") -> None:
        """Connect to `endpoint`, encrypted if the broker's `public_key` is given. Closes what was open."""
        self.close()
        socket = _shared_context().socket(zmq.DEALER)
        try:
            _set_options(socket, self._hwm)
            if public_key:
                self._pair = self._pair or make_pair()  # of this process alone, if it was given none
                use(socket, public_key, self._pair)
            self._monitor = socket.get_monitor_socket(_WATCHED, f"inproc://scale0.monitor.{next(_numbers)}")
            # Ask once while nothing can have come: only a reader that has found its pipe empty is signalled.
            self._monitor.getsockopt(_EVENTS)
            socket.connect(endpoint)
        except zmq.ZMQError as error:
            _close(socket, self._monitor, 0)
            self._monitor = None
            what = "with that key of the broker" if public_key else "to connect to"
            raise UsageError(f"{endpoint!r} is not an address {what}: {error}") from None
        self._socket = socket
        # The methods of the compiled base class: pyzmq's own wrapper around `send` costs as much as a short send.
        compiled: Any = super(zmq.Socket, socket)
        self._send, self._recv, self._get = compiled.send, compiled.recv, compiled.get
        self.endpoint = endpoint
        self.takes_bundles = False
        self._last_event = 0
        self._is_encrypted = bool(public_key)

    def close(self, linger_ms: int = LINGER_MS) -> None:
        """Close the socket; what was sent has `linger_ms` to leave, in ZeroMQ's own thread. May be called again."""
        if self._socket is not None:
            _close(self._socket, self._monitor, linger_ms)
        self._socket = self._monitor = None
        self._send = self._recv = self._get = _not_open

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    @property
    def socket(self) -> zmq.Socket[bytes]:
        """The socket itself, for polling."""
        assert self._socket is not None, "open comes first"
        return self._socket

    @property
    def fileno(self) -> int:
        """Turns readable when `is_readable` may have changed."""
        return int(self.socket.getsockopt(zmq.FD))

    @property
    def monitor_fileno(self) -> int:
        """Turns readable when `failures` has something to say."""
        assert self._monitor is not None, "open comes first"
        return int(self._monitor.getsockopt(zmq.FD))

    @property
    def is_readable(self) -> bool:
        return self._get(_EVENTS) & _POLLIN != 0  # type: ignore[no-any-return]

    def send(self, frames: Sequence[bytes]) -> bool:
        """Hand one message to ZeroMQ. False: the pipe is full, and nothing of it was taken."""
        return self.send_all((frames,)) == 1

    def send_all(self, messages: Sequence[Sequence[bytes]]) -> int:
        """Hand messages to ZeroMQ, one after another. Returns how many the pipe took before it was full."""
        if self.takes_bundles and len(messages) > 1:
            return self._send_bundles(messages)
        send = self._send
        taken = 0
        try:
            # Only the first frame can meet a full pipe: the limit counts whole messages.
            for frames in messages:
                if len(frames) == 1:
                    send(frames[0], _NOBLOCK)
                else:
                    for frame in frames[:-1]:
                        send(frame, _MORE)
                    send(frames[-1], _NOBLOCK)
                taken += 1
        except zmq.Again:
            pass
        return taken

    def _send_bundles(self, messages: Sequence[Sequence[bytes]]) -> int:
        """`send_all` to a broker that takes bundles."""
        taken = 0
        for run in runs(messages):
            if not self.send((bundle([frames[0] for frames in run]),) if len(run) > 1 else run[0]):
                break
            taken += len(run)
        return taken

    def drain(self, limit: int = DRAIN_MAX) -> list[list[bytes]]:
        """The messages that have come, up to the one that makes `limit`: fewer means that no more were there."""
        messages: list[list[bytes]] = []
        append = messages.append
        recv = self._recv
        try:
            while len(messages) < limit:
                header = recv(_NOBLOCK)
                if is_bundle(header):  # whoever says CONNECT asks for them: one may hold the answer already
                    messages += _opened(header)
                    continue
                frames = [header]
                append(frames)
                if len(header) > _WHOLE_AT and header[_WHOLE_AT] & _WHOLE and header[_COMMAND_AT] in _MAY_BE_WHOLE:
                    continue
                self._drain_rest(frames)
        except zmq.Again:
            pass
        return messages

    def _drain_rest(self, frames: list[bytes]) -> None:
        """The frames after the first one; a message comes whole, so they are there."""
        recv = self._recv
        has_more = self._get(_RCVMORE)
        while has_more:
            frame = recv(_NOBLOCK, False)  # a `Frame` knows whether more follow; asking the socket costs more
            # One frame over the limit is enough for the codec to refuse it; the rest is read and dropped.
            if len(frames) <= limits.FRAMES_MAX:
                frames.append(frame.bytes)
            has_more = frame.more

    def failures(self) -> list[str]:
        """What went wrong with the connection since the last call, in order, as sentences for people."""
        sentences: list[str] = []
        monitor = self._monitor
        while monitor is not None:
            try:
                event, *_ = _EVENT.unpack_from(monitor.recv(_NOBLOCK))
                monitor.recv(_NOBLOCK)  # the endpoint
            except zmq.Again:
                break
            sentence = self._sentence(event)
            if sentence:
                sentences.append(sentence)
        return sentences

    def _sentence(self, event: int) -> str:
        before, self._last_event = self._last_event, event
        if event == _CLOSED:
            return NOTHING_LISTENS
        if event == _RETRIED:  # it comes after whatever else went wrong; alone, there was no address to try
            return UNKNOWN_NAME if before in (0, _RETRIED) and _has_name(self.endpoint) else ""
        if event == _BAD_AUTH:
            key = self._pair.public if self._pair is not None else "KEY"
            return f"{KEY_REFUSED}; on the broker: scale0 keys allow '{key}'"
        if event in (_BAD_PROTOCOL, _NO_DETAIL) and self._is_encrypted:
            return WRONG_KEY
        if event == _BAD_PROTOCOL:
            return NEEDS_ENCRYPTION
        if event == _NO_DETAIL:  # also if the other side noticed first, and closed
            return NO_HANDSHAKE
        # A failed handshake ends in a disconnection too, and has been told already.
        return DISCONNECTED if event == _LOST and before == _SHAKEN else ""


def _has_name(endpoint: str) -> bool:
    """Whether a resolver is asked for the machine; other reasons to have no socket are not the name's."""
    host = endpoint.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return True
    return False


def _opened(frame: bytes) -> list[list[bytes]]:
    """The messages in a bundle; of what is none, the frame, which the codec refuses."""
    try:
        return [[message] for message in unbundle(frame)]
    except ProtocolError:
        return [[frame]]


def _not_open(*_: Any) -> Any:
    raise AssertionError("open comes first")


def _set_options(socket: zmq.Socket[bytes], hwm: int) -> None:
    socket.linger = 0  # `close` sets its own; a forgotten socket must not keep the process
    socket.sndhwm = socket.rcvhwm = hwm
    socket.maxmsgsize = limits.FRAME_BYTES_MAX
    socket.reconnect_ivl = RECONNECT_MS
    socket.reconnect_ivl_max = RECONNECT_MAX_MS
    socket.handshake_ivl = HANDSHAKE_MS
    socket.heartbeat_ivl = HEARTBEAT_MS
    socket.heartbeat_timeout = HEARTBEAT_TIMEOUT_MS


def _close(socket: zmq.Socket[bytes], monitor: zmq.Socket[bytes] | None, linger_ms: int) -> None:
    if monitor is not None:
        socket.disable_monitor()
        monitor.close(0)
    socket.close(linger_ms)


_numbers = itertools.count()  # of monitors: an address is free again only when its socket has lingered to its end
_context: zmq.Context[zmq.Socket[bytes]] | None = None
_context_lock = threading.Lock()


def _shared_context() -> zmq.Context[zmq.Socket[bytes]]:
    """One context, so one I/O thread, for all participants of this process.

    It is private: nobody else can terminate it, and at exit it is left to the system, for terminating could wait.
    """
    global _context
    with _context_lock:
        if _context is None:
            _context = zmq.Context()
        return _context


def _forget_context() -> None:
    """In a forked child: its parent's context has no I/O thread there, and the lock may be held by nobody."""
    global _context, _context_lock
    _context, _context_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_context)
