"""Tasks that cross from one broker to another, seen from both ends.

Rule 28: only the origin queues and settles. The broker that takes a forwarded task gives it to one of its own workers
at once, or returns it at once. Whatever becomes of that one attempt goes back to the origin: the reply, its parts, 502
when the worker is lost, `returned` when it never started. It is for the origin to repeat it or to settle it.

A client that lost its origin may come here and ask for the same task: then its outcome goes to the client itself.
"""

from __future__ import annotations

from scale0.core import afar, changes, delivery, endings, routing, task_rows
from scale0.core.ledger import Entry
from scale0.core.network import Peer
from scale0.core.sessions import Session
from scale0.core.state import State
from scale0.core.workers import Worker, release
from scale0.protocol.codes import Code
from scale0.protocol.ids import sequence_of
from scale0.protocol.messages import Cancel, Error, Status, Task, TaskReply

OK, FAILED, RETURNED = map(int, Status)

# --- at the broker that takes it ----------------------------------------------------------------------------------


def task(state: State, session: Session, message: Task) -> None:
    """TASK from a peer: to a free worker of ours, or back at once."""
    peer = state.network.of(session)
    if message.options == peer.visited:  # it comes straight from its origin, and its client gave no options
        is_back, options = False, b""
    else:
        visited, options = afar.split_options(message.options)
        is_back = state.settings.identity in visited
    known = state.ledger.entries.get(message.id)
    if known is not None:
        _refuse_double(state, session, message, known)
        return
    service = state.services.by_name.get(message.service)
    body = message.body
    size = len(body[0]) if len(body) == 1 else sum(map(len, body))
    if (
        service is None
        or not service.lru
        or state.mode != "active"
        or is_back
        or len(state.ledger.entries) >= state.limits.accepted
        or state.ledger.bytes + size > state.limits.accepted_bytes
    ):
        state.counters["forwarded_returned"] += 1
        state.network.is_dirty = True
        peer.told.pop(message.service, None)  # it gets nothing until it is told again, even if a slot is free by then
        _return(state, session, message)
        return
    peer.received += 1
    peer.held[message.id] = message.service
    message.options = options
    deadline_s = state.now + (message.remaining_ms / 1000 if message.remaining_ms else service.timeout_s)
    entry = Entry(message.id, sequence_of(message.id), message, session, service, size, state.now, deadline_s)
    entry.is_forwarded = True
    entry.attempt = message.attempt - 1  # the origin counts attempts
    routing.offer(state, entry)


def _refuse_double(state: State, session: Session, message: Task, known: Entry) -> None:
    """The same id again: a repetition by the same origin changes nothing; else there is no room for another.

    An attempt that its origin holds for lost still runs here, or one that came by another way: from a broker that its
    client has left, or from the client itself, which may have left us by now.
    """
    if known.client is session and known.attempt == message.attempt:
        state.counters["repeated_tasks"] += 1
    else:
        _return(state, session, message)


def _return(state: State, session: Session, message: Task) -> None:
    reply = TaskReply(message.id, (), message.attempt, RETURNED, time_us=state.wall_us())
    delivery.deliver(state, session, reply, message.service)


def give_back(state: State, entry: Entry) -> None:
    """It never started here: the origin has it again, and no attempt counts."""
    state.ledger.withdraw(entry)
    reply = TaskReply(entry.id, (), entry.attempt, RETURNED, time_us=state.wall_us())
    delivery.deliver(state, entry.client, reply, entry.service.name)


def cancel(state: State, session: Session, message: Cancel) -> None:
    """CANCEL from the origin."""
    entry = state.ledger.entries.get(message.id)  # type: ignore[call-overload]
    if entry is not None and entry.client is session:
        routing.cancel(state, entry)
    else:  # the origin may still count it as ours
        state.post(session.route, session, Error(code=Code.WORKER_LOST, text="it is not here any more", id=message.id))


def adopt(state: State, entry: Entry, client: Session) -> None:
    """The client of a forwarded task has come here: from now on it is its own, and its origin is told."""
    origin = entry.client
    state.counters["forwarded_adopted"] += 1
    state.ledger.hand_over(entry, client)
    entry.is_forwarded = False
    if state.stream is not None:
        changes.accepted(state, entry)
    text = f"its client has asked {state.settings.identity} for it"
    delivery.deliver(state, origin, Error(code=int(Code.MOVED), text=text, id=entry.id), entry.service.name)


# --- at the origin ------------------------------------------------------------------------------------------------


def reply(state: State, session: Session, message: TaskReply) -> None:
    """TASKREPLY from a peer. Rule 7: it counts only if id, attempt and peer match the wait queue's entry."""
    peer = state.network.of(session)
    worker, entry = _find(state, peer, message)
    if not message.final:
        if entry is not None:
            routing.pass_part(state, entry, message)
        else:
            state.counters["late_replies"] += 1
        return
    if worker is not None:
        release(worker, message.id, message.attempt)
        if message.status == RETURNED:  # it has no room, whatever has become of the task
            worker.is_paused = True  # until its next status
            afar.delist(worker)
    if entry is None:
        state.counters["late_replies"] += 1
    elif message.status == RETURNED:
        routing.take_back(state, entry)
    elif message.status == OK or not entry.is_cancelled:
        endings.settle_reply(state, entry, message)
    else:
        endings.settle_error(state, entry, Code.CANCELLED, "cancelled while it ran")
    if worker is not None and worker.services:
        afar.feed(state, worker)


def error(state: State, session: Session, message: Error) -> None:
    """ERROR from a peer about one of our tasks: its attempt there is over."""
    peer = state.network.of(session)
    worker = afar.holder(peer, message.id)  # type: ignore[arg-type]
    if worker is None:
        return
    attempt = worker.slots.pop(message.id)  # type: ignore[call-overload]
    worker.stuck -= {message.id}
    entry = state.ledger.entries.get(message.id)  # type: ignore[call-overload]
    if entry is not None and entry.worker is worker and entry.attempt == attempt:
        code = Code(message.code) if message.code in Code.__members__.values() else Code.WORKER_LOST
        if code == Code.WORKER_LOST:
            routing.lose_attempt(state, entry, f"{peer.identity}: {message.text}")
        elif code == Code.MOVED:  # its client has it elsewhere: nobody waits here, and no outcome is kept
            state.counters["forwarded_adopted_elsewhere"] += 1
            state.ledger.settle(entry, True)
            if state.journal is not None:
                task_rows.moved(state.journal, state, entry)
            if state.stream is not None:
                changes.dropped(state, entry)
        else:
            endings.settle_error(state, entry, code, f"{peer.identity}: {message.text}")
    afar.feed(state, worker)


def _find(state: State, peer: Peer, message: TaskReply) -> tuple[Worker | None, Entry | None]:
    """The slot that the reply frees, and the entry that it answers."""
    entry = state.ledger.entries.get(message.id)
    if entry is not None:
        worker = entry.worker
        if worker is not None and worker.session is peer.session and entry.attempt == message.attempt:
            return worker, entry
    worker = afar.holder(peer, message.id)
    if worker is not None and worker.slots.get(message.id) != message.attempt:
        worker = None
    return worker, None
