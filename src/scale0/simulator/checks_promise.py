"""The promise, judged at both ends: what clients were told, and what handlers were started.

*An accepted task gets exactly one outcome at the client, a reply or an error, by its deadline. It runs at most once
unless its service is idempotent.* The client's library extends the first half to every submitted task, even if every
broker is gone, by deadline + grace. A token in each body follows a task from end to end, over all dialects.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from scale0.protocol.codes import Code
from scale0.protocol.ids import show_id
from scale0.protocol.messages import Error, Status, TaskId, TaskReply
from scale0.simulator.process import Process

if TYPE_CHECKING:
    from scale0.simulator.world import World

GRACE_S = 1.0
SLACK_S = 0.3
OWN = b"own"  # the handler of a user decides how it ends
NEVER_RAN = frozenset((404, 408, 413, 429, 503))  # codes that say that no handler was started


class Submitted(msgspec.Struct):
    """A task that a native client's library took."""

    process: Process
    service: str
    token: bytes
    behaviour: bytes
    deadline_s: float
    paused_s: float  # of the process, until it was submitted: pauses after that extend the promise
    is_cancelled: bool = False
    next_part: int = 0
    from_worker: bytes = b""


class PromiseChecks:
    """The tasks of all native clients, and the handlers of all workers."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.open: dict[bytes, Submitted] = {}
        self.open_of: Counter[Process] = Counter()  # how many of them each process has
        self.submitted_count = 0
        self.outcomes: Counter[str] = Counter()
        self.due_s = math.inf  # until then `check` has nothing to do
        self._due: list[tuple[float, bytes]] = []
        self._starts: Counter[bytes] = Counter()
        self._told_never_ran: dict[bytes, int] = {}  # by token

    def submitted(self, id_: TaskId, task: Submitted) -> None:
        if id_ in self.open:
            self._fail("rule 8", f"two tasks have the id {show_id(id_)}")
        self.submitted_count += 1
        self.open[id_] = task
        self.open_of[task.process] += 1
        heapq.heappush(self._due, (task.deadline_s + GRACE_S + SLACK_S, id_))
        self.due_s = self._due[0][0]

    def cancelled(self, id_: bytes) -> None:
        if id_ in self.open:
            self.open[id_].is_cancelled = True

    def part(self, process: Process, reply: TaskReply) -> None:
        task = self._task_of(process, reply.id, "a part")
        if reply.part != task.next_part:
            self._fail("rule 12", f"{show_id(reply.id)}: part {reply.part} came where {task.next_part} is due")
        task.next_part += 1
        self._same_worker(task, reply)

    def settled(self, process: Process, id_: bytes, outcome: TaskReply | Error) -> None:
        task = self._task_of(process, id_, "an outcome")
        del self.open[id_]
        self.open_of[process] -= 1
        if isinstance(outcome, Error):
            self.outcomes[str(outcome.code)] += 1
            if outcome.code in NEVER_RAN:
                self._told_never_ran[task.token] = outcome.code
                if self._starts[task.token]:
                    self._dishonest(task.service, task.token)
            self.world.trace.event(process.now, process.label, f"{show_id(id_)} ends: {outcome.code} {outcome.text}")
            is_left = outcome.code == Code.WORKER_LOST and id_ in self.world.stars.left_behind
            if self.world.must_all_be_served and not task.is_cancelled and not is_left:
                self._fail("calm", f"{show_id(id_)} ended in {outcome.code} {outcome.text}, and nothing had failed")
            return
        self.outcomes[Status(outcome.status).name] += 1
        if task.service.startswith("scale0."):
            return
        if not outcome.body or outcome.body[0] != task.token:
            self._fail("I2", f"{show_id(id_)} got the reply to another task: {outcome.body!r}")
        if outcome.status == Status.RETURNED:
            self._fail("rule 10", f"{show_id(id_)} was returned to its client; it belongs back in the queue")
        is_free = outcome.body[-1] == b"0" or task.behaviour.startswith(OWN)  # Majordomo cannot say that it failed
        if (outcome.status == Status.FAILED) != (task.behaviour == b"fail") and not task.is_cancelled | is_free:
            self._fail("reply", f"{show_id(id_)} should {task.behaviour!r} and ended in status {outcome.status}")
        self._same_worker(task, outcome)

    def started(self, worker: str, service: str, token: bytes) -> None:
        """A handler was started."""
        self._starts[token] += 1
        if token in self._told_never_ran:
            self._dishonest(service, token)
        if self._starts[token] > 1:
            self.world.count("rule", "run again")
            if not self.world.profile.is_idempotent(service) and not self.world.stars.splits.excuse(token):
                self._fail("at most once", f"{token!r} of {service}, not idempotent, was started again, by {worker}")

    def _dishonest(self, service: str, token: bytes) -> None:
        """Where nobody can know whether a task ran, the outcome must say so: 502, not a code that means "never"."""
        if not self.world.profile.is_idempotent(service) and not self.world.stars.splits.excuse(token, by_both=False):
            code = self._told_never_ran[token]
            self._fail("502", f"the client was told {code} about {token!r} of {service}, and it was started")

    def ended(self, process: Process) -> None:
        """A process that is gone waits for nothing."""
        if self.open_of.pop(process, 0):
            for id_ in [id_ for id_, task in self.open.items() if task.process is process]:
                del self.open[id_]

    def check(self, now: float) -> None:
        while self._due and self._due[0][0] < now:
            due_s, id_ = heapq.heappop(self._due)
            task = self.open.get(id_)
            if task is None:
                continue
            paused_s = task.process.paused_s - task.paused_s
            if task.process.is_paused:
                heapq.heappush(self._due, (now + SLACK_S, id_))
            elif paused_s:
                task.paused_s = task.process.paused_s
                heapq.heappush(self._due, (due_s + paused_s + SLACK_S, id_))
            else:
                late_s = now - task.deadline_s
                self._fail("promise", f"{show_id(id_)} has no outcome {late_s:.2f} s after its deadline")
        self.due_s = self._due[0][0] if self._due else math.inf

    def _task_of(self, process: Process, id_: bytes, what: str) -> Submitted:
        task = self.open.get(id_)
        if task is None:
            self._fail("I1", f"{process.label} was told {what} of {show_id(id_)}, which is not open")
        assert task is not None
        if task.process is not process:
            self._fail("I2", f"{process.label} was told {what} of {task.process.label}'s task {show_id(id_)}")
        return task

    def _same_worker(self, task: Submitted, reply: TaskReply) -> None:
        """Parts of two attempts must not be mixed: once one has reached the client the task is not repeatable.

        But two brokers that cannot hear one another may both run it, each as its first attempt.
        """
        if len(reply.body) == 3:
            worker = reply.body[1] + b"/" + reply.body[2]
            is_mixed = bool(task.from_worker) and worker != task.from_worker
            if is_mixed and not self.world.stars.splits.excuse(task.token):
                self._fail("rule 12", f"{show_id(reply.id)} got parts of {task.from_worker!r} and of {worker!r}")
            task.from_worker = worker

    def _fail(self, rule: str, text: str) -> None:
        self.world.violation(rule, text)
