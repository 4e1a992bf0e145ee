"""The books of a run: every task that a client opened, and each of its outcomes, as the clients' own lines tell them.

What must hold is the promise: exactly one outcome for each task, by its deadline and a grace; only ends that its
service allows; and of what must not be repeated, at most one execution, by the journals of the workers. Each breach is
one sentence, and the first few are kept.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable

from scale0.client.options import GRACE_S
from tests.chaos.services import REPLY, SERVICES, TIMEOUT_S, WRONG

SLACK_S = 15.0  # a client that stands still is late without fault of its own, and so is a busy machine
BREACHES_MAX = 50  # sentences kept; more of the same help nobody
LIMIT_S = 40.0  # for replies to come while the network is whole


class Books:
    """What the clients told. `read` may be called by several threads."""

    def __init__(self) -> None:
        self.opened: Counter[str] = Counter()  # by service
        self.ends: Counter[tuple[str, str]] = Counter()  # by service and end
        self.breaches: list[str] = []
        self.slowest_s = 0.0
        self._is_finished = False
        self._open: dict[str, float] = {}  # name → when it was opened
        self._settled: set[str] = set()
        self._replies: Counter[str] = Counter()  # by client and service
        self._changed = threading.Condition()

    def read(self, line: str) -> None:
        """One line of a client."""
        word, _, rest = line.partition(" ")
        with self._changed:
            if word == "open":
                self.opened[rest.split("/")[1]] += 1
                self._open[rest] = time.monotonic()
            elif word == "end":
                name, _, end = rest.partition(" ")
                self._settle(name, end)
                self._changed.notify_all()

    def _settle(self, name: str, end: str) -> None:
        client, service, _ = name.split("/")
        began_s = self._open.pop(name, None)
        if began_s is None:
            self.breach(
                f"{name}: {'a second outcome' if name in self._settled else 'an outcome without a task'}: {end}"
            )
            return
        self._settled.add(name)
        took_s = time.monotonic() - began_s
        self.slowest_s = max(self.slowest_s, took_s)
        self.ends[service, end] += 1
        if end == REPLY:
            self._replies[f"{client}/{service}"] += 1
        elif end not in SERVICES[service].ends:
            self.breach(f"{name}: ended in {end} after {took_s:.1f} s")
        if took_s > TIMEOUT_S + GRACE_S + SLACK_S:
            self.breach(f"{name}: its outcome came after {took_s:.1f} s, long after its deadline")

    def breach(self, sentence: str) -> None:
        if len(self.breaches) < BREACHES_MAX:
            self.breaches.append(sentence)

    def await_replies(self, clients: Iterable[str], more: int = 2) -> None:
        """Until each of these clients got so many more replies from every quick service."""
        quick = [name for name, service in SERVICES.items() if service.work_s < 0.5]
        with self._changed:
            wanted = {key: self._replies[key] + more for client in clients for key in (f"{client}/{n}" for n in quick)}

            def missing() -> list[str]:
                return [key for key, count in wanted.items() if self._replies[key] < count]

            self._await(lambda: not missing(), LIMIT_S, lambda: f"no replies come for {', '.join(missing())}")

    def await_all(self) -> None:
        """Until every task has its outcome; the library promises it by the deadline and a grace."""
        with self._changed:
            limit_s = TIMEOUT_S + GRACE_S + SLACK_S
            self._await(lambda: not self._open, limit_s, lambda: f"{len(self._open)} tasks have no outcome")

    def _await(self, is_so: Callable[[], bool], limit_s: float, what: Callable[[], str]) -> None:
        if not self._changed.wait_for(is_so, limit_s):
            raise AssertionError(f"not within {limit_s:g} s: {what()}")

    def close(self, runs: Counter[str], *, is_finished: bool = True) -> None:
        """The end: what must not be repeated ran at most once, and what is open is lost.

        Unless the run was broken off: then the clients were killed before they could get their outcomes.
        """
        self._is_finished = is_finished
        for name in self._open if is_finished else ():
            self.breach(f"{name}: no outcome at all")
        for name, times in runs.items():
            if times > 1 and not SERVICES[name.split("/")[1]].idempotent:
                self.breach(f"{name}: ran {times} times")

    # --- sums -------------------------------------------------------------------------------------------------------

    @property
    def tasks(self) -> int:
        return self.opened.total()

    @property
    def replied(self) -> int:
        return sum(count for (_, end), count in self.ends.items() if end == REPLY)

    @property
    def errors(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for (_, end), count in self.ends.items():
            if end != REPLY:
                found[end] += count
        return found

    def ended(self) -> dict[tuple[str, str], int]:
        """How many tasks have their outcome, by client and service."""
        counts: Counter[tuple[str, str]] = Counter()
        for name in self._settled:
            client, service, _ = name.split("/")
            counts[client, service] += 1
        return counts

    @property
    def open(self) -> int:
        """Tasks without an outcome: at the end, lost ones."""
        return len(self._open)

    @property
    def doubled(self) -> int:
        return sum("a second outcome" in sentence or " ran " in sentence for sentence in self.breaches)

    def sum(self) -> str:
        """The line that it is all about."""
        errors = ", ".join(f"{count:,} × {code}" for code, count in sorted(self.errors.items())) or "none"
        wrong = f", {self.errors[WRONG]:,} wrong" if self.errors[WRONG] else ""
        return (
            f"{self.tasks:,} tasks: {self.replied:,} replied, {self.errors.total():,} errors ({errors}){wrong}, "
            f"{len(self._open):,} {'lost' if self._is_finished else 'broken off'}, {self.doubled:,} doubled"
        )
