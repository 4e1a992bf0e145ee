"""PEERSTATUS: what a broker tells its peers, and how it shares its free slots among them.

Rule 28: to the origin a peer is a worker whose capacity is the credit that it grants per service. A grant is what the
peer already has here plus its share of what is free now; peers that wait for a service share it among themselves. So
grants may add up to more than there is when all ask at once: who comes too late gets its task back at once.

It is the heartbeat between brokers too: one leaves each interval, and sooner, but paced, when there is news. Only what
changed is listed, and all of it after a link came up or a message could not be sent.
"""

from __future__ import annotations

import msgspec

from scale0.core import heartbeat_table, recording, standby
from scale0.core.network import Peer
from scale0.core.services import Service
from scale0.core.state import State
from scale0.protocol.messages import PeerService, PeerStatus

NEWS_S = 0.05
NEWS_PER_SERVICE_S = 50e-6
CREDIT_MAX = 512  # that one peer has beyond its tasks in flight, in one service
Offers = dict[str, tuple[PeerService, PeerService]]


def tick(state: State) -> None:
    """Tell each linked peer what is due."""
    network = state.network
    if not network.peers:
        return
    has_news = is_news(state)
    somebody_waits = False
    every_s, news_every_s = beat_s(state), pace_s(state)
    offers: Offers | None = None
    now = state.now
    for peer in network.linked():
        is_due = now >= peer.told_s + every_s
        if is_due or (has_news and now >= peer.looked_s + news_every_s):
            if offers is None:
                offers = _offers(state)
            tell(state, peer, is_news_only=not is_due, offers=offers)
        elif has_news:
            somebody_waits = True
        if now >= peer.table_at_s and (peer.table_due or not peer.table_seq):
            heartbeat_table.push(state, peer)
    if has_news:
        network.is_dirty = somebody_waits
        network.looked_at = _activity(state)


def pace_s(state: State) -> float:
    """At most so often is news told; the more services there are, the more costs it to look for it."""
    return NEWS_S + len(state.services.by_name) * NEWS_PER_SERVICE_S


def tell(state: State, peer: Peer, *, is_news_only: bool = False, echo: int = 0, offers: Offers | None = None) -> None:
    """Tell it what is new. `offers` is what was made already for others."""
    session = peer.session
    assert session is not None, "a linked peer has a session"
    peer.looked_s = state.now
    changed = _changed(state, peer, _offers(state) if offers is None else offers)
    shape = (state.mode, state.epoch, standby.condition(state), state.config.packed_version)
    if is_news_only and not changed and peer.told_shape == shape:
        return
    message = PeerStatus(
        identity=state.settings.identity,
        state=state.mode,
        epoch=state.epoch,
        config_version=state.config.packed_version,
        heartbeat_interval_ms=round(state.settings.default_heartbeat_interval_s * 1000),
        workers=0 if state.mode == "passive" else state.sessions.workers,
        clients=0 if state.mode == "passive" else state.sessions.clients,
        is_full=not peer.is_told_all,
        services=changed,
    )
    standby.describe(state, peer, message, echo)
    if state.journal is not None:
        recording.tell_peer(state, message)
    peer.is_told_all = True
    peer.told_s = state.now
    peer.told_shape = shape
    for service in changed:
        peer.told[service.name] = service
    state.post(session.route, session, message)


def beat_s(state: State) -> float:
    """So often each peer is told, whether there is news or not."""
    return state.settings.default_heartbeat_interval_s * 0.9


def is_news(state: State) -> bool:
    """Whether something has changed that peers should hear soon."""
    return state.network.is_dirty or state.network.looked_at != _activity(state)


def _activity(state: State) -> tuple[int, int]:
    ledger = state.ledger
    return ledger.accepted, ledger.replied + ledger.errored


# --- credit -------------------------------------------------------------------------------------------------------


def _changed(state: State, peer: Peer, offers: Offers) -> list[PeerService]:
    """What it has not been told, or was told otherwise."""
    if not peer.is_told_all:
        peer.told.clear()
    held = _count_held(state, peer) if peer.held else {}
    told, queued = peer.told, peer.queued
    fresh: list[PeerService] = []
    for name, (to_others, to_who_waits) in offers.items():
        offer = to_who_waits if name in queued else to_others
        if name in held and offer.workers:
            offer = msgspec.structs.replace(offer, credit=offer.credit + held[name])
        before = told.get(name)
        if offer != before and (before is not None or offer != PeerService(name)):
            fresh.append(offer)
    for name in [name for name in told if name not in offers]:
        offer = PeerService(name)
        if told[name] == offer:
            del told[name]
        else:
            fresh.append(offer)
    return fresh


def _offers(state: State) -> Offers:
    """Of each service: what is offered to a peer that has no task of it here and waits for none, and to one that waits.

    Those who wait share all that is free, and one who does not wait gets what is left. Only our own workers count.
    """
    waiting: dict[str, int] = {}
    for peer in state.network.linked():
        for name in peer.queued:
            waiting[name] = waiting.get(name, 0) + 1
    offers: Offers = {}
    for name, service in state.services.by_name.items():
        if service.workers and state.mode == "active":
            free, among = _free(service), waiting.get(name, 0)
            offer = _offer(service, _share(free, among + 1))
            offers[name] = offer, _offer(service, _share(free, among)) if among else offer
        else:
            offer = PeerService(name, queued=service.queue.count)
            offers[name] = offer, offer
    return offers


def _offer(service: Service, credit: int) -> PeerService:
    idempotent, max_attempts = service.own_idempotent, service.own_max_attempts
    return PeerService(service.name, len(service.workers), credit, service.queue.count, idempotent, max_attempts)


def _free(service: Service) -> int:
    """Free slots of this broker's own workers; more than anybody may be granted need not be counted."""
    free = 0
    for worker in service.lru:
        free += worker.capacity - len(worker.slots)
        if free > 2 * CREDIT_MAX:
            break
    return free


def _share(free: int, among: int) -> int:
    """What each of so many gets of what is free."""
    if not free:
        return 0
    share = free // among
    if share > CREDIT_MAX:
        return CREDIT_MAX
    return share or 1


def _count_held(state: State, peer: Peer) -> dict[str, int]:
    """How many of its tasks are here, by service; those that are settled are forgotten by the way."""
    entries = state.ledger.entries
    counts: dict[str, int] = {}
    for task_id, name in list(peer.held.items()):
        if task_id in entries:
            counts[name] = counts.get(name, 0) + 1
        else:
            del peer.held[task_id]
    return counts
