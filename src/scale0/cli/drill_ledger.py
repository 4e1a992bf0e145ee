"""The drill's ledger: every task that the drill sent, from its sending to its end, and how it ended.

A task ends in exactly one class, and the first that fits counts:

    lost       no broker said a word of it: nothing came by its deadline and the client's grace
    error      it was answered with an error, of this code
    wrong      the reply answers something else than was asked
    retried    replied, at an attempt after the first: an earlier worker was lost with it
    rerouted   replied, by another way than it set out on: sent again through another broker, or answered by a worker
               of another broker than its client's
    replied    replied

It is counted where it stands to the fault: `before`, if it was settled by then; `in flight`, if it was open when the
fault struck; `during`, if it was sent after that and before recovery; else `after`. The drill stands or falls with the
second: nothing of it may be lost.

The network has recovered when there is a window in which all that is settled is replied to, at the pace that was asked
for, before which all that was in flight had been settled, and at whose end nothing waits for longer than it would have
before the fault. Its first reply to a task that was sent after the fault is the moment. A later error takes it back.
"""

from __future__ import annotations

import bisect
import math
import threading
from collections import Counter
from typing import Final

import msgspec

from scale0.cli.drill_words import Figures
from scale0.core.open_tasks import GRACE_S

PHASES: Final = ("before", "in flight", "during", "after")
WINDOW_S: Final = 1.0  # of which all must be well; longer if so few tasks are sent that it would say nothing
WINDOW_TASKS_MIN: Final = 4
PACE_SHARE: Final = 0.8  # of the asked rate; the drill shares its machine with what it drills
PATIENCE: Final = 3.0  # times the usual p99; slower than that is not recovered
LATE_S: Final = 0.05  # clocks are read a moment after what they measure


class Outcome(msgspec.Struct, frozen=True):
    """How a task ended, as its client saw it. `worker` and `broker` are the echo's word, empty without one."""

    code: int = 0  # 0: a reply
    attempt: int = 1
    via: str = ""  # the broker that the client was at when it came; empty: not known
    worker: str = ""
    broker: str = ""  # the broker of the worker that answered
    is_right: bool = True


class Entry(msgspec.Struct):
    """One task."""

    sent_s: float
    via: str  # the broker that the client was at; empty: none just then
    timeout_s: float
    settled_s: float = math.inf
    outcome: Outcome | None = None

    def kind(self) -> str:
        """Its class."""
        outcome = self.outcome
        # The client's own word comes with the end of its grace: by then no broker has spoken.
        is_unspoken = outcome is not None and self.settled_s >= self.sent_s + self.timeout_s + GRACE_S - LATE_S
        if outcome is None or (outcome.code and is_unspoken):
            return "lost"
        if outcome.code:
            return f"error {outcome.code}"
        if not outcome.is_right:
            return "wrong"
        if outcome.attempt > 1:
            return "retried"
        # One that was sent while its client had no broker set out from the next one: that is no other way.
        is_sent_again = bool(self.via and outcome.via) and outcome.via != self.via
        is_forwarded = bool(outcome.broker and outcome.via) and outcome.broker != outcome.via
        return "rerouted" if is_sent_again or is_forwarded else "replied"

    @property
    def is_good(self) -> bool:
        return self.kind() in ("replied", "rerouted", "retried")


class Ledger:
    """All entries, behind one lock: outcomes come on the client's thread."""

    def __init__(self, rate_per_s: float) -> None:
        self.struck_s = math.inf
        self.recovered_s: float | None = None
        self._window_s = max(WINDOW_S, WINDOW_TASKS_MIN / rate_per_s)
        self._wanted = max(1.0, PACE_SHARE * rate_per_s * self._window_s)
        self._usual_s: float | None = None  # p99 before the fault
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._entries: dict[int, Entry] = {}
        self._settled: list[int] = []  # in the order in which they were
        # Sums are kept as outcomes come: whoever looks ten times a second must not count all of them each time.
        self._before: Counter[str] = Counter()
        self._since: Counter[str] = Counter()  # the fault
        self._good_s: list[float] = []  # how long the good replies since the fault took, in order

    # --- writing --------------------------------------------------------------------------------------------------

    def send(self, number: int, now: float, via: str, timeout_s: float) -> None:
        with self._lock:
            self._entries[number] = Entry(now, via, timeout_s)

    def settle(self, number: int, now: float, outcome: Outcome) -> None:
        with self._changed:
            entry = self._entries[number]
            if entry.outcome is None:  # exactly one counts
                entry.outcome, entry.settled_s = outcome, now
                self._settled.append(number)
                self._add_up(entry)
            self._changed.notify_all()

    def _add_up(self, entry: Entry) -> None:
        if entry.settled_s <= self.struck_s:
            self._before[entry.kind()] += 1
            return
        self._since[entry.kind()] += 1
        if entry.is_good:
            bisect.insort(self._good_s, entry.settled_s - entry.sent_s)

    def strike(self, now: float) -> None:
        with self._lock:
            self.struck_s = now

    def wait_until_settled(self, limit_s: float) -> bool:
        """Until nothing is open, or the time is over."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._settled) == len(self._entries), limit_s)

    def wait_until_replied(self, limit_s: float) -> bool:
        """Until the first good reply is there."""
        with self._changed:
            return self._changed.wait_for(lambda: any(self._entries[n].is_good for n in self._settled), limit_s)

    # --- reading --------------------------------------------------------------------------------------------------

    @property
    def open(self) -> int:
        with self._lock:
            return len(self._entries) - len(self._settled)

    def look(self, now: float) -> None:
        """Has it recovered, or is that over again?"""
        with self._lock:
            if now <= self.struck_s:
                return
            begins_s = now - self._window_s
            recent = [self._entries[number] for number in self._after(max(begins_s, self.struck_s))]
            fresh = [entry.settled_s for entry in recent if entry.sent_s > self.struck_s]
            is_well = begins_s >= self.struck_s and len(recent) >= self._wanted and bool(fresh)
            if any(not entry.is_good for entry in recent):
                self.recovered_s = None
            elif self.recovered_s is None and is_well and not self._is_stalled(now, begins_s):
                self.recovered_s = fresh[0]

    def _is_stalled(self, now: float, begins_s: float) -> bool:
        """Whether something that was in flight is settled only now, or something waits for unusually long."""
        patience_s = self._patience_s()
        for entry in self._entries.values():
            if entry.sent_s <= self.struck_s and entry.settled_s > begins_s:
                return True
            if entry.outcome is None and entry.sent_s < now - patience_s:
                return True
        return False

    def _patience_s(self) -> float:
        """How long a task may take: a few times what it took before the fault."""
        if self._usual_s is None:
            before = [e for e in self._entries.values() if e.settled_s <= self.struck_s and e.is_good]
            self._usual_s = share(sorted(e.settled_s - e.sent_s for e in before), 0.99) or 0.0
        return max(self._window_s, PATIENCE * self._usual_s)

    def _after(self, moment_s: float) -> list[int]:
        """What was settled since then."""
        place = len(self._settled)
        while place and self._entries[self._settled[place - 1]].settled_s > moment_s:
            place -= 1
        return self._settled[place:]

    def figures(self, now: float) -> Figures:
        """What happened since the fault, for conditions."""
        unrecovered_s = max(0.0, now - self.struck_s) if self.recovered_s is None else 0.0
        with self._lock:
            kinds, good = self._since, self._good_s
            errors = sum(number for kind, number in kinds.items() if kind.startswith("error") or kind == "wrong")
            p50_s, p99_s = share(good, 0.5), share(good, 0.99)
            return Figures(kinds.total(), errors, kinds["lost"], p50_s, p99_s, unrecovered_s)

    def counts(self) -> dict[str, int]:
        """How what is settled ended, so far: since the fault, or if there was none yet, all of it."""
        with self._lock:
            return dict(sorted((self._before if math.isinf(self.struck_s) else self._since).items()))

    def phase(self, entry: Entry) -> str:
        if entry.settled_s <= self.struck_s:
            return "before"
        if entry.sent_s <= self.struck_s:
            return "in flight"
        return "during" if self.recovered_s is None or entry.sent_s < self.recovered_s else "after"

    def entries(self) -> list[Entry]:
        """As they are now, in the order in which they were sent."""
        with self._lock:
            return [msgspec.structs.replace(entry) for entry in self._entries.values()]

    def table(self) -> dict[str, dict[str, int]]:
        """How many of each class there are, by phase; what is open counts as lost, so look when the run is over."""
        counts: dict[str, Counter[str]] = {phase: Counter() for phase in PHASES}
        for entry in self.entries():
            counts[self.phase(entry)][entry.kind()] += 1
        return {phase: dict(sorted(counted.items())) for phase, counted in counts.items()}

    def latencies(self) -> dict[str, tuple[float | None, float | None]]:
        """p50 and p99 of the good replies, by phase."""
        good: dict[str, list[float]] = {phase: [] for phase in PHASES}
        for entry in self.entries():
            if entry.is_good:
                good[self.phase(entry)].append(entry.settled_s - entry.sent_s)
        return {phase: (share(sorted(found), 0.5), share(sorted(found), 0.99)) for phase, found in good.items()}

    def first(self, *, is_good: bool) -> float | None:
        """When the first task after the fault ended well, or badly. Well: one that was sent after it."""
        with self._lock:
            since = [self._entries[number] for number in self._after(self.struck_s)]
        found = [e.settled_s for e in since if e.is_good is is_good and (not is_good or e.sent_s > self.struck_s)]
        return min(found, default=None)


def share(ordered: list[float], part: float) -> float | None:
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else None
