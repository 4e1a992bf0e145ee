"""The binary star's transitions: everything that decides which of two brokers serves lives here (rule 31).

A primary and its fallback tell one another what they are, each interval and at every change. Six states and what may
happen in them make one table; whatever is not in it changes nothing. `binary_star` feeds it and does what it says.

    PRIMARY    has just started, and may serve: it waits until it has heard the other, or somebody asks in vain
    BACKUP     has just started, and may not: the other has to be seen first
    ACTIVE     serves, and streams its state to the other
    PASSIVE    follows the other's stream, and serves nobody
    DOUBTFUL   was active, and stood still for so long that the other may serve by now: it asks before it dispatches
    YIELDING   was active, and gives way: the other shall serve

Nothing leaves ACTIVE but death, doubt, a higher epoch, or an operator. Going back is manual, so that a broker that
comes and goes does not take the network with it each time.

Every activation opens a new epoch. A primary's epochs are odd, a fallback's are even, and each remembers its own over
restarts: so there are never two active brokers in one epoch, whatever the two may have missed of one another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Final


class Star(Enum):
    """What a broker of the pair is, and says that it is."""

    PRIMARY = "primary"
    BACKUP = "backup"
    ACTIVE = "active"
    PASSIVE = "passive"
    DOUBTFUL = "doubtful"
    YIELDING = "yielding"


class Event(Enum):
    """What may happen to it. AHEAD: the other's epoch is the higher one."""

    PEER_PRIMARY = "the other has just started, and may serve"
    PEER_PRIMARY_AHEAD = "the other has just started, may serve, and did so after us"
    PEER_BACKUP = "the other has just started, and may not serve"
    PEER_ACTIVE = "the other serves, in a lower epoch"
    PEER_ACTIVE_AHEAD = "the other serves, in a higher epoch"
    PEER_PASSIVE = "the other follows"
    PEER_DOUBTFUL = "the other doubts whether it may go on"
    PEER_DOUBTFUL_AHEAD = "the other doubts, and served after us"
    PEER_YIELDING = "the other gives way"
    ASKED = "a client or worker asks, and the other has been silent for takeover_timeout"


class Verdict(Enum):
    """What follows from it."""

    STAY = "nothing changes"
    SERVE = "become active, in a new epoch"
    RESUME = "nobody has served meanwhile: go on, in the same epoch"
    FOLLOW = "become passive, and follow the other"
    STEP_DOWN = "the other has served after us: give way, loudly"
    PRIMARY_SERVES = "both follow, and nobody serves: the one that the config calls primary does"


_P, _B, _A, _F, _D, _Y = Star

TABLE: Final[dict[tuple[Star, Event], Verdict]] = {
    # A primary that starts waits for its peer. Whoever serves, or follows and so has the copy, or doubts, goes first.
    (_P, Event.PEER_PRIMARY): Verdict.SERVE,
    (_P, Event.PEER_BACKUP): Verdict.SERVE,
    (_P, Event.PEER_ACTIVE): Verdict.FOLLOW,
    (_P, Event.PEER_ACTIVE_AHEAD): Verdict.FOLLOW,
    (_P, Event.ASKED): Verdict.SERVE,
    # A backup that starts serves nobody before it has followed: not even when it is asked.
    (_B, Event.PEER_ACTIVE): Verdict.FOLLOW,
    (_B, Event.PEER_ACTIVE_AHEAD): Verdict.FOLLOW,
    # Two active brokers that meet: the lower epoch steps down.
    (_A, Event.PEER_ACTIVE_AHEAD): Verdict.STEP_DOWN,
    # The other has lost its state, or gives way: whoever holds the copy serves.
    (_F, Event.PEER_PRIMARY): Verdict.SERVE,
    (_F, Event.PEER_PRIMARY_AHEAD): Verdict.SERVE,
    (_F, Event.PEER_BACKUP): Verdict.SERVE,
    (_F, Event.PEER_YIELDING): Verdict.SERVE,
    (_F, Event.PEER_PASSIVE): Verdict.PRIMARY_SERVES,
    (_F, Event.ASKED): Verdict.SERVE,
    # One in doubt goes on if the other has not served since.
    (_D, Event.PEER_PRIMARY): Verdict.RESUME,
    (_D, Event.PEER_PRIMARY_AHEAD): Verdict.SERVE,
    (_D, Event.PEER_BACKUP): Verdict.RESUME,
    (_D, Event.PEER_ACTIVE): Verdict.RESUME,
    (_D, Event.PEER_ACTIVE_AHEAD): Verdict.STEP_DOWN,
    (_D, Event.PEER_PASSIVE): Verdict.RESUME,
    (_D, Event.PEER_DOUBTFUL): Verdict.RESUME,
    (_D, Event.PEER_YIELDING): Verdict.SERVE,
    (_D, Event.ASKED): Verdict.SERVE,
    # One that gives way follows as soon as the other serves, and goes on if the other has lost the copy or is gone.
    (_Y, Event.PEER_ACTIVE): Verdict.FOLLOW,
    (_Y, Event.PEER_ACTIVE_AHEAD): Verdict.FOLLOW,
    (_Y, Event.PEER_PRIMARY): Verdict.SERVE,
    (_Y, Event.PEER_PRIMARY_AHEAD): Verdict.SERVE,
    (_Y, Event.PEER_BACKUP): Verdict.SERVE,
    (_Y, Event.ASKED): Verdict.SERVE,
}


def decide(own: Star, event: Event) -> Verdict:
    return TABLE.get((own, event), Verdict.STAY)


def event_of(other: Star, *, is_ahead: bool) -> Event:
    """What the other's word means to us."""
    if is_ahead and other in (Star.PRIMARY, Star.ACTIVE, Star.DOUBTFUL):
        return Event[f"PEER_{other.name}_AHEAD"]
    return Event[f"PEER_{other.name}"]


def next_epoch(seen: int, *, is_primary: bool) -> int:
    """The lowest epoch above `seen` that is this broker's: a primary's are odd, a fallback's are even."""
    epoch = seen + 1
    return epoch if (epoch % 2 == 1) == is_primary else epoch + 1


@dataclass(slots=True, kw_only=True)
class Pair:
    """What one of the two brokers knows of the pair."""

    name: str  # the primary's identity
    partner: str
    is_primary: bool
    star: Star
    heard_s: float  # the other is waited for since then, unless it was heard later
    epoch_seen: int = 0  # the highest of this pair that anybody has told
    other: Star | None = None  # what the other last said that it is
    challenge: int = 0  # the last question: the number that the other must repeat
    asked_s: float = -math.inf  # when one that follows put it
    told_s: float = 0.0  # when the other was last told that we live
    # following
    seq: int = 0  # the last STREAM that was taken; of one that gives way: that left
    is_whole: bool = False  # the copy is complete, as far as the other has told
    copied_epoch: int = 0  # in which the other served when it last told that it is so
    synced_s: float = -math.inf  # when the question was put to which the other last answered that it is so
    fetched_s: float = -math.inf  # when a copy was last asked for
    transit_s: float = math.inf  # the least that a change took from the other's clock to ours, which differ by anything
    # giving way, and doubt
    was_followed: bool = False  # when it began the other had a copy
    hand_over_by_s: float | None = None  # what is in flight is waited for until then
    is_stopping: bool = False  # the process ends when the other serves

    def late_s(self, told_s: float, now: float) -> float:
        """How much longer than the quickest a change was under way that the other told at `told_s` of its clock.

        It may have waited behind a cut link, or while we stood still; but it was told after the last question that was
        answered, which also shows when the two clocks do not differ any more by what they did.
        """
        transit_s = now - told_s
        self.transit_s = max(min(self.transit_s, transit_s), transit_s - (now - self.synced_s))
        return transit_s - self.transit_s
