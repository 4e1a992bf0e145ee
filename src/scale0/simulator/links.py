"""The links that a broker's machine dials to other brokers, and the publishers that it listens to.

A dialed link is a socket like a participant's, with a broker behind it: it queues while it has no connection, connects
again by itself, and its monitor says only sometimes that a connection broke. As over ZeroMQ a route is dialed once, and
an address is hung up before it is dialed again: so a pair of brokers never has two links that one of them dialed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from scale0.core.effects import DIALED, Dial, HangUp, Route, Send
from scale0.protocol import codec
from scale0.simulator.network import Socket
from scale0.simulator.process import Process

if TYPE_CHECKING:
    from scale0.simulator.host import BrokerHost


class DialedLink(Process):
    """One end of a link, as the network sees it: what comes for it comes to its broker's machine."""

    def __init__(self, host: BrokerHost, route: Route, endpoint: str) -> None:
        super().__init__(host.world, host.name, host.name)
        self.label = self.is_at = host.name
        self.host = host
        self.route = route
        self.endpoint = endpoint
        self.socket: Socket = host.world.network.open(self, endpoint)

    def post(self, action: Callable[..., None], *arguments: Any) -> None:
        if self.is_alive:
            self.host.post(action, *arguments)

    def deliver(self, socket: Socket, frames: list[bytes]) -> None:
        if self.is_alive:
            self.host.arrive_dialed(self, frames)

    def link_failed(self, socket: Socket, reason: str) -> None:
        # As at the real monitor: a break is told, and that nobody listens there; not that nobody answers.
        if self.is_alive and reason == "disconnected":
            self.host.link_broke(self)
        elif self.is_alive and reason == "connection refused" and not self.leads_to_life:
            self.host.link_refused(self)

    def hang_up(self, lingers: bool = False) -> None:
        self.is_alive = False
        self.socket.close(lingers)

    @property
    def leads_to_life(self) -> bool:
        host = self.world.network.hosts.get(self.endpoint)
        return host is not None and host.is_running

    @property
    def leads_to(self) -> str:
        """The name of the broker at its other end; empty if nobody listens there."""
        host = self.world.network.hosts.get(self.endpoint)
        return host.name if host is not None else ""


class DialedLinks:
    """All links that one machine has dialed."""

    def __init__(self, host: BrokerHost) -> None:
        self.host = host
        self.by_route: dict[Route, DialedLink] = {}

    def dial(self, effect: Dial) -> None:
        world, name = self.host.world, self.host.name
        if effect.route in self.by_route:
            world.violation("one link", f"{name} dials route {effect.route!r} twice")
        if any(link.endpoint == effect.endpoint for link in self.by_route.values()):
            world.violation("one link", f"{name} dials {effect.endpoint} while it has a link there")
        world.count("link", "dialed")
        self.by_route[effect.route] = DialedLink(self.host, effect.route, effect.endpoint)

    def hang_up(self, effect: HangUp) -> None:
        link = self.by_route.pop(effect.route, None)
        if link is None:
            self.host.world.violation("one link", f"{self.host.name} hangs up {effect.route!r}, which is not dialed")
        link.hang_up(lingers=True)  # as zmq_disconnect: what was sent over a connection still leaves

    def send(self, send: Send) -> str:
        """Why it could not be sent, or nothing."""
        link = self.by_route.get(send.route)
        if link is None:
            return "unroutable"
        return "" if link.socket.send(codec.encode(send.dialect, send.message)) else "full"

    def close(self, lingers: bool) -> None:
        for link in self.by_route.values():
            link.hang_up(lingers)
        self.by_route.clear()


def is_dialed(route: bytes) -> bool:
    return route[0] == DIALED
