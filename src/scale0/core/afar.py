"""Peers as workers: who may get a task, and how it is sent there.

Rule 28: to the origin a peer is a worker whose capacity is the credit that it grants per service, so it is a `Worker`
for each of these services, with `tier` saying how far it is: 0 in our own group, 1 and more in the fallback groups, in
their order. Our own workers come first: only when none of them has a free slot is a peer looked for. The group comes
next, at once; a fallback group when nobody in the group serves, or when the group was too busy for `fallback_after`.
"""

from __future__ import annotations

import math

import msgspec

from scale0.core import admission, routing
from scale0.core.effects import Send
from scale0.core.ledger import Entry
from scale0.core.network import NEVER_TIER, Peer
from scale0.core.services import Service
from scale0.core.state import State
from scale0.core.workers import Worker, hold
from scale0.protocol.dialects import PEER
from scale0.protocol.limits import OPTIONS_BYTES_MAX
from scale0.protocol.messages import PeerService, PeerStatus, Task, TaskId

# --- choosing -----------------------------------------------------------------------------------------------------


def pick(state: State, entry: Entry) -> Worker | None:
    """The least recently used peer with room, of the nearest tier that the task may go to."""
    service = entry.service
    if state.mode == "disabled" or entry.is_forwarded:
        return None
    found: Worker | None = None
    for worker in service.afar_lru:
        if worker.tier == 0:
            return worker
        if (found is None or worker.tier < found.tier) and may_fall_back(state, entry):
            found = worker
    return found


def may_fall_back(state: State, entry: Entry) -> bool:
    """Whether a fallback group may be asked: nobody in our own serves it, or all were too busy for too long."""
    return state.now >= fall_back_at_s(state, entry)


def fall_back_at_s(state: State, entry: Entry) -> float:
    service = entry.service
    if state.mode == "disabling":  # the group is not waited for: what is queued leaves now (rule 25)
        return entry.accepted_s
    is_served = bool(service.workers) or any(worker.tier == 0 for worker in service.afar)
    return entry.accepted_s + state.settings.fallback_after_s if is_served else entry.accepted_s


def send(state: State, entry: Entry, worker: Worker) -> None:
    """Forward the task. `visited` travels with it, so that it never comes back to where it was."""
    now = state.now
    task = entry.task
    attempt = entry.attempt = entry.attempt + 1
    entry.worker = worker
    entry.sent_s = now
    if state.journal is not None:
        entry.free = len(entry.service.afar_lru)
        entry.waiting = entry.service.queue.count
    hold(worker, entry.id, attempt)
    worker.dispatched += 1
    if len(worker.slots) >= worker.capacity:
        delist(worker)
    elif worker.is_listed:
        entry.service.afar_lru.move_to_end(worker)
    remaining_ms = int((entry.deadline_s - now) * 1000)
    has_room = len(task.options) + len(state.visited) <= OPTIONS_BYTES_MAX
    state.network.of(worker.session).forwarded += 1
    message = Task(
        entry.id,
        task.service,
        task.body,
        remaining_ms if remaining_ms > 0 else 1,
        attempt,
        task.priority,
        task.flags,
        task.send_time_us,
        0,
        int((now + state.wall_offset_s) * 1e6),
        state.config.packed_version,
        state.visited + task.options if has_room else task.options,
    )
    routing.leave(state, entry, Send(worker.session.route, PEER, message))


def split_options(options: bytes) -> tuple[list[str], bytes]:
    """The brokers that a forwarded task has been at, and the client's own options."""
    try:
        size = _array_bytes(options)
        return msgspec.msgpack.decode(options[:size], type=list[str]), options[size:]
    except (msgspec.MsgspecError, UnicodeDecodeError, IndexError):
        return [], options


def _array_bytes(options: bytes) -> int:
    """How many bytes the leading msgpack list of short strings takes."""
    count = options[0] - 0x90
    if not 0 <= count <= 15:
        raise IndexError
    at = 1
    for _ in range(count):
        kind = options[at]
        at += 1 + (kind - 0xA0) if 0xA0 <= kind <= 0xBF else 2 + options[at + 1]
    return at


# --- credit -------------------------------------------------------------------------------------------------------


def take_credit(state: State, peer: Peer, message: PeerStatus) -> None:
    """PEERSTATUS says what it can do for us, in every service or in those that changed."""
    if message.is_full:
        peer.queued.clear()
        peer.offers.clear()
        named = {offer.name for offer in message.services}
        for name in [name for name in peer.workers if name not in named]:
            _take_one(state, peer, PeerService(name))
    for offer in message.services:
        peer.offers[offer.name] = offer
        if offer.queued:
            peer.queued[offer.name] = offer.queued
        else:
            peer.queued.pop(offer.name, None)
        _take_one(state, peer, offer)
    for worker in [worker for worker in peer.workers.values() if worker.is_paused]:
        worker.is_paused = False  # it lives: what could not be sent, or came back, may go there again
        feed(state, worker)


def note_offers(peer: Peer, message: PeerStatus) -> None:
    """What our partner could do for us counts as soon as it is our partner no more: it says it once."""
    if message.is_full:
        peer.offers.clear()
    peer.offers.update({offer.name: offer for offer in message.services})


def count_anew(state: State, peer: Peer) -> None:
    """What it said holds, under what is so by now; of a pair only one has work, so the partner gets nothing."""
    if state.pair is None or peer.identity != state.pair.partner:
        for offer in list(peer.offers.values()):
            _take_one(state, peer, offer)


def void_credit(state: State, peer: Peer) -> None:
    """It gets nothing more; what it holds of ours it still has."""
    peer.offers = {}
    peer.queued = {}
    for name in list(peer.workers):
        _take_one(state, peer, PeerService(name))


def move_tier(state: State, peer: Peer, tier: int) -> None:
    """The document puts it nearer or farther: what it told us counts anew."""
    if tier == peer.tier:
        return
    peer.tier = tier
    for worker in peer.workers.values():
        worker.tier = tier
    count_anew(state, peer)


def _take_one(state: State, peer: Peer, offer: PeerService) -> None:
    if peer.tier == NEVER_TIER:  # whatever it offers is not for us
        offer = PeerService(offer.name)
    worker = peer.workers.get(offer.name)
    if worker is None:
        if not offer.workers or peer.session is None:
            return
        service = state.services.by_name.get(offer.name)
        if service is None:
            if not state.services.has_room():
                return
            service = state.services.add(offer.name, state.now)
        worker = peer.workers[offer.name] = Worker(session=peer.session, services=(service,), tier=peer.tier)
        worker.is_negotiating = False
    service = worker.services[0]
    worker.capacity = offer.credit
    worker.is_paused = False
    if offer.workers:
        is_first_word = state.services.hear_afar(service, worker, offer)
        if is_first_word and service.queue.count:
            admission.judge_resent(state, service)
    else:
        state.services.forget_afar(service, worker)
        if not worker.slots:
            delist(worker)
            del peer.workers[offer.name]
            return
    feed(state, worker)


def feed(state: State, worker: Worker) -> None:
    """Give a peer with room what waits; with room left, it is listed."""
    if not worker.is_open or state.mode not in routing.DISPATCHING:
        delist(worker)
        return
    service = worker.services[0]
    while len(worker.slots) < worker.capacity:
        entry = service.queue.head(state.now)
        if entry is None or (worker.tier and not may_fall_back(state, entry)):
            enlist(worker)
            return
        take_from_queue(state, entry)
        send(state, entry, worker)


def feed_all(state: State) -> None:
    """The mode has changed: if we may dispatch, whoever has room gets what waits; if not, nobody is listed.

    Rule 28: our own workers come first, then the group, then the fallback groups in their order.
    """
    for session in list(state.sessions.by_identity.values()):
        if session.worker is not None:
            routing.feed(state, session.worker)
    for peer in sorted(state.network.peers.values(), key=_tier_of):
        for worker in peer.workers.values():
            feed(state, worker)


def _tier_of(one: Peer | Worker) -> int:
    return one.tier


def take_from_queue(state: State, entry: Entry) -> None:
    entry.service.queue.take(entry)
    entry.is_queued = False
    state.ledger.queued -= 1


def enlist(worker: Worker) -> None:
    if not worker.is_listed:
        worker.is_listed = True
        worker.services[0].afar_lru[worker] = None


def delist(worker: Worker) -> None:
    if worker.is_listed:
        worker.is_listed = False
        del worker.services[0].afar_lru[worker]


def spill(state: State) -> None:
    """Tasks that have waited long enough in a busy group go to the fallback groups that have room."""
    for service in _with_fallback(state):
        for worker in sorted([worker for worker in service.afar_lru if worker.tier], key=_tier_of):
            feed(state, worker)


def next_spill_s(state: State) -> float:
    """When the next waiting task may go to a fallback group."""
    if not state.ledger.queued:
        return math.inf
    next_s = math.inf
    for service in _with_fallback(state):
        entry = service.queue.head(state.now)
        if entry is not None:
            next_s = min(next_s, fall_back_at_s(state, entry))
    return next_s


def _with_fallback(state: State) -> list[Service]:
    """Services that tasks wait for while a fallback group has room."""
    if not state.ledger.queued:
        return []
    services: dict[str, Service] = {}
    for peer in state.network.peers.values():
        if 0 < peer.tier < NEVER_TIER:
            for name, worker in peer.workers.items():
                if worker.is_listed and worker.services[0].queue.count:
                    services[name] = worker.services[0]
    return list(services.values())


# --- losing -------------------------------------------------------------------------------------------------------


def dismiss(state: State, worker: Worker, why: str) -> None:
    """The peer is lost, and with it every attempt that it held."""
    delist(worker)
    service = worker.services[0]
    state.services.forget_afar(service, worker)
    slots = list(worker.slots.items())
    worker.slots.clear()
    worker.stuck = frozenset()
    worker.capacity = 0
    for task_id, attempt in slots:
        entry = state.ledger.entries.get(task_id)
        if entry is not None and entry.worker is worker and entry.attempt == attempt:
            routing.lose_attempt(state, entry, why)
    state.services.forget_if_idle(service)


def take_all_back(state: State, peer: Peer) -> None:
    """It left with nothing in hand, so what it has not answered never started there (rule 10)."""
    for worker in peer.workers.values():
        worker.is_paused = True
        delist(worker)
    for worker in peer.workers.values():
        slots = list(worker.slots.items())
        worker.slots.clear()
        worker.stuck = frozenset()
        for task_id, attempt in slots:
            entry = state.ledger.entries.get(task_id)
            if entry is not None and entry.worker is worker and entry.attempt == attempt:
                routing.take_back(state, entry)


def reconcile(state: State, peer: Peer, listed: list[bytes]) -> None:
    """Rule 9 for peers: what a peer that came back does not hold any more is lost."""
    held = {TaskId(task_id) for task_id in listed}
    for worker in list(peer.workers.values()):
        for task_id in [task_id for task_id in worker.slots if task_id not in held]:
            attempt = worker.slots.pop(task_id)
            worker.stuck -= {task_id}
            entry = state.ledger.entries.get(task_id)
            if entry is not None and entry.worker is worker and entry.attempt == attempt:
                routing.lose_attempt(state, entry, f"broker {peer.identity} lost it with its connection")


def holder(peer: Peer, task_id: TaskId) -> Worker | None:
    """The peer's worker that holds this task."""
    return next((worker for worker in peer.workers.values() if task_id in worker.slots), None)
