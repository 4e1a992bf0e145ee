"""What is recorded beside tasks: sessions, gauges, config, fail-overs. Each is a note, and rare.

Every function here is called where the thing happens, and does nothing unless somebody records (`state.journal`). Once
a second a gauge tells how many tasks were accepted and settled in all: what is recorded of them (`task_rows`) can be
counted against that, and a loss is never mistaken for a quiet hour.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from scale0.core.journal import Journal
from scale0.protocol.messages import ConfigVersion, PeerStatus

if TYPE_CHECKING:
    from scale0.core.sessions import Session
    from scale0.core.state import State
    from scale0.core.workers import Worker

GAUGE_S: Final = 1.0
SERVICES_S: Final = 10.0
WORKERS_S: Final = 60.0  # in which every worker is summed up once
SERVICES_TOLD_MAX: Final = 1_000


def note(state: State, kind: str, subject: str = "", what: str = "", value: int | None = None, **detail: Any) -> None:
    """Something else happened, if somebody records. `kind` is one of `events.KINDS`."""
    if state.journal is not None:
        state.journal.note(state.now, kind, subject, what, value, detail)


def session(state: State, session: Session, what: str, **detail: Any) -> None:
    """A participant's session: opened, moved, ready, closed."""
    note(state, "session", session.identity, what, None, role=session.role.value, **detail)


def ready(state: State, worker: Worker) -> None:
    """A worker said what it offers."""
    services = [service.name for service in worker.services]
    session(state, worker.session, "ready", services=services, capacity=worker.capacity, process=worker.session.process)


def failover(state: State, what: str, **detail: Any) -> None:
    """One of a pair, and what becomes of it."""
    pair = state.pair
    assert pair is not None, "only one of a pair fails over"
    told = {"partner": pair.partner, "tasks": len(state.ledger.entries), **detail}
    note(state, "failover", state.settings.identity, what, state.epoch, **told)


def tell_peer(state: State, message: PeerStatus) -> None:
    """A peer's record of how much we have recorded outlives our crash."""
    journal, ledger = state.journal, state.ledger
    assert journal is not None, "somebody records"
    message.boot = journal.boot
    told = counts(state)
    message.accepted = told["accepted"]
    message.settled = told["replied"] + told["errored"]
    message.open_tasks = len(ledger.entries)
    message.last_seq = journal.seq


def peer_gauge(state: State, message: PeerStatus) -> None:
    """What a peer told of its own record."""
    told = {"boot": message.boot, "accepted": message.accepted, "settled": message.settled}
    note(state, "peer_gauge", message.identity, "", message.last_seq, open_tasks=message.open_tasks, **told)


def tick(state: State) -> None:
    """Once a second: how many tasks there were, so that what is recorded can be counted against it."""
    journal = state.journal
    assert journal is not None, "somebody records"
    if state.now < journal.gauge_at_s:
        return
    journal.gauge_at_s = state.now + GAUGE_S
    note(state, "gauge", "", "", None, **counts(state), workers=state.sessions.workers, clients=state.sessions.clients)
    _tell_some_workers(state, journal)
    if state.now >= journal.services_at_s:
        journal.services_at_s = state.now + SERVICES_S
        _tell_services(state)


def counts(state: State) -> dict[str, int]:
    """Cumulative since the process began, but for what is open now; `last_seq` is that of the row before."""
    ledger, journal = state.ledger, state.journal
    assert journal is not None, "somebody records"
    return {
        "accepted": ledger.accepted - ledger.unrecorded_replies - ledger.unrecorded_errors,
        "replied": ledger.replied - ledger.unrecorded_replies,
        "errored": ledger.errored - ledger.unrecorded_errors,
        "refused": journal.refused,
        "queued": ledger.queued,
        "in_flight": ledger.in_flight,
        "last_seq": journal.seq,
    }


def _tell_services(state: State) -> None:
    for service in list(state.services.by_name.values())[:SERVICES_TOLD_MAX]:
        workers = list(service.workers)
        capacity = sum(worker.capacity for worker in workers)
        busy = sum(min(len(worker.slots), worker.capacity) for worker in workers)
        detail = {"workers": len(workers), "capacity": capacity, "busy": busy, "free": len(service.lru)}
        note(state, "service_gauge", service.name, "", service.queue.count, **detail)


def _tell_some_workers(state: State, journal: Journal) -> None:
    """A sixtieth of the workers each second: all of them once a minute, and never many at once."""
    for _ in range(math.ceil(state.sessions.workers * GAUGE_S / WORKERS_S)):
        told = next(journal.told_workers, None)
        if told is None:
            journal.told_workers = iter([one for one in state.sessions.by_identity.values() if one.worker is not None])
            return
        if told.worker is not None and state.sessions.by_identity.get(told.identity) is told:
            _tell_worker(state, told.worker)


def _tell_worker(state: State, worker: Worker) -> None:
    session = worker.session
    note(
        state,
        "worker",
        session.identity,
        worker.state,
        None,
        capacity=worker.capacity,
        busy=len(worker.slots),
        interval_ms=round(session.interval_s * 1000),
        offset_us=session.offset_us,
        offset_error_us=1 << session.offset_bits if session.offset_bits else None,
        config_version=str(ConfigVersion.unpack(session.config_version)),
        dispatched=worker.dispatched,
        process=session.process,
    )
