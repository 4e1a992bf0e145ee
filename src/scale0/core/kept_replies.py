"""Replies that a worker could not send yet: its link is down, or the pipe is full (rules 9 and 10).

They leave in the order in which they were made, so the parts of a reply stay in order. The store is bounded in messages
and in bytes; over a limit the oldest is dropped, for its client is the likeliest to have given up.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from typing import Final

from scale0.protocol import limits
from scale0.protocol.messages import TaskId, TaskReply

KEPT_MAX: Final = 10_000
KEPT_BYTES_MAX: Final = 64 * 1024 * 1024
RECENT_MAX: Final = 256
RECENT_BYTES_MAX: Final = 4 * 1024 * 1024
LISTED_BYTES_MAX: Final = limits.LONG_HEADER_BYTES_MAX * 3 // 4  # of ids: CONNECT and READY are one header each


class KeptReplies:
    """Replies in order: those that were sent and met a full pipe first, then the others."""

    def __init__(self, count_max: int = KEPT_MAX, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._refused: deque[TaskReply] = deque()  # taken out, and given back by a full pipe
        self._waiting: deque[TaskReply] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._refused) + len(self._waiting)

    def add(self, reply: TaskReply) -> int:
        """Keep a reply; the number of replies that had to be dropped for it."""
        return self._keep(self._waiting, reply)

    def give_back(self, reply: TaskReply) -> int:
        """Keep a reply that was taken out, or was sent at once, and did not leave."""
        return self._keep(self._refused, reply)

    def take(self, count: int) -> list[TaskReply]:
        """The oldest `count` replies, taken out."""
        taken: list[TaskReply] = []
        while len(taken) < count and len(self):
            taken.append(self._pop())
        return taken

    def ids(self) -> list[TaskId]:
        """Tasks whose final reply is kept: to the broker they are still in flight."""
        return [reply.id for queue in (self._refused, self._waiting) for reply in queue if reply.final]

    def _keep(self, queue: deque[TaskReply], reply: TaskReply) -> int:
        queue.append(reply)
        self._bytes += sum(map(len, reply.body))
        dropped = 0
        while len(self) > self._count_max or (self._bytes > self._bytes_max and len(self) > 1):
            self._pop()
            dropped += 1
        return dropped

    def _pop(self) -> TaskReply:
        reply = (self._refused or self._waiting).popleft()
        self._bytes -= sum(map(len, reply.body))
        return reply


class RecentReplies:
    """Replies that have left lately. If the link is lost nobody knows whether they arrived: they leave again.

    A broker discards what it has had (rule 7); one that has taken over from another may not have it.
    """

    def __init__(self, count_max: int = RECENT_MAX, bytes_max: int = RECENT_BYTES_MAX) -> None:
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._replies: deque[tuple[float, TaskReply]] = deque()
        self._bytes = 0
        self.whole_since_s = -math.inf  # none that left later has been forgotten

    def __len__(self) -> int:
        return len(self._replies)

    def add(self, replies: Iterable[TaskReply], now: float) -> None:
        for reply in replies:
            self._replies.append((now, reply))
            self._bytes += sum(map(len, reply.body))
        while len(self._replies) > self._count_max or self._bytes > self._bytes_max:
            self.whole_since_s, forgotten = self._replies.popleft()
            self._bytes -= sum(map(len, forgotten.body))

    def take(self, since_s: float) -> list[TaskReply]:
        """Those that left at `since_s` or later, in order; all are forgotten."""
        taken = [reply for left_s, reply in self._replies if left_s >= since_s]
        self.forget(since_s)
        return taken

    def forget(self, now: float) -> None:
        """All of them; those that leave from now on are whole again."""
        self._replies.clear()
        self._bytes = 0
        self.whole_since_s = max(self.whole_since_s, now)


def fit_to_list(ids: Iterable[TaskId]) -> list[bytes]:
    """The first of `ids`, each once, as many as CONNECT and READY can carry."""
    listed: dict[bytes, None] = {}
    size = 0
    for task_id in ids:
        if task_id not in listed:
            size += len(task_id) + 3  # msgpack's own bytes
            if size > LISTED_BYTES_MAX or len(listed) >= limits.IN_FLIGHT_IDS_MAX:
                break
            listed[task_id] = None
    return list(listed)
