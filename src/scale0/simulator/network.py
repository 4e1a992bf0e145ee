"""Connections as TCP and ZeroMQ make them: in order, delayed, bounded, and lost as a whole.

A *socket* belongs to a process; it queues while it has no connection and reconnects by itself. A *connection* has one
route, and a new one has a new route. What was under way when a connection breaks is lost. A broker learns of a broken
connection at once or a little later; in between its messages vanish. A pipe holds so many messages, then it is full.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from scale0.core.effects import Route
from scale0.simulator.cuts import Cuts

if TYPE_CHECKING:
    from scale0.simulator.host import BrokerHost
    from scale0.simulator.process import Process
    from scale0.simulator.world import World


class NetworkProfile(msgspec.Struct, frozen=True):
    """How slow and how narrow the network is."""

    latency_s: float = 0.001
    jitter_s: float = 0.002
    spike_s: float = 0.3  # now and then a message takes up to that long, and all behind it with it
    spike_share: float = 0.01
    pipe_messages: int = 1000
    reports_share: float = 0.8  # how often a socket's monitor says that its connection broke
    unheard_share: float = 0.0  # of announcements: PUB never waits


class Connection:
    """One TCP connection between a process's socket and a broker."""

    __slots__ = (
        "down_pipe",
        "held",
        "host",
        "is_black",
        "is_dead",
        "last_down_s",
        "last_up_s",
        "peer",
        "process",
        "route",
        "socket",
    )

    def __init__(self, route: Route, socket: Socket, host: BrokerHost) -> None:
        self.route = route
        self.socket = socket
        self.process = socket.process
        self.peer = socket.process.is_at  # the broker that dialed it; empty if a participant did
        self.host = host
        self.is_dead = False
        self.is_black = False  # half open: both ends believe in it, and nothing passes
        self.last_up_s = 0.0
        self.last_down_s = 0.0
        self.down_pipe = 0
        self.held: deque[tuple[bool, list[bytes]]] = deque()  # up or down, and what: its ends are cut off

    def ends(self, is_up: bool) -> tuple[str, str]:
        """Who sends and who receives in this direction."""
        return (self.process.name, self.host.name) if is_up else (self.host.name, self.process.name)


class Socket:
    """A process's DEALER or REQ socket."""

    __slots__ = ("connection", "endpoint", "is_closed", "network", "outbox", "process")

    def __init__(self, network: Network, process: Process, endpoint: str) -> None:
        self.network = network
        self.process = process
        self.endpoint = endpoint
        self.connection: Connection | None = None
        self.outbox: deque[list[bytes]] = deque()
        self.is_closed = False

    def send(self, frames: list[bytes]) -> bool:
        """False when the pipe is full."""
        if self.connection is not None:
            self.network.send_up(self.connection, frames)
            return True
        if len(self.outbox) >= self.network.profile.pipe_messages:
            return False
        self.outbox.append(frames)
        return True

    def close(self, lingers: bool = False) -> None:
        """With `lingers` what was sent still leaves, as when a process closes its socket in order."""
        self.is_closed = True
        self.outbox.clear()
        if self.connection is None:
            return
        if lingers:
            self.network.end_after_last(self.connection)
        else:
            self.network.end(self.connection)


class Network:
    """All sockets and connections of a world."""

    def __init__(self, world: World, profile: NetworkProfile) -> None:
        self.world = world
        self.schedule = world.schedule
        self.profile = profile
        self.hosts: dict[str, BrokerHost] = {}
        self.cut_until_s: dict[str, float] = {}  # a process that nobody can reach, by name
        self.cuts = Cuts(self)
        self._random = world.random_for("network")
        self._draw = self._random.random  # bound once: each message needs it
        self._routes = 0
        self._up, self._down = self.arrive_up, self.arrive_down  # as are these

    def open(self, process: Process, endpoint: str) -> Socket:
        socket = Socket(self, process, endpoint)
        self.schedule.after(self._latency_s(), self._attempt, socket)
        return socket

    def connections(self) -> list[Connection]:
        """All that are up, in the order of their hosts and routes."""
        routes = [connection for host in self.hosts.values() for connection in host.routes.values()]
        return [connection for connection in routes if not connection.is_dead]

    def send_up(self, connection: Connection, frames: list[bytes]) -> None:
        at_s = self.schedule.now + self._latency_s()
        if at_s < connection.last_up_s:
            at_s = connection.last_up_s  # nothing overtakes what was sent before
        connection.last_up_s = at_s
        self.schedule.at(at_s, self._up, connection, frames)

    def send_down(self, connection: Connection, frames: list[bytes]) -> None:
        connection.down_pipe += 1
        at_s = self.schedule.now + self._latency_s()
        if at_s < connection.last_down_s:
            at_s = connection.last_down_s
        connection.last_down_s = at_s
        self.schedule.at(at_s, self._down, connection, frames)

    def break_(self, connection: Connection) -> None:
        """The connection breaks under both; the socket reconnects by itself."""
        if connection.is_dead:
            return
        self.end(connection)
        socket = connection.socket
        if not socket.is_closed:
            if self._random.random() < self.profile.reports_share:
                socket.process.post(socket.process.link_failed, socket, "disconnected")
            self.schedule.after(self._retry_s(), self._attempt, socket)

    def blacken(self, connection: Connection, seconds: float) -> None:
        """Half open for a while: nothing passes, then it breaks."""
        connection.is_black = True
        self.schedule.after(seconds, self.break_, connection)

    def end(self, connection: Connection) -> None:
        """Dead from now on. The broker's ROUTER forgets its route at once, or notices a little later."""
        if connection.is_dead:
            return
        connection.is_dead = True
        connection.socket.connection = None
        if self._random.random() < 0.6:
            self._forget(connection)
        else:
            self.schedule.after(self._random.random() * 2.0, self._forget, connection)

    def end_after_last(self, connection: Connection) -> None:
        self.schedule.at(max(connection.last_up_s, self.schedule.now), self.end, connection)

    def end_after_word(self, connection: Connection) -> None:
        """The broker closes it in order: its last messages still leave."""
        self.schedule.at(max(connection.last_down_s, self.schedule.now), self.break_, connection)

    def calm_down(self) -> None:
        """No more cuts, nor delays that are longer than a heartbeat may take. Between brokers half open links break."""
        self.cut_until_s.clear()
        self.cuts.end()
        for connection in self.connections() if self.world.shape is not None else ():
            if connection.is_black:
                self.break_(connection)
        self.profile = msgspec.structs.replace(self.profile, spike_share=0.0)

    # --- announcements --------------------------------------------------------------------------------------------

    def publish(self, publisher: BrokerHost, identity: str, version: bytes) -> None:
        """To each broker that listens; some do not hear it."""
        for host in self.hosts.values():
            hears = publisher.publisher in host.listens_to and not self.cuts.is_cut(publisher.name, host.name)
            if hears and self._random.random() >= self.profile.unheard_share:
                self.schedule.after(self._latency_s(), host.post, host.hear, identity, version)

    # --- details --------------------------------------------------------------------------------------------------

    def is_cut(self, process: Process) -> bool:
        return self.cut_until_s.get(process.name, 0.0) > self.schedule.now

    def _forget(self, connection: Connection) -> None:
        if connection.host.routes.get(connection.route) is connection:
            del connection.host.routes[connection.route]

    def _attempt(self, socket: Socket) -> None:
        if socket.is_closed or socket.connection is not None:
            return
        host = self.hosts.get(socket.endpoint)
        if host is None or not host.is_running:
            socket.process.post(socket.process.link_failed, socket, "connection refused")
            self.schedule.after(self._retry_s(), self._attempt, socket)
        elif host.is_paused or self.is_cut(socket.process) or self.cuts.are_apart(socket.process.name, host.name):
            self.schedule.after(self._retry_s(), self._attempt, socket)
        else:
            self._routes += 1
            connection = Connection(Route(b"\x00" + self._routes.to_bytes(5, "big")), socket, host)
            host.routes[connection.route] = connection
            socket.connection = connection
            while socket.outbox:
                self.send_up(connection, socket.outbox.popleft())

    def arrive_up(self, connection: Connection, frames: list[bytes]) -> None:
        if connection.is_dead or connection.is_black:
            return
        if self.cut_until_s and self.is_cut(connection.process):
            self.break_(connection)
        elif not (self.cuts.until_s and self.cuts.holds(connection, True, frames)):
            host = connection.host
            if host.is_paused:
                host.post(host.arrive, connection, frames)
            elif host.is_running:
                host.arrive(connection, frames)

    def arrive_down(self, connection: Connection, frames: list[bytes]) -> None:
        if connection.is_dead or connection.is_black:
            return
        if self.cut_until_s and self.is_cut(connection.process):
            self.break_(connection)
        elif not (self.cuts.until_s and self.cuts.holds(connection, False, frames)):
            connection.process.post(self._hand_over, connection, frames)

    def _hand_over(self, connection: Connection, frames: list[bytes]) -> None:
        connection.down_pipe -= 1
        # Open closes the old socket: its messages no longer count.
        socket = connection.socket
        if not socket.is_closed:
            process = connection.process
            self.world.trace.message(self.schedule.now, connection.host.name, process.label, frames)
            process.deliver(socket, frames)

    def _latency_s(self) -> float:
        profile, draw = self.profile, self._draw
        if draw() < profile.spike_share:
            return profile.latency_s + draw() * profile.spike_s
        return profile.latency_s + draw() * profile.jitter_s

    def _retry_s(self) -> float:
        return 0.1 + self._random.random() * 0.3
