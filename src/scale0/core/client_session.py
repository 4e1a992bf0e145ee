"""A client's session: every submitted task gets exactly one outcome, by its deadline and a grace, whatever happens.

A task is open from `submit` until its `Settled`. It is sent as soon as a broker has taken the session, and sent again
on each new link, under the same id: the broker answers what it has settled, and ignores what it still holds. A task
that left this process before is flagged `resent`, for some broker may have run it; one that never left is not (rule 8).

Moving loses nothing: before the link goes to another broker, new tasks wait for that one, and what is in flight has
`MOVE_WAIT_S` to be answered here; only what is not answered by then is sent again there, flagged. A task that a broker
does not take (301, 503: it drains, joins or is being disabled) is no outcome yet if there are other brokers: the link
seeks one, and the task goes there in its own time. Each known broker is tried once; then the caller has the 503.

`open_tasks.py` has the tables, and how a task ends without a broker.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from scale0.core.link import Effects, Link, LinkSettings, Phase, Random
from scale0.core.open_task import OpenTask, remaining_ms_of
from scale0.core.open_tasks import GRACE_S, OPEN_BYTES_MAX, OPEN_MAX, OpenTasks
from scale0.core.participant import Part, ParticipantEffect, Settled, Transmit
from scale0.errors import Scale0Error
from scale0.protocol.codes import Code
from scale0.protocol.ids import id_prefix, sequence_of
from scale0.protocol.limits import PRIORITY_NORMAL
from scale0.protocol.messages import NO_VERSION, Body, Cancel, Error, Flag, Message, Task, TaskId, TaskReply

MOVE_WAIT_S: Final = 30.0  # what is in flight may be answered for so long before a move
FLUSH_MAX: Final = 512  # tasks sent at once after a reconnect; the rest follows at the next tick
STALL_S: Final = 0.02  # a full pipe is tried again after this
LOOK_EVERY: Final = 64  # submissions after which the oldest open task is looked up

_UP: Final = Phase.UP
_RESENT: Final = int(Flag.RESENT)
_PARTLY_ANSWERED: Final = int(Flag.PARTLY_ANSWERED)
_SAME_PAIR: Final = int(Flag.SAME_PAIR)
_TURNED_AWAY: Final = (Code.MOVED, Code.NOT_ACCEPTING)


class ClientSession(OpenTasks):
    """The client's state machine: each verb returns what its shell is to do, in order."""

    def __init__(
        self,
        settings: LinkSettings,
        random: Random,
        *,
        grace_s: float = GRACE_S,
        open_max: int = OPEN_MAX,
        open_bytes_max: int = OPEN_BYTES_MAX,
    ) -> None:
        super().__init__(grace_s, open_max, open_bytes_max)
        self.link = Link(settings, random, self)
        self.discarded = 0  # replies and errors for tasks that are not open, and parts that came twice
        self._heartbeat = self.link.heartbeat
        self._prefix = id_prefix(settings.identity, settings.nonce)
        self._may_send = False  # the link is up and nothing waits before it: a submitted task leaves at once
        self._flush_at_s = math.inf
        self._move_at_s = math.inf

    # --- verbs of every session -----------------------------------------------------------------------------------

    def start(self, now: float, wall_s: float) -> list[ParticipantEffect]:
        out: Effects = []
        self.link.start(now, wall_s, out)
        return out

    def receive(self, message: Message, now: float) -> list[ParticipantEffect]:
        out: Effects = []
        if type(message) is TaskReply:
            out[:0] = [Settled(reply.id, reply) for reply in self.receive_replies((message,), now, out)]
        elif type(message) is Error and message.id:
            self._task_error(message, now, out)
        else:
            self.link.receive(message, now, out)
        return out

    def tick(self, now: float, wall_s: float) -> list[ParticipantEffect]:
        out: Effects = []
        self.link.tick(now, wall_s, out)
        for task_id in self._due.due(now):
            self._expire(task_id, now, out)
        if self._awaited is not None:
            self._move_if_answered(now, out)
        if now >= self._flush_at_s:
            self._flush(now, out)
        return out

    def link_failed(self, reason: str, now: float) -> list[ParticipantEffect]:
        """The socket's monitor saw the connection refused, its handshake fail, or its end."""
        out: Effects = []
        self.link.failed(reason, now, out)
        return out

    def send_failed(self, message: Message, now: float) -> list[ParticipantEffect]:
        """The pipe was full: the message did not leave this process. It is tried again a little later."""
        if isinstance(message, Task | Cancel):
            task_id = TaskId(message.id)
            task = self._open.get(task_id)
            if task is not None:
                if isinstance(message, Task):
                    task.transmissions -= 1
                if self.link.phase is _UP:
                    self._postpone(task_id, now + STALL_S)
        else:
            self.link.send_failed(message, now)
        return []

    def next_deadline(self) -> float:
        return min(self.link.next_deadline(), self._due.next_s, self._flush_at_s, self._move_at_s)

    def close(self, now: float) -> list[ParticipantEffect]:
        """A clean leave: what is open is settled as cancelled, and the broker is told."""
        out: Effects = []
        self._settle_all(Code.CANCELLED, "the client was closed before the outcome came", out)
        self._stop_sending()
        self.link.close("the client was closed", out)
        return out

    # --- a client's own verbs -------------------------------------------------------------------------------------

    def submit(
        self,
        service: str,
        body: Body,
        timeout_s: float,
        now: float,
        *,
        priority: int = PRIORITY_NORMAL,
        options: bytes = b"",
    ) -> tuple[TaskId, list[ParticipantEffect]]:
        """A new task. Its outcome comes as `Settled`, by its deadline and a grace at the latest."""
        ids, leaving = self.submit_all(service, ((body, options),), timeout_s, now, priority)
        return ids[0], [Transmit(task) for task in leaving]

    def submit_all(
        self, service: str, requests: Sequence[tuple[Body, bytes]], timeout_s: float, now: float, priority: int
    ) -> tuple[list[TaskId], list[Task]]:
        """New tasks of one service, each a body and options: all of them, or none. Returns what is to be sent now."""
        sizes = self._check(service, requests, priority)
        tasks, file = self._open, self._due.add
        if not tasks:
            self._oldest = self._sequence + 1
        elif self._sequence % LOOK_EVERY + len(requests) >= LOOK_EVERY:
            self.link_oldest_unanswered()
        prefix, oldest, sequence = self._prefix, self._oldest, self._sequence
        heartbeat = self._heartbeat
        # After such a silence a tick is due that ends the link: what is sent now would have to be sent again, flagged.
        may_send = self._may_send and now < heartbeat.heard_at_s + heartbeat.silence_s
        must_wait = not may_send and self.link.phase is _UP
        transmissions = int(may_send)
        pair, place = self.link.pair, self.link.place
        deadline_s = now + timeout_s
        remaining_ms = remaining_ms_of(timeout_s)
        sent_us = int((now + heartbeat.clock.wall_offset_s) * 1e6)
        ids: list[TaskId] = []
        leaving: list[Task] = []
        for (body, options), size in zip(requests, sizes, strict=True):
            sequence += 1
            task_id: TaskId = prefix + sequence.to_bytes(8, "big")  # type: ignore[assignment]  # NewType costs a call
            ids.append(task_id)
            bucket = file(task_id, task_id, deadline_s)
            tasks[task_id] = OpenTask(
                service, body, priority, options, deadline_s, size, bucket, transmissions, pair=pair, place=place
            )
            if may_send:
                behind = sequence - oldest
                leaving.append(
                    Task(task_id, service, body, remaining_ms, 1, priority, 0, sent_us, behind, 0, NO_VERSION, options)
                )
            elif must_wait:
                self._postpone(task_id, now)
        self._sequence = sequence
        self._open_bytes += sum(sizes)
        return ids, leaving

    def receive_replies(self, replies: Iterable[TaskReply], now: float, out: Effects) -> list[TaskReply]:
        """Many replies at once. Returns those that settle their tasks, in place of `Settled`, to follow `out`."""
        self._heartbeat.heard_at_s = now
        tasks = self._open
        forget = self._forget
        final: list[TaskReply] = []
        for reply in replies:
            task = tasks.get(reply.id)
            if task is None:
                self.discarded += 1
            elif reply.final and reply.part <= task.next_part and (not task.attempt or self._is_same_run(task, reply)):
                forget(reply.id, task)
                final.append(reply)
                if self._awaited is not None:
                    self._move_if_answered(now, out)
            else:
                out.extend(self._part(task, reply, now))
        return final

    def cancel(self, task_id: TaskId, now: float) -> list[ParticipantEffect]:
        """The outcome is no longer wanted. It still comes: 499, or what was final before the broker knew."""
        task = self._open.get(task_id)
        if task is None or task.is_cancelled:
            return []
        if task.transmissions == 0:
            return [self._settle(task_id, task, Code.CANCELLED, "cancelled before it was sent")]
        task.is_cancelled = True
        self._due.remove(task_id, task.bucket)
        task.bucket = self._due.add(task_id, task_id, min(now, task.deadline_s) + self._grace_s)
        return [Transmit(Cancel(id=task_id))] if self.link.phase is _UP else []

    # --- what the link tells --------------------------------------------------------------------------------------

    def link_services(self) -> list[str]:
        return self.link.settings.services

    def link_in_flight(self) -> list[bytes]:
        return []

    def link_covers_ms(self, now: float) -> int:
        return 0

    def link_up(self, now: float, out: Effects) -> None:
        self._unsent = dict.fromkeys(self._open)
        self.link_oldest_unanswered()
        self._flush(now, out)

    def link_down(self, now: float, out: Effects) -> None:
        self._stop_sending()

    def link_in_vain(self, now: float, out: Effects) -> None:
        self._settle_refused(out)
        if self.link.phase is _UP:  # there is only this broker: what was held back goes to it after all
            self._awaited = None
            self._unsent = {task_id: None for task_id, task in self._open.items() if not task.transmissions}
            self._flush(now, out)

    def link_over(self, error: Scale0Error, now: float, out: Effects) -> None:
        self._stop_sending()
        self._settle_all(Code.NOT_ACCEPTING, str(error), out)

    def link_may_move(self, now: float, out: Effects) -> bool:
        """What is in flight may be answered for a while; new tasks wait for the other broker.

        What is not answered by then is sent again there, flagged: that broker cannot know whether it ran.
        """
        move_at_s = min(self._move_at_s, now + MOVE_WAIT_S)
        self._hold_back()
        self._move_at_s = move_at_s
        return not self._awaited

    def _hold_back(self) -> None:
        """Send nothing more to this broker, and count what is in flight there."""
        self._stop_sending()
        open_tasks = self._open.items()
        self._awaited = {task_id: None for task_id, task in open_tasks if task.transmissions and not task.refusal}

    def _move_if_answered(self, now: float, out: Effects) -> None:
        if not self._awaited or now >= self._move_at_s:
            self._move_at_s = math.inf
            self.link.move(now, out)  # which waits for the answer, if it still seeks another broker

    # --- outcomes -------------------------------------------------------------------------------------------------

    def _part(self, task: OpenTask, reply: TaskReply, now: float) -> list[ParticipantEffect]:
        """Parts are handed on in order, none twice; a part that was skipped never comes any more."""
        is_same_run = not task.attempt or self._is_same_run(task, reply)
        if is_same_run and reply.part == task.next_part:
            task.next_part += 1
            task.attempt = reply.attempt
            task.told_at = self.link.place
            return [Part(reply)]
        if is_same_run and reply.part < task.next_part:
            self.discarded += 1
            return []
        text = f"part {task.next_part} of the reply was lost on the way"
        if not is_same_run:
            text = "outcome unknown: parts of its reply were received, and it was run again"
        out: Effects = [self._settle(reply.id, task, Code.WORKER_LOST, text)]
        if not reply.final and self.link.phase is _UP:
            out.append(Transmit(Cancel(id=reply.id)))
        if self._awaited is not None:
            self._move_if_answered(now, out)
        return out

    def _is_same_run(self, task: OpenTask, reply: TaskReply) -> bool:
        """Rule 12: parts of two runs are never mixed.

        A broker that has taken over may run it anew, and not know that parts were received. And if it was sent to
        several brokers, each may have run it, and each counts its attempts from 1. The last reply has the number of
        all parts before it: if more were received, they were not of its run.
        """
        is_same_place = not task.is_scattered or task.told_at == self.link.place
        is_short = reply.final and reply.part < task.next_part
        return is_same_place and task.attempt == reply.attempt and not is_short

    def _task_error(self, error: Error, now: float, out: Effects) -> None:
        """An ERROR that answers TASK or CANCEL."""
        self._heartbeat.heard_at_s = now
        task_id = TaskId(error.id)
        task = self._open.get(task_id)
        if task is None:
            self.discarded += 1
        elif error.code not in _TURNED_AWAY or not self._goes_elsewhere(task_id, task, error, now, out):
            out.append(self._settle_by(task_id, task, error))
        if self._awaited is not None:
            self._move_if_answered(now, out)
        if error.fatal and self.link.phase is _UP:
            self.link.lose(f"{error.code} {error.text}", now, out)

    def _goes_elsewhere(self, task_id: TaskId, task: OpenTask, error: Error, now: float, out: Effects) -> bool:
        """301 or 503: not accepted here, so the next broker gets it as if it had not been sent; each gets it once."""
        if task.refusal:
            return True  # said twice
        if task.is_cancelled or task.next_part or task.refusals >= len(self.link.endpoints.known):
            return False
        task.transmissions -= 1
        task.refusals += 1
        task.refusal = f"{error.code} {error.text}"
        if self.link.phase is not _UP:
            return True  # it is on its way already
        if not self.link.seek(error, now, out):
            task.transmissions += 1
            return False
        if self._awaited is not None:
            self._awaited.pop(task_id, None)
        elif self.link.phase is _UP:
            self._hold_back()
        return True

    # --- sending --------------------------------------------------------------------------------------------------

    def _postpone(self, task_id: TaskId, at_s: float) -> None:
        """Send it later, and after it whatever is submitted meanwhile. Before a move it waits for the other broker."""
        if self._awaited is None:
            self._unsent[task_id] = None
            self._may_send = False
            self._flush_at_s = max(self._flush_at_s, at_s) if self._flush_at_s < math.inf else at_s

    def _flush(self, now: float, out: Effects) -> None:
        """Send what waits, some at a time: thousands at once would only meet a full pipe."""
        for task_id in list(islice(self._unsent, FLUSH_MAX)):
            del self._unsent[task_id]
            task = self._open[task_id]
            if task.is_cancelled:
                out.append(Transmit(Cancel(id=task_id)))
            elif task.deadline_s > now:
                out.append(Transmit(self._task(task_id, task, now)))
        self._flush_at_s = now if self._unsent else math.inf
        self._may_send = not self._unsent

    def _stop_sending(self) -> None:
        """What is open stays open, and is sent when a link is up again."""
        self._may_send = False
        self._unsent.clear()
        self._flush_at_s = self._move_at_s = math.inf
        self._awaited = None

    def _task(self, task_id: TaskId, task: OpenTask, now: float) -> Task:
        flags = 0
        if task.transmissions:
            flags = _RESENT
            if task.next_part:
                flags |= _PARTLY_ANSWERED  # so nobody begins another run of it
            elif task.place != self.link.place:
                task.is_scattered = True
            if task.pair and task.pair == self.link.pair:
                flags |= _SAME_PAIR
            else:
                task.pair = ""
        else:
            task.pair, task.place = self.link.pair, self.link.place
        task.transmissions += 1
        task.refusal = ""
        remaining_ms = remaining_ms_of(task.deadline_s - now)
        send_time_us = self._heartbeat.clock.wall_us(now)
        behind = sequence_of(task_id) - self._oldest
        fields = (remaining_ms, 1, task.priority, flags, send_time_us, behind)
        return Task(task_id, task.service, task.body, *fields, options=task.options)
