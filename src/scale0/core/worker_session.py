"""A worker's session: what it offers, what it holds, and how it leaves without losing anything.

After CONNECT it says READY, and READYOK makes it ready. A task is held from `Run` until its final reply. It goes on
while the link is down: replies are kept, and CONNECT and READY list what is held or kept, so that the broker knows
which tasks are not lost (rule 9). A task that cannot be started, because there is no slot, no such service or no time
left, is returned at once: the broker gives it to another and counts no attempt (rule 10).

Leaving (rule 11): READY with capacity 0; after READYOK nothing comes any more; what is held is finished or returned by
the shell; then DISCONNECT. A move to another broker (CHANGEBROKER) goes the same way.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from scale0.core.kept_replies import KEPT_BYTES_MAX, KEPT_MAX, KeptReplies, fit_to_list
from scale0.core.link import Effects, Link, LinkSettings, Phase, Random
from scale0.core.participant import Abort, Left, Note, ParticipantEffect, Ready, Run, Transmit
from scale0.core.throttle import Throttle
from scale0.errors import Scale0Error, UsageError
from scale0.protocol import limits, messages
from scale0.protocol.codes import Code
from scale0.protocol.messages import (
    UNKNOWN_US,
    Body,
    Cancel,
    Error,
    Message,
    ReadyOk,
    ServiceOffer,
    Status,
    Task,
    TaskId,
    TaskReply,
)

DEFAULT_INTERVAL_S: Final = 2.5  # a longer one is asked for; a shorter one would be raised by the broker
LEAVE_TIMEOUT_S: Final = 30.0
FLUSH_MAX: Final = 512  # kept replies sent at once; the rest follows at the next tick
STALL_S: Final = 0.02  # a full pipe is tried again after this

Answer = tuple[TaskId, int, Body, int, int, bool, int, int]
"""One reply or a part of one: id, attempt, body, status, part, is final, wait_us, work_us."""

_UP: Final = Phase.UP
_RETURNED: Final = int(Status.RETURNED)


class WorkerSession:
    """The worker's state machine: each verb returns what its shell is to do, in order."""

    def __init__(
        self,
        settings: LinkSettings,
        random: Random,
        *,
        capacity: int = 1,
        offers: Iterable[ServiceOffer] = (),
        heartbeat: bool = True,
        adapt: bool = True,
        backlog_bound_s: float | None = None,
        kept_max: int = KEPT_MAX,
        kept_bytes_max: int = KEPT_BYTES_MAX,
    ) -> None:
        self.link = Link(settings, random, self)
        self.is_ready = False  # the broker took READY on this link
        self.discarded = 0  # replies of the shell for tasks that are not held
        self._heartbeat = self.link.heartbeat
        self._has_heartbeat = heartbeat
        self._offers = {offer.name: offer for offer in offers}
        self._throttle = Throttle(capacity, is_on=adapt, bound_s=backlog_bound_s)
        self._held: dict[tuple[TaskId, int], None] = {}  # (id, attempt), oldest first
        self._kept = KeptReplies(kept_max, kept_bytes_max)
        self._flush_at_s = math.inf
        self._unanswered = 0  # READYs on this link that no READYOK has answered
        self._confirmed_capacity = -1  # what the last READYOK on this link said
        self._ready_again_at_s = math.inf
        self._go_at_s = math.inf
        self._is_leaving = False
        self._leave_until_s = math.inf
        self._is_moving = False

    # --- verbs of every session -----------------------------------------------------------------------------------

    def start(self, now: float, wall_s: float) -> list[ParticipantEffect]:
        out: Effects = []
        self.link.start(now, wall_s, out)
        return out

    def receive(self, message: Message, now: float) -> list[ParticipantEffect]:
        out: Effects = []
        if type(message) is Task:
            out += [Run(task, now + task.remaining_ms / 1000) for task in self.receive_tasks((message,), now, out)]
        elif type(message) is ReadyOk:
            self._heartbeat.heard_at_s = now
            self._ready_ok(message, now, out)
        elif type(message) is Cancel:
            self._heartbeat.heard_at_s = now
            self._cancel(message.id, out)
        else:
            self.link.receive(message, now, out)
            if type(message) is Error and message.code == Code.CONFIG_DIFFERS and self._unanswered:
                self._say_ready(now, out)  # 426 answered READY instead of READYOK
        return out

    def tick(self, now: float, wall_s: float) -> list[ParticipantEffect]:
        out: Effects = []
        self.link.tick(now, wall_s, out)
        if now >= self._leave_until_s:
            self._leave_late(out)
        if self.link.phase is not _UP:
            return out
        if now >= self._ready_again_at_s:
            self._unanswered = 0  # whatever became of the former one
            self._say_ready(now, out)
        if self.is_ready and self._judge(now):
            self._say_ready(now, out)
        if now >= self._flush_at_s:
            self._flush(now, out)
        elif now >= self._go_at_s:
            self._go(now, out)
        return out

    def link_failed(self, reason: str, now: float) -> list[ParticipantEffect]:
        """The socket's monitor saw the connection refused, its handshake fail, or its end."""
        out: Effects = []
        self.link.failed(reason, now, out)
        return out

    def send_failed(self, message: Message, now: float) -> list[ParticipantEffect]:
        """The pipe was full: the message did not leave this process. What matters is tried again a little later."""
        out: Effects = []
        if isinstance(message, TaskReply):
            self._note_dropped(self._kept.give_back(message), out)
            self._go_at_s = math.inf
            if self.is_ready:
                self._flush_at_s = now + STALL_S
        elif isinstance(message, messages.Ready):
            self._unanswered = max(0, self._unanswered - 1)
            self._ready_again_at_s = now + STALL_S
        else:
            self.link.send_failed(message, now)
        return out

    def next_deadline(self) -> float:
        deadline_s = min(self.link.next_deadline(), self._leave_until_s)
        if self.link.phase is not _UP:
            return deadline_s
        judge_at_s = self._throttle.next_s() if self.is_ready and not self._is_going else math.inf
        return min(deadline_s, self._ready_again_at_s, self._flush_at_s, self._go_at_s, judge_at_s)

    def close(self, now: float) -> list[ParticipantEffect]:
        """Leave at once: DISCONNECT, and whatever is held is lost to this broker."""
        out: Effects = []
        self._finish(out)
        return out

    # --- a worker's own verbs -------------------------------------------------------------------------------------

    def reply(
        self,
        task_id: TaskId,
        attempt: int,
        body: Body,
        *,
        now: float,
        status: int = Status.OK,
        part: int = 0,
        final: bool = True,
        wait_us: int = UNKNOWN_US,
        work_us: int = UNKNOWN_US,
    ) -> list[ParticipantEffect]:
        """Answer a held task: any number of parts, numbered from 0, and one final reply."""
        out: Effects = []
        answer = (task_id, attempt, body, status, part, final, wait_us, work_us)
        return [*map(Transmit, self.reply_all((answer,), now, out)), *out]

    def reply_all(self, answers: Iterable[Answer], now: float, out: Effects) -> list[TaskReply]:
        """Answer held tasks. Returns what is to be sent now, in order; other effects go to `out`."""
        all_held = self._held
        may_send = self.is_ready and not self._kept
        time_us = int((now + self._heartbeat.clock.wall_offset_s) * 1e6)
        version = self.link.config_version
        leaving: list[TaskReply] = []
        for task_id, attempt, body, status, part, final, wait_us, work_us in answers:
            held = (task_id, attempt)
            if held not in all_held:
                self.discarded += 1
                continue
            message = TaskReply(task_id, body, attempt, status, part, final, time_us, wait_us, work_us, version)
            if may_send:
                leaving.append(message)
            else:
                self._note_dropped(self._kept.add(message), out)
            if final:
                del all_held[held]
        if self._is_going:
            self._go_soon(now)
        return leaving

    def offer(self, offer: ServiceOffer, now: float) -> list[ParticipantEffect]:
        """Serve one more service, or the same one on other terms."""
        if offer.name not in self._offers and len(self._offers) >= limits.SERVICES_PER_WORKER_MAX:
            raise UsageError(f"a worker offers at most {limits.SERVICES_PER_WORKER_MAX} services")
        self._offers[offer.name] = offer
        return self._changed(now)

    def withdraw(self, name: str, now: float) -> list[ParticipantEffect]:
        """Serve one service less. What is held of it is finished."""
        if self._offers.pop(name, None) is None:
            return []
        return self._changed(now)

    def set_capacity(self, capacity: int, now: float) -> list[ParticipantEffect]:
        """How many tasks at once; 0 is a pause. What is held beyond it is finished."""
        self._throttle.set_capacity(capacity)
        return self._changed(now)

    def report_backlog(self, oldest_wait_s: float, now: float) -> list[ParticipantEffect]:
        """How long the oldest task that is not started has waited here; 0.0 when none waits."""
        self._throttle.report(oldest_wait_s)
        return self._changed(now) if self.is_ready and self._judge(now) else []

    def leave(self, now: float, leave_timeout_s: float = LEAVE_TIMEOUT_S) -> list[ParticipantEffect]:
        """Take nothing new. `Left` comes when everything held was answered, or when the time is over."""
        out: Effects = []
        if self._is_leaving or self.link.phase is Phase.OVER:
            return out
        self._is_leaving = True
        if self.link.phase is _UP:
            self._leave_until_s = now + leave_timeout_s
            self._say_ready(now, out)
        else:
            self._finish(out)
        return out

    @property
    def held_count(self) -> int:
        """Tasks that were started and have no final reply."""
        return len(self._held)

    @property
    def capacity(self) -> int:
        """What READY says now: everything, less when overloaded, nothing when leaving."""
        return 0 if self._is_going else self._throttle.offered

    # --- what the link tells --------------------------------------------------------------------------------------

    def link_services(self) -> list[str]:
        return list(self._offers)

    def link_in_flight(self) -> list[bytes]:
        """What is held, and what has an answer that the broker does not know yet; as many as one frame can carry."""
        return fit_to_list([*(task_id for task_id, _ in self._held), *self._kept.ids()])

    def link_oldest_unanswered(self) -> int:
        return 0

    def link_up(self, now: float, out: Effects) -> None:
        self._say_ready(now, out)

    def link_down(self, now: float, out: Effects) -> None:
        self._stop()
        if self._is_leaving:
            self._finish(out)

    def link_over(self, error: Scale0Error, now: float, out: Effects) -> None:
        self._stop()
        self._leave_until_s = math.inf

    def link_may_move(self, now: float, out: Effects) -> bool:
        """A task may be under way even if none is held, so the move waits for READYOK, as leaving does."""
        self._is_moving = True
        self._say_ready(now, out)
        return False

    # --- messages -------------------------------------------------------------------------------------------------

    def receive_tasks(self, tasks: Iterable[Task], now: float, out: Effects) -> list[Task]:
        """Take many tasks at once. Returns those to run, in place of `Run`; other effects go to `out`."""
        self._heartbeat.heard_at_s = now
        all_held, offers = self._held, self._offers
        room = 0 if self._is_going else self._throttle.capacity
        started: list[Task] = []
        for task in tasks:
            held = (task.id, task.attempt)
            if held in all_held:
                continue  # the same attempt again: it is being worked on, and its reply answers both
            if len(all_held) >= room or task.service not in offers or task.remaining_ms <= 0:
                time_us = self._heartbeat.clock.wall_us(now)
                out.append(Transmit(TaskReply(task.id, (), task.attempt, _RETURNED, time_us=time_us)))
            else:
                all_held[held] = None
                started.append(task)
        return started

    def _ready_ok(self, message: ReadyOk, now: float, out: Effects) -> None:
        if self.link.phase is not _UP or not self.link.agree(message, now, out):
            return
        self._unanswered = max(0, self._unanswered - 1)
        if not self._unanswered:
            self._ready_again_at_s = math.inf
        self._confirmed_capacity = message.capacity
        self.is_ready = True
        out.append(Ready(message.refused))
        out.extend(Note(f"the broker refused {name}: {why}") for name, why in message.refused.items())
        self._flush(now, out)

    def _cancel(self, task_id: bytes, out: Effects) -> None:
        out.extend(Abort(held, attempt, "cancelled") for held, attempt in self._held if held == task_id)

    # --- READY ----------------------------------------------------------------------------------------------------

    def _changed(self, now: float) -> list[ParticipantEffect]:
        """Tell the broker what is offered now; without a link, READY says it when there is one."""
        out: Effects = []
        if self.link.phase is _UP:
            self._say_ready(now, out)
        return out

    def _say_ready(self, now: float, out: Effects) -> None:
        asked_s = self.link.settings.heartbeat_interval_s
        ready = messages.Ready(
            services=list(self._offers.values()),
            capacity=self.capacity,
            heartbeat=self._has_heartbeat,
            heartbeat_interval_ms=round(asked_s * 1000) if asked_s > DEFAULT_INTERVAL_S else 0,
            time_us=self._heartbeat.clock.wall_us(now),
            config_version=self.link.config_version,
            in_flight=self.link_in_flight(),
        )
        self._unanswered += 1
        self._ready_again_at_s = now + self._heartbeat.interval_s
        out.append(Transmit(ready))

    def _judge(self, now: float) -> bool:
        heartbeat = self._heartbeat
        if self._is_going:
            return False
        return self._throttle.judge(now, heartbeat.interval_s, heartbeat.clock.round_trip_s, not self._held)

    # --- replies --------------------------------------------------------------------------------------------------

    def _flush(self, now: float, out: Effects) -> None:
        """Send what was kept, some at a time: thousands at once would only meet a full pipe."""
        out.extend(Transmit(reply) for reply in self._kept.take(FLUSH_MAX))
        self._flush_at_s = now if self._kept else math.inf
        if self._is_going:
            self._go_soon(now)

    def _note_dropped(self, dropped: int, out: Effects) -> None:
        if dropped:
            out.append(Note(f"{dropped} of the oldest replies that could not be sent were dropped: too many are kept"))

    # --- leaving --------------------------------------------------------------------------------------------------

    @property
    def _is_going(self) -> bool:
        return self._is_leaving or self._is_moving

    def _go_soon(self, now: float) -> None:
        """Rule 11: nothing is dispatched after READYOK. When all is answered, go.

        At the next tick: by then the shell has said whether the last reply met a full pipe.
        """
        is_confirmed = self._confirmed_capacity == 0 and not self._unanswered
        if is_confirmed and not self._held and not self._kept:
            self._go_at_s = now

    def _go(self, now: float, out: Effects) -> None:
        self._go_at_s = math.inf
        if self._is_leaving:
            self._finish(out)
        else:
            self.link.move(now, out)

    def _leave_late(self, out: Effects) -> None:
        out.append(Note(f"leaving with {len(self._held)} tasks unfinished: the time to leave is over"))
        self._finish(out)

    def _finish(self, out: Effects) -> None:
        if self.link.phase is not Phase.OVER:
            self._stop()
            self._leave_until_s = math.inf
            self.link.close("the worker leaves", out)
            out.append(Left())

    def _stop(self) -> None:
        """Without a link nothing is sent, and nothing that was agreed holds."""
        self.is_ready = False
        self._is_moving = False
        self._unanswered = 0
        self._confirmed_capacity = -1
        self._flush_at_s = self._ready_again_at_s = self._go_at_s = math.inf
