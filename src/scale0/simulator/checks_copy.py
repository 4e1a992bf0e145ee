"""Whether a copy says what its original says: sessions, offers, open tasks and where they are, outcomes.

The two are compared as the messages of the stream would tell them, from each broker's own tables. Times are not
compared, for the copy counts from when it heard of a task; nor is what the stream does not carry: participants of other
dialects, and what was refused.

Outcomes have caps, and each of the two keeps to them by itself: the original has outcomes of REQ clients besides, which
the copy has not, and may reach a cap alone. Rule 8: whoever does forgets the oldest of a client's, and only those.
"""

from __future__ import annotations

from typing import Any

from scale0.core.ledger import Entry
from scale0.core.sessions import Session
from scale0.core.state import State
from scale0.core.stream import STREAMED_BYTES_MAX
from scale0.protocol.dialects import CLIENT, WORKER
from scale0.protocol.ids import show_id
from scale0.protocol.messages import Error, TaskReply

Table = dict[str, Any]


def difference(original: State, copy: State) -> str:
    """The first thing that differs, in words; empty if nothing does."""
    for what, tell in (("session", _sessions), ("task", _tasks), ("queue", _queues), ("outcome", _outcomes)):
        mine, theirs = tell(original), tell(copy)
        if tell is _sessions:
            _leave_out_offers(mine, theirs, original)
        elif tell is _outcomes:
            _leave_out_evicted(mine, theirs, original)
            _leave_out_evicted(theirs, mine, copy)
        if mine != theirs:
            name = next(name for name in (*mine, *theirs) if mine.get(name) != theirs.get(name))
            return f"{what} {name} differs: {theirs.get(name)!r} is a copy of {mine.get(name)!r}"
    return ""


def _sessions(state: State) -> Table:
    return {session.identity: _session(session) for session in _native(state)}


def _leave_out_offers(mine: Table, theirs: Table, original: State) -> None:
    """A worker that has yet to say READY is streamed without what it offered before."""
    for session in _native(original):
        if session.worker is not None and session.worker.is_negotiating:
            for table in (mine, theirs):
                if session.identity in table:
                    table[session.identity] = table[session.identity][:-1]


def _session(session: Session) -> tuple[object, ...]:
    worker = session.worker
    offers = [(service.name, service.workers[worker]) for service in worker.services] if worker is not None else []
    return session.nonce, session.role, session.home, session.config_type, session.services, offers


def _tasks(state: State) -> Table:
    return {show_id(entry.id): _task(entry) for entry in state.ledger.entries.values() if _is_streamed(entry)}


def _task(entry: Entry) -> tuple[object, ...]:
    task, worker = entry.task, entry.worker
    place = "queue" if worker is None else worker.session.identity if worker.session.dialect is WORKER else ""
    return task.service, task.body, task.priority, entry.attempt, entry.parts, entry.is_cancelled, place


def _queues(state: State) -> Table:
    queues = {name: service.queue.entries() for name, service in state.services.by_name.items()}
    told = {name: [show_id(entry.id) for entry in queue if _is_streamed(entry)] for name, queue in queues.items()}
    return {name: ids for name, ids in told.items() if ids}


def _outcomes(state: State) -> Table:
    """The oldest of each client first."""
    return {
        f"{session.identity}:{sequence}": _outcome(outcome)
        for session in _native(state)
        for sequence, outcome in session.kept.items()
        if sequence >= session.floor
    }


def _leave_out_evicted(ours: Table, others: Table, state: State) -> None:
    """What is older than all that `state` keeps of a client it may have forgotten for its caps."""
    if not state.outcomes.evictions:
        return
    has_begun = set()
    for name in list(others):
        client = name.rpartition(":")[0]
        if name in ours:
            has_begun.add(client)  # from here on both must have all
        elif client not in has_begun:
            del others[name]


def _outcome(outcome: TaskReply | Error) -> tuple[object, ...]:
    if isinstance(outcome, Error):
        return outcome.code, outcome.text
    return int(outcome.status), outcome.body


def _native(state: State) -> list[Session]:
    return [session for session in state.sessions.by_identity.values() if session.dialect in (CLIENT, WORKER)]


def _is_streamed(entry: Entry) -> bool:
    return entry.client.dialect is CLIENT and entry.size <= STREAMED_BYTES_MAX
