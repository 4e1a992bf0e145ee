"""What peers say to one another, and who hears it; the peer dialect's table of commands.

A peer need not be this implementation (rule 35): whoever says CONNECT and PEERSTATUS as the protocol's document tells
is a peer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from scale0.core import (
    afar,
    askers,
    binary_star,
    config_service,
    connections,
    dialing,
    forwarding,
    heartbeat_table,
    peers,
    replica,
    replication,
)
from scale0.core.effects import Route
from scale0.core.sessions import Session
from scale0.core.state import State
from scale0.protocol.codec import AnyMessage
from scale0.protocol.codes import Code
from scale0.protocol.dialects import PEER
from scale0.protocol.messages import (
    Cancel,
    ConfigChange,
    Connect,
    Disconnect,
    Error,
    ForceNegotiate,
    ManagementRep,
    PeerStatus,
    Snapshot,
    SnapshotReq,
    Stream,
    StreamAck,
    Table,
    TableReq,
    Task,
    TaskReply,
)

CONNECT_REFUSALS: Final = frozenset(
    {Code.NOT_AUTHENTICATED, Code.NOT_ALLOWED, Code.IDENTITY_IN_USE, Code.OVER_LIMIT, Code.NOT_ACCEPTING}
)
"""With these a peer answers CONNECT that it does not take."""


def _told(state: State, session: Session, message: ManagementRep | Error) -> None:
    if isinstance(message, Error) and message.id:
        forwarding.error(state, session, message)
    elif message.seq:
        askers.answered(state, message)
    elif isinstance(message, Error):
        if message.fatal:
            state.alarm("link_refused", f"broker {session.identity} refuses us: {message.code} {message.text}")
        if session.is_absent and message.code in CONNECT_REFUSALS:  # it asked for CONNECT, and this is its answer
            dialing.turned_away(state, session)


def _leave(state: State, session: Session, message: Disconnect) -> None:
    peer = state.network.of(session)
    binary_star.left(state, peer)
    if message.is_drained:
        afar.take_all_back(state, peer)
    peers.unlink(state, peer, message.reason or "it left")
    # What it has here it counts as lost. It runs on, for its client may come, but takes none of its room if it is back.
    peer.held.clear()


def _asked_for_state(state: State, session: Session, message: SnapshotReq) -> None:
    peer = state.network.of(session)
    if message.what == "state":
        binary_star.copy_to(state, peer)
    else:
        config_service.snapshot(state, peer)


def _acknowledged(state: State, session: Session, message: StreamAck) -> None:
    if state.pair is not None and state.pair.partner == session.identity:
        replication.acknowledged(state, message)


SAYS: dict[type[Any], Callable[[State, Session, Any], None]] = {
    Task: forwarding.task,
    TaskReply: forwarding.reply,
    Cancel: forwarding.cancel,
    PeerStatus: peers.status,
    ManagementRep: _told,
    Error: _told,
    Disconnect: _leave,
    ConfigChange: lambda state, session, message: config_service.change(state, state.network.of(session), message),
    SnapshotReq: _asked_for_state,
    Stream: replica.take,
    StreamAck: _acknowledged,
    Snapshot: lambda state, session, message: config_service.take_snapshot(state, state.network.of(session), message),
    Table: heartbeat_table.take,
    TableReq: heartbeat_table.tell_all,
}
"""What a linked peer may say; CONNECT may come at any time."""


def receive_other(state: State, route: Route, message: AnyMessage, session: Session | None) -> None:
    """CONNECT, and whatever comes without a link."""
    if isinstance(message, Connect):
        peers.connect(state, route, message)
    elif isinstance(message, ForceNegotiate):
        dialing.negotiate_again(state, route)
    elif isinstance(message, Error) and session is None:
        dialing.refused(state, route, message)
    elif session is not None and (heard := SAYS.get(type(message))) is not None:
        session.last_seen_s = state.now  # disabled: peers go on hearing of us, and get their tasks back (rule 25)
        heard(state, session, message)
    elif session is not None:
        text = f"{type(message).__name__.upper()} is not expected from a peer"
        state.post(route, session, Error(code=Code.UNEXPECTED, text=text))
    elif not isinstance(message, Disconnect):
        connections.stranger(state, route, PEER)
