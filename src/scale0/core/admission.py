"""TASK and CANCEL from clients: who may submit what, and what a repeated id means.

A task is refused with an ERROR, or accepted, once and for all. Rule 8: an id is looked up under its sender only. One
that is still open is a repetition and changes nothing; one that is settled gets its outcome again; one flagged `resent`
that this broker does not hold may have run under another, so it is dispatched only if its service is idempotent.
"""

from __future__ import annotations

from scale0.core import access, builtin, changes, delivery, endings, forwarding, replication, routing, task_rows, vitals
from scale0.core.ledger import Entry
from scale0.core.services import RESERVED, Service
from scale0.core.sessions import Session
from scale0.core.state import State
from scale0.core.stream import STREAMED_BYTES_MAX
from scale0.protocol.codes import Code
from scale0.protocol.ids import sequence_of
from scale0.protocol.limits import REMAINING_MS_MAX, SERVICE_BYTES_MAX
from scale0.protocol.messages import Cancel, Error, Flag, Task

RESENT, PARTLY_ANSWERED, SAME_PAIR = map(int, Flag)  # looking a member up in its Enum costs more than the test
OUTCOME_UNKNOWN = (
    "outcome unknown: it was sent before, this broker does not hold it, and it is not repeatable "
    "(its service is not declared idempotent, or parts of its reply were received)"
)
FORGET_AT_ONCE = 64  # outcomes that a TASK acknowledges are forgotten when there are so many; a PING's at once


def task(state: State, session: Session, message: Task) -> None:
    """TASK: accept it, answer it again, or refuse it."""
    task_id = message.id
    sequence = int.from_bytes(task_id[-8:], "big")
    if task_id[:-8] != session.prefix or message.behind > sequence:
        refuse(state, session, message, Code.MALFORMED, "the id is not of this session: identity, nonce, sequence")
        state.error_clients.blame(session.route, "an id of another session", state.now)
        return
    behind = message.behind
    if behind and sequence - behind > session.floor + FORGET_AT_ONCE:
        state.outcomes.forget_below(session, sequence - behind)
        if state.stream is not None:
            changes.forgotten(state, session)
    if sequence > session.highest:
        session.highest = sequence
        # Rule 31: the copy that this broker took over from had not heard of it, so its partner has not dispatched it,
        # as long as that waits for the copy. One that was not told of it because it may be repeated has been
        # dispatched, if its reply has begun.
        is_copied = message.flags & SAME_PAIR and state.now < session.copied_until_s
        is_fresh = is_copied and not message.flags & PARTLY_ANSWERED
        if is_fresh and sum(map(len, message.body)) <= STREAMED_BYTES_MAX:
            message.flags &= ~(RESENT | SAME_PAIR)
    elif _is_known(state, session, message, sequence):
        return
    submit(state, session, message, sequence)


def _is_known(state: State, session: Session, message: Task, sequence: int) -> bool:
    """An id that may have been here before: open, settled, or acknowledged. False if it is not held."""
    if sequence in session.kept:  # also if it runs once more, for a broker that its client had gone to meanwhile
        state.counters["outcomes_repeated"] += 1
        delivery.deliver(state, session, session.kept[sequence], message.service)
    elif message.id in state.ledger.entries:
        _hear_repeated(state, session, message)
    elif sequence < session.floor:
        state.counters["tasks_after_acknowledgement"] += 1
    else:
        return False
    return True


def _hear_repeated(state: State, session: Session, message: Task) -> None:
    """It is under way here: for this client, or for a broker that this client has left."""
    entry = state.ledger.entries[message.id]
    if entry.client is session:
        state.counters["repeated_tasks"] += 1
        # Rule 12: its client has parts that the copy of this broker does not know of. Another run's must not follow.
        if message.flags & PARTLY_ANSWERED and not entry.parts:
            routing.strand(state, entry)
            endings.settle_error(state, entry, Code.WORKER_LOST, OUTCOME_UNKNOWN)
    else:
        forwarding.adopt(state, entry, session)


def submit(state: State, session: Session, message: Task, sequence: int) -> None:
    """A task that this broker does not know yet, in any dialect."""
    name = message.service
    if session.grant is not None and not session.grant.may_call(name):
        refuse(state, session, message, Code.NOT_ALLOWED, access.why_not_called(session, name))
        return
    service = state.services.by_name.get(name)
    if service is None and name.startswith(RESERVED) and state.mode != "disabling":
        builtin.serve(state, session, message)
        return
    if state.mode not in ("active", "holding"):
        refuse(state, session, message, Code.NOT_ACCEPTING, f"this broker is {state.mode}; ask another, or later")
        return
    if service is None:
        service = _unknown(state, session, message)
        if service is None:
            return
    if message.id in state.ledger.entries:  # another broker has forwarded it here
        _hear_repeated(state, session, message)
        return
    if message.flags & RESENT and not _may_repeat(state, service, message):
        refuse(state, session, message, Code.WORKER_LOST, OUTCOME_UNKNOWN)
        return
    body = message.body
    size = len(body[0]) if len(body) == 1 else sum(map(len, body))
    # Rule 33: every queue has a maximum in messages and in bytes, and says so when it is full.
    limits, ledger = state.limits, state.ledger
    if (
        len(ledger.entries) >= limits.accepted
        or ledger.bytes + size > limits.accepted_bytes
        or session.open_tasks >= limits.accepted_per_client
        or (not service.lru and service.queue.is_over(limits.queued_per_service, limits.queued_bytes_per_service, size))
    ):
        refuse(state, session, message, Code.OVER_LIMIT, _which_limit(state, session, service, size))
        return
    now = state.now
    remaining_ms = message.remaining_ms
    timeout_s = service.timeout_s if not remaining_ms else min(remaining_ms, REMAINING_MS_MAX) / 1000
    if timeout_s > session.longest_timeout_s:
        session.longest_timeout_s = timeout_s
    routing.offer(state, Entry(message.id, sequence, message, session, service, size, now, now + timeout_s))


def _may_repeat(state: State, service: Service, message: Task) -> bool:
    """Whether a task that may have run before may run again.

    Soon after the broker's start its workers may not have said yet that it may: then it waits for their word, and
    `judge_resent` has the last one.
    """
    if message.flags & PARTLY_ANSWERED:
        return False
    return service.idempotent or (not service.has_terms and state.is_settling)


def judge_resent(state: State, service: Service) -> None:
    """The first worker of this service has said what its tasks are: those that must not run again end here."""
    if service.idempotent:
        count_unseen(state, service)
        return
    for entry in service.queue.entries():
        if entry.task.flags & RESENT:
            endings.settle_error(state, entry, Code.WORKER_LOST, OUTCOME_UNKNOWN)


def count_unseen(state: State, service: Service) -> None:
    """Rule 12: what waits in the copy of one that took over may have left without its knowing, if it may be repeated.

    Then that was an attempt, and ours is another: so a client that has parts of its reply can tell the two apart.
    """
    if not service.idempotent:
        return
    waiting = [entry for entry in service.queue.entries() if entry.accepted_s <= state.woke_s]
    unseen = [entry for entry in waiting if entry.attempt + 1 < service.max_attempts]
    for entry in unseen:
        entry.attempt += 1
    if unseen and state.stream is not None and not state.stream.is_lost:
        replication.begin(state)  # no change says this alone: who follows already gets a new copy


def cancel(state: State, session: Session, message: Cancel) -> None:
    """CANCEL: the client no longer wants it."""
    task_id = message.id
    if len(task_id) <= 16 or task_id[:-8] != session.prefix:
        state.refuse(session, Code.MALFORMED, "the id is not of this session", id=task_id)
        return
    entry = state.ledger.entries.get(task_id)  # type: ignore[call-overload]
    if entry is not None:
        routing.cancel(state, entry)
    elif (outcome := session.kept.get(sequence_of(task_id))) is not None:
        delivery.deliver(state, session, outcome, "")
    else:
        text = "outcome unknown: this broker does not hold it; it was settled and forgotten, or never came here"
        state.refuse(session, Code.WORKER_LOST, text, id=task_id)


def end_settling(state: State) -> None:
    """The time after the start is over: who waits for a service that nobody has announced gets 404 now.

    Rule 31: 404 says that it never ran. What a fallback may run yet waits on, until its deadline, which both know.
    """
    state.has_settled = True
    unknown = [service for service in state.services.by_name.values() if not service.is_announced]
    for service in unknown:
        for entry in service.queue.entries():
            if entry.task.flags & RESENT:
                endings.settle_error(state, entry, Code.WORKER_LOST, OUTCOME_UNKNOWN)
            elif not entry.client.dialect.majordomo and not replication.may_run_yet(state, entry):
                endings.settle_error(state, entry, Code.UNKNOWN_SERVICE, _nobody_announced(state, service.name))


def refuse(state: State, session: Session, message: Task, code: Code, text: str, **detail: object) -> None:
    """The task is not accepted. Majordomo clients hear nothing, and are counted."""
    state.counters[f"refused_{int(code)}"] += 1
    vitals.note_error(state, state.services.by_name.get(message.service), session, int(code))
    if state.journal is not None:
        task_rows.refused(state.journal, state, session, message, int(code))
    if session.dialect.majordomo:
        state.counters["majordomo_errors_unsaid"] += 1
        return
    error = Error(code=int(code), text=text, id=message.id, detail=detail)
    delivery.deliver(state, session, error, message.service)


def _unknown(state: State, session: Session, message: Task) -> Service | None:
    """A service that nobody has announced.

    Rule 16: 404 at once, with near names; a Majordomo client's request waits, as RFC 7 asks. Rule 4: soon after the
    broker's start unknown services wait too, since their workers may not be back yet.
    """
    name = message.service
    if not 0 < len(name.encode()) <= SERVICE_BYTES_MAX or not name.isprintable():
        text = f"a service name has 1 to {SERVICE_BYTES_MAX} bytes, all printable"
        refuse(state, session, message, Code.MALFORMED, text)
        return None
    if not state.services.manages(name) and not (state.network.peers and state.is_settling):
        refuse(state, session, message, Code.UNKNOWN_SERVICE, f"this broker does not manage {name}")
        return None
    if not session.dialect.majordomo and not state.is_settling:
        near = state.services.near(name)
        refuse(state, session, message, Code.UNKNOWN_SERVICE, _nobody_announced(state, name), near=near)
        return None
    if not state.services.has_room():
        text = f"this broker knows {state.limits.services:,} services, its limit"
        refuse(state, session, message, Code.OVER_LIMIT, text)
        return None
    return state.services.add(name, state.now)


def _nobody_announced(state: State, name: str) -> str:
    near = [known for known in state.services.near(name) if known != name]
    hint = f"; did you mean {' or '.join(near)}?" if near else "; start one: scale0 worker module:app"
    return f"no worker has announced {name}{hint}"


def _which_limit(state: State, session: Session, service: Service, size: int) -> str:
    limits, ledger, queue = state.limits, state.ledger, service.queue
    if queue.is_over(limits.queued_per_service, limits.queued_bytes_per_service, size):
        return f"{queue.count:,} tasks ({queue.bytes:,} bytes) wait for {service.name}: the limit"
    if len(ledger.entries) >= limits.accepted or ledger.bytes + size > limits.accepted_bytes:
        return f"this broker holds {len(ledger.entries):,} tasks ({ledger.bytes:,} bytes): the limit"
    return f"this client has {session.open_tasks:,} open tasks: the limit"
