"""What brokers of the network say of themselves beyond what they tell one another unasked: CPU, memory, tasks/s.

It is asked for only while somebody looks at the network, every few seconds for all who look, by the command that people
use too: `list` of `brokers`, for all. So it costs a network nothing that nobody looks at, and PEERSTATUS stays small.
Nobody waits for it: a listing shows what was heard last, and what is too old is unknown.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, Final

from scale0.management.vocabulary import Principal, Role

LOOK_S: Final = 5.0
OLD_S: Final = 20.0
ASKER: Final = Principal("network", Role.VIEW, "process")
FIGURES: Final = ("tasks_per_s", "cpu_percent", "rss_bytes", "connections")

Row = dict[str, Any]


class Neighbours:
    """Figures of brokers by identity. From any thread. `ask` asks all of the network for their `brokers`."""

    def __init__(self, ask: Callable[[], Future[Any]], clock: Callable[[], float] = time.monotonic) -> None:
        self._ask, self._clock = ask, clock
        self._lock = threading.Lock()
        self._asked_s = -LOOK_S
        self._heard: dict[str, tuple[float, Row]] = {}

    def added_to(self, rows: Iterable[Row]) -> list[Row]:
        """Rows of the network with what each broker said of itself lately."""
        self._look()
        return [{**row, **self._of(str(row.get("identity")))} for row in rows]

    def _of(self, identity: str) -> Row:
        heard_s, told = self._heard.get(identity, (0.0, {}))
        is_old = self._clock() - heard_s > OLD_S
        return {name: None if is_old else told.get(name) for name in FIGURES}

    def _look(self) -> None:
        with self._lock:
            now = self._clock()
            if now - self._asked_s < LOOK_S:
                return
            self._asked_s = now
        self._ask().add_done_callback(self._hear)

    def _hear(self, done: Future[Any]) -> None:
        """A broker that did not answer keeps what it said before, until that is too old."""
        if done.exception() is not None:
            return
        now, found = self._clock(), {}
        for answer in done.result().get("results", ()):
            document = answer.get("result")
            for row in document.get("rows") or () if isinstance(document, dict) else ():
                found[str(row.get("identity"))] = (now, {name: _number(row.get(name)) for name in FIGURES})
        with self._lock:
            kept = {name: one for name, one in self._heard.items() if now - one[0] <= OLD_S}
            self._heard = {**kept, **found}


def _number(value: Any) -> float | None:
    """Other brokers may be of another version, or lie."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
