"""Whose handshake succeeds: the answers to ZAP (ZeroMQ RFC 27), from a thread of its own.

ZeroMQ asks for each connection, from its I/O thread, over a fixed address inside the context; the answer names the key
as the connection's User-Id, which every message from there then carries. CURVE alone admits any key at all, and so it
would without somebody at this address: sockets are told to insist on it (ZAP_ENFORCE_DOMAIN), this thread is there
before they are bound, and a broker tries at its start whether an unknown key is refused (`security.probe`).

Only keys that are in `admitted` pass. The loop's thread replaces that set as a whole; nothing is shared but the name.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

import zmq
from zmq.utils import z85

from scale0.transport.key_files import HANDSHAKE_MS

ADDRESS: Final = "inproc://zeromq.zap.01"
DOMAIN: Final = b"scale0"
FIRST_S: Final = 1.5  # how long the first connections wait until somebody has said who is admitted
_KEY_BYTES: Final = 32
_FRAMES_MIN: Final = 7  # version, request, domain, address, identity, mechanism, credentials

OnRefused = Callable[[str, str], None]


class Doorkeeper:
    """Answers for one context. `on_refused` gets key and address of who was refused, in this thread."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], on_refused: OnRefused = lambda key, address: None
    ) -> None:
        self.refused = 0
        self._admitted: frozenset[str] = frozenset()
        self._has_begun = threading.Event()
        self._on_refused = on_refused
        # A socket of a shadow: the owner of the context may destroy it, which must not close a socket of this thread.
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.shadow(context.underlying)
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.set(zmq.LINGER, 0)
        self._socket.bind(ADDRESS)
        self._thread = threading.Thread(target=self._run, name="scale0-zap", daemon=True)
        self._thread.start()

    def admit(self, keys: frozenset[str]) -> None:
        """From now on these and no other; from any thread."""
        self._admitted = keys
        self._has_begun.set()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        """Until the context ends."""
        try:
            while True:
                frames = self._socket.recv_multipart()
                envelope, request = _split(frames)
                answer = self._answer(request)
                self._socket.send_multipart([*envelope, *answer])
        except zmq.ZMQError:
            pass  # the context has ended
        finally:
            self._socket.close(linger=0)

    def _answer(self, request: list[bytes]) -> list[bytes]:
        number = request[1] if len(request) > 1 else b""
        try:
            key = self._key(request)
        except ValueError:
            return _reply(number, b"400", b"not understood")
        if not self._has_begun.is_set():
            self._has_begun.wait(FIRST_S)
        if key in self._admitted:
            return _reply(number, b"200", b"OK", key.encode())
        self.refused += 1
        self._on_refused(key, request[3].decode(errors="replace"))
        return _reply(number, b"400", b"this key is not allowed")

    @staticmethod
    def _key(request: list[bytes]) -> str:
        """The key of a request that is ours to answer: CURVE, in our domain. Raises `ValueError` for any other."""
        if len(request) < _FRAMES_MIN or request[0] != b"1.0" or request[5] != b"CURVE" or request[2] != DOMAIN:
            raise ValueError("not a request of ours")
        if len(request[6]) != _KEY_BYTES:
            raise ValueError("not a key")
        key: bytes = z85.encode(request[6])
        return key.decode()


def _split(frames: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """The way back, to its empty frame, and the request."""
    end = frames.index(b"") + 1 if b"" in frames else len(frames)
    return frames[:end], frames[end:]


def _reply(number: bytes, code: bytes, text: bytes, user: bytes = b"") -> list[bytes]:
    return [b"1.0", number, code, text, user, b""]


def require(socket: zmq.Socket[bytes], secret: str) -> None:
    """Whoever connects to this socket must have a key that is admitted. Before it is bound."""
    options: Any = {
        zmq.CURVE_SERVER: 1,
        zmq.CURVE_SECRETKEY: secret.encode(),
        zmq.ZAP_DOMAIN: DOMAIN,
        zmq.ZAP_ENFORCE_DOMAIN: 1,
        zmq.HANDSHAKE_IVL: HANDSHAKE_MS,
    }
    for option, value in options.items():
        socket.set(option, value)
