"""The following broker's end of the state stream: a copy of what its partner holds (rule 31).

The copy is the broker's own tables, filled by what the stream says instead of by participants. Every session in it is
absent, and every worker negotiates: when the broker becomes active, clients and workers come with their CONNECT, their
sessions move to where they are now, workers say what they still hold, and the rules for moved sessions do the rest.
What a worker still has goes on, what nobody has is repeated or answered 502, and settled outcomes answer resends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scale0.core import broker_tasks
from scale0.core.effects import Route
from scale0.core.ledger import Entry
from scale0.core.network import Peer
from scale0.core.sessions import Session
from scale0.core.star import Star
from scale0.core.state import State
from scale0.core.stream import (
    Accepted,
    Announced,
    Cancelled,
    Closed,
    Dropped,
    Failed,
    Forgotten,
    Opened,
    Parted,
    Replied,
    Reset,
    Returned,
    Sent,
    unpacked,
)
from scale0.core.workers import Worker, assign, hold, release
from scale0.errors import ProtocolError
from scale0.protocol import native
from scale0.protocol.codes import Code
from scale0.protocol.dialects import CLIENT, PEER, WORKER
from scale0.protocol.ids import id_prefix, identity_of, sequence_of
from scale0.protocol.messages import Error, ServiceOffer, SnapshotReq, Stream, StreamAck, Task, TaskId, TaskReply

NOWHERE = Route(b"")  # the route of a session that is known by the stream alone
FETCH_AGAIN_INTERVALS = 1.0
LONG_AGO_S = -1e9  # of a task that was with its worker before we heard of it


def take(state: State, session: Session, message: Stream) -> None:
    """STREAM: the next changes. After a gap a new copy is asked for."""
    pair = state.pair
    if pair is None or session.identity != pair.partner or (pair.star, state.mode) != (Star.PASSIVE, "passive"):
        state.counters["streams_ignored"] += 1
        return
    peer = state.network.of(session)
    try:
        told = unpacked(message.changes)
        if told and isinstance(told[0], Reset):
            pair.seq = message.seq - 1
            pair.is_whole = True
        if message.seq != pair.seq + 1 or not pair.is_whole:
            fetch(state, peer)
            return
        for change in told:
            _APPLY[type(change)](state, change)
    except (ProtocolError, LookupError) as error:
        # A partner that speaks otherwise than we read: its copy is of no use, and an operator should know.
        state.alarm("stream_unread", f"what {pair.partner} streams cannot be read: {error!r}; are both of one version?")
        clear(state)
        pair.is_whole = False
        return
    pair.seq = message.seq
    state.post(session.route, session, StreamAck(seq=message.seq))


def fetch(state: State, peer: Peer) -> None:
    """Ask for a whole copy, at most once an interval."""
    pair = state.pair
    assert pair is not None, "only one of a pair follows"
    assert peer.session is not None, "the partner is linked"
    pair.is_whole = False
    if state.now - pair.fetched_s < FETCH_AGAIN_INTERVALS * state.settings.default_heartbeat_interval_s:
        return
    pair.fetched_s = state.now
    state.post(peer.session.route, peer.session, SnapshotReq(what="state"))


# --- the changes --------------------------------------------------------------------------------------------------


def clear(state: State) -> None:
    """All participants and their tasks are forgotten; nobody is told. Other brokers' sessions stay."""
    state.ledger.clear()
    state.sessions.clear()
    state.outcomes.clear()
    state.services.clear()
    state.turns.clear()
    state.majordomo_beats.clear()
    state.config.to_push.clear()
    state.elsewhere = None
    broker_tasks.look(state)
    for peer in state.network.peers.values():
        peer.held.clear()
        peer.table_due.clear()
        peer.workers.clear()
        peer.offers.clear()
        peer.queued.clear()


def _reset(state: State, change: Reset) -> None:
    clear(state)
    _late_s(state, change)


def _open(state: State, change: Opened) -> None:
    session = state.sessions.by_identity.get(change.identity)
    if session is not None and (session.nonce != change.nonce or session.role.value != change.role):
        _forget_session(state, session)
        session = None
    if session is None:
        dialect = CLIENT if change.role == CLIENT.role.value else WORKER
        session = state.sessions.open(change.identity, change.nonce, dialect, NOWHERE, state.now, change.interval_s)
        session.is_absent = True
        if dialect is WORKER:
            session.worker = Worker(session=session)
    session.interval_s = change.interval_s
    session.services = change.services
    session.home = change.home
    session.key = change.key
    session.config_type = change.config_type
    session.highest = max(session.highest, change.highest)
    if change.floor > session.floor:
        state.outcomes.forget_below(session, change.floor)


def _close(state: State, change: Closed) -> None:
    session = state.sessions.by_identity.get(change.identity)
    if session is not None:
        _forget_session(state, session)


def _announce(state: State, change: Announced) -> None:
    session = state.sessions.by_identity[change.identity]
    worker = session.worker
    if worker is None:
        raise ProtocolError(Code.MALFORMED, f"{change.identity} is no worker")
    worker.capacity = change.capacity
    worker.has_heartbeat = change.has_heartbeat
    session.interval_s = change.interval_s
    if not worker.used:
        _use(state, worker)
    _offer(state, worker, [ServiceOffer(*offer) for offer in change.offers])


def _accept(state: State, change: Accepted) -> None:
    client = _client_of(state, change.id)
    task_id = TaskId(change.id)
    if task_id in state.ledger.entries:
        raise ProtocolError(Code.MALFORMED, "a task that is known")
    service = state.services.by_name.get(change.service) or state.services.add(change.service, state.now)
    terms = (change.remaining_ms, 1, change.priority, change.flags, change.send_time_us)
    task = Task(task_id, change.service, change.body, *terms, options=change.options)
    sequence = sequence_of(change.id)
    timeout_s = change.remaining_ms / 1000
    size = sum(map(len, change.body))
    # Rule 13: what it took to come here is not given to it once more; else it could start when its client has given up.
    told_s = state.now - min(_late_s(state, change), timeout_s)
    accepted_s = told_s - change.waited_ms / 1000
    entry = Entry(task_id, sequence, task, client, service, size, accepted_s, told_s + timeout_s)
    entry.attempt = change.attempt
    client.highest = max(client.highest, sequence)
    client.longest_timeout_s = max(client.longest_timeout_s, timeout_s)
    state.ledger.accept(entry)
    _enqueue(state, entry)


def _send(state: State, change: Sent) -> None:
    session = state.sessions.by_identity.get(change.worker)
    worker = session.worker if session is not None else None
    entry = state.ledger.entries[TaskId(change.id)]
    if entry.is_queued:
        entry.service.queue.turn(entry)
    _leave_place(state, entry)
    if worker is None:
        worker = state.elsewhere = state.elsewhere or _elsewhere(state)
    else:
        worker.dispatched += 1
        _use(state, worker)
    entry.worker = worker
    entry.attempt = change.attempt
    entry.sent_s = LONG_AGO_S if change.has_left else state.now  # what leaves later than it is told leaves after now
    entry.parts = 0
    hold(worker, entry.id, change.attempt)


def _take_back(state: State, change: Returned) -> None:
    entry = state.ledger.entries[TaskId(change.id)]
    _leave_place(state, entry)
    entry.attempt = change.attempt
    entry.parts = 0
    _enqueue(state, entry, is_first=True)


def _pass_part(state: State, change: Parted) -> None:
    state.ledger.entries[TaskId(change.id)].parts = change.parts


def _reply(state: State, change: Replied) -> None:
    if not change.frames:
        raise ProtocolError(Code.MALFORMED, "a reply without frames")
    reply = native.decode(change.frames)
    if not isinstance(reply, TaskReply):
        raise ProtocolError(Code.MALFORMED, "a reply that is none")
    _outcome(state, reply.id, reply, sum(map(len, reply.body)))


def _fail(state: State, change: Failed) -> None:
    _outcome(state, change.id, Error(code=change.code, text=change.text, id=change.id), 0)


def _drop(state: State, change: Dropped) -> None:
    _settle(state, state.ledger.entries[TaskId(change.id)], is_error=True)


def _cancel(state: State, change: Cancelled) -> None:
    state.ledger.entries[TaskId(change.id)].is_cancelled = True


def _forget(state: State, change: Forgotten) -> None:
    session = state.sessions.by_identity[change.identity]
    if change.floor > session.floor:
        state.outcomes.forget_below(session, change.floor)


_APPLY: dict[type[Any], Callable[[State, Any], None]] = {
    Reset: _reset,
    Opened: _open,
    Closed: _close,
    Announced: _announce,
    Accepted: _accept,
    Sent: _send,
    Returned: _take_back,
    Parted: _pass_part,
    Replied: _reply,
    Failed: _fail,
    Dropped: _drop,
    Cancelled: _cancel,
    Forgotten: _forget,
}

# --- their pieces -------------------------------------------------------------------------------------------------


def _late_s(state: State, change: Reset | Accepted) -> float:
    pair = state.pair
    return pair.late_s(change.told_ms / 1000, state.now) if pair is not None and change.told_ms else 0.0


def _client_of(state: State, task_id: bytes) -> Session:
    """The session whose task this is: an id names its identity."""
    session = state.sessions.by_identity[identity_of(task_id)]
    if task_id[:-8] != session.prefix:
        raise ProtocolError(Code.MALFORMED, "a task of another process")
    return session


def _outcome(state: State, task_id: bytes, outcome: TaskReply | Error, size: int) -> None:
    """It is settled, and its outcome kept for its client, as long as that has not said that it has it."""
    entry = state.ledger.entries.get(TaskId(task_id))
    if entry is not None:
        _settle(state, entry, is_error=isinstance(outcome, Error))
    client, sequence = _client_of(state, task_id), sequence_of(task_id)
    client.highest = max(client.highest, sequence)
    client.settled_s = state.now
    if sequence not in client.kept:
        state.outcomes.keep(client, sequence, outcome, size)


def _settle(state: State, entry: Entry, *, is_error: bool) -> None:
    _leave_place(state, entry)
    state.ledger.settle(entry, is_error)
    if is_error:
        state.ledger.unrecorded_errors += 1
    else:
        state.ledger.unrecorded_replies += 1
    service = entry.service
    # What is with a peer may come back to it, though nobody has announced it here.
    if not service.is_announced and not any(other.service is service for other in state.ledger.entries.values()):
        state.services.forget_if_idle(service)


def _leave_place(state: State, entry: Entry) -> None:
    """Out of the queue, or of its worker's slot."""
    if entry.is_queued:
        entry.service.queue.remove(entry)
        entry.is_queued = False
        state.ledger.queued -= 1
    elif entry.worker is not None:
        release(entry.worker, entry.id, entry.attempt)
        entry.worker = None


def _offer(state: State, worker: Worker, offers: list[ServiceOffer]) -> None:
    """What the worker serves. What follows for tasks that wait is the partner's to decide, and to tell."""
    before = worker.services
    services = [state.services.by_name.get(o.name) or state.services.add(o.name, state.now) for o in offers]
    assign(worker, services, {offer.name: offer for offer in offers})
    for service in services:
        service.is_announced = True
    for service in {service.name: service for service in (*before, *services)}.values():
        state.services.settle_terms(service)


def _enqueue(state: State, entry: Entry, *, is_first: bool = False) -> None:
    entry.is_queued = True
    (entry.service.queue.put_first if is_first else entry.service.queue.put)(entry)
    state.ledger.queued += 1


def _use(state: State, worker: Worker) -> None:
    """It is the most recently used one from now on."""
    state.dispatches += 1
    worker.used = state.dispatches


def _forget_session(state: State, session: Session) -> None:
    for entry in [e for e in state.ledger.entries.values() if e.client is session]:
        _settle(state, entry, is_error=True)
    worker = session.worker
    if worker is not None:
        for task_id, attempt in list(worker.slots.items()):
            _send(state, Sent(task_id, "", attempt))
        _offer(state, worker, [])
    state.outcomes.forget_all(session)
    state.sessions.close(session)


def _elsewhere(state: State) -> Worker:
    """Who holds what was sent to a peer, a REQ socket or a Majordomo worker: nobody who will come here."""
    session = Session(
        identity="",
        nonce=bytes(8),
        dialect=PEER,
        route=NOWHERE,
        prefix=id_prefix("", bytes(8)),
        connected_s=state.now,
        last_seen_s=state.now,
        interval_s=state.settings.default_heartbeat_interval_s,
        is_absent=True,
    )
    return Worker(session=session)
