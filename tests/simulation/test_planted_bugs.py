"""Testing the test: bugs planted in the core of one broker, each of which the simulator must find."""

from __future__ import annotations

from typing import Any

import pytest

from scale0.core import admission, delivery, handlers, liveness, routing, turns
from scale0.core.client_session import ClientSession
from scale0.core.effects import Send
from scale0.core.ledger import Entry, Ledger
from scale0.core.sessions import Session
from scale0.core.state import State
from scale0.core.workers import Worker, enlist, hold, release
from scale0.protocol.messages import Error, Status, Task, TaskId, TaskReply
from tests.simulation.planting import Bugs

STEPS = 1500
SEEDS = range(2, 62)

bug = Bugs()


@bug("I1")
def a_reply_is_dropped(patch: pytest.MonkeyPatch) -> None:
    right, seen = delivery.deliver, [0]

    def wrong(state: State, client: Session, message: TaskReply | Error, service: str) -> None:
        seen[0] += 1
        if seen[0] % 10 or not isinstance(message, TaskReply) or not message.final:
            right(state, client, message, service)

    patch.setattr(delivery, "deliver", wrong)


@bug("rule 7", "at most once", "rule 6")
def a_task_is_dispatched_twice(patch: pytest.MonkeyPatch) -> None:
    right, seen = routing.dispatch, [0]

    def wrong(state: State, entry: Entry, worker: Worker) -> None:
        before = len(state.effects)
        right(state, entry, worker)
        seen[0] += 1
        if seen[0] % 10 == 0:
            state.effects.extend(effect for effect in state.effects[before:] if isinstance(effect, Send))

    patch.setattr(routing, "dispatch", wrong)


@bug("I2")
def a_reply_goes_to_another_client(patch: pytest.MonkeyPatch) -> None:
    right, seen = delivery.deliver, [0]

    def wrong(state: State, client: Session, message: TaskReply | Error, service: str) -> None:
        others = [s for s in state.sessions.by_identity.values() if s.role is client.role and s is not client]
        natives = [other for other in others if other.dialect is client.dialect]
        seen[0] += 1
        right(state, natives[0] if natives and seen[0] % 10 == 0 else client, message, service)

    patch.setattr(delivery, "deliver", wrong)


@bug("I1")
def deadlines_are_not_met(patch: pytest.MonkeyPatch) -> None:
    right = Ledger.overdue

    def wrong(self: Ledger, now: float) -> list[Entry]:
        right(self, now)
        return []

    patch.setattr(Ledger, "overdue", wrong)


@bug("rule 6", "RFC 7")
def ping_puts_a_full_worker_back(patch: pytest.MonkeyPatch) -> None:
    right = liveness._hear_worker

    def wrong(state: State, session: Session, worker: Worker) -> None:
        right(state, session, worker)
        if not worker.is_negotiating and not session.dialect.is_req:
            enlist(worker)

    patch.setattr(liveness, "_hear_worker", wrong)


@bug("I14", "I1", "calm")
def a_slot_is_never_released(patch: pytest.MonkeyPatch) -> None:
    seen = [0]

    def wrong(worker: Worker, task_id: Any, attempt: int) -> bool:
        seen[0] += 1
        return release(worker, task_id, attempt) if seen[0] % 20 else True

    patch.setattr(routing, "release", wrong)


@bug("I5", "rule 10", "reply", "I2", "rule 12")
def a_late_reply_counts(patch: pytest.MonkeyPatch) -> None:
    def wrong(state: State, session: Session, message: TaskReply) -> None:
        entry = state.ledger.entries.get(message.id)
        if entry is not None and entry.worker is not None and session.worker is not None:
            entry.worker.slots.pop(entry.id, None)
            entry.worker, entry.attempt = session.worker, message.attempt
            hold(session.worker, entry.id, message.attempt)
        routing.reply(state, session, message)

    says: dict[Any, Any] = handlers._WORKER_SAYS
    patch.setitem(says, TaskReply, wrong)


@bug("I4")
def a_silent_worker_stays(patch: pytest.MonkeyPatch) -> None:
    def wrong(state: State) -> None:
        for session in state.sessions.unheard(state.now):
            state.sessions.watch(session, state.now + 1.0)

    patch.setattr(liveness, "look_at_silent", wrong)


@bug("at most once")
def what_was_sent_before_is_run_again(patch: pytest.MonkeyPatch) -> None:
    right = admission.submit

    def wrong(state: State, session: Session, message: Task, sequence: int) -> None:
        message.flags = 0
        right(state, session, message, sequence)

    patch.setattr(admission, "submit", wrong)


@bug("at most once", "rule 9")
def every_service_counts_as_idempotent(patch: pytest.MonkeyPatch) -> None:
    right = routing.lose_attempt

    def wrong(state: State, entry: Entry, why: str) -> None:
        entry.service.idempotent, entry.service.max_attempts = True, 3
        right(state, entry, why)

    patch.setattr(routing, "lose_attempt", wrong)


@bug("rule 9")
def attempts_are_not_limited(patch: pytest.MonkeyPatch) -> None:
    right = routing.lose_attempt

    def wrong(state: State, entry: Entry, why: str) -> None:
        entry.service.max_attempts = 99
        right(state, entry, why)

    patch.setattr(routing, "lose_attempt", wrong)


@bug("I13")
def the_most_recently_used_worker_is_taken(patch: pytest.MonkeyPatch) -> None:
    right = routing.dispatch

    def wrong(state: State, entry: Entry, worker: Worker) -> None:
        right(state, entry, worker)
        if worker.is_listed:
            for service in worker.services:
                service.lru.move_to_end(worker, last=False)

    patch.setattr(routing, "dispatch", wrong)


@bug("I12")
def a_clock_jump_sends_workers_away(patch: pytest.MonkeyPatch) -> None:
    def wrong(state: State, wall_s: float) -> None:
        state.wall_offset_s = wall_s - state.now

    patch.setattr(liveness, "look_at_clock", wrong)
    patch.setattr(liveness, "SKEWED_TOGETHER_MIN", 99)


@bug("I11")
def a_task_is_counted_twice(patch: pytest.MonkeyPatch) -> None:
    right = Ledger.accept

    def wrong(self: Ledger, entry: Entry) -> None:
        right(self, entry)
        self.accepted += entry.task.priority == 3

    patch.setattr(Ledger, "accept", wrong)


@bug("rule 3")
def a_req_socket_is_pushed_to(patch: pytest.MonkeyPatch) -> None:
    def wrong(state: State, session: Session, message: Any) -> None:
        state.post(session.route, session, message)

    patch.setattr(turns, "answer", wrong)
    patch.setattr(turns, "end_turn", lambda state, session: None)  # a TASK ends the turn by itself


@bug("rule 6")
def a_deadline_frees_the_slot(patch: pytest.MonkeyPatch) -> None:
    right = routing.expire

    def wrong(state: State, entry: Entry) -> None:
        worker, attempt = entry.worker, entry.attempt
        right(state, entry)
        if worker is not None and release(worker, entry.id, attempt):
            routing.feed(state, worker)

    patch.setattr(routing, "expire", wrong)


@bug("promise")
def a_client_waits_for_ever(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: ClientSession, task_id: TaskId, now: float, out: Any) -> None:
        self._open[task_id].bucket = self._due.add(task_id, task_id, now + 1e6)

    patch.setattr(ClientSession, "_expire", wrong)


@bug("rule 10", "reply", "I2", "I1")
def a_returned_task_goes_to_its_client(patch: pytest.MonkeyPatch) -> None:
    def wrong(state: State, session: Session, message: TaskReply) -> None:
        if message.status == Status.RETURNED:
            message.status = Status.OK
        routing.reply(state, session, message)

    says: dict[Any, Any] = handlers._WORKER_SAYS
    patch.setitem(says, TaskReply, wrong)


@pytest.mark.parametrize("name", sorted(bug.by_name))
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.must_be_found(name, monkeypatch, SEEDS, STEPS)
