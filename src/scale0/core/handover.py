"""Giving way on purpose: failback, handover, a drain or an end of the process (rule 31).

The one that serves stops dispatching, gives what is in flight `grace` to be answered, and then says that it yields:
its partner, which has heard of everything before that, serves at once. If the partner is gone by then, it goes on.
"""

from __future__ import annotations

import math

from scale0.core import afar, epochs, modes, recording, replication, standby, verdicts
from scale0.core.star import Star
from scale0.core.state import State
from scale0.errors import ProtocolError
from scale0.protocol.codes import Code


def hand_over(state: State, *, then_stop: bool = False) -> dict[str, object]:
    """The other shall serve. Dispatching pauses, what is in flight has `grace` to be answered, then it is told."""
    pair = state.pair
    if pair is None:
        raise ProtocolError(Code.MALFORMED, "this broker has no fallback broker, nor is it one: see fallback_broker")
    if pair.star is not Star.ACTIVE:
        raise ProtocolError(Code.NOT_ACCEPTING, f"this broker is {pair.star.value}: ask {pair.partner}")
    if not can_hand_over(state):
        raise ProtocolError(Code.NOT_ACCEPTING, f"{pair.partner} does not follow now: it could not go on from here")
    if pair.hand_over_by_s is None:
        pair.hand_over_by_s = state.now + state.settings.grace_s
        pair.is_stopping = then_stop
        hold(state)
        replication.take_all_back(state)
    return {"state": state.mode, "to": pair.partner, "in_flight": state.ledger.in_flight}


def can_hand_over(state: State) -> bool:
    pair = state.pair
    is_followed = state.stream is not None and not state.stream.is_lost
    return pair is not None and pair.star is Star.ACTIVE and is_followed and pair.other is Star.PASSIVE


def hold(state: State) -> None:
    """Dispatch nothing for a while: tasks wait."""
    modes.enter(state, "holding")
    afar.feed_all(state)  # which takes all of them out of the LRU queues


def give_way(state: State) -> None:
    """Nothing is in flight, or the time for it is over: the other hears it after all that was streamed."""
    pair = state.pair
    assert pair is not None, "only one of a pair gives way"
    pair.hand_over_by_s = None
    replication.flush(state)
    pair.seq = state.stream.seq if state.stream is not None and not state.stream.is_lost else 0
    state.stream = None
    pair.star = Star.YIELDING
    recording.failover(state, "handed_over")
    pair.was_followed = True
    pair.heard_s = state.now
    modes.enter(state, "passive")
    epochs.keep(state, is_serving=False)
    state.doubt_at_s = math.inf
    standby.tell(state)


def take_over(state: State) -> dict[str, object]:
    """An operator's word: serve, though nobody has asked, or though the other was never seen."""
    pair = state.pair
    if pair is None:
        raise ProtocolError(Code.MALFORMED, "this broker has no fallback broker, nor is it one: see fallback_broker")
    if pair.star is Star.ACTIVE:
        return {"state": state.mode, "epoch": state.epoch}
    if pair.other is Star.ACTIVE:
        raise ProtocolError(Code.NOT_ACCEPTING, f"{pair.partner} serves: tell it to hand over, scale0 failback")
    if state.mode != "passive":
        raise ProtocolError(Code.NOT_ACCEPTING, f"the broker is {state.mode}; enable it first")
    verdicts.obey_operator(state)
    return {"state": state.mode, "epoch": state.epoch}


def say_goodbye(state: State) -> None:
    """The process ends: if the other follows, it goes on at once."""
    if can_hand_over(state):
        replication.take_all_back(state)
        give_way(state)


def tick(state: State) -> None:
    """Nothing is in flight, or the time for it is over; or the one that should serve is gone."""
    pair = state.pair
    if pair is None or pair.hand_over_by_s is None:
        return
    if not can_hand_over(state):
        stop_giving_way(state)
    elif not state.ledger.in_flight or state.now >= pair.hand_over_by_s:
        give_way(state)


def stop_giving_way(state: State) -> None:
    """The one that should serve is gone: we go on."""
    pair = state.pair
    assert pair is not None, "only one of a pair gives way"
    pair.hand_over_by_s = None
    if pair.is_stopping:
        pair.is_stopping = False
        modes.enter(state, "draining")
        afar.feed_all(state)  # it finishes what it holds: what has waited meanwhile goes to whoever has room
        return
    verdicts.go_on(state)
