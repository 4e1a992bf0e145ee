"""Sends that failed: the pipe of a peer is full, or its connection is gone.

Rule 10: that is an input of the core like any other. A TASK goes back to the front of its queue, as if it had been
returned, and its worker gets nothing until it is heard again. What was for a client is held under its cap.
"""

from __future__ import annotations

from scale0.core import afar, connections, delivery, heartbeat_table, peers, replication, routing
from scale0.core.sessions import Session
from scale0.core.state import State
from scale0.core.workers import Worker, delist, release
from scale0.protocol.codec import AnyMessage
from scale0.protocol.codes import Code
from scale0.protocol.dialects import CLIENT, PEER
from scale0.protocol.ids import sequence_of
from scale0.protocol.majordomo import MdpHeartbeat, MdpTask
from scale0.protocol.messages import NO_VERSION, Error, Stream, Table, Task, TaskId, TaskReply


def take_back(state: State, session: Session, message: AnyMessage, reason: str) -> None:
    """`message` did not leave for `session`: "full" or "unroutable"."""
    if isinstance(message, Error) and message.code == Code.CONFIG_DIFFERS:
        session.warned_version = NO_VERSION  # rule 24: once, and this was none
    if session.dialect is PEER:
        _from_peer(state, session, message, reason)
    elif session.worker is not None:
        _from_worker(state, session, session.worker, message, reason)
    elif isinstance(message, TaskReply | Error) and message.id and session.dialect is CLIENT:
        session.is_absent = True
        # A refusal is no outcome: by the time it could be sent again its task may have been accepted.
        if isinstance(message, TaskReply) or sequence_of(message.id) in session.kept:
            delivery.hold_back(state, session, message)


def _from_worker(state: State, session: Session, worker: Worker, message: AnyMessage, reason: str) -> None:
    if reason == "unroutable":
        if isinstance(message, MdpHeartbeat):  # rule 18: that shows that a Majordomo worker is gone
            connections.close(state, session, "its connection is gone")
            return
        connections.set_absent(state, session)
    if isinstance(message, Task):
        _put_back(state, worker, message.id, message.attempt)
    elif isinstance(message, MdpTask):
        _put_back(state, worker, TaskId(message.address[:-1]), message.address[-1])


def _from_peer(state: State, session: Session, message: AnyMessage, reason: str) -> None:
    peer = state.network.of(session)
    peer.is_told_all = False
    if isinstance(message, Table):
        heartbeat_table.begin(state, peer)
    elif isinstance(message, Stream):  # it has a gap in its copy, and asks for another when it hears so
        replication.lose(state)
    if reason == "unroutable":
        peers.set_absent(state, peer)
    if isinstance(message, Task):
        worker = afar.holder(peer, message.id)
        if worker is not None:
            worker.is_paused = True
            afar.delist(worker)
            entry = state.ledger.entries.get(message.id)
            if release(worker, message.id, message.attempt) and entry is not None and entry.worker is worker:
                routing.take_back(state, entry)
    elif isinstance(message, TaskReply | Error) and message.id:
        peers.set_absent(state, peer)
        delivery.hold_back(state, session, message)


def _put_back(state: State, worker: Worker, task_id: TaskId, attempt: int) -> None:
    worker.is_paused = True
    delist(worker)
    entry = state.ledger.entries.get(task_id)
    if release(worker, task_id, attempt) and entry is not None and entry.worker is worker:
        routing.take_back(state, entry)
