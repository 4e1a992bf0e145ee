"""The broker at a glance: figures, the services that need somebody most, the last quarter of an hour, its network.

It is looked at each second while somebody has the page open, so it is made of what is counted anyway, and of one look
at each worker. What is wrong, and the sentence that says so, are the gate's to add.
"""

from __future__ import annotations

import heapq
from typing import Any, Final

from scale0.core import listings, network_listings, vitals
from scale0.core.services import Service
from scale0.core.state import State
from scale0.protocol.messages import NO_VERSION

WORST: Final = 8


def overview(state: State) -> dict[str, Any]:
    """Everything but the verdict and the alarms."""
    vitals.tick(state)
    counts = _counts(state)
    figures = {
        **vitals.figures(state),
        "queued": state.ledger.queued,
        "oldest_us": _oldest_us(state),
        "free": counts.pop("free"),
        "capacity": counts.pop("capacity"),
    }
    return {
        "figures": figures,
        "services": _worst_services(state),
        "history": vitals.history(state),
        "brokers": network_listings.network(state),
        "counts": counts,
    }


def _counts(state: State) -> dict[str, int]:
    free = capacity = full = draining = negotiating = absent = behind = 0
    current = state.config.packed_version
    for session in state.sessions.by_identity.values():
        worker = session.worker
        if worker is None:
            continue
        room = worker.capacity
        capacity += room
        if worker.is_listed:
            free += room - len(worker.slots)
        elif worker.is_negotiating:
            negotiating += 1
        elif not room:
            draining += 1
        elif len(worker.slots) >= room:
            full += 1
        if session.is_absent:
            absent += 1
        if NO_VERSION < session.config_version < current:
            behind += 1
    services = state.services.by_name.values()
    return {
        "free": free,
        "capacity": capacity,
        "services": len(services),
        "services_without_worker": sum([not service.workers for service in services]),
        "workers": state.sessions.workers,
        "workers_full": full,
        "workers_draining": draining,
        "workers_negotiating": negotiating,
        "workers_absent": absent,
        "workers_behind": behind,
        "clients": state.sessions.clients,
        "tasks": len(state.ledger.entries),
        "in_flight": state.ledger.in_flight,
        "dead_letters": len(state.dead_letters.letters),
        "error_clients": listings.ignored(state),
        "brokers": len(state.config.document.brokers),
        "brokers_linked": len(state.network.linked()),
    }


def _oldest_us(state: State) -> int | None:
    """How long the task has waited that waits longest."""
    if not state.ledger.queued:
        return None
    waiting = [service.queue.oldest_s() for service in state.services.by_name.values() if service.queue.count]
    return listings.us(state.now - min((since_s for since_s in waiting if since_s is not None), default=state.now))


def _worst_services(state: State) -> list[listings.Row]:
    """Those that tasks wait for in vain, then those that most wait for, then those with errors, then the rest."""
    worst = heapq.nsmallest(WORST, state.services.by_name.values(), key=lambda service: _rank(state, service))
    memberships, looked_at = listings.count_memberships(state), 0
    for service in worst:
        if looked_at < listings.PAUSE_STEPS:
            looked_at += listings.look_at_room(state, service, memberships)
    return [listings.service_row(state, service) for service in worst]


def _rank(state: State, service: Service) -> tuple[int, int, int, float, str]:
    queued = service.queue.count
    hopeless = not service.workers and not service.afar
    trouble = 0 if hopeless and queued else 1 if queued else 2 if hopeless else 3
    return trouble, -queued, -service.meter.errors(state.now), -service.meter.rate(state.now), service.name
