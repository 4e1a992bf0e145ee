"""What an operator wants to read of a run: each fault, what it did, and what followed until the next one.

The recorder is a trace that also listens. What followed is counted, not guessed: the difference of the world's own
counters between one fault and the next, so outcomes at clients, alarms, repeated dispatches, moved sessions.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

import msgspec

from scale0.simulator.schedule import START_S
from scale0.simulator.trace import Trace, words

if TYPE_CHECKING:
    from scale0.simulator.world import World

STRIKES_MAX = 2000  # kept of one run; the oldest go first
TOLD_MAX = 3  # lines of one fault's own words
FOLLOWS = ("alarm", "broker mode", "star")  # groups of counters that tell of consequences; of "rule" these:
RULES = {
    "redispatch": "dispatched again",
    "run again": "run again",
    "adopted": "adopted",
    "session move": "session moved",
    "told to move": "told to move",
    "forwarded to a fallback group": "forwarded to a fallback group",
}


HEALED = -1  # the number of the moment from which on nothing goes wrong any more


class Strike(msgspec.Struct):
    """One fault, or the end of all faults."""

    number: int
    at_s: float  # of virtual time, from the start of the run
    kind: str
    told: list[str] = []
    followed: dict[str, int] = {}


class Recorder(Trace):
    """A trace of which the timeline is kept, and which may be written down as a whole."""

    def __init__(self, file: TextIO | None = None) -> None:
        super().__init__()
        self.strikes: deque[Strike] = deque(maxlen=STRIKES_MAX)
        self.world: World | None = None  # as soon as there is one
        self._file = file
        self._before: Counter[str] = Counter()
        self._told_at_s = -1.0

    def message(self, now: float, sender: str, receiver: str, frames: Sequence[bytes]) -> None:
        super().message(now, sender, receiver, frames)
        if self._file is not None:
            self._file.write(words(now, sender, receiver, frames) + "\n")

    def event(self, now: float, who: str, what: str) -> None:
        super().event(now, who, what)
        if self._file is not None:
            self._file.write(words(now, who, what, ()) + "\n")
        if who == "world" and what == "is healed":
            self._close_last()
            self.strikes.append(Strike(HEALED, now - START_S, "no more faults, and all runs again"))
        elif who == "fault":
            self._close_last()
            number, _, kind = what.partition(": ")
            self.strikes.append(Strike(int(number), now - START_S, kind))
            self._told_at_s = now
        elif now == self._told_at_s and self.strikes and len(self.strikes[-1].told) < TOLD_MAX:
            self.strikes[-1].told.append(f"{who} {what}")

    def finish(self) -> list[Strike]:
        """The run is over: all faults, oldest first."""
        self._close_last()
        return list(self.strikes)

    def _close_last(self) -> None:
        now = self._consequences()
        if self.strikes:
            self.strikes[-1].followed = dict(now - self._before)
        self._before = now

    def _consequences(self) -> Counter[str]:
        if self.world is None:
            return Counter()
        found = Counter({f"outcome {name}": number for name, number in self.world.promises.outcomes.items()})
        for (group, name), number in self.world.counts.items():
            if group in FOLLOWS:
                found[f"{group} {name}"] = number
            elif group == "rule" and name in RULES:
                found[RULES[name]] = number
        return found
