"""The ledger: every accepted task, exactly once, from its acceptance to its one outcome.

An entry is queued, or it has a worker and is in the wait queue. At every moment
accepted = replied + errored + queued + in flight (I11), because entries come in by `accept` and go out by `settle`.
"""

from __future__ import annotations

import math
from itertools import islice

import msgspec

from scale0.core.services import Service
from scale0.core.sessions import Session
from scale0.core.timers import Timetable
from scale0.core.workers import Worker
from scale0.events import Attempt
from scale0.protocol.messages import Task, TaskId

DEADLINE_RESOLUTION_S = 0.02
YOUNG_S = 0.1
NOTED = 64  # of the tasks that are settled while young, about so many in that time say how long their workers took


class Entry(msgspec.Struct, eq=False, gc=False):
    """One accepted task."""

    id: TaskId
    sequence: int  # of its id
    task: Task
    client: Session
    service: Service
    size: int
    accepted_s: float
    deadline_s: float
    sent_s: float = 0.0  # when its present attempt was dispatched
    settled_s: float = 0.0  # by a reply
    free: int = 0  # workers with room for it then, and
    waiting: int = 0  # tasks of its service that waited; both only if somebody records
    earlier: tuple[Attempt, ...] = ()  # attempts that ended without an outcome, if somebody records
    bucket: int = 0  # of the deadline
    is_queued: bool = False
    worker: Worker | None = None
    attempt: int = 0  # dispatches that count
    parts: int = 0  # partial replies that went to the client
    is_cancelled: bool = False
    is_forwarded: bool = False  # its client is a peer, its origin
    is_rivalled: bool = False  # it is in flight, by a state that another broker may have gone on from
    joined: list[bytes] = []  # bodies of partial replies, for a client that takes only one answer


def _note_duration(entry: Entry) -> None:
    """How long its worker took, if that has answered: of all that took long, and of some of the others."""
    if entry.settled_s and entry.worker is not None:
        entry.worker.recent.append(entry.settled_s - entry.sent_s)


def _deadline_of(entry: Entry) -> float:
    return entry.deadline_s


class Ledger:
    """Accepted tasks by id, in the order of their acceptance, with their deadlines.

    Nearly every task is settled within milliseconds. So a task is young at first, and its deadline is filed only if it
    is still open when it is no longer young: most deadlines are never filed at all. The young ones are the last of all
    entries, and nothing else remembers them: what is settled is freed at once, and its memory is used again while it
    is still in the cache.
    """

    def __init__(self) -> None:
        self.entries: dict[TaskId, Entry] = {}
        self.bytes = 0
        self.queued = 0
        self.accepted = 0
        self.replied = 0
        self.errored = 0
        # Of the settled, what leaves no row here: the broker's own answers, and what its partner settled.
        self.unrecorded_replies = 0
        self.unrecorded_errors = 0
        self._deadlines: Timetable[TaskId, Entry] = Timetable(DEADLINE_RESOLUTION_S)
        self._young = 0  # accepted since deadlines were last filed; of these, the open ones are the last entries
        self._young_until_s = math.inf
        self._stride = 1  # one in so many of those that are settled while young says how long it took

    @property
    def in_flight(self) -> int:
        return len(self.entries) - self.queued

    def accept(self, entry: Entry) -> None:
        self.entries[entry.id] = entry
        self.bytes += entry.size
        self.accepted += 1
        entry.client.open_tasks += 1
        if entry.deadline_s - entry.accepted_s <= YOUNG_S:
            entry.bucket = self._deadlines.add(entry.id, entry, entry.deadline_s)
        elif self._young_until_s == math.inf:
            self._young_until_s = entry.accepted_s + YOUNG_S
        self._young += 1

    def settle(self, entry: Entry, is_error: bool) -> None:
        """The entry's outcome is known: nothing that comes later for it counts."""
        del self.entries[entry.id]
        if entry.bucket:
            self._deadlines.remove(entry.id, entry.bucket)
            entry.bucket = 0
            _note_duration(entry)
        elif not self.replied % self._stride:
            _note_duration(entry)
        self.bytes -= entry.size
        entry.client.open_tasks -= 1
        if is_error:
            self.errored += 1
        else:
            self.replied += 1

    def withdraw(self, entry: Entry) -> None:
        """As if it had never been accepted: it goes back to its origin."""
        self.settle(entry, False)
        self.replied -= 1
        self.accepted -= 1

    def hand_over(self, entry: Entry, client: Session) -> None:
        """Another session is its client from now on."""
        entry.client.open_tasks -= 1
        entry.client = client
        client.open_tasks += 1

    def clear(self) -> None:
        """As if what is open had never been accepted: another broker has it."""
        self.accepted -= len(self.entries)
        for entry in self.entries.values():
            entry.client.open_tasks -= 1
        self.entries.clear()
        self.bytes = self.queued = 0
        self._deadlines.clear()
        self._young = 0
        self._young_until_s = math.inf

    def overdue(self, now: float) -> list[Entry]:
        """Entries whose deadline has passed; the caller settles each."""
        self.grow_up(now)
        due = self._deadlines.due(now)
        for entry in due:
            entry.bucket = 0
        return due

    def nearest(self, count: int) -> list[Entry]:
        """The `count` open tasks whose deadlines come next, the nearest first."""
        found = self._deadlines.soonest(count)
        found += self._open_young()
        found.sort(key=_deadline_of)
        return found[:count]

    def next_s(self) -> float:
        """When `overdue` may have something, at the earliest."""
        next_s = self._deadlines.next_s  # asked for after each message, so without a call of `min`
        if self._young_until_s < next_s:
            next_s = self._young_until_s
        return next_s

    def grow_up(self, now: float) -> None:
        """File the deadlines of those that are no longer young."""
        if now < self._young_until_s:
            return
        for entry in self._open_young():
            entry.bucket = self._deadlines.add(entry.id, entry, entry.deadline_s)
        self._stride = self._young // NOTED + 1
        self._young = 0
        self._young_until_s = math.inf

    def _open_young(self) -> list[Entry]:
        """Those whose deadlines are not filed, the oldest first."""
        newest_first = [entry for entry in islice(reversed(self.entries.values()), self._young) if not entry.bucket]
        return newest_first[::-1]
