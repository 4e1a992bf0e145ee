"""Who may do what, by key (rule 2: with CURVE on, identities are bound to keys).

Without a key of its own a broker asks for none: `state.access` is None, and nothing is asked here. With one, every
connection has proven a key before its first message: the shell says which (`introduce`), and of a link that this broker
dialed it is the key that was dialed. A session belongs to the key that began it. Its role, its identity, the services
that it offers and those that it calls must be what `allowed.json` says of that key; a broker's key must be the one that
the network's document lists, and a changed one is accepted only through config.

Sessions are asked when they begin, and again when what is allowed has changed (`revocation`); a message in a session
costs nothing. What comes without a session passes `hears` first.
"""

from __future__ import annotations

from typing import Any, Final

from scale0.core.effects import DIALED, Route, Send
from scale0.core.permissions import Permission
from scale0.core.sessions import Session
from scale0.core.state import State
from scale0.protocol.codec import AnyMessage
from scale0.protocol.codes import Code
from scale0.protocol.dialects import Dialect, Role
from scale0.protocol.majordomo import MdpDisconnect
from scale0.protocol.messages import Connect, Disconnect, Error, ManagementReq

ROUTES_MAX: Final = 50_000  # connections whose key is remembered; one that is forgotten is introduced again
_WHOSE: Final = {Role.WORKER: "worker", Role.CLIENT: "client", Role.PEER: "broker"}


def introduce(state: State, route: Route, key: str) -> None:
    """A connection that was not seen before has proven this key."""
    access = state.access
    assert access is not None, "only who asks for keys gets them"
    access.keys[route] = key
    if len(access.keys) > ROUTES_MAX:
        access.keys.popitem(last=False)


# --- what comes without a session ---------------------------------------------------------------------------------


def hears(state: State, route: Route, dialect: Dialect, message: AnyMessage) -> bool:
    """Whether this may be handled at all, by its connection's key. If not, its sender is told, and counts as bad."""
    access = state.access
    if access is None or route[0] == DIALED:  # there the handshake has proven who answers
        return True
    key = access.keys.get(route, "")
    if isinstance(message, ManagementReq):
        if may_manage(state, route):
            return True
        code, text = Code.NOT_ALLOWED, "this key may not manage; on the broker: scale0 keys allow KEY --manage"
    else:
        grant, role = access.grants.get(key), dialect.role
        if (grant is not None and grant.permission.fits(role)) or (role is Role.PEER and key in access.brokers):
            return True
        if grant is None and key not in access.brokers:
            code, text = Code.NOT_AUTHENTICATED, no_longer(key)
        else:
            code, text = Code.NOT_ALLOWED, f"this key is no {_WHOSE[role]}'s; {_cure(key, role)}"
    state.counters[f"refused_{int(code)}"] += 1
    state.error_clients.blame(route, text, state.now)
    if state.mode != "disabled" and not isinstance(message, Disconnect):
        seq = message.seq if isinstance(message, ManagementReq) else 0
        say(state, route, dialect, code, text, is_fatal=not seq, seq=seq)
    return False


def is_admitted(state: State, route: Route) -> bool:
    """Whether the key of this connection is still good for anything."""
    access = state.access
    if access is None or route[0] == DIALED:
        return True
    key = access.keys.get(route, "")
    return key in access.grants or key in access.brokers


def may_manage(state: State, route: Route) -> bool:
    """Whether commands may come from this connection; whether this one may be given is for its user's role."""
    access = state.access
    if access is None or route[0] == DIALED:
        return True
    key = access.keys.get(route, "")
    grant = access.grants.get(key)
    return key in access.brokers or (grant is not None and grant.permission.manage)


def say(
    state: State, route: Route, dialect: Dialect, code: Code, text: str, *, is_fatal: bool = True, seq: int = 0
) -> None:
    """An ERROR; Majordomo has DISCONNECT for it, and for its clients nothing."""
    if not dialect.majordomo:
        extra: dict[str, Any] = {"seq": seq} if seq else {}
        state.effects.append(Send(route, dialect, Error(code=code, text=text, fatal=is_fatal, **extra)))
    elif dialect.role is Role.WORKER:
        state.effects.append(Send(route, dialect, MdpDisconnect()))


def no_longer(key: str) -> str:
    return f"this key is not allowed, or no longer; on the broker: scale0 keys allow '{key}'"


def _cure(key: str, role: Role) -> str:
    return f"on the broker: scale0 keys allow '{key}' --kind {role.value}"


# --- sessions -----------------------------------------------------------------------------------------------------


def bind(state: State, session: Session, route: Route) -> None:
    """The session belongs to the key of this connection."""
    access = state.access
    if access is not None:
        session.key = access.key_of(route)
        session.grant = access.grants.get(session.key)


def why_refused(state: State, route: Route, message: Connect) -> Error | None:
    """CONNECT of a worker or client: its identity must be its key's to use, and nobody else's now."""
    access = state.access
    if access is None:
        return None
    key = access.key_of(route)
    grant = access.grants[key]  # it was heard
    if not grant.permission.may_be(message.identity):
        text = f"this key may not be called {message.identity}; on the broker: scale0 keys allow '{key}' --identity …"
        return Error(code=Code.NOT_ALLOWED, text=text, fatal=True)
    known = state.sessions.by_identity.get(message.identity)
    # Rule 2: identities are bound to keys. One that another key holds is never taken over, however long it is silent.
    if known is not None and known.key and access.owner_of(known.key) != grant.permission.owner:
        text = f"{message.identity} is in use by the holder of another key; choose another identity"
        return Error(code=Code.NOT_ALLOWED, text=text, fatal=True)
    return None


def why_not_served(session: Session, service: str) -> str | None:
    """Why this worker may not offer this service, if it may not."""
    if session.grant is None or session.grant.may_serve(service):
        return None
    return f"this key may not serve it; on the broker: scale0 keys allow '{session.key}' --serve {service}"


def why_not_called(session: Session, service: str) -> str:
    return f"this key may not call {service}; on the broker: scale0 keys allow '{session.key}' --call {service}"


def may_serve(state: State, route: Route, service: str) -> bool:
    """The same for a worker that has no session yet: Majordomo's first message names its service."""
    if state.access is None:
        return True
    grant = state.access.grants.get(state.access.key_of(route))
    return grant is not None and grant.may_serve(service)


# --- brokers ------------------------------------------------------------------------------------------------------


def why_peer_refused(state: State, route: Route, identity: str) -> Error | None:
    """CONNECT of a broker: it must have the key that the document lists, or one that may join."""
    access = state.access
    if access is None or is_proven(state, route, identity):
        return None
    key = access.key_of(route)
    entry = state.config.document.broker(identity) if state.config.version.number else None
    if entry is not None and entry.public_key:
        text = (
            f"the key of {identity} is not the one in the network's config; a changed key is accepted through it only"
        )
    elif key in access.brokers:
        text = f"this is the key of {access.brokers[key]}, not of {identity}"
    elif route[0] == DIALED and key:  # an address to join by: its key was given with it
        return None
    else:
        grant = access.grants.get(key)
        if grant is not None and grant.permission.fits(Role.PEER) and grant.permission.may_be(identity):
            return None
        text = f"this key may not join as {identity}; {_cure(key, Role.PEER)}"
    return Error(code=Code.NOT_ALLOWED, text=text, fatal=True)


def is_proven(state: State, route: Route, identity: str) -> bool:
    """Whether the other end of this connection has the key that the document lists for this broker."""
    access = state.access
    return access is not None and access.brokers.get(access.key_of(route)) == identity


# --- what people may see ------------------------------------------------------------------------------------------


def rows(state: State) -> list[dict[str, Any]]:
    """The listing `keys`: public ones, and what each is good for."""
    access = state.access
    if access is None:
        return []
    count: dict[str, int] = {}
    peers = [peer.session for peer in state.network.linked() if peer.session is not None]
    for session in (*state.sessions.by_identity.values(), *peers):
        count[session.key] = count.get(session.key, 0) + 1
    listed = [Permission(key=key, name=name, kind="peer") for key, name in access.brokers.items()]
    found = [*(grant.permission for grant in access.grants.values()), *listed]
    return [
        {
            "key": permission.key,
            "name": permission.name,
            "kind": permission.kind,
            "serve": permission.serve if permission.kind != "peer" else [],
            "call": permission.call if permission.kind != "peer" else [],
            "identities": permission.identities,
            "manage": permission.manage,
            "until": permission.until or None,
            "sessions": count.get(permission.key, 0),
        }
        for permission in found
    ]
