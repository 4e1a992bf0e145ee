"""What people and programs may see of a broker: rows of services, workers, clients, tasks, dead letters.

One vocabulary for every door. Raw units are suffixed; what is not known is null, never 0. Bodies are never shown.

Listings that may be long are made row by row, so that whoever walks through one need not have it all at once
(`snapshots`): what was there at the beginning is kept in its order, and what has gone since is passed over. A row that
is None is a pause: work was done, and there is nothing to show for it yet.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from scale0.core import vitals
from scale0.core.meters import FAILED
from scale0.core.services import Service
from scale0.core.sessions import Session
from scale0.core.state import State
from scale0.core.workers import Worker
from scale0.protocol.dialects import Role
from scale0.protocol.ids import show_id
from scale0.protocol.messages import NO_VERSION, ConfigVersion, TaskId

Row = dict[str, object]
Rows = Iterable[Row | None]
ROWS_MAX: Final = 10_000  # of one listing; it says that it is not complete
PAUSE_STEPS: Final = 2_500  # workers that are looked at between two pauses
ROOM_S: Final = 1e-5  # a service's room may be so old, for each worker of each service: looking costs a hundredth of it
PLACES_MANY: Final = 20_000  # workers of each service, all together
TASKS_SHOWN: Final = 8  # of one worker
LONG_AGO_S: Final = 1e8  # no task takes longer; what was with a worker before a takeover seems to


def document(state: State, name: str, rows: list[Row], total: int | None = None) -> dict[str, Any]:
    """A listing with its schema, its time and the broker that made it; `total` counts rows that are not in it too."""
    total = len(rows) if total is None else total
    return {
        "schema": f"{name}/1",
        **heading(state),
        "complete": total <= min(len(rows), ROWS_MAX),
        "rows": rows[:ROWS_MAX],
        "total": total,
    }


def heading(state: State) -> dict[str, Any]:
    return {
        "at": iso(state.wall_us()),
        "broker": {
            "identity": state.settings.identity,
            "state": state.mode,
            "epoch": state.epoch,
            "network": state.settings.network,
            "group": state.settings.group,
            "config_version": str(state.config.version),
            "uptime_us": us(state.now - state.started_s),
        },
    }


# --- services -----------------------------------------------------------------------------------------------------


def services(state: State) -> Iterator[Row | None]:
    known = sorted(state.services.by_name.items())
    memberships = count_memberships(state)
    looked_at = 0
    for name, service in known:
        if state.services.by_name.get(name) is not service:
            continue
        looked_at += look_at_room(state, service, memberships)
        while looked_at > PAUSE_STEPS:
            looked_at -= PAUSE_STEPS
            yield None
        yield service_row(state, service)


def count_memberships(state: State) -> int:
    """Workers of each service, all together."""
    return sum([len(service.workers) for service in state.services.by_name.values()])


def look_at_room(state: State, service: Service, memberships: int) -> int:
    """Count its slots, unless that was done lately; how many workers were looked at.

    Where thousands of workers offer hundreds of services each, counting all of them each second would be felt.
    """
    if state.now - service.room_s < memberships * ROOM_S:
        return 0
    service.room_s = state.now
    service.capacity = sum([worker.capacity for worker in service.workers])
    service.free = sum([worker.capacity - len(worker.slots) for worker in service.lru])
    return len(service.workers)


def service_row(state: State, service: Service) -> Row:
    oldest_s = service.queue.oldest_s()
    is_counted = service.room_s > -math.inf
    p50_us, p99_us = service.meter.percentiles(state.now, 0.5, 0.99)
    errors = service.meter.families(state.now)
    failed = errors.pop(FAILED)
    return {
        "name": service.name,
        "state": service_state(service),
        "workers": len(service.workers),
        "free": service.free if is_counted else None,
        "capacity": service.capacity if is_counted else None,
        "queued": service.queue.count,
        "oldest_us": None if oldest_s is None else us(state.now - oldest_s),
        "tasks_per_s": round(service.meter.rate(state.now), 3),
        "p50_us": p50_us,
        "p99_us": p99_us,
        "settled_5m": service.meter.settled(state.now),
        "errors_5m": sum(errors.values()) + failed,
        "errors_by_family": errors,
        "failed_5m": failed,
        "idempotent": service.idempotent,
        "max_attempts": service.max_attempts,
    }


def service_state(service: Service) -> str:
    """Whether its tasks are served: by a worker of this broker's, or else by those of its peers."""
    if service.workers:
        return "ok" if service.lru else "full"
    return "at peers" if service.afar else "no worker"


# --- workers and clients ------------------------------------------------------------------------------------------


def workers(state: State) -> Iterator[Row | None]:
    known = [session for session in state.sessions.by_identity.values() if session.worker is not None]
    places: dict[Worker, int] = {}
    for _ in _find_places(state, places):
        yield None
    shown = Shown()
    for session in known:
        if state.sessions.by_identity.get(session.identity) is session and session.worker is not None:
            yield _worker(state, session, session.worker, places, shown)


def _find_places(state: State, places: dict[Worker, int]) -> Iterator[None]:
    """The place of each worker in the LRU queue where it stands first.

    A worker moves in all its queues at once, so queues of the same workers have the same order. Where there are very
    many places, one queue is enough of those that look alike: of as many workers, with the same first and last.
    """
    seen: set[tuple[int, Worker, Worker]] = set()
    are_many = count_memberships(state) > PLACES_MANY
    steps = 0
    for service in list(state.services.by_name.values()):
        lru = service.lru
        if not lru:
            continue
        shape = (len(lru), next(iter(lru)), next(reversed(lru)))
        if are_many and shape in seen:
            continue
        seen.add(shape)
        for place, worker in enumerate(lru, 1):
            if places.get(worker, place) >= place:
                places[worker] = place
        steps += len(lru)
        while steps > PAUSE_STEPS:
            steps -= PAUSE_STEPS
            yield


class Shown:
    """Versions and ids as people read them; what many rows share is written once."""

    def __init__(self) -> None:
        self._versions: dict[bytes, str | None] = {}
        self._prefixes: dict[bytes, str] = {}

    def version(self, packed: bytes) -> str | None:
        if packed not in self._versions:
            self._versions[packed] = str(ConfigVersion.unpack(packed)) if any(packed) else None
        return self._versions[packed]

    def id(self, task_id: TaskId) -> str:
        prefix = self._prefixes.get(task_id[:-8])
        if prefix is None:
            prefix = self._prefixes[task_id[:-8]] = show_id(task_id).rpartition(".")[0]
        return f"{prefix}.{int.from_bytes(task_id[-8:], 'big')}"


def _worker(state: State, session: Session, worker: Worker, places: dict[Worker, int], shown: Shown) -> Row:
    now, version = state.now, session.config_version
    return {
        "identity": session.identity,
        "broker": state.settings.identity,
        "state": worker.state,
        "services": [service.name for service in worker.services],
        "lru": places.get(worker) if worker.is_listed else None,
        "busy": len(worker.slots),
        "capacity": worker.capacity,
        "stuck": len(worker.stuck),
        "is_absent": session.is_absent,
        "heartbeat_age_us": us(now - session.last_seen_s),
        "heartbeat_interval_us": us(session.interval_s) if worker.has_heartbeat else None,
        "config_version": shown.version(version),
        "is_behind": NO_VERSION < version < state.config.packed_version,
        "clock_offset_us": session.offset_us,
        "p99_us": _slowest_us(worker),
        "sessions_per_h": vitals.comings_per_h(state, session.identity) or 1,
        "connected_us": us(now - session.connected_s),
        "tasks": [shown.id(task_id) for task_id in islice(worker.slots, TASKS_SHOWN)] if worker.slots else [],
        "dispatched": worker.dispatched,
        "dialect": session.dialect.name,
        "process": session.process or None,
        "key": session.key or None,
    }


def _slowest_us(worker: Worker) -> int | None:
    """The 99th percentile of its last tasks: of fewer than a hundred, that is the slowest."""
    if not worker.recent:
        return None
    slowest_s = max(worker.recent)
    if slowest_s >= LONG_AGO_S:
        slowest_s = max([taken_s for taken_s in worker.recent if taken_s < LONG_AGO_S], default=LONG_AGO_S)
    return us(slowest_s) if slowest_s < LONG_AGO_S else None


def clients(state: State) -> Iterator[Row]:
    known = [session for session in state.sessions.by_identity.values() if session.role is Role.CLIENT]
    shown = Shown()
    for session in known:
        if state.sessions.by_identity.get(session.identity) is session:
            yield _client(state, session, shown)


def _client(state: State, session: Session, shown: Shown) -> Row:
    return {
        "identity": session.identity,
        "open_tasks": session.open_tasks,
        "tasks_per_s": vitals.pace(state, session),
        "errors_5m": vitals.errors_5m(state, session),
        "limit_percent": round(100 * session.open_tasks / state.limits.accepted_per_client, 1),
        "outcomes_kept": len(session.kept),
        "is_absent": session.is_absent,
        "heard_us": us(state.now - session.last_seen_s),
        "connected_us": us(state.now - session.connected_s),
        "config_version": shown.version(session.config_version),
        "clock_offset_us": session.offset_us,
        "dialect": session.dialect.name,
        "process": session.process or None,
        "key": session.key or None,
    }


# --- the broker itself --------------------------------------------------------------------------------------------


def brokers(state: State) -> list[Row]:
    """This broker, with all its counts; `network_listings` has the others."""
    ledger = state.ledger
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
            "clients": state.sessions.clients,
            "workers": state.sessions.workers,
            "connections": len(state.sessions.by_route),
            "tasks_per_s": vitals.figures(state)["tasks_per_s"],
            "dead_letters": state.dead_letters.total,
            "error_clients": ignored(state),
            "limits": {"tasks": state.limits.accepted, "queued_per_service": state.limits.queued_per_service},
            "process": state.settings.process or None,
            "counters": dict(sorted(state.counters.items())),
        }
    ]


def ignored(state: State) -> int:
    """Connections whose penalty lasts."""
    return sum([record.until_s > state.now for record in state.error_clients.records.values()])


def error_clients(state: State) -> list[Row]:
    return [
        {
            "connection": route.hex(),
            "bad": round(record.bad, 2),
            "penalty_us": us(max(0.0, record.until_s - state.now)),
            "ignored": record.ignored,
            "reason": record.reason,
        }
        for route, record in state.error_clients.records.items()
    ]


def us(seconds: float) -> int:
    return round(seconds * 1e6)


def iso(wall_us: int) -> str:
    return datetime.fromtimestamp(wall_us / 1e6, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
