"""The queue of one service: priorities that age, and turns among clients.

Rule 14: a freed slot takes the highest priority, then the longest-waiting head; within a service clients take turns, so
that one client's thousand tasks do not stand before another's first. A head that has waited counts one level higher for
each `ageing_s`, so that no level starves. Every operation costs the same however long the queue is.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from scale0.protocol.limits import PRIORITIES

if TYPE_CHECKING:
    from scale0.core.ledger import Entry
    from scale0.core.sessions import Session
    from scale0.protocol.messages import TaskId

    Line = OrderedDict[TaskId, Entry]
    Turns = OrderedDict[Session, Line]


class Queue:
    """Tasks that wait for a worker of one service."""

    __slots__ = ("_ageing_s", "_levels", "_levels_down", "bytes", "count")

    def __init__(self, ageing_s: float) -> None:
        self._ageing_s = ageing_s
        self._levels: list[Turns] = [OrderedDict() for _ in range(PRIORITIES)]
        self._levels_down = tuple(reversed(self._levels))
        self.count = 0
        self.bytes = 0

    def is_over(self, count_max: int, bytes_max: int, more_bytes: int) -> bool:
        """Whether one more task of so many bytes is too much."""
        return self.count >= count_max or self.bytes + more_bytes > bytes_max

    def put(self, entry: Entry) -> None:
        """To the end of its client's line."""
        turns = self._levels[entry.task.priority]
        line = turns.get(entry.client)
        if line is None:
            line = turns[entry.client] = OrderedDict()
        line[entry.id] = entry
        self.count += 1
        self.bytes += entry.size

    def put_first(self, entry: Entry) -> None:
        """Back to the front, and its client's turn is next: it has waited before."""
        self.put(entry)
        turns = self._levels[entry.task.priority]
        turns[entry.client].move_to_end(entry.id, last=False)
        turns.move_to_end(entry.client, last=False)

    def head(self, now: float) -> Entry | None:
        """Who is next: the highest rank goes first, then the longest wait."""
        found: Entry | None = None
        for turns in self._levels_down:
            if turns:
                entry = next(iter(next(iter(turns.values())).values()))
                if found is None or self.rank(entry, now) > self.rank(found, now):
                    found = entry
        return found

    def rank(self, entry: Entry, now: float) -> tuple[int, float]:
        """Its priority, one more for each `ageing_s` that it has waited, and its time of waiting."""
        waited_s = now - entry.accepted_s
        return entry.task.priority + int(waited_s / self._ageing_s), waited_s

    def take(self, entry: Entry) -> None:
        """Take the head out; the turn passes to the next client."""
        turns = self._levels[entry.task.priority]
        line = turns[entry.client]
        del line[entry.id]
        if line:
            turns.move_to_end(entry.client)
        else:
            del turns[entry.client]
        self.count -= 1
        self.bytes -= entry.size

    def turn(self, entry: Entry) -> None:
        """Another broker has taken this one: the turn passes to the next client, as here."""
        self._levels[entry.task.priority].move_to_end(entry.client)

    def remove(self, entry: Entry) -> None:
        """Take any entry out, wherever it stands: its deadline passed, or it was cancelled."""
        turns = self._levels[entry.task.priority]
        line = turns[entry.client]
        del line[entry.id]
        if not line:
            del turns[entry.client]
        self.count -= 1
        self.bytes -= entry.size

    def entries(self) -> list[Entry]:
        return [entry for turns in self._levels for line in turns.values() for entry in line.values()]

    def oldest_s(self) -> float | None:
        """Since when the longest-waiting of the lines' first tasks has waited."""
        heads = [next(iter(line.values())) for turns in self._levels for line in turns.values()]
        return min((entry.accepted_s for entry in heads), default=None)
