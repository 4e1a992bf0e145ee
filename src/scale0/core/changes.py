"""What the fallback is told of each change (rule 31): one function for each, called where the change is made.

Each is called only while somebody follows (`state.stream`), and says nothing of what is not streamed: tasks of REQ and
Majordomo clients, and those that are too large. When they leave is the business of `replication`.
"""

from __future__ import annotations

import math
from typing import Final

from scale0.core import replication
from scale0.core.ledger import Entry
from scale0.core.sessions import Session
from scale0.core.state import State
from scale0.core.stream import (
    STREAMED_BYTES_MAX,
    TOGETHER_BYTES_MAX,
    Accepted,
    Announced,
    AnyChange,
    Cancelled,
    Closed,
    Dropped,
    Failed,
    Forgotten,
    Opened,
    Parted,
    Replied,
    Returned,
    Sent,
)
from scale0.core.workers import Worker
from scale0.protocol import native
from scale0.protocol.codes import Code
from scale0.protocol.dialects import CLIENT, WORKER
from scale0.protocol.limits import SEQUENCE_BYTES
from scale0.protocol.messages import Error, TaskReply

SEQUENCE_MAX: Final = 2 ** (8 * SEQUENCE_BYTES) - 1
_HEADER: Final = WORKER.header
_NATIVE: Final = (CLIENT, WORKER)

# --- sessions -----------------------------------------------------------------------------------------------------


def opened(state: State, session: Session) -> None:
    """Of one that is doubted any sequence may have been here: what we do not know is not new to a successor either."""
    if session.dialect in _NATIVE:
        is_doubted = session.is_doubted or -math.inf < session.copied_until_s <= state.now
        change = Opened(
            session.identity,
            session.nonce,
            "worker" if session.dialect is WORKER else "client",
            session.interval_s,
            session.services,
            session.home,
            session.config_type,  # type: ignore[arg-type]  # it was checked when it came
            session.floor,
            SEQUENCE_MAX if is_doubted else session.highest,
            session.key,
        )
        _add(state, change)


def closed(state: State, session: Session) -> None:
    if session.dialect in _NATIVE:
        _add(state, Closed(session.identity))


def announced(state: State, worker: Worker) -> None:
    session = worker.session
    # One that has moved, and is yet to say READY again, still offers what it did.
    if session.dialect is WORKER and (worker.services or not worker.is_negotiating):
        offers = [
            (service.name, service.workers[worker].idempotent, service.workers[worker].max_attempts)
            for service in worker.services
        ]
        _add(state, Announced(session.identity, offers, worker.capacity, worker.has_heartbeat, session.interval_s))


def forgotten(state: State, session: Session) -> None:
    if session.dialect is CLIENT:
        _add(state, Forgotten(session.identity, session.floor))


# --- tasks --------------------------------------------------------------------------------------------------------


def is_streamed(entry: Entry) -> bool:
    return entry.client.dialect is CLIENT and entry.size <= STREAMED_BYTES_MAX


def accepted(state: State, entry: Entry) -> None:
    """A task, and where it is if it is somewhere."""
    stream = state.stream
    if stream is None or stream.is_lost or not is_streamed(entry):
        return
    task, now = entry.task, state.now
    if stream.bytes + entry.size > TOGETHER_BYTES_MAX:
        _make_room(state)
    remaining_ms = int((entry.deadline_s - now) * 1000)
    change = Accepted(
        entry.id,
        task.service,
        task.body,
        task.options,
        task.priority,
        task.flags,
        task.send_time_us,
        remaining_ms if remaining_ms > 0 else 1,
        int((now - entry.accepted_s) * 1000),
        entry.attempt,
        int(now * 1000),
    )
    stream.changes.append(change)
    stream.bytes += entry.size
    if entry.worker is not None:
        _place(state, entry, entry.worker)


def _place(state: State, entry: Entry, worker: Worker) -> None:
    """Where a task is that was accepted before somebody followed, or by another broker."""
    session = worker.session
    _add(state, Sent(entry.id, session.identity if session.dialect is WORKER else "", entry.attempt, True))
    if entry.parts:
        _add(state, Parted(entry.id, entry.parts))
    if entry.is_cancelled:
        _add(state, Cancelled(entry.id))


def queued_again(state: State, entry: Entry) -> None:
    if is_streamed(entry):
        _add(state, Returned(entry.id, entry.attempt))


def part_passed(state: State, entry: Entry) -> None:
    if is_streamed(entry):
        _add(state, Parted(entry.id, entry.parts))


def cancelled(state: State, entry: Entry) -> None:
    if is_streamed(entry):
        _add(state, Cancelled(entry.id))


# --- outcomes -----------------------------------------------------------------------------------------------------


def replied(state: State, entry: Entry, message: TaskReply) -> None:
    if is_streamed(entry):
        _reply(state, message)


def failed(state: State, entry: Entry, error: Error) -> None:
    if is_streamed(entry):
        _add(state, Failed(error.id, error.code, error.text))


def dropped(state: State, entry: Entry) -> None:
    if is_streamed(entry):
        _add(state, Dropped(entry.id))


def kept(state: State, outcome: TaskReply | Error, task_id: bytes) -> None:
    """An outcome that its client has not acknowledged."""
    if isinstance(outcome, TaskReply):
        _reply(state, outcome)
    else:
        _add(state, Failed(task_id, outcome.code, outcome.text))


def _reply(state: State, message: TaskReply) -> None:
    stream = state.stream
    if stream is None or stream.is_lost:
        return
    frames = native.as_it_came(message) if message.received else tuple(native.encode(_HEADER, message))
    size = len(frames[0]) if len(frames) == 1 else sum(map(len, frames))
    if size > STREAMED_BYTES_MAX:
        text = "outcome unknown: the reply was too large to be copied"
        stream.changes.append(Failed(message.id, int(Code.WORKER_LOST), text))
        return
    if stream.bytes + size > TOGETHER_BYTES_MAX:
        _make_room(state)
    stream.changes.append(Replied(frames))
    stream.bytes += size


def _make_room(state: State) -> None:
    """One STREAM must fit into one message."""
    if state.stream is not None and state.stream.bytes:
        replication.flush(state)


def _add(state: State, change: AnyChange) -> None:
    stream = state.stream
    if stream is not None and not stream.is_lost:
        stream.changes.append(change)
