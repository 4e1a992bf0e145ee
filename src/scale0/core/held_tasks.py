"""The tasks that a worker holds, their replies on the way to the broker, and when all of it is done.

A task is held from its start until its final reply. A task that cannot be started, because there is no slot, no such
service or no time left, is returned at once: the broker gives it to another and counts no attempt (rule 10). Replies
that cannot be sent are kept, and leave when a broker has taken this worker again.

A worker that goes takes nothing new, and is free to go when nothing is held or kept any more and the broker has
confirmed that nothing more will come (rule 11).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from scale0.core.announcement import Announcement
from scale0.core.kept_replies import KeptReplies, RecentReplies, fit_to_list
from scale0.core.link import Effects, Link
from scale0.core.participant import Note, ParticipantEffect, Transmit
from scale0.core.throttle import Throttle
from scale0.protocol.limits import REMAINING_MS_MAX
from scale0.protocol.messages import UNKNOWN_US, Body, Status, Task, TaskId, TaskReply

COVERED_MAX: Final = 1_000  # tasks that surely fit into the list of CONNECT
FLUSH_MAX: Final = 512  # kept replies sent at once; the rest follows at the next tick

Answer = tuple[TaskId, int, Body, int, int, bool, int, int]
"""One reply or a part of one: id, attempt, body, status, part, is final, wait_us, work_us."""

_RETURNED: Final = int(Status.RETURNED)


class HeldTasks:
    """The tables of a worker's session, which adds the link, READY and the leaving."""

    link: Link

    def __init__(self, announcement: Announcement, throttle: Throttle, kept: KeptReplies) -> None:
        self.is_ready = False  # the broker took READY on this link
        self.discarded = 0  # replies of the shell for tasks that are not held
        self._announcement = announcement
        self._throttle = throttle
        self._held: dict[tuple[TaskId, int], None] = {}  # (id, attempt), oldest first
        self._kept = kept
        self._recent = RecentReplies()
        self._has_dropped = False  # a reply that nobody has had
        self._covers_since_s = math.inf  # what was sent to us since then is held, kept, or never came
        self._flush_at_s = math.inf
        self._is_going = False  # leaving, or moving to another broker
        self._go_at_s = math.inf
        self._must_confirm = False  # a reply has left since the last READY: has it arrived?

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
        time_us = int((now + self.link.heartbeat.clock.wall_offset_s) * 1e6)
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
        if leaving:
            self._recent.add(leaving, now)
        if self._is_going:
            self._must_confirm = self._must_confirm or bool(leaving)
            self._go_soon(now)
        return leaving

    def receive_tasks(self, tasks: Iterable[Task], now: float, out: Effects) -> list[Task]:
        """Take many tasks at once. Returns those to run, in place of `Run`; other effects go to `out`."""
        self.link.heartbeat.heard_at_s = now
        all_held, offers = self._held, self._announcement.offers
        room = 0 if self._is_going else self._throttle.capacity
        started: list[Task] = []
        for task in tasks:
            held = (task.id, task.attempt)
            if held in all_held:
                continue  # the same attempt again: it is being worked on, and its reply answers both
            if len(all_held) >= room or task.service not in offers or task.remaining_ms <= 0:
                time_us = self.link.heartbeat.clock.wall_us(now)
                out.append(Transmit(TaskReply(task.id, (), task.attempt, _RETURNED, time_us=time_us)))
                self._must_confirm = True
            else:
                all_held[held] = None
                started.append(task)
        return started

    @property
    def held_count(self) -> int:
        """Tasks that were started and have no final reply."""
        return len(self._held)

    def link_in_flight(self) -> list[bytes]:
        """What is held, and what has an answer that the broker does not know yet; as many as one frame can carry."""
        return fit_to_list([*(task_id for task_id, _ in self._held), *self._kept.ids()])

    def link_covers_ms(self, now: float) -> int:
        """For how long back `link_in_flight` is complete; nothing, if replies were dropped or the list is cut."""
        is_cut = len(self._held) + len(self._kept) > COVERED_MAX
        if self._has_dropped or is_cut or now <= self._covers_since_s:
            return 0
        return min(int((now - self._covers_since_s) * 1000), REMAINING_MS_MAX)

    @property
    def _holds_anything(self) -> bool:
        return bool(self._held) or len(self._kept) > 0

    def _flush(self, now: float, out: Effects) -> None:
        """Send what was kept, some at a time: thousands at once would only meet a full pipe."""
        leaving = self._kept.take(FLUSH_MAX)
        self._recent.add(leaving, now)
        out.extend(map(Transmit, leaving))
        self._flush_at_s = now if self._kept else math.inf
        if self._is_going:
            self._must_confirm = self._must_confirm or bool(leaving)
            self._go_soon(now)

    def _recall(self, now: float, out: Effects) -> None:
        """The link is down: what left lately may not have arrived, and comes before all that is kept."""
        heartbeat = self.link.heartbeat
        since_s = now - heartbeat.silence_s
        self._covers_since_s = max(since_s, self._recent.whole_since_s)
        for reply in self._recent.take(since_s):
            self._note_dropped(self._kept.give_back(reply), out)

    def _note_dropped(self, dropped: int, out: Effects) -> None:
        if dropped:
            self._has_dropped = True
            out.append(Note(f"{dropped} of the oldest replies that could not be sent were dropped: too many are kept"))

    def _go_soon(self, now: float) -> None:
        """Rule 11: nothing is dispatched after READYOK. When all is answered, go.

        At the next tick: by then the shell has said whether the last reply met a full pipe.
        """
        announcement = self._announcement
        if announcement.confirmed_capacity == 0 and announcement.is_answered and not self._holds_anything:
            self._go_at_s = now
