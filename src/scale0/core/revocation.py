"""What is allowed has changed: who is here is looked at again.

The operator's list of keys, or the network's document, says who may be here. When either changes, sessions whose key is
no longer good end at once: the sender hears 401, its tasks are lost with it, and what its connection says later is not
handled. Others keep what they still may: a worker loses the services that it may not serve any more, and no task.
"""

from __future__ import annotations

from collections.abc import Iterable

from scale0.core import access as rules
from scale0.core import connections, membership, peers, readiness, routing
from scale0.core.effects import Admit
from scale0.core.network import Peer
from scale0.core.permissions import Access, Grant, Permission
from scale0.core.sessions import Session
from scale0.core.state import State
from scale0.protocol.codes import Code
from scale0.protocol.dialects import PEER


def allow(state: State, permissions: Iterable[Permission], next_key: str = "") -> None:
    """What is allowed from now on. Sessions that no longer are end at once; others keep what they still may."""
    access = state.access
    assert access is not None, "only who asks for keys allows some"
    before = access.grants
    access.grants = {}
    for permission in permissions:
        known = before.get(permission.key)
        is_same = known is not None and known.permission == permission
        access.grants[permission.key] = known if known is not None and is_same else Grant(permission)
    if next_key != access.next_key:
        access.next_key = next_key
        state.network.address_at_s = state.now  # the document is to say so
    review(state)


def review(state: State) -> None:
    """The keys that are allowed, or those of brokers, have changed: who is here is looked at again."""
    access = state.access
    if access is None:
        return
    document = state.config.document if state.config.version.number else None
    entries = document.brokers if document is not None else []
    access.brokers = {
        key: entry.identity for entry in entries for key in (entry.public_key, entry.next_public_key) if key
    }
    for session in list(state.sessions.by_identity.values()):
        _review(state, access, session)
    for peer in list(state.network.linked()):
        _review_peer(state, peer)
    admitted = access.admitted()
    if admitted != access.told:
        access.told = admitted
        state.effects.append(Admit(admitted))


def _review(state: State, access: Access, session: Session) -> None:
    grant = access.grants.get(session.key)
    if not session.route:  # a copy of the partner's session: it is asked when it comes here
        session.grant = grant
        return
    if grant is None or not grant.permission.fits(session.role) or not grant.permission.may_be(session.identity):
        state.counters["sessions_revoked"] += 1
        connections.close(state, session, "its key is no longer allowed")
        rules.say(state, session.route, session.dialect, Code.NOT_AUTHENTICATED, rules.no_longer(session.key))
        return
    session.grant = grant
    worker = session.worker
    if worker is not None and not all(grant.may_serve(service.name) for service in worker.services):
        offers = {s.name: s.workers[worker] for s in worker.services if grant.may_serve(s.name)}
        readiness.change_services(state, worker, offers)
        routing.feed(state, worker)


def _review_peer(state: State, peer: Peer) -> None:
    assert peer.session is not None, "a linked peer has a session"
    route = peer.session.route
    refusal = rules.why_peer_refused(state, route, peer.identity)
    peer.is_proven = rules.is_proven(state, route, peer.identity)
    if refusal is not None:
        state.counters["sessions_revoked"] += 1
        state.alarm("link_refused", f"the link with broker {peer.identity} ends: {refusal.text}")
        rules.say(state, route, PEER, Code.NOT_AUTHENTICATED, refusal.text)
        if state.config.document.broker(peer.identity) is not None:  # with its new key it may come again
            peers.unlink(state, peer, "its key is no longer allowed")
        else:
            membership.part_from(state, peer, "its key is no longer allowed")
