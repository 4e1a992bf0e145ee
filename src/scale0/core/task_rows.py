"""The one row that is recorded of a task, made when its outcome is known, from what its entry has kept.

A task costs one row whatever its life was; attempts that ended without an outcome are rare, and come beside it. This is
the hot path: the row is packed at once, and names are numbers by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scale0.core.journal import U32, Journal, trace_of
from scale0.events import (
    CLIENT_PART,
    ENDING_PART,
    HOLDER_PART,
    NEVER_S,
    NO_NAME,
    TASK_OF_PARTS,
    UNKNOWN_OFFSET,
    UNKNOWN_US,
    Attempt,
)
from scale0.protocol.codes import Code
from scale0.protocol.dialects import PEER
from scale0.protocol.ids import identity_of
from scale0.protocol.messages import NO_VERSION, Status, Task, TaskReply

if TYPE_CHECKING:
    from scale0.core.ledger import Entry
    from scale0.core.sessions import Session
    from scale0.core.state import State

ORIGIN, RELAY = 0, 1  # places in events.ROLES
REPLIED, FAILED, ERROR, REFUSED = range(4)  # places in events.OUTCOMES
OK: Final = int(Status.OK)
EARLIER_MAX: Final = 16  # earlier attempts that are told of one task; the newest
NO_HOLDER: Final = HOLDER_PART.pack(UNKNOWN_OFFSET, NO_NAME, NO_NAME, 0)
REPLIED_PART: Final = ENDING_PART.pack(200, ORIGIN, REPLIED, 0)
FAILED_PART: Final = ENDING_PART.pack(500, ORIGIN, FAILED, 0)
LOST_PART: Final = ENDING_PART.pack(int(Code.WORKER_LOST), ORIGIN, ERROR, 0)
MOVED_PART: Final = ENDING_PART.pack(int(Code.MOVED), ORIGIN, ERROR, 0)
NO_REPLY: Final = TaskReply(b"", (), time_us=0, config_version=NO_VERSION)  # type: ignore[arg-type]

_pack = TASK_OF_PARTS.pack


def settled(
    journal: Journal, state: State, entry: Entry, reply: TaskReply, reply_bytes: int, ending: bytes | None = None
) -> None:
    """The task's outcome is a reply, of its handler or of that one's failure; or what `ending` tells."""
    if ending is None:
        ending = REPLIED_PART if reply.status == OK else FAILED_PART
    seq = journal.seq = journal.seq + 1
    void_no, config, epoch = journal.void_no, state.config.packed_version, state.epoch
    here = journal.here
    if config is not journal.config or epoch != journal.epoch:
        here = journal.look_around(config, epoch)
    task, client, service, worker = entry.task, entry.client, entry.service, entry.worker
    is_relayed = entry.is_forwarded or ending is MOVED_PART
    if is_relayed:  # a peer's own part is that of one who holds tasks
        asker = _client_behind(journal, client, entry)
    else:
        asker = client.row_part if client.name_no > void_no else _client_part(journal, client)
    if worker is not None:
        session = worker.session
        holder = session.row_part if session.name_no > void_no else _holder_part(journal, session)
        dispatched_s = entry.sent_s
        if dispatched_s < 0:  # a partner sent it, and did not say when
            dispatched_s = NEVER_S
    else:
        holder, dispatched_s = _former_holder(journal, entry, ending)
    if is_relayed:
        ending = _relayed(ending)
    journal.tasks.append(
        _pack(
            seq,
            entry.sequence,
            entry.accepted_s,
            dispatched_s,
            state.now,
            task.send_time_us,
            reply.time_us,
            reply.wait_us,
            reply.work_us,
            entry.size,
            reply_bytes,
            entry.parts,
            entry.free,
            entry.waiting,
            len(service.workers),
            service.name_no if service.name_no > void_no else journal.named(service, service.name),
            journal.config_no if reply.config_version == config else _version_no(journal, reply),
            _trace_no(journal, task) if task.options else NO_NAME,
            ending,
            task.priority,
            entry.attempt,
            _tell_earlier(journal, seq, entry.earlier) if entry.earlier else 0,
            asker,
            holder,
            here,
        )
    )


def failed(journal: Journal, state: State, entry: Entry, code: int) -> None:
    """The task's outcome is an error."""
    settled(journal, state, entry, NO_REPLY, 0, ENDING_PART.pack(code, ORIGIN, ERROR, 0))


def moved(journal: Journal, state: State, entry: Entry) -> None:
    """Its client has it from another broker now, which settles it: here only the fact is told."""
    settled(journal, state, entry, NO_REPLY, 0, MOVED_PART)


def _relayed(ending: bytes) -> bytes:
    """The same ending at a relay, which is one broker away from the origin (rule 28), as the origin is none."""
    code, _, outcome, _ = ENDING_PART.unpack(ending)
    return ENDING_PART.pack(code, RELAY, outcome, 1)


def _client_part(journal: Journal, client: Session) -> bytes:
    """What all rows of a client's tasks say of it, kept until something of it changes."""
    number = journal.named(client, client.identity)
    client.row_part = _client(journal, client, client.nonce, number)
    return client.row_part


def _client_behind(journal: Journal, peer: Session, entry: Entry) -> bytes:
    """The client behind a peer: what is known of it stands in the task's id; clock and dialect are the peer's."""
    return _client(journal, peer, entry.id[:8], journal.number(identity_of(entry.id)))


def _client(journal: Journal, session: Session, nonce: bytes, number: int) -> bytes:
    offset_us = UNKNOWN_OFFSET if session.offset_us is None else session.offset_us
    return CLIENT_PART.pack(nonce, offset_us, number, journal.number(session.dialect.name), session.offset_bits)


def _holder_part(journal: Journal, session: Session) -> bytes:
    """What all rows say of a worker, or of a broker that tasks go to, kept until something of it changes."""
    number = journal.named(session, session.identity)
    if session.dialect is PEER:
        session.row_part = HOLDER_PART.pack(UNKNOWN_OFFSET, NO_NAME, number, 0)
    else:
        offset_us = UNKNOWN_OFFSET if session.offset_us is None else session.offset_us
        session.row_part = HOLDER_PART.pack(offset_us, number, NO_NAME, session.offset_bits)
    return session.row_part


def _former_holder(journal: Journal, entry: Entry, ending: bytes) -> tuple[bytes, float]:
    """Who had the attempt that was just lost, if it was the task's last, and since when."""
    if not entry.earlier or ending != LOST_PART:
        return NO_HOLDER, NEVER_S
    *earlier, last = entry.earlier
    entry.earlier = tuple(earlier)
    worker_no = journal.number(last.worker) if last.worker else NO_NAME
    via_no = journal.number(last.via) if last.via else NO_NAME
    return HOLDER_PART.pack(UNKNOWN_OFFSET, worker_no, via_no, 0), last.dispatched_s


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


def refused(journal: Journal, state: State, client: Session, task: Task, code: int) -> None:
    """A task that was never accepted."""
    journal.seq += 1
    journal.refused += 1
    service = state.services.by_name.get(task.service)
    journal.tasks.append(
        _pack(
            journal.seq,
            int.from_bytes(task.id[-8:], "big"),
            state.now,
            NEVER_S,
            state.now,
            task.send_time_us,
            0,
            UNKNOWN_US,
            UNKNOWN_US,
            min(sum(map(len, task.body)), U32),
            0,
            0,
            0,
            service.queue.count if service is not None else 0,
            len(service.workers) if service is not None else 0,
            journal.number(task.service),
            NO_NAME,
            _trace_no(journal, task) if task.options else NO_NAME,
            ENDING_PART.pack(code, ORIGIN, REFUSED, 0),
            task.priority & 255,
            0,
            0,
            _client(journal, client, task.id[:8].ljust(8, b"\0"), journal.number(client.identity)),
            NO_HOLDER,
            journal.look_around(state.config.packed_version, state.epoch),
        )
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
