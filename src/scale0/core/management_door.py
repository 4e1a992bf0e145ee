"""MANAGEMENTREQ: the door of the command vocabulary on the wire, for people's programs and for other brokers.

Nothing is decided here: passwords, roles and the audit log are the gate's, which is no part of the core. What comes is
handed to it with the effect `Asked`, and its answer comes back by `Broker.answer`. A peer vouches for its user, so it
sends no password but a role; what that may be at most is told along: `max_role` of the peer's entry if the peer has
proved its key, else what this broker grants to peers without one.

A disabled broker answers an authorised `enable`, and is silent to everything else.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from scale0.core import askers
from scale0.core.effects import DIALED, Asked, Route
from scale0.core.network import Peer
from scale0.core.state import State
from scale0.errors import ProtocolError
from scale0.protocol.codes import Code
from scale0.protocol.dialects import PEER, Dialect
from scale0.protocol.messages import Error, ManagementRep, ManagementReq

GATE_S = 60.0  # how long the gate may take; then 504
PEERS_S = 10.0  # how long other brokers may take to answer a command that was passed on, beside its own time
TIMEOUT_S_MAX = 40.0  # of a command that waits for something by itself


def receive(state: State, route: Route, dialect: Dialect, message: ManagementReq) -> None:
    """MANAGEMENTREQ: the gate is asked."""
    is_silent = state.mode == "disabled"
    if is_silent and message.command != "enable":
        state.counters["unheard_while_disabled"] += 1
        return
    asked = Asked(0, route, message.auth_id, message.command, message.arguments)
    asked.command_id, asked.brokers = message.command_id[:100], message.brokers
    if state.access is not None:
        asked.is_encrypted, asked.public_key = True, state.access.key_of(route)
    try:
        if dialect is PEER:
            _vouch(state, route, message, asked)
        else:
            asked.password = message.auth_password
        whom = f"the gate of {state.settings.identity}"
        asked.key = askers.wait(state, whom, GATE_S, route=route, dialect=dialect, seq=message.seq, is_silent=is_silent)
    except ProtocolError as error:
        if not is_silent:
            askers.send(state, route, dialect, Error(code=int(error.code), text=error.text, seq=message.seq))
        return
    state.effects.append(asked)


def answer(state: State, key: int, result: Any) -> None:
    """What the shell has to say to an effect `Asked` or `FromFiles`; a `ProtocolError` if it refuses."""
    if isinstance(result, ProtocolError):
        askers.answered(state, Error(code=int(result.code), text=result.text, seq=key))
    else:
        askers.answered(state, ManagementRep(seq=key, result=result))


class Passed(msgspec.Struct):
    """A command that was passed on to other brokers: the keys of those who will answer, and why others cannot."""

    keys: dict[str, int] = {}
    failed: dict[str, str] = {}


def pass_on(state: State, request: ManagementReq, brokers: list[str] | Literal["all"], for_s: float = 0.0) -> Passed:
    """Have other brokers of the network carry out a command, all of them or these."""
    own = state.settings.identity
    listed = [entry.identity for entry in state.config.document.brokers]
    known = dict.fromkeys((*listed, *state.network.peers))
    known.pop(own, None)
    passed = Passed()
    for identity in known if brokers == "all" else dict.fromkeys(name for name in brokers if name != own):
        peer = state.network.peers.get(identity)
        if peer is None or peer.session is None or not peer.is_linked_now:
            passed.failed[identity] = _why_not(state, identity, peer)
            continue
        try:
            key = askers.wait(state, identity, PEERS_S + min(max(for_s, 0.0), TIMEOUT_S_MAX))
        except ProtocolError as error:
            passed.failed[identity] = error.text
            continue
        passed.keys[identity] = key
        state.post(peer.session.route, peer.session, msgspec.structs.replace(request, seq=key))
    return passed


def _why_not(state: State, identity: str, peer: Peer | None) -> str:
    if peer is None:
        return f"no broker {identity!r} in this network" if state.config.document.broker(identity) is None else "gone"
    if peer.session is None:
        return "it was never linked with this broker"
    return f"silent for {max(0.0, state.now - peer.session.last_seen_s):.0f} s"


def _vouch(state: State, route: Route, message: ManagementReq, asked: Asked) -> None:
    """A peer says who asks it, and what that one may do; it is believed up to a limit."""
    session = state.sessions.by_route.get(route)
    if session is None or session.dialect is not PEER:
        raise ProtocolError(Code.NOT_AUTHENTICATED, "a command of a peer comes over its link; CONNECT first")
    peer = state.network.of(session)
    entry = state.config.document.broker(peer.identity)
    asked.peer, asked.role, asked.is_proven = peer.identity, message.role or "view", peer.is_proven
    if peer.is_proven:
        asked.role_max = entry.max_role if entry is not None else "view"
    else:
        asked.role_max = state.settings.management.plain_peers
    if route[0] == DIALED:
        asked.dialed = peer.dialing.dialed or peer.dialing.endpoint
