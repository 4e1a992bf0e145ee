"""A client's session that another process can go on with: the same question has the same id, whoever asks it.

An ordinary session counts its tasks, and its nonce is drawn for one process. That is useless to a scheduler that runs
a piece of work again in another process, as Spark does after a failure: the second run would ask everything anew.
Here the nonce is given, and stands for the piece of work; and a task's sequence is made of what it asks, so that it
does not matter in which order the second run asks. The broker then does what rule 8 says of every id: what is settled
is answered again, what is under way goes on, and nothing is run twice.

Some things follow. The session never acknowledges outcomes, for a later process may want them; so it takes at most
`TASKS_MAX` tasks, and a longer piece of work has several sessions. For the same reason it cancels nothing, and does not
take its leave when it is closed, unless it is told to `end`: to the broker it has fallen silent, and what it has asked
is kept until its deadline and the grace. And a later process flags everything as resent, since a broker that does not
hold a task cannot know that it never ran.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from scale0.core.client_session import ClientSession
from scale0.core.link import LinkSettings, Phase, Random
from scale0.core.open_task import OpenTask
from scale0.core.participant import ParticipantEffect, Transmit
from scale0.errors import Overloaded
from scale0.protocol.codes import Code
from scale0.protocol.ids import make_id
from scale0.protocol.messages import Body, Flag, Task, TaskId

TASKS_MAX: Final = 10_000  # of one session: a tenth of the outcomes that a broker keeps for all clients together
SEQUENCE_BITS: Final = 63  # a sequence is a positive int64 wherever it is recorded

_RESENT: Final = int(Flag.RESENT)
_SAME_PAIR: Final = int(Flag.SAME_PAIR)


class RepeatableSession(ClientSession):
    """The state machine of a client whose ids come from what it asks. `is_later`: another process may have asked."""

    def __init__(self, settings: LinkSettings, random: Random, *, is_later: bool = False) -> None:
        super().__init__(settings, random)
        self._is_later = is_later
        self._asked: dict[int, int] = {}  # how often each question was asked; at most TASKS_MAX
        self._tasks = 0
        self._must_end = False

    def submit_all(
        self, service: str, requests: Sequence[tuple[Body, bytes]], timeout_s: float, now: float, priority: int
    ) -> tuple[list[TaskId], list[Task]]:
        sizes = self._check(service, requests, priority)
        if self._tasks + len(requests) > TASKS_MAX:
            text = f"a repeatable session takes {TASKS_MAX:,} tasks, for the broker keeps all their outcomes"
            raise Overloaded(int(Code.OVER_LIMIT), text, service)
        self._tasks += len(requests)
        heartbeat = self._heartbeat
        may_send = self._may_send and now < heartbeat.heard_at_s + heartbeat.silence_s
        must_wait = not may_send and self.link.phase is Phase.UP
        deadline_s = now + timeout_s
        ids: list[TaskId] = []
        leaving: list[Task] = []
        for (body, options), size in zip(requests, sizes, strict=True):
            task_id = make_id(self._prefix, self._number(service, body, options))
            ids.append(task_id)
            bucket = self._due.add(task_id, task_id, deadline_s)
            task = OpenTask(service, body, priority, options, deadline_s, size, bucket)
            self._open[task_id] = task
            if may_send:
                leaving.append(self._task(task_id, task, now))
            elif must_wait:
                self._postpone(task_id, now)
        self._open_bytes += sum(sizes)
        return ids, leaving

    def cancel(self, task_id: TaskId, now: float) -> list[ParticipantEffect]:
        """The outcome is not wanted here. The broker is not told, for a later process may want it."""
        task = self._open.get(task_id)
        return [] if task is None else [self._settle(task_id, task, Code.CANCELLED, "given up by this process")]

    def end(self) -> None:
        """No other process will ask again: the session takes its leave when it is closed."""
        self._must_end = True

    def close(self, now: float) -> list[ParticipantEffect]:
        out = super().close(now)
        return out if self._must_end else [effect for effect in out if not isinstance(effect, Transmit)]

    def link_oldest_unanswered(self) -> int:
        """Nothing is acknowledged. Sequences begin at 1."""
        return 0

    def _task(self, task_id: TaskId, task: OpenTask, now: float) -> Task:
        made = super()._task(task_id, task, now)
        made.behind = 0
        if self._is_later:
            made.flags = (made.flags | _RESENT) & ~_SAME_PAIR  # where the earlier process has sent it nobody knows
        return made

    def _number(self, service: str, body: Body, options: bytes) -> int:
        """A sequence that is the same whenever the same is asked, and another one when it is asked twice."""
        question = _digest(service.encode(), options, *body)
        times = self._asked.get(question, 0)
        self._asked[question] = times + 1
        return question if not times else _digest(question.to_bytes(8, "big"), times.to_bytes(8, "big"))


def _digest(*parts: bytes) -> int:
    made = hashlib.blake2b(digest_size=8)
    for part in parts:
        made.update(len(part).to_bytes(8, "big"))
        made.update(part)
    return int.from_bytes(made.digest(), "big") >> (64 - SEQUENCE_BITS) or 1
