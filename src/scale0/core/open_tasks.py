"""The tasks that a client has submitted and that have no outcome yet: how many there may be, and how each one ends.

If nothing comes, the client itself settles: a task that never left this process at its deadline (503), one that did a
grace later (504, for the broker's own word may be under way). There is one way out of every table, `_forget`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scale0.core.link import Effects, Link, Phase
from scale0.core.open_task import NO_BUCKET, Names, OpenTask, check_terms, size_of
from scale0.core.participant import Settled
from scale0.core.timers import Timetable
from scale0.errors import Overloaded, Scale0Error, UsageError
from scale0.protocol.codes import Code
from scale0.protocol.ids import sequence_of
from scale0.protocol.messages import Body, Error, TaskId

GRACE_S: Final = 1.0  # how long after its deadline, or its cancelling, a task's outcome is waited for
OPEN_MAX: Final = 100_000  # open tasks; one more raises Overloaded
OPEN_BYTES_MAX: Final = 512 * 1024 * 1024  # of their bodies; more raises Overloaded
RESOLUTION_S: Final = 0.05  # a deadline is met at most that much late

_OVER: Final = Phase.OVER
_NOT_TAKEN: Final = (Code.UNKNOWN_SERVICE, Code.OVER_LIMIT, Code.NOT_ACCEPTING, Code.MOVED)


class OpenTasks:
    """The tables of a client's session, which adds the link and the sending."""

    link: Link

    def __init__(self, grace_s: float, open_max: int, open_bytes_max: int) -> None:
        self._grace_s = grace_s
        self._open_max = open_max
        self._open_bytes_max = open_bytes_max
        self._names = Names()
        self._sequence = 0
        self._oldest = 1  # no open task has a lower sequence
        self._open: dict[TaskId, OpenTask] = {}  # in order of sequence
        self._open_bytes = 0
        self._due: Timetable[TaskId, TaskId] = Timetable(RESOLUTION_S)
        self._unsent: dict[TaskId, None] = {}  # to be sent, again or for the first time, while the link is up
        self._awaited: dict[TaskId, None] | None = None  # before a move: what is in flight; None: no move is ahead

    @property
    def open_count(self) -> int:
        """Tasks that were submitted and have no outcome yet."""
        return len(self._open)

    def link_oldest_unanswered(self) -> int:
        self._oldest = sequence_of(next(iter(self._open))) if self._open else self._sequence + 1
        return self._oldest

    # --- outcomes -------------------------------------------------------------------------------------------------

    def _settle_by(self, task_id: TaskId, task: OpenTask, error: Error) -> Settled:
        """A broker's ERROR for this task becomes its outcome, unless it says too much."""
        said = f"{error.code} {error.text}"
        if task.is_cancelled and error.code == Code.WORKER_LOST:
            # The broker does not know what it is to cancel; another one, or it in another life, may have run it.
            return self._settle(task_id, task, Code.CANCELLED, f"cancelled; whether it ran is unknown ({error.text})")
        if task.transmissions > 1 and error.code in _NOT_TAKEN:
            # Not taken now; but it left this process before, and what became of it then nobody can say.
            text = f"outcome unknown: it was sent before the link was lost, and now met {said}"
            return self._settle(task_id, task, Code.WORKER_LOST, text)
        if error.code == Code.MOVED:
            return self._settle(task_id, task, Code.NOT_ACCEPTING, f"no broker takes it: {said}")
        self._forget(task_id, task)
        return Settled(task_id, error)

    def _expire(self, task_id: TaskId, now: float, out: Effects) -> None:
        """Nobody has settled it in time. It has left the timetable already."""
        task = self._open[task_id]
        task.bucket = NO_BUCKET
        if task.is_cancelled:
            out.append(self._settle(task_id, task, Code.CANCELLED, "cancelled; no broker has confirmed it"))
        elif task.transmissions == 0:
            text = f"no broker took it before its deadline ({task.refusal or self.link.trouble()})"
            out.append(self._settle(task_id, task, Code.NOT_ACCEPTING, text))
        elif now >= task.deadline_s + self._grace_s:
            text = f"no outcome came from the broker at {self.link.endpoint} by the deadline"
            out.append(self._settle(task_id, task, Code.DEADLINE_IN_FLIGHT, text))
        else:
            task.bucket = self._due.add(task_id, task_id, task.deadline_s + self._grace_s)

    def _settle_refused(self, out: Effects) -> None:
        """Every known broker was asked: what one of them did not take, and no other could, ends here."""
        for task_id, task in [(task_id, task) for task_id, task in self._open.items() if task.refusal]:
            text = f"{task.refusal}, and no other broker was found ({self.link.trouble()})"
            if task.transmissions == 0:
                out.append(self._settle(task_id, task, Code.NOT_ACCEPTING, text))
            else:
                out.append(
                    self._settle(task_id, task, Code.WORKER_LOST, f"outcome unknown: it was sent before; {text}")
                )

    def _settle(self, task_id: TaskId, task: OpenTask, code: Code, text: str) -> Settled:
        self._forget(task_id, task)
        return Settled(task_id, Error(code=int(code), text=text, id=task_id))

    def _settle_all(self, code: Code, text: str, out: Effects) -> None:
        out.extend(self._settle(task_id, task, code, text) for task_id, task in list(self._open.items()))

    def _forget(self, task_id: TaskId, task: OpenTask) -> None:
        """The one way out of every table."""
        del self._open[task_id]
        self._open_bytes -= task.size
        if task.bucket != NO_BUCKET:
            self._due.remove(task_id, task.bucket)
        if self._unsent:
            self._unsent.pop(task_id, None)
        if self._awaited is not None:
            self._awaited.pop(task_id, None)

    # --- refusals -------------------------------------------------------------------------------------------------

    def _check(self, service: str, requests: Sequence[tuple[Body, bytes]], priority: int) -> list[int]:
        """The sizes of the bodies, if all of them may be submitted."""
        sizes = [size_of(body) for body, _ in requests]
        is_full = len(self._open) + len(sizes) > self._open_max or self._open_bytes + sum(sizes) > self._open_bytes_max
        if is_full or self.link.phase is _OVER:
            raise self._refusal(service)
        self._names.check(service)
        check_terms(priority, requests)
        return sizes

    def _refusal(self, service: str) -> Scale0Error:
        if self.link.phase is _OVER:
            return self.link.error or UsageError("the client is closed")
        text = f"{len(self._open):,} tasks with {self._open_bytes:,} bytes are open, this client's limit"
        return Overloaded(int(Code.OVER_LIMIT), text, service)
