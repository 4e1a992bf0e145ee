"""Who belongs to the network: brokers that join, leave, or move, as the document says.

A broker that is started with an address to join by asks whoever answers there to enter it into the document; it is
active as soon as it gets a document that lists it. The document says how near each of the others is: in the own group,
in a fallback group, or neither. One that is no longer listed is let go; one that finds itself no longer listed drains.
"""

from __future__ import annotations

import contextlib
import math

import msgspec

from scale0.core import afar, binary_star, config_service, dialing, groups, modes, peers, revocation
from scale0.core.network import NEVER_TIER, Dialing, Peer
from scale0.core.state import State
from scale0.errors import ProtocolError, SettingsError
from scale0.protocol.codes import Code
from scale0.protocol.messages import Disconnect, Error
from scale0.protocol.network import BrokerEntry
from scale0.protocol.network_addresses import linked_at

LOOK_AGAIN_S = 0.1  # while others are yet to be heard


def tick(state: State) -> None:
    """Let brokers join, and keep our own address in the document."""
    if state.now >= state.network.address_at_s:
        _keep_address(state)
    if state.network.peers:
        _let_join(state)
        if state.mode == "joining":
            _look_at_company(state)


def _look_at_company(state: State) -> None:
    """Brokers that only join one another wait for ever: somebody must begin."""
    network = state.network
    linked = network.linked()
    are_all_joining = bool(linked) and all(peer.status is None or peer.status.state == "joining" for peer in linked)
    waited_s = state.now - state.mode_since_s
    if are_all_joining and not network.has_warned and waited_s > 3 * state.settings.default_heartbeat_interval_s:
        network.has_warned = True
        others = ", ".join(peer.identity for peer in linked)
        text = f"everybody who answers is joining too ({others}): start one of these brokers without --join"
        state.alarm("nobody_to_join", text)


def follow_document(state: State, entry_before: BrokerEntry) -> None:
    """The document changed: brokers come and go, and each has its place in our order of forwarding."""
    network, document = state.network, state.config.document
    own = state.config.entry
    # Rule 31: first of all, for whatever follows may give tasks out. A new standby has none to give, and a new primary
    # none before its epoch is kept.
    if own.identity and state.mode != "joining":
        binary_star.pair_up(state, is_serving=_is_serving(state, entry_before))
    listed = {entry.identity: entry for entry in document.brokers if entry.identity != state.settings.identity}
    wanted = {peer.identity for peer in own.peers} or set(listed)
    if state.mode == "passive" and state.pair is not None:  # rule 31: it stays off the group's ports
        wanted = {state.pair.partner}
    elif state.pair is not None:
        wanted.add(state.pair.partner)
    waits = network.is_joining and not own.identity
    for identity in list(network.peers):
        peer = network.peers[identity]
        if identity not in listed and not (peer.is_linked and (peer.is_joining or waits)):
            dismiss(state, peer)
    for identity, entry in listed.items():
        known = network.peers.get(identity)
        if known is None and identity in wanted:
            known = Peer(identity=identity, dialing=Dialing(endpoint=""), unlinked_s=state.now)
            network.peers[identity] = known
        if known is not None:
            known.dialing.endpoint = next(iter(linked_at(entry)), known.dialing.endpoint)
            if known.dialing.public_key != entry.public_key:
                known.dialing.is_next = False
            known.dialing.public_key, known.dialing.next_public_key = entry.public_key, entry.next_public_key
    order = [own.group, *document.fallback_groups(own)]
    for identity, peer in network.peers.items():
        group = listed[identity].group if identity in listed else None
        tier = order.index(group) if group in order else NEVER_TIER
        if tier == 0 and peer.tier != 0:  # a broker that joins our group takes its share of the workers
            groups.start_balance(state)
        afar.move_tier(state, peer, tier)
    network.is_dirty = True
    config_service.listen(state)
    revocation.review(state)
    _follow_own_entry(state, entry_before)


def meet_all(state: State) -> None:
    """We serve from now on: whoever is listed is a peer again, and is dialed at once."""
    follow_document(state, state.config.entry)
    for peer in state.network.peers.values():
        if not peer.is_linked:
            peer.dialing.at_s = peer.unlinked_s = -math.inf


def part_from(state: State, peer: Peer, reason: str, *, is_drained: bool = False) -> None:
    """The link ends, by our own will. `is_drained`: what it sent and we have not answered never started here."""
    if peer.is_linked and peer.session is not None:
        state.post(peer.session.route, peer.session, Disconnect(reason=reason, is_drained=is_drained))
        peers.unlink(state, peer, reason)
    if peer.session is not None:
        peers.abandon(state, peer, reason)
    if peer.dialing.route is not None:
        dialing.hang_up(state, peer.dialing, is_failure=False)
    del state.network.peers[peer.identity]


def dismiss(state: State, peer: Peer) -> None:
    """It is no longer in the network."""
    if peer.is_linked and peer.session is not None:
        config_service.snapshot(state, peer)  # so that it knows, and drains
    part_from(state, peer, "no longer listed in the network's config")


# --- joining, and the own entry -------------------------------------------------------------------------------------


def _let_join(state: State) -> None:
    """Brokers that ask for it are entered into the document; until they are, it is proposed again each interval."""
    for peer in [peer for peer in state.network.peers.values() if peer.is_joining and peer.is_linked]:
        if state.now >= peer.join_at_s:
            peer.join_at_s = state.now + state.settings.default_heartbeat_interval_s
            if state.config.document.broker(peer.identity) is not None:
                peer.is_joining = False
            elif state.settings.join == "open" and state.mode != "joining":
                _enter(state, peer)


def _enter(state: State, peer: Peer) -> None:
    """As it describes itself, in our group if it names none."""
    document = state.config.document
    try:
        told = msgspec.convert(peer.entry, BrokerEntry)
        if told.identity != peer.identity:
            raise ProtocolError(Code.MALFORMED, "its entry names another identity")
        assert peer.session is not None, "it is linked"
        if state.access is not None and told.public_key != peer.session.key:
            raise ProtocolError(Code.NOT_ALLOWED, "its entry names another key than the one that it has")
        # What it may do here is for operators to say.
        own_word = {"max_role": BrokerEntry(identity="").max_role, "next_public_key": ""}
        entry = msgspec.structs.replace(told, group=told.group or state.config.entry.group, **own_word)
        grown = msgspec.structs.replace(document, brokers=[*document.brokers, entry])
        config_service.propose_patiently(state, grown, peer.identity, "joined")
    except (msgspec.ValidationError, ProtocolError, SettingsError) as error:
        text = error.text if isinstance(error, ProtocolError) else str(error)
        if isinstance(error, ProtocolError) and error.code == Code.NOT_ACCEPTING:
            return  # no sequencer can be reached now: it is proposed again
        peer.is_joining = False
        state.alarm("join_refused", f"{peer.identity} cannot join: {text}")
        assert peer.session is not None, "it is linked"
        refusal = Error(code=Code.NOT_ALLOWED, text=f"not entered: {text}", fatal=True)
        state.post(peer.session.route, peer.session, refusal)


def _keep_address(state: State) -> None:
    """A broker that entered itself, and listens elsewhere since its restart, says so; and what its key is."""
    network, entry = state.network, state.config.entry
    network.address_at_s = math.inf
    if not entry.identity or state.mode != "active":
        return
    moved = _as_it_is(state, entry)
    if moved == entry:
        return
    network.address_at_s = state.now + state.settings.default_heartbeat_interval_s  # until it is done
    if not config_service.knows_newest(state):
        network.address_at_s = state.now + LOOK_AGAIN_S
        return
    document = state.config.document
    brokers = [moved if other is entry else other for other in document.brokers]
    grown = msgspec.structs.replace(document, brokers=brokers)
    with contextlib.suppress(ProtocolError):  # no sequencer can be reached now
        config_service.propose_patiently(state, grown, entry.identity, "says where it is, and its key")


def _as_it_is(state: State, entry: BrokerEntry) -> BrokerEntry:
    """Our entry as it should be. A key is entered where there is none, and follows as it was announced."""
    own, keys = state.local, state.access
    if entry.joined and own.advertise:
        entry = msgspec.structs.replace(entry, endpoints=own.advertise, config_pub=own.config_pub)
    if keys is None or (entry.public_key not in ("", keys.own_key) and entry.next_public_key != keys.own_key):
        if entry.public_key and not state.network.has_told_key:
            state.network.has_told_key = True
            have = "has another key than" if keys is not None else "was started without"
            text = f"this broker {have} the one that the config lists for it, and others will not link with it"
            state.alarm("key_differs", f"{text}; start it with that key, or change public_key in the config")
        return entry
    next_key = keys.next_key if keys.next_key != keys.own_key else ""
    return msgspec.structs.replace(entry, public_key=keys.own_key, next_public_key=next_key)


def _follow_own_entry(state: State, before: BrokerEntry) -> None:
    """The document says whether we belong to it, and what state it wants us in."""
    entry = state.config.entry
    state.network.address_at_s = state.now
    if not entry.identity:
        if state.mode == "active" and not state.network.is_joining:
            state.alarm("not_listed", "this broker is no longer in the network's config: it drains")
            modes.drain(state)
        return
    state.network.is_joining = False
    is_serving = _is_serving(state, before)
    if state.mode == "joining":
        modes.enter(state, "active")
        state.started_s = state.now
    binary_star.pair_up(state, is_serving=is_serving)
    binary_star.dissolve(state)
    if before.identity and entry.state != before.state:
        if entry.state == "disabled":
            modes.disable(state)
        else:
            modes.enable(state)
    elif before.identity == "" and entry.state == "disabled" and state.mode == "active":
        modes.disable(state)


def _is_serving(state: State, before: BrokerEntry) -> bool:
    """Whether it has served already, under the document before this one."""
    return before.identity != "" and state.mode == "active"
