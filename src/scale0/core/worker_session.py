"""A worker's session: what it offers, what it holds, and how it leaves without losing anything.

After CONNECT it says READY, and READYOK makes it ready. Work goes on while the link is down: replies are kept, and
CONNECT and READY list what is held or kept, so that the broker knows which tasks are not lost (rule 9).

Leaving (rule 11): READY with capacity 0; after READYOK nothing comes any more; what is held is finished or returned by
the shell; then DISCONNECT. A move to another broker (CHANGEBROKER) goes the same way, and waits for one more READYOK
after the last reply: the old connection closes then, and whatever had not arrived would be lost. `held_tasks.py` has
the tables, and says when a worker is free to go.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from scale0.core.announcement import Announcement
from scale0.core.held_tasks import Answer, HeldTasks
from scale0.core.kept_replies import KEPT_BYTES_MAX, KEPT_MAX, KeptReplies
from scale0.core.link import Effects, Link, LinkSettings, Phase, Random
from scale0.core.participant import Abort, Left, Note, ParticipantEffect, Ready, Run, Transmit
from scale0.core.throttle import Throttle
from scale0.errors import Scale0Error
from scale0.protocol import messages
from scale0.protocol.codes import Code
from scale0.protocol.messages import Cancel, Error, Message, ReadyOk, ServiceOffer, Task, TaskReply

__all__ = ["Answer", "WorkerSession"]

LEAVE_TIMEOUT_S: Final = 30.0
STALL_S: Final = 0.02  # a full pipe is tried again after this

_NOBODY: Final = "no broker is there to take the replies"

_UP: Final = Phase.UP


class WorkerSession(HeldTasks):
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
        super().__init__(
            Announcement(offers, heartbeat),
            Throttle(capacity, is_on=adapt, bound_s=backlog_bound_s),
            KeptReplies(kept_max, kept_bytes_max),
        )
        self.link = Link(settings, random, self)
        self._heartbeat = self.link.heartbeat
        self._is_leaving = False
        self._leave_until_s = math.inf
        self._redirect: Error | None = None  # 301, which is followed when nothing is held

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
        elif type(message) is Error and self._may_finish_first(message):
            self._heartbeat.heard_at_s = now
            self._moved(message, now)
        else:
            self.link.receive(message, now, out)
            if type(message) is Error and message.code == Code.CONFIG_DIFFERS and not self._announcement.is_answered:
                self._say_ready(now, out)  # 426 answered READY instead of READYOK
        return out

    def tick(self, now: float, wall_s: float) -> list[ParticipantEffect]:
        out: Effects = []
        self.link.tick(now, wall_s, out)
        if now >= self._leave_until_s:
            self._leave_unfinished("the time to leave is over", out)
        if self.link.phase is not _UP:
            return out
        if now >= self._announcement.again_at_s:
            self._announcement.give_up()
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
            self._announcement.not_sent(again_at_s=now + STALL_S)
        else:
            self.link.send_failed(message, now)
        return out

    def next_deadline(self) -> float:
        deadline_s = min(self.link.next_deadline(), self._leave_until_s)
        if self.link.phase is not _UP:
            return deadline_s
        judge_at_s = self._throttle.next_s() if self.is_ready and not self._is_going else math.inf
        return min(deadline_s, self._announcement.again_at_s, self._flush_at_s, self._go_at_s, judge_at_s)

    def close(self, now: float) -> list[ParticipantEffect]:
        """Leave at once: DISCONNECT, and whatever is held is lost to this broker."""
        out: Effects = []
        self._finish(out)
        return out

    # --- a worker's own verbs -------------------------------------------------------------------------------------

    def offer(self, offer: ServiceOffer, now: float) -> list[ParticipantEffect]:
        """Serve one more service, or the same one on other terms."""
        self._announcement.offer(offer)
        return self._changed(now)

    def withdraw(self, name: str, now: float) -> list[ParticipantEffect]:
        """Serve one service less. What is held of it is finished."""
        if self._announcement.offers.pop(name, None) is None:
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
        self._is_leaving = self._is_going = True
        if self.link.phase is _UP:
            self._leave_until_s = now + leave_timeout_s
            self._say_ready(now, out)
        else:
            self._leave_unfinished(_NOBODY, out)
        return out

    @property
    def capacity(self) -> int:
        """What READY says now: everything, less when overloaded, nothing when leaving."""
        return 0 if self._is_going else self._throttle.offered

    # --- what the link tells --------------------------------------------------------------------------------------

    def link_services(self) -> list[str]:
        return list(self._announcement.offers)

    def link_oldest_unanswered(self) -> int:
        return 0

    def link_up(self, now: float, out: Effects) -> None:
        self._say_ready(now, out)

    def link_down(self, now: float, out: Effects) -> None:
        self._recall(now, out)
        self._stop()
        if self._is_leaving:
            self._leave_unfinished(_NOBODY, out)

    def link_in_vain(self, now: float, out: Effects) -> None:
        return  # what is held is worked on meanwhile, and its replies are kept

    def link_over(self, error: Scale0Error, now: float, out: Effects) -> None:
        self._stop()
        self._leave_until_s = math.inf

    def link_may_move(self, now: float, out: Effects) -> bool:
        """A task may be under way even if none is held, so the move waits for READYOK, as leaving does."""
        self._is_going = True
        self._say_ready(now, out)
        return False

    # --- messages -------------------------------------------------------------------------------------------------

    def _ready_ok(self, message: ReadyOk, now: float, out: Effects) -> None:
        if self.link.phase is not _UP or not self.link.agree(message, now, out):
            return
        self._announcement.answered(message.capacity)
        self.is_ready = True
        out.append(Ready(message.refused))
        out.extend(Note(f"the broker refused {name}: {why}") for name, why in message.refused.items())
        self._flush(now, out)

    def _may_finish_first(self, message: Error) -> bool:
        """301 for now or later: a fatal one means that this broker knows nothing of us any more."""
        return message.code == Code.MOVED and not message.fatal and self.is_ready and self._holds_anything

    def _moved(self, message: Error, now: float) -> None:
        """Rule 29: 301 to READY, for all services are refused. Nothing is dispatched here any more; finish, then go."""
        self._announcement.answered(0)
        self._redirect = message
        self._is_going = True
        self._go_soon(now)

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
        ready = self._announcement.say(self.link, self.capacity, self.link_in_flight(), now)
        self._must_confirm = False
        out.append(Transmit(ready))

    def _judge(self, now: float) -> bool:
        heartbeat = self._heartbeat
        if self._is_going:
            return False
        return self._throttle.judge(now, heartbeat.interval_s, heartbeat.clock.round_trip_s, not self._held)

    # --- leaving --------------------------------------------------------------------------------------------------

    def _go(self, now: float, out: Effects) -> None:
        self._go_at_s = math.inf
        if self._is_leaving:
            self._finish(out)  # the shell makes sure that the last reply has arrived
        elif self._must_confirm:
            self._say_ready(now, out)
        elif self._redirect is not None:
            self.link.redirect(self._redirect, now, out)
        else:
            self._recent.forget(now)  # READYOK came after the last of them
            self.link.move(now, out)

    def _leave_unfinished(self, why: str, out: Effects) -> None:
        if self._held:
            count = len(self._held)
            out.append(Note(f"leaving with {count} task{'s' * (count > 1)} unfinished: {why}"))
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
        self._is_going = self._is_leaving
        self._redirect = None
        self._must_confirm = False
        self._announcement.reset()
        self._flush_at_s = self._go_at_s = math.inf
