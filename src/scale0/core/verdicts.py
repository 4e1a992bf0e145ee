"""What one of a pair does when the table has decided: serve, go on, follow, step down (rule 31).

`star` has the table, `binary_star` feeds it with what happens, and here it is obeyed. Each verdict leaves the broker in
one of the states that the table knows, tells the partner at once, and leaves a row in the record.
"""

from __future__ import annotations

import math

from scale0.core import (
    binary_star,
    doubt,
    epochs,
    liveness,
    membership,
    modes,
    recording,
    replica,
    replication,
    routing,
    standby,
    takeover,
)
from scale0.core.effects import Stopped
from scale0.core.star import Event, Star, Verdict, decide
from scale0.core.state import State


def obey(state: State, event: Event) -> None:
    """Something has happened: what the table says of it is done."""
    pair = state.pair
    assert pair is not None, "only one of a pair obeys"
    verdict = decide(pair.star, event)
    if verdict is Verdict.STAY:
        return
    state.counters[f"star_{pair.star.name}_{event.name}_{verdict.name}"] += 1
    if verdict is Verdict.PRIMARY_SERVES and not pair.is_primary:
        return
    if verdict in (Verdict.SERVE, Verdict.PRIMARY_SERVES):
        _serve(state, event)
    elif verdict is Verdict.RESUME and pair.epoch_seen > state.epoch:
        _serve(state, event)  # it does not serve now, and has served after us
    elif verdict is Verdict.RESUME:
        _resume(state)
    elif verdict is Verdict.FOLLOW:
        _follow(state)
    else:
        _step_down(state)


def _serve(state: State, event: Event) -> None:
    pair = state.pair
    assert pair is not None, "only one of a pair serves for both"
    was, pair.star = pair.star, Star.ACTIVE
    trusted_until_s = replication.trusted_until_s(state, event) if was is Star.PASSIVE else math.inf
    # One that waited goes on from where it stood; if the other may have served meanwhile, what waits may have run.
    has_rival = pair.epoch_seen > state.epoch or (event is Event.ASKED and pair.was_followed)
    if has_rival and was in (Star.DOUBTFUL, Star.YIELDING):
        takeover.distrust(state)
    has_served, former = state.was_serving, state.epoch
    epochs.open_next(state)
    recording.failover(state, "took_over", former_epoch=former, was=was.name.lower())
    if event is Event.ASKED and (was is not Star.PRIMARY or has_served):
        silence_s = binary_star.silence_s(state)
        text = f"{pair.partner} has been silent for {silence_s:.1f} s: this broker serves, in epoch {state.epoch}"
        state.alarm("took_over", f"{text}; look at {pair.partner}")
    if was in (Star.DOUBTFUL, Star.YIELDING):
        go_on(state)
    else:
        modes.enter(state, "active")
        state.started_s = state.now
        state.has_settled = False
        takeover.wake(state, trusted_until_s=trusted_until_s)
    pair.is_whole = False
    _stop_if_wanted(state)
    membership.meet_all(state)
    doubt.look_again(state)
    standby.tell(state)


def obey_operator(state: State) -> None:
    """An operator's word: serve."""
    _serve(state, Event.ASKED)


def _resume(state: State) -> None:
    """Nobody has served meanwhile."""
    pair = state.pair
    assert pair is not None, "only one of a pair doubts"
    pair.star = Star.ACTIVE
    recording.failover(state, "resumed")
    go_on(state)
    _stop_if_wanted(state)
    doubt.look_again(state)
    standby.tell(state)


def _stop_if_wanted(state: State) -> None:
    """It wanted to go, and nobody has taken its place."""
    pair = state.pair
    if pair is not None and pair.is_stopping:
        pair.is_stopping = False
        modes.enter(state, "draining")


def go_on(state: State) -> None:
    """Dispatching goes on: what was acknowledged meanwhile leaves, and workers get what waits.

    One that gave way has counted nobody's time since then: who has gone meanwhile must get nothing (rule 17), and what
    is too late goes to nobody.
    """
    if state.mode == "passive":
        routing.expire_overdue(state)
        liveness.look_at_silent(state, is_late=True)
    modes.enter(state, "active")
    replication.release_held(state)


def _follow(state: State) -> None:
    """The other serves: whatever we know, it knows better."""
    pair = state.pair
    assert pair is not None, "only one of a pair follows"
    if state.sessions.by_identity:
        standby.turn_away(state, f"{pair.partner} serves")
    replica.clear(state)
    pair.star = Star.PASSIVE
    pair.hand_over_by_s = None
    pair.is_whole = False
    pair.fetched_s = pair.synced_s = pair.asked_s = -math.inf  # what was said of a former copy says nothing of this one
    epochs.keep(state, is_serving=False)
    if pair.is_stopping:
        pair.is_stopping = False
        modes.enter(state, "draining")
        state.is_stopped = True
        state.effects.append(Stopped())
        return
    if state.mode != "passive":
        modes.enter(state, "passive")
    leave_others(state)
    peer = state.network.peers.get(pair.partner)
    if peer is not None and peer.session is not None and peer.is_linked:
        replica.fetch(state, peer)
    standby.tell(state)


def _step_down(state: State) -> None:
    pair = state.pair
    assert pair is not None, "only one of a pair steps down"
    text = f"{pair.partner} serves in epoch {pair.epoch_seen}, this broker in {state.epoch}: this broker steps down"
    state.alarm("stepped_down", f"{text}; tasks that only it knew of are asked again, or answered 502")
    recording.failover(state, "stepped_down")
    standby.turn_away(state, f"{pair.partner} serves, in a higher epoch")
    _follow(state)


def leave_others(state: State) -> None:
    """A passive broker is linked with its partner only."""
    pair = state.pair
    assert pair is not None, "only one of a pair leaves the others"
    for peer in list(state.network.peers.values()):
        if peer.identity != pair.partner:
            # Rule 28: what has started here and was not answered, for it could not be sent, must not be run elsewhere.
            is_drained = peer.session is None or not peer.session.undelivered
            membership.part_from(state, peer, "this broker is a standby now", is_drained=is_drained)
