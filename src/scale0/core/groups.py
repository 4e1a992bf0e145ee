"""Which broker a worker or client should use: NEEDBROKER, drains, equal shares, and going back.

Rule 27: of the group that serves the services the one with most room, else of the fallback groups in their order; one
that was sent somewhere counts there at once, so that a crowd is spread. Rule 25: a draining broker moves its workers
and clients away. A broker that joins takes its share of the workers of its group: each broker finds the same targets
from the same figures and gives away what it has too much of. `failback`: when a broker is back, those whose home it is
may be sent to it again, by command or after it has settled.
"""

from __future__ import annotations

import math

from scale0.core.effects import Route, Send
from scale0.core.network import Peer
from scale0.core.sessions import Session
from scale0.core.state import State
from scale0.protocol.codes import Code
from scale0.protocol.dialects import Dialect, Role
from scale0.protocol.messages import ChangeBroker, Error, NeedBroker, PeerStatus
from scale0.protocol.network import ALL, BrokerEntry
from scale0.protocol.network_addresses import reached_at

MOVES_PER_STEP = 50
MOVE_S = 0.05
LEAVING = ("draining", "disabling")  # nobody shall stay here
BALANCE_INTERVALS = 20  # how long after a join shares are looked at

# --- NEEDBROKER ---------------------------------------------------------------------------------------------------


def need_broker(state: State, route: Route, dialect: Dialect, message: NeedBroker) -> None:
    """The asked broker picks one of its group that serves the services and has most room, else of fallback groups."""
    entry = pick(state, message.services, dialect.role, message.tried)
    if entry is None:
        others = len(state.network.peers)
        known = f"knows {others} other{'s' if others != 1 else ''}" if others else "knows no other"
        text = f"no broker to name: this one is {state.mode}, and {known} that can serve"
        state.effects.append(Send(route, dialect, Error(code=Code.NOT_ACCEPTING, text=text)))
        return
    assign(state, entry, dialect.role)
    state.effects.append(Send(route, dialect, change_to(state, entry, "it has room")))


def pick(
    state: State, services: list[str], role: Role, tried: list[str] | None = None, *, may_be_us: bool = True
) -> BrokerEntry | None:
    document = state.config.document
    own = state.config.entry
    for group in (own.group, *document.fallback_groups(own)):
        fit = [
            (load, entry.identity != own.identity, entry.identity, entry)
            for entry in document.group_of(group)
            if (load := _load(state, entry, role, may_be_us=may_be_us)) is not None
            and manages(entry, services)
            and (endpoints := reach(state, entry))
            and not set(endpoints) & set(tried or ())
        ]
        if fit:
            return min(fit, key=lambda candidate: candidate[:3])[3]
    return None


def reach(state: State, entry: BrokerEntry) -> list[str]:
    """Where participants reach it; of ourselves we know it best."""
    return state.settings.advertise if entry.identity == state.settings.identity else reached_at(entry)


def manages(entry: BrokerEntry, services: list[str]) -> bool:
    return entry.services == ALL or all(name in entry.services for name in services)


def _load(state: State, entry: BrokerEntry, role: Role, *, may_be_us: bool) -> int | None:
    """How many of this role it has; None if it takes nobody now."""
    if entry.identity == state.settings.identity:
        is_open = may_be_us and state.mode == "active" and len(state.sessions) < state.limits.sessions
        return (state.sessions.workers if role is Role.WORKER else state.sessions.clients) if is_open else None
    peer = state.network.peers.get(entry.identity)
    if peer is None or peer.status is None or not peer.is_linked or peer.status.state != "active":
        return None
    if peer.session is None or peer.session.is_absent:
        return None
    if role is Role.WORKER:
        return peer.status.workers + peer.assigned_workers
    return peer.status.clients + peer.assigned_clients


def assign(state: State, entry: BrokerEntry, role: Role) -> None:
    """Assignments count at once."""
    peer = state.network.peers.get(entry.identity)
    if peer is None:
        return
    peer.assigned_s = state.now
    if role is Role.WORKER:
        peer.assigned_workers += 1
    else:
        peer.assigned_clients += 1


def count_arrivals(state: State, peer: Peer, message: PeerStatus) -> None:
    """Who has come there is in its own counts from now on; who has not come for two intervals went elsewhere."""
    before = peer.status
    is_old = state.now - peer.assigned_s > 2 * state.settings.default_heartbeat_interval_s
    if before is None or is_old:
        peer.assigned_workers = peer.assigned_clients = 0
        return
    peer.assigned_workers = max(0, peer.assigned_workers - max(0, message.workers - before.workers))
    peer.assigned_clients = max(0, peer.assigned_clients - max(0, message.clients - before.clients))


def change_to(state: State, entry: BrokerEntry, reason: str) -> ChangeBroker:
    endpoints = reach(state, entry)
    return ChangeBroker(identity=entry.identity, endpoints=endpoints, public_key=entry.public_key, reason=reason)


def moved(state: State, services: list[str], role: Role, why: str) -> Error | None:
    """301 that names another broker for who cannot be taken here; None: there is no other."""
    entry = pick(state, services, role, may_be_us=False)
    if entry is None:
        return None
    assign(state, entry, role)
    target = change_to(state, entry, why)
    detail = {"identity": target.identity, "endpoints": target.endpoints, "public_key": target.public_key}
    return Error(code=Code.MOVED, text=f"{why}; go to {entry.identity}", detail=detail)


# --- moving sessions ----------------------------------------------------------------------------------------------


def tick(state: State) -> None:
    """Drain, balance and fail back, a few at a time."""
    if not state.network.peers:
        return
    if state.mode in LEAVING:
        _move_all(state)
    elif state.mode == "active":
        _balance(state)
        _fail_back(state)


def next_s(state: State) -> float:
    """When `tick` has something to do at the latest."""
    network = state.network
    if not network.peers:
        return math.inf
    if state.mode != "active":
        return network.move_at_s if state.mode in LEAVING else math.inf
    balance_s = network.balance_at_s if state.now < network.balance_until_s else math.inf
    if network.failing_back or state.settings.failback == "automatic":
        return min(balance_s, network.fail_back_at_s)
    return balance_s


def _is_movable(state: State, session: Session) -> bool:
    """Nothing is pushed to REQ sockets or Majordomo; who was told gets two intervals to go.

    A worker is moved when it has said READY: before that it has no services here, and any broker would seem to fit.
    """
    if not session.dialect.is_native or session.dialect.is_req or session.is_absent:
        return False
    if session.worker is not None and session.worker.is_negotiating:
        return False
    return state.now - session.moved_s > 2 * session.interval_s


def _move(state: State, session: Session, entry: BrokerEntry, reason: str) -> None:
    session.moved_s = state.now
    state.counters["sessions_sent_away"] += 1
    assign(state, entry, session.role)
    state.post(session.route, session, change_to(state, entry, reason))


def _services(session: Session) -> list[str]:
    return [service.name for service in session.worker.services] if session.worker is not None else []


def _move_all(state: State) -> None:
    """Rule 25: idle workers first; one whose services still have tasks waiting here stays until they are done."""
    if state.now < state.network.move_at_s:
        return
    state.network.move_at_s = state.now + MOVE_S
    moves = 0
    for session in sorted(state.sessions.by_identity.values(), key=_busy):
        worker = session.worker
        if not _is_movable(state, session) or (worker is not None and any(s.queue.count for s in worker.services)):
            continue
        entry = pick(state, _services(session), session.role, may_be_us=False)
        if entry is not None:
            _move(state, session, entry, "drain")
            moves += 1
        if moves >= MOVES_PER_STEP:
            return


def has_moved_all(state: State) -> bool:
    """Whether nobody is left here who could go elsewhere."""
    if not state.network.peers:
        return True
    here = [s for s in state.sessions.by_identity.values() if s.dialect.is_native and not s.dialect.is_req]
    present = [session for session in here if not session.is_absent]
    return all(pick(state, _services(session), session.role, may_be_us=False) is None for session in present)


def _busy(session: Session) -> int:
    return len(session.worker.slots) if session.worker is not None else 0


# --- equal shares -------------------------------------------------------------------------------------------------


def start_balance(state: State) -> None:
    network = state.network
    network.balance_until_s = state.now + BALANCE_INTERVALS * state.settings.default_heartbeat_interval_s
    network.balance_at_s = state.now


def _balance(state: State) -> None:
    """Give away what is over our share, to those who lack it, then wait until the figures show it."""
    network = state.network
    if state.now >= network.balance_until_s or state.now < network.balance_at_s:
        return
    network.balance_at_s = state.now + 2 * state.settings.default_heartbeat_interval_s
    counts = _group_counts(state)
    if len(counts) < 2:
        return
    for identity, number in surplus(counts, state.settings.identity):
        entry = state.config.document.broker(identity)
        if entry is None:
            continue
        for session in _spread(state, entry)[:number]:
            _move(state, session, entry, "balance: an equal share for each broker")


def _group_counts(state: State) -> dict[str, int]:
    """Workers of each broker of our group that serves now."""
    counts = {}
    for entry in state.config.document.group_of(state.config.entry.group):
        load = _load(state, entry, Role.WORKER, may_be_us=True)
        if load is not None:
            counts[entry.identity] = load
    return counts


def surplus(counts: dict[str, int], own: str) -> list[tuple[str, int]]:
    """To whom `own` gives how many, so that all have equal shares. Everybody finds the same from the same counts.

    What cannot be divided stays with those who have most, so that as few as possible move.
    """
    base, rest = divmod(sum(counts.values()), len(counts))
    order = sorted(counts, key=lambda identity: (-counts[identity], identity))
    over = {identity: counts[identity] - base - (place < rest) for place, identity in enumerate(order)}
    lacking = {identity: -number for identity, number in over.items() if number < 0}
    gifts: list[tuple[str, int]] = []
    for giver in order:
        left = over[giver]
        for taker in lacking if left > 0 else ():
            number = min(left, lacking[taker])
            left -= number
            lacking[taker] -= number
            if giver == own and number:
                gifts.append((taker, number))
    return gifts


def _spread(state: State, entry: BrokerEntry) -> list[Session]:
    """Workers that may go to `entry`, idle ones first, and of each kind in turn."""
    seen: dict[tuple[str, ...], int] = {}
    ranked = []
    for session in state.sessions.by_identity.values():
        if session.worker is None or not _is_movable(state, session) or not manages(entry, _services(session)):
            continue
        kind = tuple(_services(session))
        seen[kind] = seen.get(kind, 0) + 1
        ranked.append((_busy(session) > 0, seen[kind], session.identity, session))
    return [candidate[3] for candidate in sorted(ranked, key=lambda candidate: candidate[:3])]


# --- going back ---------------------------------------------------------------------------------------------------


def _fail_back(state: State) -> None:
    """Those whose home is back are sent to it again: by command, or when it has been active for long enough."""
    settings, network = state.settings, state.network
    is_wanted = network.failing_back or settings.failback == "automatic"
    if not is_wanted or state.now < network.fail_back_at_s:
        return
    network.fail_back_at_s = state.now + settings.default_heartbeat_interval_s / 2
    for peer in network.linked():
        if peer.status is None or peer.status.state != "active" or peer.session is None or peer.session.is_absent:
            continue
        if peer.identity in network.failing_back:
            _send_home(state, peer, settled_s=0.0)
        elif settings.failback == "automatic":
            _send_home(state, peer, settled_s=settings.failback_after_s)


def _send_home(state: State, peer: Peer, settled_s: float) -> None:
    """Who came here lately may know better than we do that its home is gone: it settles here first."""
    entry = state.config.document.broker(peer.identity)
    if entry is None or not reach(state, entry):
        return
    moves = 0
    for session in state.sessions.by_identity.values():
        if session.home != peer.identity:
            continue
        has_settled = state.now - max(peer.active_since_s, session.connected_s) >= settled_s
        if has_settled and _is_movable(state, session) and manages(entry, _services(session)):
            _move(state, session, entry, f"failback: {peer.identity} is back")
            moves += 1
            if moves >= MOVES_PER_STEP:
                state.network.fail_back_at_s = state.now + MOVE_S
                return
    if not moves and state.now >= state.network.failing_back.get(peer.identity, math.inf):
        del state.network.failing_back[peer.identity]


def fail_back(state: State, identities: set[str]) -> None:
    """By command: send their people home. Who is between two brokers just now is waited for as long as it may take."""
    settings, network = state.settings, state.network
    until_s = state.now + settings.liveness * settings.default_heartbeat_interval_s
    network.failing_back |= dict.fromkeys(identities, until_s)
    network.fail_back_at_s = state.now
