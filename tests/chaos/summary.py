"""What a run comes to: a row a kind of fault, the trends, the sum of all tasks, and every breach in a sentence.

Times are in heartbeat intervals. *Noticed* counts from the fault until the network has done something about it, *whole*
from its mending until the network is whole again; `faults.py` and `stage.py` say when exactly that is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from scale0.core.sessions import LIVENESS_RESOLUTION_S
from tests.chaos.books import Books
from tests.chaos.services import REPLY
from tests.chaos.topologies import LIVENESS
from tests.chaos.vitals import Trend

STEP_S = LIVENESS_RESOLUTION_S + 0.05  # a broker looks for silence in steps, and not always on the dot
NOTICED_MAX = {"kill-worker": LIVENESS, "pause-worker": LIVENESS, "kill-broker": 4, "kill-active": 4}
"""Intervals at p99: a lost worker within three, and those who lost their broker are at another one within four."""

Table = Sequence[Sequence[str]]


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that so many of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


class Tally:
    """All cycles of one kind of fault."""

    def __init__(self, fault: str, interval_s: float) -> None:
        self.fault = fault
        self._interval_s = interval_s
        self.cycles = 0
        self.noticed: list[float] = []  # intervals
        self.whole: list[float] = []
        self.ends: Counter[str] = Counter()  # of tasks that ended in these cycles

    def add(self, noticed_s: float | None, whole_s: float, ends: Counter[str]) -> None:
        self.cycles += 1
        self.whole.append(whole_s / self._interval_s)
        self.ends += ends
        if noticed_s is not None:
            self.noticed.append(noticed_s / self._interval_s)

    def too_slow(self) -> str:
        """A sentence if it was noticed too late at p99."""
        limit = NOTICED_MAX.get(self.fault)
        if limit is None or not self.noticed:
            return ""
        p99 = percentile(self.noticed, 0.99)
        if p99 <= limit + STEP_S / self._interval_s:
            return ""
        return f"{self.fault}: noticed after {p99:.2f} intervals at p99; {limit} are allowed, and {STEP_S:g} s"

    def row(self) -> list[str]:
        errors = self.ends.total() - self.ends[REPLY]
        cells = [self.fault, f"{self.cycles:,}", f"{self.ends[REPLY]:,}", f"{errors:,}"]
        for values in (self.noticed, self.whole):
            cells += [f"{percentile(values, part):.2f}" for part in (0.5, 0.99)] if values else ["–", "–"]
        return cells


def ends_of(books: Books) -> Counter[str]:
    """How the tasks have ended so far, over all services."""
    found: Counter[str] = Counter()
    for (_, end), count in list(books.ends.items()):
        found[end] += count
    return found


def fault_table(tallies: Sequence[Tally]) -> str:
    head = ["FAULT", "CYCLES", "REPLIES", "ERRORS", "NOTICED p50", "p99", "WHOLE p50", "p99"]
    return draw([head, *(tally.row() for tally in tallies)])


def trend_table(trends: Sequence[Trend]) -> str:
    def shown(value: float | None) -> str:
        return "–" if value is None else f"{value:.1f}"

    head = ["PROCESS", "FIGURE", "EARLY", "LATE", "MAY GROW BY", ""]
    rows = [
        [
            trend.process,
            trend.figure,
            shown(trend.first),
            shown(trend.last),
            f"{trend.allowed:.1f}",
            "too few samples" if trend.first is None else "flat" if trend.is_flat else "GROWS",
        ]
        for trend in trends
    ]
    return draw([head, *rows])


def draw(rows: Table) -> str:
    """Columns side by side: words to the left, numbers to the right."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if place > 0 and _is_number(rows[-1][place]) else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _is_number(cell: str) -> bool:
    return cell == "–" or cell.replace(",", "").replace(".", "").isdigit()
