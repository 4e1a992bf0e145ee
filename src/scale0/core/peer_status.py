"""PEERSTATUS: what a broker tells its peers, and how it shares its free slots among them.

Rule 28: to the origin a peer is a worker whose capacity is the credit that it grants per service. A grant is what the
peer already has here plus its share of what is free now; peers that wait for a service share it among themselves. So
grants may add up to more than there is when all ask at once: who comes too late gets its task back at once.

It is the heartbeat between brokers too: one leaves each interval, and sooner, but paced, when there is news. Only what
changed is listed, and all of it after a link came up or a message could not be sent.
"""

from __future__ import annotations

import math

from scale0.core import heartbeat_table, standby
from scale0.core.network import Network, Peer
from scale0.core.services import Service
from scale0.core.state import State
from scale0.protocol.messages import PeerService, PeerStatus

NEWS_S = 0.05
NEWS_PER_SERVICE_S = 50e-6
CREDIT_MAX = 512  # that one peer has beyond its tasks in flight, in one service


def tick(state: State) -> None:
    """Tell each linked peer what is due."""
    network = state.network
    if not network.peers:
        return
    is_news = _is_news(state)
    somebody_waits = False
    for peer in network.linked():
        if state.now >= peer.told_s + _beat_s(state):
            tell(state, peer)
        elif is_news and state.now >= peer.looked_s + _pace_s(state):
            tell(state, peer, is_news_only=True)
        elif is_news:
            somebody_waits = True
        if (peer.table_due or not peer.table_seq) and state.now >= peer.table_at_s:
            heartbeat_table.push(state, peer)
    if is_news:
        network.is_dirty = somebody_waits
        network.looked_at = _activity(state)


def next_s(state: State) -> float:
    """When `tick` has something to do at the latest."""
    is_news = _is_news(state)
    wait_s = _pace_s(state) if is_news else _beat_s(state)
    next_s = math.inf
    for peer in state.network.peers.values():
        if peer.is_linked:
            next_s = min(next_s, (peer.looked_s if is_news else peer.told_s) + wait_s)
            if peer.table_due or not peer.table_seq:
                next_s = min(next_s, peer.table_at_s)
    return next_s


def _pace_s(state: State) -> float:
    """At most so often is news told; the more services there are, the more costs it to look for it."""
    return NEWS_S + len(state.services.by_name) * NEWS_PER_SERVICE_S


def tell(state: State, peer: Peer, *, is_news_only: bool = False, echo: int = 0) -> None:
    session = peer.session
    assert session is not None, "a linked peer has a session"
    peer.looked_s = state.now
    changed = _changed(state, peer)
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
    peer.is_told_all = True
    peer.told_s = state.now
    peer.told_shape = shape
    for service in changed:
        peer.told[service.name] = service
    state.post(session.route, session, message)


def _beat_s(state: State) -> float:
    """So often each peer is told, whether there is news or not."""
    return state.settings.default_heartbeat_interval_s * 0.9


def _is_news(state: State) -> bool:
    return state.network.is_dirty or state.network.looked_at != _activity(state)


def _activity(state: State) -> tuple[int, int]:
    ledger = state.ledger
    return ledger.accepted, ledger.replied + ledger.errored


# --- credit -------------------------------------------------------------------------------------------------------


def _changed(state: State, peer: Peer) -> list[PeerService]:
    """What it has not been told, or was told otherwise."""
    if not peer.is_told_all:
        peer.told.clear()
    held = _count_held(state, peer)
    now_so = [_offer(state, peer, service, held) for service in state.services.by_name.values()]
    fresh = [offer for offer in now_so if peer.told.get(offer.name, PeerService(offer.name)) != offer]
    gone = [PeerService(name) for name in peer.told if name not in state.services.by_name]
    for offer in gone:
        if peer.told[offer.name] == offer:
            del peer.told[offer.name]
            continue
        fresh.append(offer)
    return fresh


def _offer(state: State, peer: Peer, service: Service, held: dict[str, int]) -> PeerService:
    if state.mode != "active" or not service.workers:
        return PeerService(service.name, queued=service.queue.count)
    free = _free(service)
    return PeerService(
        service.name,
        workers=len(service.workers),
        credit=held.get(service.name, 0) + _share(state.network, peer, service.name, free),
        queued=service.queue.count,
        idempotent=service.own_idempotent,
        max_attempts=service.own_max_attempts,
    )


def _free(service: Service) -> int:
    """Free slots of this broker's own workers; more than anybody may be granted need not be counted."""
    free = 0
    for worker in service.lru:
        free += worker.capacity - len(worker.slots)
        if free > 2 * CREDIT_MAX:
            break
    return free


def _share(network: Network, peer: Peer, name: str, free: int) -> int:
    """Its share of what is free: those who wait share all of it, and one who does not wait gets what is left."""
    if not free:
        return 0
    wants = [other for other in network.peers.values() if other.is_linked and _queued(other, name)]
    if not _queued(peer, name):
        return max(1, min(CREDIT_MAX, free // (len(wants) + 1)))
    return max(1, min(CREDIT_MAX, free // len(wants)))


def _queued(peer: Peer, name: str) -> int:
    return peer.queued.get(name, 0)


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
