"""What happens to the broker's connections: accepted, lost, refused at the handshake.

ZeroMQ hides connections; its socket monitor reveals them. The loop asks once a second, off the hot path. The monitor's
pipe has no limit of its own, because ZeroMQ's I/O thread would wait for room in it, and every connection with it; a
flood is bounded by what arrives within a second. Lines in the log are limited, counters are not.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import structlog
import zmq

from scale0.transport.sockets import NOBLOCK, Port

LINES_MAX: Final = 5  # log lines of one kind and one call; the rest is a number

_EVENT: Final = struct.Struct("=HI")  # event, value
_ACCEPTED: Final = int(zmq.EVENT_ACCEPTED)
_DISCONNECTED: Final = int(zmq.EVENT_DISCONNECTED)
_ACCEPT_FAILED: Final = int(zmq.EVENT_ACCEPT_FAILED)
_SHAKEN: Final = int(zmq.EVENT_HANDSHAKE_SUCCEEDED)
_NO_DETAIL: Final = int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
_BAD_PROTOCOL: Final = int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL)
_BAD_AUTH: Final = int(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
_WATCHED: Final = _ACCEPTED | _DISCONNECTED | _ACCEPT_FAILED | _SHAKEN | _NO_DETAIL | _BAD_PROTOCOL | _BAD_AUTH

_FAILURES: Final = {
    _ACCEPT_FAILED: "a connection could not be accepted: is the limit of open files reached? (ulimit -n)",
    _NO_DETAIL: "a connection was closed before its handshake ended: it does not speak ZeroMQ",
    _BAD_PROTOCOL: "a connection's handshake was not understood: one side has encryption and the other none?",
    _BAD_AUTH: "a connection's key was refused",
}


class ConnectionCounters(msgspec.Struct):
    """Connections since the broker began.

    Not every failure is told as one: what looks like a peer of ZeroMQ's oldest protocol, an HTTP request for one, is
    only disconnected. So the handshakes that succeeded are counted, too.
    """

    accepted: int = 0
    handshakes: int = 0
    disconnected: int = 0
    failed_handshakes: int = 0
    failed_accepts: int = 0

    @property
    def open(self) -> int:
        """TCP connections now, with those whose handshake has not ended."""
        return self.accepted - self.disconnected


class Events:
    """What ZeroMQ tells of one socket's connections, from now on."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], socket: zmq.Socket[bytes], watched: int) -> None:
        self._watched = socket
        address = f"inproc://scale0.monitor.{id(self):x}"
        socket.monitor(address, watched)
        self._pipe = context.socket(zmq.PAIR)
        self._pipe.set(zmq.RCVHWM, 0)
        self._pipe.connect(address)
        # Ask once while nothing can have come: only a reader that has found its pipe empty is signalled.
        self._pipe.get(zmq.EVENTS)

    @property
    def file(self) -> int:
        """Turns readable when `read` has something to say that it had not before."""
        return int(self._pipe.get(zmq.FD))

    def read(self) -> Iterator[tuple[int, str]]:
        """Events and their endpoints, in order, until there are no more."""
        receive: Any = self._pipe.recv
        while True:
            try:
                event, _ = _EVENT.unpack(receive(NOBLOCK))
                where = receive(NOBLOCK).decode(errors="replace")
            except zmq.Again:
                return
            yield event, where

    def close(self) -> None:
        if not self._watched.closed:
            self._watched.disable_monitor()
        self._pipe.close(linger=0)


class Monitor:
    """Watches one port."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], port: Port, log: structlog.typing.FilteringBoundLogger
    ) -> None:
        self.counters = ConnectionCounters()
        self._port = port
        self._log = log
        self._events = Events(context, port.socket, _WATCHED)

    def drain(self) -> None:
        """Count what has happened since the last call, and log what an operator may want to know."""
        failures: dict[int, int] = {}
        for event, where in self._events.read():
            self._count(event)
            if event in _FAILURES:
                failures[event] = failures.get(event, 0) + 1
                if failures[event] <= LINES_MAX:
                    self._log.warning(_FAILURES[event], endpoint=where)
            else:
                self._log.debug("connection", what=zmq.Event(event).name, endpoint=where)
        for event, times in failures.items():
            if times > LINES_MAX:
                self._log.warning(_FAILURES[event], endpoint=self._port.endpoint, more=times - LINES_MAX)

    def close(self) -> None:
        self._events.close()

    def _count(self, event: int) -> None:
        counters = self.counters
        if event == _ACCEPTED:
            counters.accepted += 1
        elif event == _SHAKEN:
            counters.handshakes += 1
        elif event == _DISCONNECTED:
            counters.disconnected += 1
        elif event == _ACCEPT_FAILED:
            counters.failed_accepts += 1
        else:
            counters.failed_handshakes += 1
