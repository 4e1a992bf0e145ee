"""A pair of brokers: a primary, its fallback, and which of the two serves now (rule 31).

`star` has the table of what follows from what; here it is fed, and `verdicts` obeys it. The two tell one another what
they are by PEERSTATUS. The one that is not active is in mode `passive`: it serves nobody, links with its partner only,
follows the partner's state stream (`replica`), and takes over when the partner has been silent for takeover_timeout
*and* a client or worker asks. One that must not dispatch for a while, because it gives way or is in doubt, is in mode
`holding`: it takes tasks in, and lets them wait.

What two brokers cannot decide: if the link between them is cut and each is reached by somebody, both serve, in
different epochs. No participant obeys a lower epoch than it has seen, and when the two meet the lower one steps down,
loudly. Until then a task that waited when the link broke may run on both sides.
"""

from __future__ import annotations

import math

from scale0.core import (
    afar,
    doubt,
    epochs,
    handover,
    membership,
    modes,
    peer_status,
    replica,
    replication,
    standby,
    takeover,
    verdicts,
)
from scale0.core.network import Peer
from scale0.core.star import Event, Pair, Star, event_of
from scale0.core.state import State
from scale0.protocol.messages import PeerStatus

_ASKED_BY_ALL = (Star.DOUBTFUL, Star.YIELDING)  # they have sessions, which wait

# --- beginning and end --------------------------------------------------------------------------------------------


def pair_up(state: State, *, is_serving: bool) -> None:
    """The document may make us one of a pair, or of another one. `is_serving`: we have served already, alone."""
    found = state.config.document.pair_of(state.settings.identity)
    if found is None:
        return
    known = state.pair
    primary, fallback = found
    is_primary = primary == state.settings.identity
    partner = fallback if is_primary else primary
    if known is not None and (known.name, known.partner) == (primary, partner):
        return
    star = Star.ACTIVE if is_serving and is_primary else _start(state, is_primary)
    state.pair = Pair(name=primary, partner=partner, is_primary=is_primary, star=star, heard_s=state.now)
    state.config.pair = primary
    peer = state.network.peers.get(partner)
    if peer is not None:  # of a pair only one has work and workers
        afar.void_credit(state, peer)
    if star is Star.ACTIVE:
        epochs.open_next(state)
    elif is_serving:
        standby.turn_away(state, f"this broker is the fallback of {primary} from now on")
    if star is not Star.ACTIVE and state.mode in ("active", "holding"):
        modes.enter(state, "passive")
        verdicts.leave_others(state)
    doubt.look_again(state)


def _start(state: State, is_primary: bool) -> Star:
    """Who is primary by the config, or served last, may serve again without having seen the other."""
    return Star.PRIMARY if is_primary or state.was_serving else Star.BACKUP


def dissolve(state: State) -> None:
    """If we are of no pair any more, a passive one has nothing to follow, and is a broker like any other."""
    if state.pair is None or state.config.document.pair_of(state.settings.identity) is not None:
        return
    replication.lose(state)  # what waits for its word waits on, until it has heard this too, or its copy is old
    was = state.mode
    has_rival = doubt.is_rivalled(state)
    partner = state.network.peers.get(state.pair.partner)
    state.pair = None
    state.config.pair = ""
    state.doubt_at_s = math.inf
    if was == "holding":  # it serves, and has nobody to give way to, nor to ask
        if has_rival:
            takeover.distrust(state)
        verdicts.go_on(state)
    elif was == "passive":
        if partner is not None:  # the two meet anew, as strangers: each tells all that it offers
            membership.part_from(state, partner, "this broker is no standby any more")
        replica.clear(state)
        modes.enter(state, "active")
        state.started_s = state.now
        state.has_settled = False
        membership.meet_all(state)
        return
    if partner is not None and partner.is_linked:
        afar.count_anew(state, partner)


def restart(state: State) -> None:
    """It was disabled and is enabled again: as if it had just started."""
    pair = state.pair
    assert pair is not None, "only one of a pair waits"
    pair.star = _start(state, pair.is_primary)
    pair.heard_s = state.now
    if state.sessions.by_identity:  # disabling was not over
        standby.turn_away(state, "this broker was disabled, and starts anew")
    modes.enter(state, "passive")
    verdicts.leave_others(state)
    doubt.look_again(state)
    standby.tell(state)


def withdraw(state: State) -> None:
    """It is being disabled: it is neither active nor follows, and the other takes over only when told."""
    pair = state.pair
    if pair is not None:
        replication.end(state)
        if state.mode == "passive":
            replica.clear(state)
        state.was_serving = False
        pair.star = _start(state, pair.is_primary)
        pair.is_whole = pair.is_stopping = False
        pair.hand_over_by_s = None
        state.doubt_at_s = math.inf


# --- what the other says ------------------------------------------------------------------------------------------


def heard(state: State, peer: Peer, message: PeerStatus) -> None:
    """PEERSTATUS from a peer, which may be the partner."""
    pair = state.pair
    if pair is None or peer.identity != pair.partner:
        return
    pair.other = Star(message.star) if message.star in _STARS else None
    pair.epoch_seen = max(pair.epoch_seen, message.epoch if pair.other is not None else 0)
    if state.mode in ("disabled", "disabling", "joining", "draining"):
        return
    if message.ask:
        peer_status.tell(state, peer, echo=message.ask)
    if pair.other is None:  # it is disabled, or does not know of the pair yet
        replication.end(state)
        return
    is_ahead = (message.epoch, not pair.is_primary) > (state.epoch, pair.is_primary)
    event = event_of(pair.other, is_ahead=is_ahead)
    if pair.other in (Star.PRIMARY, Star.BACKUP):  # another process than the one that followed
        epochs.keep_ahead(state)
        replication.end(state)
    is_fresh = message.echo == pair.challenge
    if pair.star is Star.DOUBTFUL and not is_fresh and event is not Event.PEER_ACTIVE_AHEAD:
        return  # it may have been said before we stood still
    if pair.other is Star.YIELDING and message.stream != pair.seq:
        pair.is_whole = False  # what it did last has not come
    verdicts.obey(state, event)
    epochs.keep_ahead(state)
    if pair.star is Star.PASSIVE and pair.other is Star.ACTIVE:
        # What is streamed comes before what is said after it: a higher number than ours means that something is lost.
        if not pair.is_whole or message.stream != pair.seq:
            replica.fetch(state, peer)
            return
        pair.copied_epoch = message.epoch
        if message.echo and is_fresh:
            # Only an answer has an age that we know: what else we read may have waited while we stood still, or under
            # way, and the other may long have given us up.
            pair.synced_s = pair.asked_s


def asked(state: State) -> bool:
    """A client or worker asks us. True: we serve."""
    pair = state.pair
    if pair is not None and state.mode == "passive":
        is_alone = pair.star is Star.PRIMARY and _has_disabled_partner(state)
        if is_alone or silence_s(state) >= state.settings.takeover_s:
            verdicts.obey(state, Event.ASKED)
    return state.mode != "passive"


def _has_disabled_partner(state: State) -> bool:
    """It lives and says that it serves nobody: who may serve need not wait for its silence."""
    peer = state.network.peers.get(state.pair.partner) if state.pair is not None else None
    return peer is not None and peer.is_linked and peer.status is not None and peer.status.state == "disabled"


def silence_s(state: State) -> float:
    """How long the other has said nothing."""
    pair = state.pair
    assert pair is not None, "only one of a pair waits for another"
    peer = state.network.peers.get(pair.partner)
    heard_s = peer.session.last_seen_s if peer is not None and peer.session is not None else -math.inf
    return state.now - max(heard_s, pair.heard_s)


def left(state: State, peer: Peer) -> None:
    """A process has ended, has another one in its place, or follows no more: a copy that it had is void."""
    pair = state.pair
    if state.stream is not None and peer.identity == state.stream.follower:
        replication.end(state)
    if pair is not None and peer.identity == pair.partner:
        pair.other = None
        if pair.star is Star.YIELDING:  # it will not serve in our place
            verdicts.obey(state, Event.ASKED)


def lost(state: State, peer: Peer) -> None:
    """The link with the partner is over, and it may live."""
    pair = state.pair
    if pair is not None and peer.identity == pair.partner:
        pair.other = None
        replication.lose(state)


def copy_to(state: State, peer: Peer) -> None:
    """The partner asks for a copy: it has one from now on, if we serve."""
    pair = state.pair
    if pair is not None and peer.identity == pair.partner and pair.star is Star.ACTIVE:
        replication.begin(state)


# --- time ---------------------------------------------------------------------------------------------------------


def tick(state: State) -> None:
    pair = state.pair
    replication.tick(state)
    if pair is None:
        return
    doubt.look_again(state)
    if state.now >= doubt.word_due_s(state):
        standby.tell(state)
    handover.tick(state)
    # Everybody who is here asks.
    is_awaited = pair.star in _ASKED_BY_ALL and (state.sessions.by_identity or pair.is_stopping)
    if is_awaited and silence_s(state) >= state.settings.takeover_s:
        verdicts.obey(state, Event.ASKED)


def next_s(state: State) -> float:
    """When `tick` has something to do at the latest."""
    pair = state.pair
    if pair is None:
        return replication.next_s(state)
    next_s = min(doubt.word_due_s(state), replication.next_s(state))
    if pair.hand_over_by_s is not None:
        next_s = min(next_s, pair.hand_over_by_s if state.ledger.in_flight else state.now)
    if pair.star in _ASKED_BY_ALL and silence_s(state) < state.settings.takeover_s:
        next_s = min(next_s, state.now + state.settings.takeover_s - silence_s(state))
    return next_s


_STARS = {star.value for star in Star}
