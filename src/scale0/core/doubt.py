"""When the one that serves must ask whether it still may (rule 31).

A broker that stood still for takeover_timeout cannot know whether its partner has taken over meanwhile; nor can one
that hears of a higher epoch than its own. It dispatches nothing until the partner has answered a question that was put
after that, for what it reads now may have been said before.
"""

from __future__ import annotations

from scale0.core import handover, recording, standby
from scale0.core.star import Pair, Star
from scale0.core.state import State

EPOCH_LEAP_MAX = 1_000  # a participant that claims to have seen more is not believed
_IN_TOUCH = (Star.ACTIVE, Star.PASSIVE)  # while they are linked each knows how the other is


def look_at_pause(state: State) -> None:
    """We have not looked at anything for takeover_timeout: the other one may have taken over meanwhile."""
    pair = state.pair
    if pair is None:
        return
    pair.heard_s = state.now  # what the other said meanwhile is yet to be read
    if pair.star is Star.ACTIVE:
        fall_into_doubt(state, "this broker stood still")
    look_again(state)


def fall_into_doubt(state: State, why: str) -> None:
    pair = state.pair
    assert pair is not None, "only one of a pair doubts"
    state.alarm("in_doubt", f"{why}: it dispatches nothing until it has heard {pair.partner}")
    pair.star = Star.DOUBTFUL
    recording.failover(state, "doubtful")
    pair.was_followed = state.stream is not None
    pair.heard_s = state.now
    pair.hand_over_by_s = None
    put_question(state, pair)
    handover.hold(state)
    standby.tell(state)


def put_question(state: State, pair: Pair) -> None:
    """A number that this process has not used before: also if the pair was dissolved and made again since."""
    state.questions += 1
    pair.challenge = state.questions


def told(state: State, epochs: dict[str, int]) -> None:
    """CONNECT names the highest epochs that its sender has seen. A higher one than ours puts us in doubt."""
    pair = state.pair
    if pair is None:
        return
    seen, highest = epochs.get(pair.name, 0), max(state.epoch, pair.epoch_seen)
    if highest < seen <= highest + EPOCH_LEAP_MAX:
        pair.epoch_seen = seen
        if pair.star is Star.ACTIVE:
            fall_into_doubt(state, "a participant has seen a higher epoch than ours")


def is_rivalled(state: State) -> bool:
    """Whether the other may serve now, or has served, from a copy of what is here."""
    pair = state.pair
    if pair is None or pair.star is not Star.DOUBTFUL:
        return False
    return pair.was_followed or pair.epoch_seen > state.epoch


def word_due_s(state: State) -> float:
    """A third of takeover_timeout after the last word, so that only a real pause looks like one, to both."""
    return state.doubt_at_s - state.settings.takeover_s * 2 / 3


def look_again(state: State) -> None:
    """When it would be too late: the partner, if it hears us, counts from when it was last told."""
    pair = state.pair
    assert pair is not None, "only one of a pair counts the other's time"
    peer = state.network.peers.get(pair.partner)
    is_linked = peer is not None and peer.is_linked and pair.star in _IN_TOUCH
    state.doubt_at_s = (max(pair.told_s, pair.heard_s) if is_linked else state.now) + state.settings.takeover_s
