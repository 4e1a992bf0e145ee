"""The broker's ROUTER sockets: made, bound and bounded here.

One a port, and one for all links that this broker dials to others. With a key of the broker's own each of them speaks
CURVE and nothing else (`security`).

Why each option is what it is: routing ids are ZeroMQ's own, for fixed ones lock a peer out after a broken link or let
another take its place (rule 2). ROUTER_MANDATORY makes a send that cannot arrive an error, not silence (rule 10). A
handshake that does not finish is cut off, so raw TCP garbage holds no connection. HEARTBEAT_IVL stays unset: clients
and workers set it, and on a broker's ROUTER it burns a core at 5,000 workers; the kernel's keepalive finds dead links.
For the few links that a broker dials it is the one who connects, and sets it.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any, Final

import zmq

from scale0.errors import PortTaken, UsageError
from scale0.protocol import limits
from scale0.transport import zap
from scale0.transport.addresses import PORT_MAX, is_loopback, port_of
from scale0.transport.key_files import KeyPair
from scale0.transport.port_owner import owner_of

HANDSHAKE_IVL_MS: Final = 2_000
BACKLOG: Final = 4_096  # connections the kernel holds until they are accepted: a restart meets all workers at once
SEND_MESSAGES_MAX: Final = limits.CAPACITY_MAX  # per peer; then `send_failed(…, "full")`. For bytes see `unread`
RECEIVE_MESSAGES_MAX: Final = 1_000  # per peer; then TCP holds the sender back
LINGER_MS: Final = 1_000  # how long a closing broker waits for its last messages to leave
KEEPALIVE_IDLE_S: Final = 60
KEEPALIVE_INTERVAL_S: Final = 15
KEEPALIVE_COUNT: Final = 4
RECONNECT_MS: Final = 100
RECONNECT_MAX_MS: Final = 2_000
CONNECT_MS: Final = 3_000  # an address that swallows what comes is tried anew, and not left to the kernel's minutes
HEARTBEAT_MS: Final = 5_000
HEARTBEAT_TIMEOUT_MS: Final = 15_000
SOCKETS_MAX: Final = 64  # ZeroMQ sockets of this process's context; connections are bounded by open files

# Plain ints: pyzmq's flags are `enum.Flag`, and joining two of them costs more than the send.
NOBLOCK: Final = int(zmq.NOBLOCK)
MORE_NOBLOCK: Final = int(zmq.SNDMORE) | NOBLOCK
EVENTS: Final = int(zmq.EVENTS)
POLLIN: Final = int(zmq.POLLIN)


class Port:
    """One ROUTER socket. `receive` and `send` are the socket's own, without pyzmq's argument handling."""

    def __init__(
        self,
        socket: zmq.Socket[bytes],
        index: int,
        endpoint: str,
        *,
        is_encrypted: bool = False,
        is_dialer: bool = False,
    ) -> None:
        self.socket = socket
        self.index = index
        self.mark = bytes((index,))  # the first byte of every route through this port
        self.endpoint = endpoint
        self.is_encrypted = is_encrypted
        self.is_trusted = is_encrypted or (not is_dialer and is_loopback(endpoint))  # nobody can listen in
        self.has_keys = is_encrypted and not is_dialer  # each message says whose connection it came from
        # The class under `zmq.Socket` does the work; the one above only adds keywords, at 0.25 µs a frame.
        self.receive: Callable[..., Any] = super(zmq.Socket, socket).recv
        self.send: Callable[..., Any] = super(zmq.Socket, socket).send
        self.get: Callable[..., Any] = super(zmq.Socket, socket).get

    def close(self, linger_ms: int = LINGER_MS) -> None:
        self.socket.close(linger=linger_ms)


def make_context() -> zmq.Context[zmq.Socket[bytes]]:
    """A context of the broker's own, so that closing it touches nobody else's sockets."""
    context = zmq.Context(io_threads=1)
    context.set(zmq.MAX_SOCKETS, SOCKETS_MAX)
    return context


def open_port(
    context: zmq.Context[zmq.Socket[bytes]],
    bind: str,
    index: int,
    send_max: int = SEND_MESSAGES_MAX,
    pair: KeyPair | None = None,
    option: str = "--bind",
) -> Port:
    """A ROUTER bound to `bind`; port 0 or `*` takes a free one, and `Port.endpoint` names it."""
    socket = context.socket(zmq.ROUTER)
    _configure(socket)
    socket.set(zmq.SNDHWM, send_max)
    if pair is not None:
        zap.require(socket, pair.secret)
    return Port(socket, index, bind_to(socket, bind, option), is_encrypted=pair is not None)


def open_dialer(
    context: zmq.Context[zmq.Socket[bytes]],
    index: int,
    send_max: int = SEND_MESSAGES_MAX,
    *,
    is_encrypted: bool = False,
) -> Port:
    """A ROUTER that is bound nowhere and connects to others; `is_encrypted`: to none without a key."""
    socket = context.socket(zmq.ROUTER)
    _configure(socket)
    set_dialing(socket)
    socket.set(zmq.SNDHWM, send_max)
    socket.set(zmq.LINGER, 0)  # a link that is hung up takes what still waits in it along; closing sets its own
    return Port(socket, index, "", is_encrypted=is_encrypted, is_dialer=True)


def bind_to(socket: zmq.Socket[bytes], bind: str, option: str = "--bind") -> str:
    """Bind, and return the endpoint with its real port. A socket that cannot be bound is closed, and told why."""
    if port_of(bind) > PORT_MAX:  # libzmq takes what is left of it by 65,536
        socket.close(linger=0)
        raise UsageError(f"{bind!r} is not an address to listen on; ports go to {PORT_MAX}, and 0 takes a free one")
    try:
        socket.set(zmq.IPV6, int("[" in bind))
        socket.bind(bind.replace(":*", ":0") if bind.startswith("tcp://") else bind)
    except zmq.ZMQError as error:
        socket.close(linger=0)
        raise _bind_error(bind, error, option) from None
    return str(socket.get_string(zmq.LAST_ENDPOINT))


def set_dialing(socket: zmq.Socket[bytes]) -> None:
    """How a socket that connects notices a dead link, and how often it tries again."""
    socket.set(zmq.RECONNECT_IVL, RECONNECT_MS)
    socket.set(zmq.RECONNECT_IVL_MAX, RECONNECT_MAX_MS)
    socket.set(zmq.CONNECT_TIMEOUT, CONNECT_MS)
    socket.set(zmq.HANDSHAKE_IVL, HANDSHAKE_IVL_MS)
    socket.set(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
    socket.set(zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS)


def _configure(socket: zmq.Socket[bytes]) -> None:
    socket.set(zmq.ROUTER_MANDATORY, 1)
    socket.set(zmq.HANDSHAKE_IVL, HANDSHAKE_IVL_MS)
    socket.set(zmq.BACKLOG, BACKLOG)
    socket.set(zmq.MAXMSGSIZE, limits.FRAME_BYTES_MAX)
    socket.set(zmq.RCVHWM, RECEIVE_MESSAGES_MAX)
    socket.set(zmq.LINGER, LINGER_MS)
    socket.set(zmq.TCP_KEEPALIVE, 1)
    socket.set(zmq.TCP_KEEPALIVE_IDLE, KEEPALIVE_IDLE_S)
    socket.set(zmq.TCP_KEEPALIVE_INTVL, KEEPALIVE_INTERVAL_S)
    socket.set(zmq.TCP_KEEPALIVE_CNT, KEEPALIVE_COUNT)


def _bind_error(bind: str, error: zmq.ZMQError, option: str) -> Exception:
    """What the operator can do about it: who has the port, or what an address looks like."""
    if error.errno == errno.EADDRINUSE:
        owner = owner_of(bind)
        taken = f"the port is taken by {owner}" if owner else "the port is taken"
        return PortTaken(bind, f"{taken}; stop it, or choose another port with {option}")
    if error.errno == errno.EACCES:
        return PortTaken(bind, f"not permitted: ports below 1024 need privileges; choose a higher one with {option}")
    if error.errno in (errno.ENODEV, errno.EADDRNOTAVAIL):
        return PortTaken(bind, "this machine has no such address; tcp://127.0.0.1:5555 is local")
    if error.errno in (errno.EINVAL, errno.EPROTONOSUPPORT):
        return UsageError(f"{bind!r} is not an address to listen on; it looks like tcp://127.0.0.1:5555")
    return PortTaken(bind, error.strerror or str(error))
