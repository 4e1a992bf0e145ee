"""The links that this broker dials to others: one ROUTER for all of them, made by the first `Dial`.

The core names a link by a route, and the link's connection gets the route's routing id (CONNECT_ROUTING_ID). So what
goes and comes through it passes the loop as everything else does, and costs no more. ZeroMQ connects again by itself,
and keeps what waits meanwhile; that a link broke is told by the socket's monitor, and is an input of the core, which
may hang up and dial anew.

A link is hung up only when nothing is left to be read from the socket. To tell whether something has come ZeroMQ reads
the first frame of the next message; if the message has more, and its connection is closed before they are read, the
library ends the process (its issue 3485). So what has come is read to its end first, and handed on after.

The monitor names links by their addresses. After a link has broken once, ZeroMQ uses the number that a host's name
stood for; then only the core's own heartbeats show that it broke again, unless the core has dialed anew.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import zmq
from structlog.typing import FilteringBoundLogger

from scale0.core.effects import DIALED, Dial, Effect, HangUp, Route
from scale0.transport.addresses import is_refused
from scale0.transport.clock import SYSTEM_CLOCK, Clock
from scale0.transport.key_files import KeyPair, make_pair, use
from scale0.transport.monitor import Events
from scale0.transport.sockets import LINGER_MS, Port, open_dialer

REMIND_S: Final = 30.0  # that nobody answers at an address is logged so often
REMINDERS_MAX: Final = 256  # addresses whose last log line is remembered; then all are forgotten

_UP: Final = int(zmq.EVENT_HANDSHAKE_SUCCEEDED)
_RETRIED: Final = int(zmq.EVENT_CONNECT_RETRIED)
_BREAKS: Final = {
    int(zmq.EVENT_DISCONNECTED): "a link broke",
    int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL): "no handshake: what listens there is no broker, or encrypts",
    int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL): "no handshake: one side has encryption and the other none",
    int(
        zmq.EVENT_HANDSHAKE_FAILED_AUTH
    ): "no handshake: our key was refused; over there: scale0 keys allow KEY --kind peer",
}
_WATCHED: Final = _UP | _RETRIED | sum(_BREAKS)


class Watching(Protocol):
    """What the dialer needs of `Loop`."""

    def add_port(self, port: Port) -> None: ...
    def watch(self, file: int, act: Callable[[], list[Effect]]) -> None: ...
    def call(self, action: Callable[[], list[Effect]]) -> None: ...
    def take(self, route: Route, frames: Sequence[bytes]) -> list[Effect]: ...


class Dialer:
    """Carries out `Dial` and `HangUp`.

    `on_broken` gets the route of each link that broke; the link is still there. `on_refused` gets that of each link to
    a port where nobody listens.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        loop: Watching,
        *,
        on_broken: Callable[[Route, float], list[Effect]],
        on_refused: Callable[[Route, float], list[Effect]] = lambda route, now: [],
        log: FilteringBoundLogger,
        clock: Clock = SYSTEM_CLOCK,
        pair: KeyPair | None = None,
    ) -> None:
        self._context = context
        self._loop = loop
        self._pair = pair
        self._on_broken, self._on_refused = on_broken, on_refused
        self._log = log
        self._monotonic = clock.monotonic
        self._port: Port | None = None
        self._events: Events | None = None
        self._links: dict[Route, str] = {}  # at most one an address; their number is the core's to limit
        self._up: set[str] = set()  # the addresses of links whose handshake has succeeded
        self._refused: set[Route] = set()  # links that nobody has answered, and which were looked at
        self._reminded_s: dict[str, float] = {}
        self._greeted: set[str] = set()

    def dial(self, effect: Dial) -> None:
        """Connect; from now on the route leads there."""
        # ZeroMQ ends the process over a routing id that is in use, and closes all connections of an address together.
        assert effect.route not in self._links, "a route is dialed once"
        assert effect.endpoint not in self._links.values(), "an address is hung up before it is dialed again"
        socket = (self._port or self._open()).socket
        try:
            _set_address(socket, effect, self._pair)
            socket.connect(effect.endpoint)
        except (zmq.ZMQError, ValueError) as error:
            self._log.error(f"cannot connect to {effect.endpoint!r}: {error}; correct address or key in the config")
            # Not at once: the core is at work, and a call has its turn when it has finished.
            self._loop.call(lambda: self._on_broken(effect.route, self._monotonic()))
            return
        self._links[effect.route] = effect.endpoint

    def hang_up(self, effect: HangUp) -> None:
        """Close the link, with what waits in it. One that could not be dialed has nothing to close."""
        endpoint = self._links.pop(effect.route, None)
        if endpoint is not None:
            assert self._port is not None, "a link has a socket"
            self._read_on(self._port)
            self._port.socket.disconnect(endpoint)
            self._up.discard(endpoint)
            self._refused.discard(effect.route)

    def close(self, linger_ms: int = LINGER_MS) -> None:
        """Close all links; the last messages have a moment to leave, where somebody answers."""
        port, self._port = self._port, None
        if port is None or self._events is None:
            return
        for endpoint in set(self._links.values()) - self._up:
            port.socket.disconnect(endpoint)
        self._events.close()
        port.close(linger_ms)

    def _read_on(self, port: Port) -> None:
        """Take everything that has come, each message to its last frame; the loop gets it when its turn comes."""
        found: list[tuple[Route, list[bytes]]] = []
        with contextlib.suppress(zmq.Again):
            while True:
                route = Route(port.mark + port.socket.recv(zmq.NOBLOCK))
                frames = []
                while port.socket.get(zmq.RCVMORE):
                    frames.append(port.socket.recv(zmq.NOBLOCK))
                found.append((route, frames))
        if found:
            self._loop.call(lambda: [effect for route, frames in found for effect in self._loop.take(route, frames)])

    def _open(self) -> Port:
        self._port = open_dialer(self._context, DIALED, is_encrypted=self._pair is not None)
        self._events = Events(self._context, self._port.socket, _WATCHED)
        self._loop.add_port(self._port)
        self._loop.watch(self._events.file, self._look)
        return self._port

    def _look(self) -> list[Effect]:
        """What has happened to the links."""
        assert self._events is not None, "it is watched"
        routes = {endpoint: route for route, endpoint in self._links.items()}
        broken: dict[Route, None] = {}  # a failed handshake is disconnected, too, and told once
        refused: dict[Route, None] = {}
        for event, where in self._events.read():
            self._log.debug("link", what=zmq.Event(event).name, endpoint=where)
            route = routes.get(where)
            if route is None:
                continue  # it was hung up, or goes by another name
            if event == _UP:
                self._up.add(where)
                self._greet(where)
            elif event == _RETRIED:
                self._remind("nobody answers there yet; trying again and again", where)
                if route not in self._refused and is_refused(where):
                    refused[route] = None
                self._refused.add(route)  # each dial is looked at once: knocking is noticed there
            else:
                self._up.discard(where)
                self._remind(_BREAKS[event], where)
                broken[route] = None
        now = self._monotonic()
        effects = [effect for route in refused for effect in self._on_refused(route, now)]
        return effects + [effect for route in broken for effect in self._on_broken(route, now)]

    def _greet(self, endpoint: str) -> None:
        """Told once, and again after trouble: who refuses a link is dialed again and again, and answers each time."""
        was_in_trouble = self._reminded_s.pop(endpoint, None) is not None
        if was_in_trouble or endpoint not in self._greeted:
            if len(self._greeted) >= REMINDERS_MAX:
                self._greeted.clear()
            self._greeted.add(endpoint)
            self._log.info("connected to a broker", endpoint=endpoint)

    def _remind(self, what: str, endpoint: str) -> None:
        now = self._monotonic()
        if now - self._reminded_s.get(endpoint, -REMIND_S) >= REMIND_S:
            if len(self._reminded_s) >= REMINDERS_MAX:
                self._reminded_s.clear()
            self._reminded_s[endpoint] = now
            self._log.warning(what, endpoint=endpoint)


def _set_address(socket: zmq.Socket[bytes], dial: Dial, pair: KeyPair | None) -> None:
    """What holds for the next connection alone: ZeroMQ copies its options when it connects."""
    socket.set(zmq.CONNECT_ROUTING_ID, dial.route[1:])
    socket.set(zmq.IPV6, int("[" in dial.endpoint))
    if not dial.public_key:
        socket.set(zmq.PLAIN_SERVER, 0)  # as it was before any key
        return
    use(socket, dial.public_key, pair or make_pair())
