"""What people and programs may see of a broker: rows of services, workers, clients, tasks' counts, dead letters.

One vocabulary for every door. Raw units are suffixed; what is not known is null, never 0. Bodies are never shown.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from scale0.core.services import Service
from scale0.core.sessions import Session
from scale0.core.state import State
from scale0.core.workers import Worker
from scale0.protocol.dialects import Role
from scale0.protocol.ids import show_id
from scale0.protocol.messages import ConfigVersion

Row = dict[str, object]
ROWS_MAX = 10_000  # of one listing; it says that it is not complete


def document(state: State, name: str, rows: list[Row]) -> dict[str, Any]:
    """A listing with its schema, its time and the broker that made it."""
    return {
        "schema": f"{name}/1",
        "at": _iso(state.wall_us()),
        "complete": len(rows) <= ROWS_MAX,
        "broker": {
            "identity": state.settings.identity,
            "state": state.mode,
            "epoch": state.epoch,
            "network": state.settings.network,
            "group": state.settings.group,
            "config_version": str(state.config.version),
            "uptime_us": _us(state.now - state.started_s),
        },
        "rows": rows[:ROWS_MAX],
    }


def services(state: State) -> list[Row]:
    return [_service(state, service) for _, service in sorted(state.services.by_name.items())]


def _service(state: State, service: Service) -> Row:
    members = list(service.workers)
    free = sum(max(0, worker.capacity - len(worker.slots)) for worker in members if worker.is_open)
    oldest_s = service.queue.oldest_s()
    p50_us, p99_us = service.meter.percentiles(state.now, 0.5, 0.99)
    condition = "ok" if free else "full"
    return {
        "name": service.name,
        "state": condition if members else "no worker",
        "workers": len(members),
        "free": free,
        "capacity": sum(worker.capacity for worker in members),
        "queued": service.queue.count,
        "oldest_us": None if oldest_s is None else _us(state.now - oldest_s),
        "tasks_per_s": round(service.meter.rate(state.now), 3),
        "p50_us": p50_us,
        "p99_us": p99_us,
        "errors_5m": service.meter.errors(state.now),
        "idempotent": service.idempotent,
        "max_attempts": service.max_attempts,
    }


def workers(state: State) -> list[Row]:
    places: dict[Worker, int] = {}
    for service in state.services.by_name.values():
        for place, worker in enumerate(service.lru, 1):
            places[worker] = min(place, places.get(worker, place))
    sessions = (session for session in state.sessions.by_identity.values() if session.role is Role.WORKER)
    return [_worker(state, session, session.worker, places) for session in sessions if session.worker is not None]


def _worker(state: State, session: Session, worker: Worker, places: dict[Worker, int]) -> Row:
    return {
        "identity": session.identity,
        "broker": state.settings.identity,
        "state": worker.state,
        "services": [service.name for service in worker.services],
        "lru": places.get(worker),
        "busy": len(worker.slots),
        "capacity": worker.capacity,
        "stuck": len(worker.stuck),
        "is_absent": session.is_absent,
        "heartbeat_age_us": _us(state.now - session.last_seen_s),
        "heartbeat_interval_us": _us(session.interval_s) if worker.has_heartbeat else None,
        "config_version": _version(session),
        "clock_offset_us": session.offset_us,
        "dispatched": worker.dispatched,
        "dialect": session.dialect.name,
        "process": session.process or None,
    }


def clients(state: State) -> list[Row]:
    return [
        {
            "identity": session.identity,
            "open_tasks": session.open_tasks,
            "outcomes_kept": len(session.kept),
            "is_absent": session.is_absent,
            "heard_us": _us(state.now - session.last_seen_s),
            "config_version": _version(session),
            "clock_offset_us": session.offset_us,
            "dialect": session.dialect.name,
        }
        for session in state.sessions.by_identity.values()
        if session.role is Role.CLIENT
    ]


def brokers(state: State) -> list[Row]:
    """This broker, with all its counts; `network_listings` has the others."""
    ledger = state.ledger
    roles = [session.role for session in state.sessions.by_identity.values()]
    return [
        {
            "identity": state.settings.identity,
            "state": state.mode,
            "endpoints": state.settings.advertise,
            "accepted": ledger.accepted,
            "replied": ledger.replied,
            "errored": ledger.errored,
            "queued": ledger.queued,
            "in_flight": ledger.in_flight,
            "clients": roles.count(Role.CLIENT),
            "workers": roles.count(Role.WORKER),
            "dead_letters": state.dead_letters.total,
            "process": state.settings.process or None,
            "counters": dict(sorted(state.counters.items())),
        }
    ]


def dead_letters(state: State) -> list[Row]:
    """The newest first."""
    return [
        {
            "id": show_id(letter.task.id),
            "service": letter.task.service,
            "client": letter.client,
            "code": letter.code,
            "text": letter.text,
            "attempts": letter.attempts,
            "died_at": _iso(letter.died_us),
            "bytes": letter.size,
        }
        for letter in reversed(state.dead_letters.letters)
    ]


def error_clients(state: State) -> list[Row]:
    return [
        {
            "connection": route.hex(),
            "bad": round(record.bad, 2),
            "penalty_us": _us(max(0.0, record.until_s - state.now)),
            "ignored": record.ignored,
            "reason": record.reason,
        }
        for route, record in state.error_clients.records.items()
    ]


def _version(session: Session) -> str | None:
    return str(ConfigVersion.unpack(session.config_version)) if any(session.config_version) else None


def _us(seconds: float) -> int:
    return round(seconds * 1e6)


def _iso(wall_us: int) -> str:
    return datetime.fromtimestamp(wall_us / 1e6, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
