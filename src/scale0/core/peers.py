"""Links with other brokers: dialing, CONNECT both ways, life and silence.

Each of the two says CONNECT: who dialed says it first, the other answers with its own. It names identity, nonce,
network and config version, and what the sender holds of the other's tasks. From then on PEERSTATUS goes both ways each
interval, and sooner when there is news (`peer_status`). Silence for `liveness` intervals means gone: a lost peer is a
lost worker (rule 28). Its own tasks that run here run on, for it may come back, or their clients may come here.
"""

from __future__ import annotations

import msgspec

from scale0.core import (
    access,
    afar,
    binary_star,
    config_service,
    connections,
    dialing,
    groups,
    heartbeat_table,
    membership,
    peer_status,
    recording,
    routing,
    standby,
)
from scale0.core.effects import Route, Send
from scale0.core.network import Dialing, Peer
from scale0.core.sessions import LATE_S, Session
from scale0.core.state import State
from scale0.protocol.codes import Code
from scale0.protocol.dialects import PEER
from scale0.protocol.ids import id_prefix
from scale0.protocol.messages import Connect, Error, PeerStatus

STUBBORN_FAILURES = 2  # the one who should dial takes the other's link after so many

# --- CONNECT ------------------------------------------------------------------------------------------------------


def connect(state: State, route: Route, message: Connect) -> None:
    """CONNECT from a peer: the answer to ours on a link that we dialed, or the beginning of its own."""
    dialed = next((one for one in state.network.dialings() if one.route == route), None)
    refusal = _why_refused(state, route, message, is_answer=dialed is not None)
    if refusal is not None:
        _refuse(state, route, message, refusal, dialed)
        return
    known = state.network.peers.get(message.identity)
    if known is not None and connections.is_overtaken(known.session, message):
        state.counters["connects_overtaken"] += 1
        return
    speaker = state.sessions.by_route.get(route)
    if speaker is not None and speaker.identity != message.identity:
        unlink(state, state.network.of(speaker), "its connection took another identity")
    peer = known or _meet(state, message)
    if dialed is not peer.dialing:
        _use_link(state, peer, dialed)
    is_new = _link(state, peer, route, message)
    if dialed is None:
        state.effects.append(Send(route, PEER, dialing.connect_message(state, dialing.held_of(state, peer))))
    _come_up(state, peer, message, is_new=is_new)
    if _is_unlisted(state, message, is_answer=dialed is not None):
        membership.dismiss(state, peer)


def _use_link(state: State, peer: Peer, dialed: Dialing | None) -> None:
    """A link that is not the one that we dialed to this peer: it came to us, or somebody else was expected there."""
    if peer.dialing.route is not None:
        dialing.hang_up(state, peer.dialing, is_failure=False)
    if dialed is not None:  # now we know who answers at that address
        peer.dialing.route, peer.dialing.dialed = dialed.route, dialed.dialed
        peer.dialing.endpoint = peer.dialing.endpoint or dialed.endpoint
        peer.dialing.public_key = peer.dialing.public_key or dialed.key
        dialed.route = None
        dialed.at_s = state.now + state.settings.default_heartbeat_interval_s


def _refuse(state: State, route: Route, message: Connect, refusal: Error, dialed: Dialing | None) -> None:
    state.counters[f"refused_{refusal.code}"] += 1
    if dialed is None:
        state.effects.append(Send(route, PEER, refusal))
        return
    if message.identity == state.settings.identity:  # an address to join by that leads to ourselves
        state.network.seeds.pop(dialed.endpoint, None)
    elif not dialed.failures:
        state.alarm("link_refused", f"no link with the broker at {dialed.endpoint}: {refusal.text}")
    dialing.hang_up(state, dialed, is_failure=True)


def _why_refused(state: State, route: Route, message: Connect, *, is_answer: bool) -> Error | None:
    own = state.settings.identity
    if message.identity == own:
        return Error(code=Code.IDENTITY_IN_USE, text=f"{own} is this broker's own identity; choose another", fatal=True)
    refusal = access.why_peer_refused(state, route, message.identity)
    if refusal is not None:
        return refusal
    if state.mode == "passive" and state.pair is not None and message.identity != state.pair.partner:
        # Rule 31: a fallback stays off the group's ports until it is active.
        text = f"{own} is a standby and links with {state.pair.partner} only"
        detail = standby.whereabouts(state) if message.is_joining else {}
        return Error(code=Code.NOT_ACCEPTING, text=text, detail=detail)
    has_config = state.config.version.number > 0
    if has_config and message.network not in ("", state.settings.network):
        text = f"this broker belongs to network {state.settings.network}, not to {message.network}"
        return Error(code=Code.NOT_ALLOWED, text=text, fatal=True)
    # One that belonged to this network has to learn that it no longer does: it is heard, told, and let go.
    is_of_ours = message.network == state.settings.network and any(message.config_version)
    is_former = is_of_ours and message.config_version < state.config.packed_version
    if _is_unlisted(state, message, is_answer=is_answer) and not is_former:
        cure = "list it, or set join to open" if message.is_joining else "add it, or start it with --join"
        text = f"{message.identity} is not listed in this network's config; {cure}"
        return Error(code=Code.NOT_ALLOWED, text=text)
    is_listed = state.config.document.broker(message.identity) is not None
    peer = state.network.peers.get(message.identity)
    if peer is None:
        if len(state.network.peers) + 1 >= state.limits.brokers and not is_listed:
            return Error(code=Code.OVER_LIMIT, text=f"this network has {state.limits.brokers} brokers, its limit")
        return None
    if is_answer or not peer.is_linked:
        stubborn = peer.dialing.route is not None and peer.dialing.failures < STUBBORN_FAILURES
        if not is_answer and stubborn and own > message.identity:
            return Error(code=Code.IDENTITY_IN_USE, text=f"a pair of brokers has one link: {own} is dialing you")
        return None
    session = peer.session
    assert session is not None, "a linked peer has a session"
    # Rule 2: another nonce means another process; 409 only if the old session spoke within one interval.
    if session.nonce != message.nonce and not session.is_absent:
        quiet_s = state.now - session.last_seen_s
        if quiet_s <= state.settings.default_heartbeat_interval_s:
            text = f"{message.identity} is in use by another process that was heard {quiet_s:.1f} s ago"
            return Error(code=Code.IDENTITY_IN_USE, text=text)
    return None


def _is_unlisted(state: State, message: Connect, *, is_answer: bool) -> bool:
    """Whether it does not belong to the network, nor may it join."""
    if not state.config.version.number:
        return False
    # Who has a newer config may be listed there: it is heard, and sent away if it is not.
    is_newer = message.config_version > state.config.packed_version
    is_welcome = is_newer or (state.settings.join == "open" and (message.is_joining or is_answer))
    return not is_welcome and state.config.document.broker(message.identity) is None


def _meet(state: State, message: Connect) -> Peer:
    """A broker that is not in our document, or not yet."""
    endpoints = message.broker.get("endpoints")
    first = endpoints[0] if isinstance(endpoints, list) and endpoints and isinstance(endpoints[0], str) else ""
    peer = Peer(identity=message.identity, dialing=Dialing(endpoint=first), unlinked_s=state.now)
    state.network.peers[message.identity] = peer
    return peer


def _link(state: State, peer: Peer, route: Route, message: Connect) -> bool:
    """The peer's session begins, or moves here. False: it is here already."""
    session = peer.session
    is_here = session is not None and session.route == route and session.nonce == message.nonce and peer.is_linked
    if session is not None and is_here and not session.is_absent:
        session.last_seen_s = state.now
        return False
    if session is not None and session.nonce != message.nonce:
        binary_star.left(state, peer)
        lose(state, peer, "it was started anew")
        abandon(state, peer, "its origin was started anew")
        session = None
    if session is None:
        session = peer.session = Session(
            identity=peer.identity,
            nonce=message.nonce,
            dialect=PEER,
            route=route,
            prefix=id_prefix(peer.identity, message.nonce),
            connected_s=state.now,
            last_seen_s=state.now,
            interval_s=state.settings.default_heartbeat_interval_s,
        )
    elif state.sessions.by_route.get(session.route) is session:
        del state.sessions.by_route[session.route]
    session.route = route
    session.last_seen_s = state.now
    access.bind(state, session, route)
    peer.is_proven = access.is_proven(state, route, peer.identity)
    state.sessions.by_route[route] = session
    peer.is_linked = True
    peer.is_told_all = False
    peer.visited = msgspec.msgpack.encode([peer.identity])
    heartbeat_table.begin(state, peer)
    peer.offers = {}
    peer.queued = {}
    return True


def _come_up(state: State, peer: Peer, message: Connect, *, is_new: bool) -> None:
    assert peer.session is not None, "it was linked just now"
    peer.session.serial = message.serial
    peer.session.takes_bundles = message.bundles
    peer.dialing.failures, peer.dialing.refusal = 0, ""
    peer.asked_version = b""
    peer.is_joining = message.is_joining
    peer.entry = message.broker
    peer.join_at_s = state.now
    if is_new:
        state.counters["links_up"] += 1
        recording.note(state, "member", peer.identity, "linked", None, group=str(message.broker.get("group", "")))
        afar.reconcile(state, peer, message.in_flight)
        connections.deliver_held(state, peer.session)  # it may have moved here from a connection that had ended
        take_up(state, peer.session)
    peer_status.tell(state, peer)
    config_service.heard(state, peer.identity, message.config_version)


# --- life ---------------------------------------------------------------------------------------------------------


def status(state: State, session: Session, message: PeerStatus) -> None:
    """PEERSTATUS: alive, and what it can do for us."""
    peer = state.network.of(session)
    was_active = peer.status is not None and peer.status.state == "active"
    if message.state == "active" and not was_active:
        peer.active_since_s = state.now
    groups.count_arrivals(state, peer, message)
    peer.status = message
    if message.boot:
        recording.peer_gauge(state, message)
    if message.heartbeat_interval_ms:
        session.interval_s = message.heartbeat_interval_ms / 1000
    binary_star.heard(state, peer, message)  # before anything is given out: it may say that another one serves
    if state.pair is None or peer.identity != state.pair.partner:  # of a pair only one has work and workers
        afar.take_credit(state, peer, message)
    else:
        afar.note_offers(peer, message)
    config_service.heard(state, peer.identity, message.config_version)


def silent_at_s(state: State, peer: Peer) -> float:
    """When a linked peer counts as silent if it says nothing more."""
    session, settings = peer.session, state.settings
    assert session is not None, "a linked peer has a session"
    interval_s = settings.default_heartbeat_interval_s
    if session.interval_s > interval_s:
        interval_s = session.interval_s
    at_s = session.last_seen_s + interval_s * settings.liveness
    if peer.excused_until_s > at_s:
        at_s = peer.excused_until_s
    return at_s


def look_at_silent(state: State) -> None:
    """Silence for `liveness` intervals means gone; but one interval more if we stood still, as for participants."""
    for peer in state.network.linked():
        at_s = silent_at_s(state, peer)
        if state.now < at_s:
            continue
        if state.now > at_s + LATE_S and at_s > peer.excused_until_s:
            peer.excused_until_s = state.now + state.settings.default_heartbeat_interval_s
            set_absent(state, peer)
        else:
            assert peer.session is not None, "a linked peer has a session"
            quiet_s = state.now - peer.session.last_seen_s
            state.alarm("peer_lost", f"broker {peer.identity} has been silent for {quiet_s:.1f} s: look at it")
            unlink(state, peer, f"silent for {quiet_s:.1f} s")


def set_absent(state: State, peer: Peer) -> None:
    """Nothing can be sent to it now: it gets no tasks until it is heard again."""
    assert peer.session is not None, "only who was linked can be absent"
    peer.session.is_absent = True
    for worker in peer.workers.values():
        afar.delist(worker)
    peer.unlinked_s = state.now


def take_up(state: State, session: Session) -> None:
    """It is there again, and its word was heard: it may get tasks."""
    for worker in state.network.of(session).workers.values():
        afar.feed(state, worker)


def unlink(state: State, peer: Peer, why: str) -> None:
    """The link is over. Its tasks that run here run on; ours that run there are lost."""
    peer.is_linked = False
    binary_star.lost(state, peer)
    peer.status = None
    peer.unlinked_s = state.now
    state.counters["links_lost"] += 1
    recording.note(state, "member", peer.identity, "lost", None, why=why)
    if peer.dialing.route is not None:
        dialing.hang_up(state, peer.dialing, is_failure=False)
    lose(state, peer, why)
    assert peer.session is not None, "a linked peer has a session"
    peer.session.is_absent = True
    state.sessions.by_route.pop(peer.session.route, None)


def lose(state: State, peer: Peer, why: str) -> None:
    """Rule 28: a lost peer is a lost worker, and what it granted is void."""
    peer.offers = {}
    peer.queued = {}
    for worker in list(peer.workers.values()):
        afar.dismiss(state, worker, f"broker {peer.identity} is gone: {why}")
    peer.workers.clear()


def abandon(state: State, peer: Peer, why: str) -> None:
    """Nobody will hear the outcomes of its tasks here."""
    session = peer.session
    assert session is not None, "only a former session has tasks"
    session.is_absent = True
    for entry in [entry for entry in state.ledger.entries.values() if entry.client is session]:
        routing.abandon(state, entry, why)
    peer.held.clear()
    session.undelivered.clear()
    session.undelivered_bytes = 0
    if state.sessions.by_route.get(session.route) is session:
        del state.sessions.by_route[session.route]
