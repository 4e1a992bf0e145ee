"""The ledger: every accepted task, exactly once, from its acceptance to its one outcome.

An entry is queued, or it has a worker and is in the wait queue. At every moment
accepted = replied + errored + queued + in flight (I11), because entries come in by `accept` and go out by `settle`.
"""

from __future__ import annotations

import msgspec

from scale0.core.services import Service
from scale0.core.sessions import Session
from scale0.core.timers import Timetable
from scale0.core.workers import Worker
from scale0.protocol.messages import Task, TaskId

DEADLINE_RESOLUTION_S = 0.02


class Entry(msgspec.Struct, eq=False, gc=False):
    """One accepted task."""

    id: TaskId
    task: Task
    client: Session
    service: Service
    size: int
    accepted_s: float
    deadline_s: float
    bucket: int = 0  # of the deadline
    is_queued: bool = False
    worker: Worker | None = None
    attempt: int = 0  # dispatches that count
    dispatched_s: float = 0.0
    parts: int = 0  # partial replies that went to the client
    is_cancelled: bool = False
    joined: list[bytes] = []  # bodies of partial replies, for a client that takes only one answer


class Ledger:
    """Accepted tasks by id, with their deadlines."""

    def __init__(self) -> None:
        self.entries: dict[TaskId, Entry] = {}
        self.deadlines: Timetable[TaskId, Entry] = Timetable(DEADLINE_RESOLUTION_S)
        self.bytes = 0
        self.queued = 0
        self.accepted = 0
        self.replied = 0
        self.errored = 0

    @property
    def in_flight(self) -> int:
        return len(self.entries) - self.queued

    def accept(self, entry: Entry) -> None:
        self.entries[entry.id] = entry
        entry.bucket = self.deadlines.add(entry.id, entry, entry.deadline_s)
        self.bytes += entry.size
        self.accepted += 1
        client = entry.client
        client.open_tasks += 1
        if entry.deadline_s > client.latest_deadline_s:
            client.latest_deadline_s = entry.deadline_s

    def settle(self, entry: Entry, is_error: bool) -> None:
        """The entry's outcome is known: nothing that comes later for it counts."""
        del self.entries[entry.id]
        if entry.bucket:
            self.deadlines.remove(entry.id, entry.bucket)
        self.bytes -= entry.size
        entry.client.open_tasks -= 1
        if is_error:
            self.errored += 1
        else:
            self.replied += 1

    def overdue(self, now: float) -> list[Entry]:
        """Entries whose deadline has passed; the caller settles each."""
        due = self.deadlines.due(now)
        for entry in due:
            entry.bucket = 0
        return due
