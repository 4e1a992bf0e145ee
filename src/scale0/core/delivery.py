"""Bringing outcomes and parts of them to clients, each in its own dialect; what cannot be sent waits, within a cap."""

from __future__ import annotations

from scale0.core import broker_tasks, turns
from scale0.core.effects import Send
from scale0.core.own_tasks import OWN
from scale0.core.sessions import Session
from scale0.core.state import State
from scale0.protocol.majordomo import MdpResult
from scale0.protocol.messages import Error, Status, TaskReply

OK = int(Status.OK)


def deliver(state: State, client: Session, message: TaskReply | Error, service: str) -> None:
    """Bring an outcome or a part to its client; what cannot be sent waits for it, within a cap."""
    dialect = client.dialect
    if dialect.majordomo:
        _deliver_majordomo(state, client, message, service)
    elif dialect is OWN:
        broker_tasks.hear(state, message)
    elif dialect.is_req:
        turns.answer(state, client, message)
    elif client.is_absent:
        hold_back(state, client, message)
    else:
        state.effects.append(Send(client.route, dialect, message))


def _deliver_majordomo(state: State, client: Session, message: TaskReply | Error, service: str) -> None:
    # Rule 16: errors reach Majordomo clients as silence, counted.
    if isinstance(message, Error) or message.status != OK:
        state.counters["majordomo_errors_unsaid"] += 1
        return
    # RFC 7 and 18: a reply has at least one body frame.
    state.post(client.route, client, MdpResult(service, message.body or (b"",), message.final))


def hold_back(state: State, client: Session, message: TaskReply | Error) -> None:
    """Keep a message for an absent client, in order. Over the cap all are dropped: it asks again for what it misses."""
    size = sum(map(len, message.body)) if isinstance(message, TaskReply) else len(message.text)
    client.undelivered.append(message)
    client.undelivered_bytes += size
    if client.undelivered_bytes > state.limits.undelivered_bytes_per_client:
        state.counters["undelivered_dropped"] += len(client.undelivered)
        client.undelivered.clear()
        client.undelivered_bytes = 0
