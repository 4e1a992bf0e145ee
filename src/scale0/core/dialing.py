"""Dialing: which broker makes the link of a pair, when it dials, and what it says first.

The one whose identity sorts higher dials; the lower one does only if nobody has come for a while, as when the other
cannot reach it. Addresses to join by are dialed as long as nobody is linked. Each dialed link has a route of its own,
so that what comes late from an old one is not taken for the new one.
"""

from __future__ import annotations

import math

import msgspec

from scale0.core import binary_star, peers, standby
from scale0.core.effects import Dial, HangUp, Route, Send
from scale0.core.endpoints import named_in
from scale0.core.network import Dialing, Peer
from scale0.core.sessions import Session
from scale0.core.settings import entry_for
from scale0.core.state import State
from scale0.protocol.codes import Code
from scale0.protocol.dialects import PEER
from scale0.protocol.limits import IN_FLIGHT_IDS_MAX
from scale0.protocol.messages import ChangeBroker, Connect, Error
from scale0.protocol.network import Document

NAMED_ENDPOINTS_MAX = 2  # of one broker that a standby names
SEEDS_MAX = 32  # with those that were named; whoever was told more has enough of them
DIAL_S = 2.0  # how long an answer to CONNECT is waited for
REDIAL_S = 0.1  # after a link broke; doubled with each failure, up to an interval


def tick(state: State) -> None:
    """Dial whom we should: who has no link, or whose connection broke."""
    for peer in state.network.peers.values():
        if lacks_link(peer) and state.now >= dial_at_s(state, peer):
            _dial(state, peer.dialing, held_of(state, peer))
    if state.network.seeds:
        wanted = _open_seeds(state)
        for seed in wanted:
            _dial(state, seed, [])
        for seed in _needless_seeds(state, wanted):
            if state.now >= seed.until_s:
                hang_up(state, seed, is_failure=False)


def next_seed_s(state: State) -> float:
    """When `tick` has something to do with addresses to join by; `dial_at_s` says it of a peer."""
    wanted, next_s = _open_seeds(state), math.inf
    for seed in state.network.seeds.values():
        at_s = seed.until_s if seed.route is not None else seed.at_s if seed in wanted else math.inf
        if at_s < next_s:
            next_s = at_s
    return next_s


def _open_seeds(state: State) -> list[Dialing]:
    """Addresses that we were told to join by, while nobody but others that join is linked; but no known peer's."""
    network = state.network
    for peer in network.peers.values():
        if peer.is_linked and not peer.is_joining:
            return []
    known = {peer.dialing.endpoint for peer in network.peers.values()}
    return [seed for endpoint, seed in network.seeds.items() if endpoint not in known]


def _needless_seeds(state: State, wanted: list[Dialing]) -> list[Dialing]:
    """Addresses to join by that are still dialed, though others have answered meanwhile."""
    return [seed for seed in state.network.seeds.values() if seed.route is not None and seed not in wanted]


def lacks_link(peer: Peer) -> bool:
    """Whether it is to be dialed, now or later. Asked after each message, so it is one expression."""
    return not peer.is_linked or (peer.dialing.route is None and peer.session is not None and peer.session.is_absent)


def dial_at_s(state: State, peer: Peer) -> float:
    """The higher identity dials; the lower one only if nobody has come for twice the time that silence may last."""
    dialing = peer.dialing
    if not dialing.endpoint:
        return math.inf
    if dialing.route is not None:
        return dialing.until_s
    if standby.told_of(state, peer.identity) in ("in sync", "behind"):
        return math.inf  # rule 31: it would refuse us, and dials us when it serves
    settings = state.settings
    is_missed = state.stream is not None and state.stream.is_lost and state.pair is not None
    if settings.identity > peer.identity or (is_missed and state.pair and peer.identity == state.pair.partner):
        return dialing.at_s  # whether a fallback that has followed lives is not left to chance
    return max(dialing.at_s, peer.unlinked_s + 2 * settings.default_heartbeat_interval_s * settings.liveness)


def _dial(state: State, dialing: Dialing, held: list[bytes]) -> None:
    """Dial, or dial again if nobody answered in time."""
    if dialing.route is not None:
        if state.now < dialing.until_s:
            return
        hang_up(state, dialing, is_failure=True)
    if state.now < dialing.at_s:
        return
    if any(other.route is not None and other.dialed == dialing.endpoint for other in state.network.dialings()):
        # Two entries with one address: whoever answers there is told apart by its CONNECT, one at a time.
        dialing.at_s = state.now + state.settings.default_heartbeat_interval_s
        return
    if state.access is not None and not dialing.key:  # who has a key speaks to nobody without one
        dialing.at_s = state.now + state.settings.default_heartbeat_interval_s
        if not dialing.failures:
            dialing.failures = 1
            text = f"the broker at {dialing.endpoint} has no public_key in the config: it is not dialed"
            state.alarm("link_refused", f"{text}; enter it, or join by it with --server-key")
        return
    dialing.route = state.network.new_route()
    dialing.dialed = dialing.endpoint
    dialing.until_s = state.now + DIAL_S
    if state.access is not None:
        state.access.dialed[dialing.route] = dialing.key
    state.effects.append(Dial(dialing.route, dialing.endpoint, dialing.key))
    state.effects.append(Send(dialing.route, PEER, connect_message(state, held)))


def hang_up(state: State, dialing: Dialing, *, is_failure: bool) -> None:
    if dialing.route is not None:
        state.effects.append(HangUp(dialing.route))
        state.sessions.by_route.pop(dialing.route, None)
        if state.access is not None:
            state.access.dialed.pop(dialing.route, None)
        dialing.route = None
    dialing.is_next = is_failure != dialing.is_next and bool(dialing.next_public_key)  # the other key in turn
    dialing.failures = dialing.failures + 1 if is_failure else 0
    pause_s = REDIAL_S * float(1 << min(dialing.failures, 8))
    dialing.at_s = state.now + min(pause_s, state.settings.default_heartbeat_interval_s)


def broken(state: State, route: Route) -> None:
    """The connection of a dialed link ended: nothing can be sent until it is dialed again."""
    for seed in state.network.seeds.values():
        if seed.route == route:
            hang_up(state, seed, is_failure=True)
    peer = state.network.by_route(route)
    if peer is None or peer.dialing.route != route:
        return
    if peer.is_linked and peer.session is not None:
        peers.set_absent(state, peer)
    hang_up(state, peer.dialing, is_failure=not peer.is_linked)


def is_moving(state: State, session: Session) -> bool:
    """Whether its connection broke, and CONNECT is under way on another one.

    CONNECT says what we hold. What would be sent on the old connection after that, since something was still read from
    it, may end with it, and the other side would count on it for ever.
    """
    route = state.network.of(session).dialing.route
    return route is not None and route != session.route


def nobody_there(state: State, route: Route) -> None:
    """Nobody listens at that address: if our partner was there, its process has ended, and its copy with it."""
    peer = state.network.by_route(route)
    if peer is not None and peer.dialing.route == route and not peer.is_linked_now:
        binary_star.left(state, peer)


# --- what is said on it ---


def connect_message(state: State, in_flight: list[bytes]) -> Connect:
    state.network.serial += 1
    return Connect(
        identity=state.settings.identity,
        nonce=state.network.nonce,
        config_version=state.config.packed_version,
        in_flight=in_flight,
        broker=msgspec.to_builtins(entry_for(state.local)),
        network=state.settings.network if state.config.version.number or _is_named(state) else "",
        is_joining=state.network.is_joining,
        serial=state.network.serial,
        bundles=True,
    )


def _is_named(state: State) -> bool:
    """Whether one without a config was told by its file which network it is for."""
    return state.settings.network != Document().network


def held_of(state: State, peer: Peer) -> list[bytes]:
    """What we hold of its tasks, outcomes that could not be sent included."""
    held: dict[bytes, None] = {task_id: None for task_id in peer.held if task_id in state.ledger.entries}
    if peer.session is not None:
        held.update((message.id, None) for message in peer.session.undelivered)
    return list(held)[:IN_FLIGHT_IDS_MAX]


def negotiate_again(state: State, route: Route) -> None:
    """The other side does not know this link, as after its restart: CONNECT on the same one."""
    peer = state.network.by_route(route)
    if peer is not None:
        if peer.is_linked:  # what we sent meanwhile is not there: nothing more until it has said what it holds
            peers.set_absent(state, peer)
        if peer.dialing.route == route:
            peer.dialing.until_s = state.now + DIAL_S
        state.effects.append(Send(route, PEER, connect_message(state, held_of(state, peer))))


def turned_away(state: State, session: Session) -> None:
    """Our CONNECT was refused on a link that was up: the other side had forgotten it, and wants it no more.

    Its refusals are no sign that it is there for us: the link ends by silence, unless another one comes up before.
    """
    peer = state.network.of(session)
    peers.set_absent(state, peer)
    if peer.dialing.route == session.route:
        hang_up(state, peer.dialing, is_failure=True)
    else:
        state.sessions.by_route.pop(session.route, None)


def refused(state: State, route: Route, message: Error) -> None:
    """Our CONNECT was refused. What will not pass by itself is told to the operator; all is tried again, ever later.

    To one that joins everything that is not allowed is such: it would be joining for ever, and nobody knew why.
    """
    for dialing in state.network.dialings():
        if dialing.route == route:
            is_final = message.fatal or (state.network.is_joining and message.code == Code.NOT_ALLOWED)
            if is_final and message.text != dialing.refusal:
                dialing.refusal = message.text
                state.alarm(
                    "link_refused", f"the broker at {dialing.endpoint} refuses us: {message.code} {message.text}"
                )
            hang_up(state, dialing, is_failure=True)
            if state.network.is_joining:
                _join_by_named(state, dialing, named_in(message))


def _join_by_named(state: State, dialing: Dialing, named: ChangeBroker) -> None:
    """Who wants to join and has asked a standby asks the one that serves, too."""
    seeds = state.network.seeds
    for endpoint in named.endpoints[:NAMED_ENDPOINTS_MAX]:
        if endpoint not in seeds and len(seeds) < SEEDS_MAX:
            key = named.public_key or dialing.key
            seeds[endpoint] = Dialing(endpoint=endpoint, at_s=state.now, public_key=key)
