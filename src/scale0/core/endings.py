"""How a task ends: `settle_reply` or `settle_error`, exactly once for each that was accepted (spec, "the promise").

Whatever happened before, here is all that the outcome of a task touches: the books, the record, what is kept for a
client that asks again, a fallback that follows, and the client itself.
"""

from __future__ import annotations

from scale0.core import changes, delivery, task_rows, vitals
from scale0.core.effects import Send
from scale0.core.ledger import Entry
from scale0.core.outcomes import DeadLetter
from scale0.core.own_tasks import OWN
from scale0.core.state import State
from scale0.protocol.codes import Code
from scale0.protocol.dialects import CLIENT
from scale0.protocol.messages import Error, Status, TaskReply

OK = int(Status.OK)  # looking a member up in its Enum costs more than the comparison


def settle_reply(state: State, entry: Entry, message: TaskReply) -> None:
    """The one outcome is a reply: it is kept for resends, and goes to the client."""
    now = entry.settled_s = state.now
    state.ledger.settle(entry, False)
    if entry.joined:
        message = _joined(entry, message)
    service = entry.service
    service.meter.note(now, now - entry.accepted_s)
    client = entry.client
    if message.status != OK:
        vitals.note_failure(state, service, client)
    body = message.body
    size = len(body[0]) if len(body) == 1 else sum(map(len, body))
    client.settled_s = now
    if (journal := state.journal) is not None:
        task_rows.settled(journal, state, entry, message, size)
    if client.dialect.asks_again:
        state.outcomes.keep(client, entry.sequence, message, size)
        if state.stream is not None:
            changes.replied(state, entry, message)
    if client.dialect is CLIENT and not client.is_absent:  # nearly always
        state.effects.append(Send(client.route, CLIENT, message))
    else:
        delivery.deliver(state, client, message, service.name)


def settle_error(state: State, entry: Entry, code: Code, text: str) -> None:
    """The task ends without a reply. An entry that is queued leaves its queue."""
    if entry.is_queued:
        entry.service.queue.remove(entry)
        entry.is_queued = False
        state.ledger.queued -= 1
    state.ledger.settle(entry, True)
    if state.journal is not None:
        task_rows.failed(state.journal, state, entry, int(code))
    state.counters[f"error_{int(code)}"] += 1
    entry.service.meter.note(state.now, state.now - entry.accepted_s)
    client = entry.client
    vitals.note_error(state, entry.service, client, int(code))
    if code == Code.WORKER_LOST and not entry.is_forwarded and client.dialect is not OWN:
        _bury(state, entry, code, text)
    error = Error(code=int(code), text=text, id=entry.id)
    client.settled_s = state.now
    if client.dialect.asks_again:
        state.outcomes.keep(client, entry.sequence, error)
        if state.stream is not None:
            changes.failed(state, entry, error)
    delivery.deliver(state, client, error, entry.service.name)
    state.services.forget_if_idle(entry.service)


def _bury(state: State, entry: Entry, code: Code, text: str) -> None:
    letter = DeadLetter(
        entry.task, entry.client.identity, int(code), text, entry.attempt, state.wall_us(), entry.size + len(text)
    )
    state.dead_letters.add(letter)


def _joined(entry: Entry, last: TaskReply) -> TaskReply:
    """All parts and the final reply as one."""
    body = (*entry.joined, *last.body)
    return TaskReply(
        last.id,
        body,
        last.attempt,
        last.status,
        0,
        True,
        last.time_us,
        last.wait_us,
        last.work_us,
        last.config_version,
    )
