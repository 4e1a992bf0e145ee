"""A task's way through the broker: accepted, queued, dispatched, answered; or lost, returned, cancelled, too late.

Every accepted task gets exactly one outcome (spec, "the promise"), so each way out ends in `endings`. A worker with a
free slot and a waiting task for one of its services never exist at the same time: `offer` looks for a worker when a
task comes, `feed` looks for tasks when a slot is freed.
"""

from __future__ import annotations

from scale0.core import (
    afar,
    changes,
    delivery,
    doubt,
    endings,
    forwarding,
    hints,
    replication,
    task_rows,
    turns,
)
from scale0.core.effects import Send
from scale0.core.ledger import Entry
from scale0.core.sessions import Session
from scale0.core.state import State
from scale0.core.workers import Worker, delist, enlist, release
from scale0.protocol.codes import Code
from scale0.protocol.dialects import PEER, WORKER
from scale0.protocol.majordomo import MdpTask
from scale0.protocol.messages import Cancel, Flag, Status, Task, TaskId, TaskReply

DISPATCHING = ("active", "draining")  # I7: a disabled broker dispatches nothing; a draining one finishes what it holds
RESENT = int(Flag.RESENT)
OK, FAILED, RETURNED = map(int, Status)  # looking a member up in its Enum costs more than the comparison

# --- in ---------------------------------------------------------------------------------------------------------


def offer(state: State, entry: Entry) -> None:
    """Take in an accepted task: to the least recently used worker of its service, or into the queue."""
    state.ledger.accept(entry)
    if state.stream is not None:
        changes.accepted(state, entry)
    lru = entry.service.lru
    if lru:
        dispatch(state, entry, next(iter(lru)) if not state.damped else hints.pick(state, lru))
    elif entry.service.afar_lru and (peer := afar.pick(state, entry)) is not None:
        afar.send(state, entry, peer)
    else:
        entry.is_queued = True
        entry.service.queue.put(entry)
        state.ledger.queued += 1


def feed(state: State, worker: Worker) -> None:
    """Give an open worker what waits for it; with room left, it stands in the LRU queue.

    Rule 14: a freed slot takes, of its services, the highest priority, then the longest-waiting head.
    """
    if not worker.is_open or state.mode not in DISPATCHING:
        delist(worker)
        return
    while len(worker.slots) < worker.capacity:
        services = worker.services
        entry = services[0].queue.head(state.now) if len(services) == 1 else _next_for(state, worker)
        if entry is None:
            enlist(worker)
            return
        entry.service.queue.take(entry)
        entry.is_queued = False
        state.ledger.queued -= 1
        dispatch(state, entry, worker)
        if worker.session.dialect.is_req:  # its turn is over
            return


def _next_for(state: State, worker: Worker) -> Entry | None:
    """Of its services, the highest priority, then the longest-waiting head."""
    now = state.now
    heads = [(service.queue, service.queue.head(now)) for service in worker.services if service.queue.count]
    ranked = [(queue.rank(head, now), head) for queue, head in heads if head is not None]
    return max(ranked, key=lambda candidate: candidate[0])[1] if ranked else None


def dispatch(state: State, entry: Entry, worker: Worker) -> None:
    """Send the task to the worker: it takes a slot, and the worker moves to the back of its LRU queues (rule 5)."""
    now = state.now
    task = entry.task
    attempt = entry.attempt = entry.attempt + 1
    entry.worker = worker
    entry.sent_s = now
    if state.journal is not None:
        service = entry.service
        entry.free = len(service.lru) + (not worker.is_listed)
        entry.waiting = service.queue.count
    slots = worker.slots
    if slots:  # as `hold` does it
        slots[entry.id] = attempt
    else:
        slots = worker.slots = {entry.id: attempt}
    worker.dispatched += 1
    if worker.is_listed:
        if len(slots) >= worker.capacity:
            delist(worker)
        else:
            for service in worker.services:
                service.lru.move_to_end(worker)
    worker.used = 0
    session = worker.session
    if session.dialect.majordomo:
        leave(state, entry, Send(session.route, session.dialect, MdpTask(token(entry.id, attempt), task.body)))
        return
    # Rule 13: deadlines travel as remaining time and are re-based on each receiver's clock.
    remaining_ms = int((entry.deadline_s - now) * 1000)
    message = Task(
        entry.id,
        task.service,
        task.body,
        remaining_ms if remaining_ms > 0 else 1,
        attempt,
        task.priority,
        task.flags,
        task.send_time_us,
        0,
        int((now + state.wall_offset_s) * 1e6),
        state.config.packed_version,
        task.options,
    )
    if session.dialect is not WORKER:
        turns.end_turn(state, session)
    leave(state, entry, Send(session.route, session.dialect, message))


def leave(state: State, entry: Entry, send: Send) -> None:
    """A TASK goes on its way; while a fallback follows, not before that knows of it, if it must not run twice."""
    if state.stream is None:
        state.effects.append(send)
    else:
        replication.send(state, entry, send)


# --- answers ----------------------------------------------------------------------------------------------------


def reply(state: State, session: Session, message: TaskReply) -> None:
    """A worker's TASKREPLY.

    Rule 7: it counts only if id, attempt and worker match the wait queue's entry; any other is discarded and counted.
    Rule 6: a final one frees its slot even when it is late.
    """
    worker = session.worker
    assert worker is not None, "a worker's session has a worker"
    entry = state.ledger.entries.get(message.id)
    if entry is not None and (entry.worker is not worker or entry.attempt != message.attempt):
        entry = None
    if not message.final:
        if entry is not None:
            pass_part(state, entry, message)
        else:
            state.counters["late_replies"] += 1
        return
    is_freed = release(worker, message.id, message.attempt)
    worker.is_paused = False
    if entry is not None:
        status = message.status
        if status == OK or (status == FAILED and not entry.is_cancelled):
            endings.settle_reply(state, entry, message)
        elif status == RETURNED:
            worker.is_paused = True
            take_back(state, entry)
        else:  # a handler that stopped because it was told to
            endings.settle_error(state, entry, Code.CANCELLED, "cancelled while it ran")
    else:
        state.counters["late_replies"] += 1
        state.network.is_dirty = True  # a slot is free again, and no task was settled that would tell it
        other = state.ledger.entries.get(message.id)
        if is_freed and other is not None and other.worker is worker:  # what was sent last is not what it held
            lose_attempt(state, other, f"{session.identity} lost it with its connection")
    if is_freed and (not worker.is_listed or worker.is_paused):
        feed(state, worker)


def pass_part(state: State, entry: Entry, message: TaskReply) -> None:
    """Rule 12: parts are numbered, and once one has gone to the client the task is not repeatable."""
    if message.part != entry.parts:
        state.counters["parts_out_of_order"] += 1
        return
    entry.parts += 1
    if state.stream is not None:
        changes.part_passed(state, entry)
    if entry.client.dialect.takes_parts:
        delivery.deliver(state, entry.client, message, entry.service.name)
        return
    # Rule 3: for a client that can take only one answer, partial replies are joined.
    entry.joined.extend(message.body)
    if sum(map(len, entry.joined)) > state.limits.joined_bytes:
        text = f"the joined reply is over {state.limits.joined_bytes:,} bytes; use a DEALER socket to stream it"
        strand(state, entry)
        endings.settle_error(state, entry, Code.TOO_LARGE, text)


# --- other ways out ---------------------------------------------------------------------------------------------


def take_back(state: State, entry: Entry) -> None:
    """Rule 10: never started, so no attempt is counted, and it goes back to the front of its queue."""
    if state.journal is not None:
        task_rows.attempt_over(state, entry, "returned")
    entry.worker = None
    if entry.is_forwarded and not entry.is_cancelled:  # rule 28: only the origin queues
        forwarding.give_back(state, entry)
        return
    if entry.is_rivalled and not (entry.service.idempotent or entry.is_cancelled):  # it may have come back before
        endings.settle_error(
            state, entry, Code.WORKER_LOST, "outcome unknown: another broker may have given it out since"
        )
        return
    entry.attempt -= 1
    _queue_again(state, entry)


def lose_attempt(state: State, entry: Entry, why: str) -> None:
    """Its worker is lost. Rule 9: dispatched again if the service is idempotent, up to max_attempts, else 502."""
    if state.stream is not None and replication.unhold(state, entry):
        take_back(state, entry)  # it has not left yet
        return
    service = entry.service
    may_repeat = service.idempotent and not (entry.parts and entry.client.dialect.takes_parts)
    if state.journal is not None:
        task_rows.attempt_over(state, entry, "lost")
    entry.worker = None
    entry.parts = 0
    entry.joined.clear()
    if entry.is_cancelled:
        endings.settle_error(state, entry, Code.CANCELLED, "cancelled, and its worker was lost")
    elif entry.is_forwarded:  # it is for the origin to repeat it
        endings.settle_error(state, entry, Code.WORKER_LOST, why)
    elif may_repeat and entry.attempt < service.max_attempts:
        state.counters["repeats"] += 1
        _queue_again(state, entry)
    elif may_repeat:
        endings.settle_error(state, entry, Code.WORKER_LOST, f"{why}; attempt {entry.attempt} was the last one allowed")
    else:
        text = f"{why}; the task may have run, and {service.name} is not declared idempotent"
        endings.settle_error(state, entry, Code.WORKER_LOST, text)


def _queue_again(state: State, entry: Entry) -> None:
    if entry.is_cancelled:
        endings.settle_error(state, entry, Code.CANCELLED, "cancelled before it ran")
    elif state.mode in ("disabling", "disabled"):
        endings.settle_error(state, entry, Code.NOT_ACCEPTING, "the broker is being disabled")
    elif lru := entry.service.lru:
        dispatch(state, entry, next(iter(lru)) if not state.damped else hints.pick(state, lru))
    elif entry.service.afar_lru and (peer := afar.pick(state, entry)) is not None:
        afar.send(state, entry, peer)
    else:
        entry.is_queued = True
        entry.service.queue.put_first(entry)
        state.ledger.queued += 1
        if state.stream is not None:
            changes.queued_again(state, entry)


def cancel(state: State, entry: Entry) -> None:
    """Rule 12: queued, 499 at once; dispatched, forwarded, and the first final settles it."""
    if entry.is_queued or (state.stream is not None and replication.recall(state, entry)):
        endings.settle_error(state, entry, Code.CANCELLED, "cancelled in the queue")
    elif not entry.is_cancelled:
        entry.is_cancelled = True
        if state.stream is not None:
            changes.cancelled(state, entry)
        _tell_cancel(state, entry)


def abandon(state: State, entry: Entry, why: str) -> None:
    """Its client's session ends: what waits is not run, and of what runs nobody here will know the outcome."""
    if state.stream is not None:
        replication.recall(state, entry)
    strand(state, entry)
    endings.settle_error(state, entry, Code.CANCELLED, why)


def expire_overdue(state: State) -> None:
    """Deadlines that have passed, also while another one of the pair had to keep them: nothing is given out after.

    What waits comes first: a slot that becomes free by what has not left is for nothing that is too late itself.
    """
    for entry in sorted(state.ledger.overdue(state.now), key=_is_given):
        expire(state, entry)


def _is_given(entry: Entry) -> bool:
    return entry.worker is not None


def expire(state: State, entry: Entry) -> None:
    """Its deadline has passed.

    Rule 6: a deadline never frees a slot. The client gets 504, the worker CANCEL, and the slot counts as stuck.
    """
    if state.stream is not None:
        replication.recall(state, entry)
    worker = entry.worker
    if worker is None:
        waited_s = state.now - entry.accepted_s
        known = len(entry.service.workers)
        text = f"no worker of {entry.service.name} was free within {waited_s:.3g} s ({known} known)"
        if entry.attempt or entry.task.flags & RESENT or doubt.is_rivalled(state):  # 408 would say that it never ran
            endings.settle_error(state, entry, Code.DEADLINE_IN_FLIGHT, f"{text}; it may have run before")
        else:
            endings.settle_error(state, entry, Code.DEADLINE_IN_QUEUE, text)
        return
    strand(state, entry)
    worker.recent.append(state.now - entry.sent_s)
    text = f"{worker.session.identity} did not reply by the deadline (attempt {entry.attempt})"
    endings.settle_error(state, entry, Code.DEADLINE_IN_FLIGHT, text)
    if not worker.has_heartbeat:  # rule 18: past a deadline it leaves the LRU queue until it speaks
        worker.is_paused = True
        delist(worker)


def strand(state: State, entry: Entry) -> None:
    """The task will be settled while its worker still holds it: the worker is told, and its slot counts as stuck."""
    worker = entry.worker
    if worker is not None and worker.slots.get(entry.id) == entry.attempt:
        worker.stuck |= {entry.id}
    _tell_cancel(state, entry)


def _tell_cancel(state: State, entry: Entry) -> None:
    """Majordomo and REQ workers cannot be told."""
    worker = entry.worker
    if worker is not None and worker.session.dialect in (WORKER, PEER) and not worker.session.is_absent:
        state.effects.append(Send(worker.session.route, worker.session.dialect, Cancel(id=entry.id)))


def token(task_id: TaskId, attempt: int) -> bytes:
    """What a Majordomo worker gets as its client's address: the id and the attempt."""
    return task_id + bytes((attempt,))
