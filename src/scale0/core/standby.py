"""What the two brokers of a pair say of themselves: to one another, to other brokers, and to who asks the wrong one."""

from __future__ import annotations

import math

from scale0.core import (
    access,
    binary_star,
    connections,
    doubt,
    endings,
    groups,
    peer_status,
    recording,
    replica,
)
from scale0.core.effects import Route, Send
from scale0.core.network import Peer
from scale0.core.star import Pair, Star
from scale0.core.state import State
from scale0.protocol.codes import Code
from scale0.protocol.dialects import Dialect
from scale0.protocol.messages import ChangeBroker, Connect, Error, NeedBroker, PeerStatus
from scale0.protocol.network import BrokerEntry

ASK_TAKEOVERS = 0.25  # between two questions of one that follows: an answer has so long to come
_ACTIVE = Star.ACTIVE  # looked up once: it is asked for with each PEERSTATUS
RETRY_S = 0.1  # the least that a participant is asked to wait before it comes again


def tell(state: State) -> None:
    """The partner hears at once what we are."""
    pair = state.pair
    peer = state.network.peers.get(pair.partner) if pair is not None else None
    if peer is not None and peer.is_linked and peer.session is not None:
        peer_status.tell(state, peer)


def describe(state: State, peer: Peer, message: PeerStatus, echo: int) -> None:
    """What PEERSTATUS says of the pair: to the partner what we are, to the others how the fallback is."""
    pair = state.pair
    if pair is None:
        return
    if peer.identity != pair.partner:
        message.fallback = condition(state)
        return
    is_there = state.mode in ("active", "holding", "passive")
    message.star = pair.star.value if is_there else ""
    if pair.star is Star.YIELDING:
        message.stream = pair.seq
    elif state.stream is not None and not state.stream.is_lost:
        message.stream = state.stream.seq
    message.ask = _question(state, pair)
    message.echo = echo
    pair.told_s = state.now
    doubt.look_again(state)


def _question(state: State, pair: Pair) -> int:
    """One in doubt asks the same until it is answered; one that follows asks anew, to know how old its copy is."""
    if pair.star is Star.DOUBTFUL:
        return pair.challenge
    if pair.star is not Star.PASSIVE or state.now < pair.asked_s + ASK_TAKEOVERS * state.settings.takeover_s:
        return 0
    doubt.put_question(state, pair)
    pair.asked_s = state.now
    return pair.challenge


def condition(state: State) -> str:
    """How the partner of an active broker is: in sync, behind, or lost."""
    pair = state.pair
    if pair is None or pair.star is not _ACTIVE:
        return ""
    if state.stream is None or state.stream.is_lost:
        return "lost" if pair.other is None else "behind"
    return "in sync"


def told_of(state: State, identity: str) -> str:
    """How one of another pair is, by the word of its partner, if that serves and is linked with us; else nothing."""
    found = state.config.document.pair_of(identity)
    if found is None:
        return ""
    partner = state.network.peers.get(found[1] if identity == found[0] else found[0])
    if partner is None or partner.status is None or not partner.is_linked:
        return ""
    return partner.status.fallback


def refuse(state: State, route: Route, dialect: Dialect, message: object) -> None:
    """Rule 31: a fallback serves nobody. Who knows the pair is asked to wait, everybody else is sent to the other."""
    pair = state.pair
    assert pair is not None, "only one of a pair is passive"
    state.counters["refused_while_passive"] += 1
    if dialect.majordomo:
        return  # it is not told: silence is what RFC 7 has for it
    if isinstance(message, Connect):
        _leave_behind(state, route, message)
    silence_s = binary_star.silence_s(state)
    is_known = pair.other is Star.ACTIVE and silence_s < state.settings.default_heartbeat_interval_s * 2
    knows_us = isinstance(message, Connect) and pair.name in message.epochs
    other = target(state, f"this broker is the standby of {pair.partner}")
    if isinstance(message, NeedBroker) and is_known and not set(other.endpoints) & set(message.tried):
        state.effects.append(Send(route, dialect, other))
        return
    detail = whereabouts(state) if is_known else {}
    if is_known and not knows_us and other.endpoints:
        text = f"{other.reason}; go there"
        state.effects.append(Send(route, dialect, Error(code=Code.MOVED, text=text, detail=detail)))
        return
    # One that has seen the pair serve may still have a config in which it was none, and know this broker alone.
    detail["retry_ms"] = math.ceil(max(RETRY_S, state.settings.takeover_s - silence_s) * 1000)
    text = f"this broker is a standby: it serves when {pair.partner} is silent for {state.settings.takeover_s:g} s"
    state.effects.append(Send(route, dialect, Error(code=Code.NOT_ACCEPTING, text=text, detail=detail)))


def _leave_behind(state: State, route: Route, message: Connect) -> None:
    """It is not taken, but it has said that it has left the connection that we know: nothing reaches it there.

    One that gives way knows those who were here, and may be the one that serves again a moment later.
    """
    session = state.sessions.by_identity.get(message.identity)
    if session is None or session.nonce != message.nonce or session.route == route:
        return
    if not connections.is_overtaken(session, message) and access.why_refused(state, route, message) is None:
        connections.set_absent(state, session)


def target(state: State, reason: str) -> ChangeBroker:
    pair = state.pair
    assert pair is not None, "only one of a pair has a partner"
    entry = state.config.document.broker(pair.partner) or BrokerEntry(identity=pair.partner)
    return groups.change_to(state, entry, reason)


def whereabouts(state: State) -> dict[str, object]:
    """Where the partner is, as an ERROR tells it to who was refused."""
    goal = target(state, "")
    return {"identity": goal.identity, "endpoints": goal.endpoints, "public_key": goal.public_key}


def turn_away(state: State, why: str) -> None:
    """301 to everybody, with the partner's address; who forwarded something here hears that it is lost."""
    pair = state.pair
    assert pair is not None, "only one of a pair knows where to send them"
    detail = whereabouts(state)
    state.stream = None  # what it has not sent it will not send
    for session in list(state.sessions.by_identity.values()):
        recording.session(state, session, "closed", why=why)
        is_mute = session.is_absent or (session.dialect.is_req and session.turn is None)
        if session.dialect.is_native and not is_mute:
            text = f"{why}; go to {pair.partner}"
            state.refuse(session, Code.MOVED, text, detail=detail, fatal=True)
    for entry in [entry for entry in state.ledger.entries.values() if entry.is_forwarded]:
        endings.settle_error(state, entry, Code.WORKER_LOST, f"outcome unknown: {why}")
    replica.clear(state)
