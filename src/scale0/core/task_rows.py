"""The one row that is recorded of a task, made when its outcome is known, from what its entry has kept.

A task costs one row whatever its life was; attempts that ended without an outcome are rare, and come beside it. This is
the hot path: the row is packed at once, and names are numbers by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scale0.core.journal import Journal, trace_of
from scale0.events import NEVER_S, NO_NAME, TASK, UNKNOWN_OFFSET, UNKNOWN_US, Attempt
from scale0.protocol.codes import Code
from scale0.protocol.dialects import PEER
from scale0.protocol.messages import NO_VERSION, Status, Task, TaskReply

if TYPE_CHECKING:
    from scale0.core.ledger import Entry
    from scale0.core.sessions import Session
    from scale0.core.state import State

ORIGIN, RELAY = 0, 1  # places in events.ROLES
REPLIED, FAILED, ERROR, REFUSED = range(4)  # places in events.OUTCOMES
OK: Final = int(Status.OK)
WORKER_LOST, MOVED = int(Code.WORKER_LOST), int(Code.MOVED)
EARLIER_MAX: Final = 16  # earlier attempts that are told of one task; the newest
U32: Final = 0xFFFF_FFFF
NO_REPLY: Final = TaskReply(b"", (), time_us=0, config_version=NO_VERSION)  # type: ignore[arg-type]

_pack = TASK.pack


def replied(state: State, entry: Entry, reply: TaskReply, reply_bytes: int) -> None:
    """A reply was the outcome: of the handler, or of its failure."""
    is_ok = reply.status == OK
    _settled(state, entry, REPLIED if is_ok else FAILED, 200 if is_ok else 500, reply, reply_bytes)


def failed(state: State, entry: Entry, code: int) -> None:
    """An error was the outcome."""
    earlier = entry.earlier
    if entry.worker is None and earlier and code == WORKER_LOST:  # the attempt that was just lost was its last
        last = earlier[-1]
        entry.earlier = earlier[:-1]
        _settled(state, entry, ERROR, code, NO_REPLY, 0, last)
    else:
        _settled(state, entry, ERROR, code, NO_REPLY, 0)


def moved(state: State, entry: Entry) -> None:
    """Its client has it from another broker now, which settles it: here only the fact is told."""
    _settled(state, entry, ERROR, MOVED, NO_REPLY, 0)


def _settled(
    state: State,
    entry: Entry,
    outcome: int,
    code: int,
    reply: TaskReply,
    reply_bytes: int,
    last: Attempt | None = None,
) -> None:
    journal = state.journal
    assert journal is not None, "somebody records"
    seq = journal.seq = journal.seq + 1
    void_no, config = journal.void_no, state.config.packed_version
    task, client, service = entry.task, entry.client, entry.service
    config_no = journal.config_no if config is journal.config else journal.see_config(config)
    client_no = client.name_no if client.name_no > void_no else journal.met(client)
    nonce, earlier, role = client.nonce, 0, ORIGIN
    if entry.is_forwarded or code == MOVED:
        role, nonce, client_no = RELAY, entry.id[:8], journal.number(entry.id[8:-8].decode(errors="replace"))
    worker_no, via_no, dispatched_s, offset_us, error_bits = _holder(journal, entry, last)
    if entry.earlier:
        earlier = _tell_earlier(journal, seq, entry.earlier)
    journal.tasks += _pack(
        seq,
        entry.sequence,
        nonce,
        entry.accepted_s,
        dispatched_s,
        state.now,
        task.send_time_us,
        reply.time_us,
        UNKNOWN_OFFSET if client.offset_us is None else client.offset_us,
        offset_us,
        reply.wait_us,
        reply.work_us,
        entry.size,
        reply_bytes,
        entry.parts,
        state.epoch & U32,
        entry.free,
        entry.waiting,
        len(service.workers),
        service.name_no if service.name_no > void_no else journal.named(service, service.name),
        client_no,
        worker_no,
        via_no,
        client.dialect_no,
        config_no,
        config_no if reply.config_version == config else _version_no(journal, reply),
        _trace_no(journal, task) if task.options else NO_NAME,
        code,
        client.offset_bits,
        error_bits,
        role,
        outcome,
        role,  # a relay is one broker away from the origin (rule 28), and the origin none
        task.priority,
        entry.attempt,
        earlier,
    )


def _holder(journal: Journal, entry: Entry, last: Attempt | None) -> tuple[int, int, float, int, int]:
    """Who had the last attempt: as a worker, or as the broker that it went to; since when, and how its clock is."""
    worker = entry.worker
    if worker is not None:
        session = worker.session
        number = session.name_no
        if number <= journal.void_no:
            number = journal.named(session, session.identity)
        sent_s = entry.sent_s if entry.sent_s >= 0 else NEVER_S  # a partner sent it, and did not say when
        if session.dialect is PEER:
            return NO_NAME, number, sent_s, UNKNOWN_OFFSET, 0
        offset_us = session.offset_us
        return number, NO_NAME, sent_s, UNKNOWN_OFFSET if offset_us is None else offset_us, session.offset_bits
    if last is not None:
        worker_no = journal.number(last.worker) if last.worker else NO_NAME
        via_no = journal.number(last.via) if last.via else NO_NAME
        return worker_no, via_no, last.dispatched_s, UNKNOWN_OFFSET, 0
    return NO_NAME, NO_NAME, NEVER_S, UNKNOWN_OFFSET, 0


def _version_no(journal: Journal, reply: TaskReply) -> int:
    """A reply that names another config than ours, or none."""
    return journal.number(reply.config_version) if any(reply.config_version) else NO_NAME


def _tell_earlier(journal: Journal, seq: int, earlier: tuple[Attempt, ...]) -> int:
    """Tell of the attempts before the last; how many they are."""
    told = earlier[-EARLIER_MAX:]
    for attempt in told:
        attempt.seq = seq
        journal.attempts.append(attempt)
    return len(told)


def _trace_no(journal: Journal, task: Task) -> int:
    trace = trace_of(task.options)
    return journal.number(trace) if trace else NO_NAME


def refused(state: State, client: Session, task: Task, code: int) -> None:
    """A task that was never accepted."""
    journal = state.journal
    assert journal is not None, "somebody records"
    journal.seq += 1
    journal.refused += 1
    number = journal.number
    service = state.services.by_name.get(task.service)
    journal.tasks += _pack(
        journal.seq,
        int.from_bytes(task.id[-8:], "big"),
        task.id[:8].ljust(8, b"\0"),
        state.now,
        NEVER_S,
        state.now,
        task.send_time_us,
        0,
        UNKNOWN_OFFSET if client.offset_us is None else client.offset_us,
        UNKNOWN_OFFSET,
        UNKNOWN_US,
        UNKNOWN_US,
        min(sum(map(len, task.body)), U32),
        0,
        0,
        state.epoch & U32,
        0,
        service.queue.count if service is not None else 0,
        len(service.workers) if service is not None else 0,
        number(task.service),
        number(client.identity),
        NO_NAME,
        NO_NAME,
        number(client.dialect.name),
        number(state.config.packed_version),
        NO_NAME,
        _trace_no(journal, task) if task.options else NO_NAME,
        code,
        client.offset_bits,
        0,
        ORIGIN,
        REFUSED,
        0,
        task.priority & 255,
        0,
        0,
    )


def attempt_over(state: State, entry: Entry, outcome: str) -> None:
    """An attempt ended without an outcome for its task: lost, returned or unsent."""
    worker = entry.worker
    if worker is None:
        return
    name = worker.session.identity
    is_peer = worker.session.dialect is PEER
    sent_s = entry.sent_s if entry.sent_s >= 0 else state.now
    attempt = Attempt(0, "" if is_peer else name, name if is_peer else "", sent_s, state.now, outcome)
    entry.earlier = (*entry.earlier[-EARLIER_MAX:], attempt)
