"""Workers and their slots, and the LRU queues that they stand in.

A worker is in exactly one state: negotiating, ready (it has a free slot and stands in the LRU queue of each of its
services), full, draining, or gone (rule 5). The state is derived from a few facts, so that it cannot contradict them:

    negotiating   has not said READY on this connection       draining   said READY with capacity 0
    full          in flight ≥ capacity                        ready      anything else; paused ones wait to be heard

One capacity covers all its services. A slot is apart from a wait-queue entry: it stays occupied past the deadline of
its task, until the worker itself says that it is done, or is lost (rule 6).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from scale0.core.services import Service
from scale0.core.sessions import Session
from scale0.protocol.messages import ServiceOffer, TaskId

ANY_ATTEMPT = 0  # a slot whose attempt is not known: the worker held it before this broker knew it
RECENT = 64  # tasks of one worker whose durations are remembered


NOTHING: Final[dict[TaskId, int]] = {}
"""What idle workers hold, one for all: thousands of empty tables would be in no cache. Nothing is ever put in."""


def _nothing() -> dict[TaskId, int]:
    return NOTHING


def _recent() -> deque[float]:
    return deque(maxlen=RECENT)


@dataclass(slots=True, eq=False, kw_only=True)
class Load:
    """What each task looks at: side by side in memory, for its worker may be in no cache."""

    session: Session
    services: tuple[Service, ...] = ()  # one tuple for all workers that offer the same
    capacity: int = 1
    slots: dict[TaskId, int] = field(default_factory=_nothing)  # what it holds: task id → attempt; `hold` adds
    stuck: frozenset[TaskId] = frozenset()  # slots whose task was settled without it
    is_listed: bool = False  # stands in the LRU queue of each of its services
    is_paused: bool = False  # returned a task, or its pipe was full: gets nothing until it is heard
    dispatched: int = 0
    used: int = 0  # its turn in the LRU order of the broker that this one took over from; 0: used since, or new


@dataclass(slots=True, eq=False, kw_only=True)
class Worker(Load):
    """One worker's offers and slots."""

    listed: frozenset[TaskId] = frozenset()  # what it said it holds when it came back: ids, without their attempts
    has_heartbeat: bool = True
    is_negotiating: bool = True
    tier: int = 0  # a peer as a worker: how far it is (`afar`)
    recent: deque[float] = field(default_factory=_recent)  # how long its last tasks took, from dispatch to answer

    @property
    def state(self) -> str:
        if self.is_negotiating:
            return "negotiating"
        if self.capacity == 0:
            return "draining"
        return "full" if len(self.slots) >= self.capacity else "ready"

    @property
    def is_open(self) -> bool:
        """A task may be sent to it now."""
        session = self.session
        return (
            len(self.slots) < self.capacity
            and not self.is_negotiating
            and not self.is_paused
            and not session.is_absent
            and (not session.dialect.is_req or session.turn is not None)
        )


def hold(worker: Worker, task_id: TaskId, attempt: int) -> None:
    """The task takes a slot."""
    if worker.slots:
        worker.slots[task_id] = attempt
    else:
        worker.slots = {task_id: attempt}


def release(worker: Worker, task_id: TaskId, attempt: int) -> bool:
    """Free the slot that this attempt holds; False if it holds none.

    A worker that came back lists ids. The attempt that was sent last may not have reached it before its connection
    broke, and what it holds is one before, whose reply is the last word that comes for this slot.
    """
    slots = worker.slots
    held = slots.get(task_id)
    if held is None or (held != attempt and held != ANY_ATTEMPT and task_id not in worker.listed):
        return False
    if len(slots) == 1:
        worker.slots = NOTHING
    else:
        del slots[task_id]
    if worker.stuck:
        worker.stuck -= {task_id}
    return True


def enlist(worker: Worker) -> None:
    """To the back of the LRU queue of each of its services."""
    if not worker.is_listed:
        worker.is_listed = True
        for service in worker.services:
            lru = service.lru
            lru[worker] = None
            if worker.used:  # it comes back after a takeover: before all that were used since, or after it
                first = next(iter(lru))
                if not first.used or first.used > worker.used:
                    lru.move_to_end(worker, last=False)


def delist(worker: Worker) -> None:
    """Out of every LRU queue: it is full, paused, leaving or lost."""
    if worker.is_listed:
        worker.is_listed = False
        for service in worker.services:
            del service.lru[worker]


def assign(worker: Worker, services: Sequence[Service], offers: dict[str, ServiceOffer]) -> None:
    """Its services from now on. The caller enlists it again."""
    delist(worker)
    for service in worker.services:
        offer = service.workers.pop(worker)
        terms = (offer.idempotent, offer.max_attempts)
        service.terms[terms] -= 1
        if not service.terms[terms]:
            del service.terms[terms]
    worker.services = _shared(tuple(services))
    for service in services:
        offer = service.workers[worker] = offers[service.name]
        service.terms[offer.idempotent, offer.max_attempts] += 1


def _shared(services: tuple[Service, ...]) -> tuple[Service, ...]:
    """The same services as the newest worker of the first of them has, if they are the same.

    A task looks at its worker's services. Of thousands of workers each would have a list of its own that is in no
    cache when its turn comes, and so would cost a busy broker a tenth more.
    """
    newest = next(reversed(services[0].workers), None) if services else None
    return newest.services if newest is not None and newest.services == services else services
