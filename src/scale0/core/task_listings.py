"""Which tasks wait or run now, and which failed their last attempt. Never what is in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scale0.core.ledger import Entry
from scale0.core.listings import Row, Shown, iso, us
from scale0.core.state import State
from scale0.protocol.dialects import PEER
from scale0.protocol.ids import show_id

TASKS_MAX: Final = 1_000  # that are listed; `total` counts all


def tasks(state: State) -> Iterator[Row]:
    """The nearest deadline first."""
    shown = Shown()
    for entry in state.ledger.nearest(TASKS_MAX):
        if state.ledger.entries.get(entry.id) is entry:
            yield _task(state, entry, shown)


def _task(state: State, entry: Entry, shown: Shown) -> Row:
    now, worker = state.now, entry.worker
    task_id = shown.id(entry.id)
    holder = worker.session if worker is not None else None
    is_afar = holder is not None and holder.dialect is PEER
    return {
        "id": task_id,
        "service": entry.service.name,
        "client": task_id.rsplit(".", 2)[0],
        "origin": entry.client.identity if entry.is_forwarded else None,
        "state": "queued" if entry.is_queued else "in_flight",
        "age_us": us(now - entry.accepted_s),
        "deadline_us": us(entry.deadline_s - now),
        "attempt": entry.attempt,
        "worker": holder.identity if holder is not None and not is_afar else None,
        "via": holder.identity if holder is not None and is_afar else None,
        "priority": entry.task.priority,
        "is_cancelled": entry.is_cancelled,
        "bytes": entry.size,
    }


def dead_letters(state: State) -> Iterator[Row]:
    """The newest first."""
    for letter in list(reversed(state.dead_letters.letters)):
        yield {
            "id": show_id(letter.task.id),
            "service": letter.task.service,
            "client": letter.client,
            "code": letter.code,
            "text": letter.text,
            "attempts": letter.attempts,
            "retries": letter.retries,
            "died_at": iso(letter.died_us),
            "bytes": letter.size,
        }
