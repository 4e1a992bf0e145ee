"""READY: what a worker offers and how much of it at once, from its start or changed at run time.

Each service is taken or refused by itself, with the reason (rule 29). The first READY on a connection also says what
the worker still holds (rule 9); a capacity of 0 is the first step of leaving (rule 11).
"""

from __future__ import annotations

from scale0.core import access, admission, changes, groups, liveness, recording, routing, turns
from scale0.core.connections import reconcile
from scale0.core.services import why_unfit
from scale0.core.sessions import Session
from scale0.core.state import State
from scale0.core.workers import ANY_ATTEMPT, Worker, assign, delist, hold
from scale0.protocol import limits
from scale0.protocol.codes import Code
from scale0.protocol.messages import Ready, ReadyOk, ServiceOffer, TaskId


def ready(state: State, session: Session, message: Ready) -> None:
    """READY: enter the LRU queue, or change services and capacity at run time."""
    worker = session.worker
    assert worker is not None, "a worker's session has a worker"
    if len(message.services) > limits.SERVICES_PER_WORKER_MAX or not 0 <= message.capacity <= limits.CAPACITY_MAX:
        text = f"at most {limits.SERVICES_PER_WORKER_MAX} services and a capacity of 0 to {limits.CAPACITY_MAX}"
        delist(worker)
        state.refuse(session, Code.MALFORMED, text)
        return
    offers, refused = sort_offers(state, session, message.services)
    if worker.is_negotiating:
        reconcile(state, worker, message.in_flight)
    else:  # what it holds and we did not know of takes a slot all the same (rule 9)
        for task_id in message.in_flight:
            hold(worker, TaskId(task_id), worker.slots.get(TaskId(task_id), ANY_ATTEMPT))
    session.config_version = message.config_version
    session.interval_s = max(state.settings.default_heartbeat_interval_s, message.heartbeat_interval_ms / 1000)
    worker.has_heartbeat = message.heartbeat and not session.dialect.is_req
    worker.capacity = min(message.capacity, 1) if session.dialect.is_req else message.capacity
    worker.is_negotiating = False
    worker.is_paused = False
    change_services(state, worker, offers)
    state.sessions.watch(session, state.now + state.allowed_silence_s(session))
    all_unmanaged = refused and not offers and not any(map(state.services.manages, refused))
    if all_unmanaged:  # rule 29: 301 only if all are refused
        _send_elsewhere(state, session, list(refused))
    elif session.dialect.is_req:
        turns.hold(state, session)
    else:
        interval_ms = round(session.interval_s * 1000)
        answer = ReadyOk(
            heartbeat_interval_ms=interval_ms,
            time_us=state.wall_us(),
            capacity=worker.capacity,
            refused=refused,
            epoch=state.epoch,
        )
        state.post(session.route, session, answer)
    routing.feed(state, worker)
    if message.config_version != state.config.packed_version:
        liveness.check_version(state, session, message.config_version)


def _send_elsewhere(state: State, session: Session, services: list[str]) -> None:
    """301 names the broker that manages what this one does not, if one is known."""
    text = "this broker manages none of these services"
    moved = groups.moved(state, services, session.role, text)
    if moved is None:
        state.refuse(session, Code.MOVED, f"{text}; ask NEEDBROKER")
    else:
        state.refuse(session, Code.MOVED, moved.text, detail=moved.detail)


def sort_offers(
    state: State, session: Session, offered: list[ServiceOffer]
) -> tuple[dict[str, ServiceOffer], dict[str, str]]:
    """What it may offer here, and why not the rest."""
    offers: dict[str, ServiceOffer] = {}
    refused: dict[str, str] = {}
    names = {offer.name for offer in offered}
    unknown = 0
    for offer in offered:
        why = why_unfit(offer.name)
        if why is None and not state.services.manages(offer.name):
            why = "this broker does not manage it"
        if why is None:
            why = access.why_not_served(session, offer.name)
        if why is None and offer.name not in state.services.by_name:
            unknown += 1
            if not state.services.has_room(unknown, sparing=names):
                unknown -= 1
                why = f"this broker knows {state.limits.services:,} services, its limit"
        if why is None:
            offers[offer.name] = offer
        else:
            refused[offer.name] = why
    return offers, refused


def change_services(state: State, worker: Worker, offers: dict[str, ServiceOffer]) -> None:
    """From now on it offers these, which were found fit; who relied on its word is told by `settle_terms`."""
    before = worker.services
    state.network.is_dirty = True
    state.network.mark(worker.session.identity)
    services = [state.services.by_name.get(name) or state.services.add(name, state.now) for name in offers]
    for service in services:
        service.is_announced = True
    assign(worker, services, offers)
    recording.ready(state, worker)
    for service in {service.name: service for service in (*before, *services)}.values():
        had_terms = service.has_terms
        state.services.settle_terms(service)
        if not had_terms and service.queue.count:
            admission.judge_resent(state, service)
    if state.stream is not None:
        changes.announced(state, worker)
