"""What clients, workers and peers may say in their sessions, and who handles it: one table for each dialect.

Whatever is not here comes without a session, or is not expected: `broker` has the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scale0.core import admission, connections, liveness, peer_dialect, readiness, routing, turns
from scale0.core.sessions import Session
from scale0.core.state import State
from scale0.protocol.dialects import (
    CLIENT,
    MDP1_CLIENT,
    MDP1_WORKER,
    MDP2_CLIENT,
    MDP2_WORKER,
    PEER,
    REQ_CLIENT,
    REQ_WORKER,
    WORKER,
    Dialect,
)
from scale0.protocol.messages import Cancel, Disconnect, Ping, Ready, Task, TaskReply

Handler = Callable[[State, Session, Any], None]


def _reply_by_req(state: State, session: Session, message: TaskReply) -> None:
    routing.reply(state, session, message)
    turns.hold(state, session)


def _leave(state: State, session: Session, message: Disconnect) -> None:
    connections.close(state, session, f"it left: {message.reason}" if message.reason else "it left")


_CLIENT_SAYS: dict[type[Any], Handler] = {
    Task: admission.task,
    Cancel: admission.cancel,
    Ping: liveness.ping,
    Disconnect: _leave,
}
_WORKER_SAYS: dict[type[Any], Handler] = {
    TaskReply: routing.reply,
    Ping: liveness.ping,
    Ready: readiness.ready,
    Disconnect: _leave,
}
HANDLERS: dict[Dialect, dict[type[Any], Handler]] = {
    CLIENT: _CLIENT_SAYS,
    REQ_CLIENT: _CLIENT_SAYS,
    WORKER: _WORKER_SAYS,
    REQ_WORKER: {**_WORKER_SAYS, TaskReply: _reply_by_req},
    PEER: peer_dialect.SAYS,
    **{dialect: {} for dialect in (MDP1_CLIENT, MDP1_WORKER, MDP2_CLIENT, MDP2_WORKER)},  # `majordomo` hears them
}
"""What each dialect may say in its session. Dialects are compared by identity, which costs nothing."""
