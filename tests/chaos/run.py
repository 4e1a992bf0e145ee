"""One run: cycle after cycle on each topology, and what they come to.

A cycle is one fault, from a network that is whole to a network that is whole again. Every wait has a limit, and a limit
that is reached ends the run with a breach: a network that does not recover makes all further cycles worthless. However
it ends, all processes end with it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TextIO

from scale0.telemetry.place import Place
from tests.chaos import record, summary
from tests.chaos.books import Books
from tests.chaos.plan import Cycle
from tests.chaos.record import Record
from tests.chaos.stage import Stage
from tests.chaos.summary import Tally
from tests.chaos.vitals import Trend

LINE_CYCLES = 25  # where nobody watches, a line of progress for so many


class ChaosRun:
    """The run of a plan. `breaches` is empty if everything held."""

    def __init__(
        self, plan: Sequence[Cycle], directory: Path, *, interval_s: float, is_timed: bool, limit_s: float, out: TextIO
    ) -> None:
        self.breaches: list[str] = []
        self._plan = plan
        self._directory = directory
        self._interval_s = interval_s
        self._is_timed = is_timed
        self._out = out
        self._end_s = time.monotonic() + limit_s
        self._began_s = time.monotonic()
        self._tallies: dict[str, Tally] = {}
        self._trends: list[Trend] = []
        self._books: dict[str, Books] = {}  # by topology
        self._records: dict[str, Record] = {}
        self._done = 0

    def run(self) -> None:
        """All cycles, or as many as there is time for."""
        for topology, cycles in groupby(self._plan, key=lambda cycle: cycle.topology):
            if time.monotonic() >= self._end_s:
                break
            directory = self._directory / topology.name
            directory.mkdir(parents=True, exist_ok=True)
            stage = Stage(topology, directory, self._interval_s)
            self._books[topology.name] = stage.books
            try:
                stage.start()
                self._play(stage, list(cycles))
                stage.finish()
                self._count_record(stage)
            except Exception as error:  # whatever it is, the run is over, and the summary says so
                self.breaches.append(f"cycle {self._done + 1}, {topology.name}: {error}")
            finally:
                stage.end()
            self._close(stage)

    def _play(self, stage: Stage, cycles: Sequence[Cycle]) -> None:
        for cycle in cycles:
            if time.monotonic() >= self._end_s:
                return
            before = summary.ends_of(stage.books)
            self._tell(cycle, stage.books)
            try:
                noticed_s = cycle.fault.run(stage, cycle.random())
                mended_s = time.monotonic()
                whole_s = stage.await_whole() - mended_s
            except Exception as error:
                raise AssertionError(f"{cycle.fault.name}: {error or type(error).__name__}") from error
            stage.sample()
            tally = self._tallies.setdefault(cycle.fault.name, Tally(cycle.fault.name, self._interval_s))
            tally.add(noticed_s, whole_s, summary.ends_of(stage.books) - before)
            self._done += 1

    def _count_record(self, stage: Stage) -> None:
        """What was recorded, against the books of the clients and the counters of the brokers."""
        found = self._records[stage.topology.name] = record.read_place(Place(stage.recorders.data))
        sentences = found.breaches(stage.recorders.processes, stage.books.ended())
        self.breaches += [f"{stage.topology.name}: {sentence}" for sentence in sentences]

    def _close(self, stage: Stage) -> None:
        self.breaches += [f"{stage.topology.name}: {sentence}" for sentence in stage.books.breaches]
        self.breaches += [f"{stage.topology.name}: {sentence}" for sentence in stage.bugs()]
        trends = [trend for vitals in stage.vitals.values() for trend in vitals.trends()]
        for trend in trends:
            if not trend.is_flat:
                self.breaches.append(f"{trend.process}: {trend.figure} grew from {trend.first:.1f} to {trend.last:.1f}")
        self._trends += trends

    # --- what it says -------------------------------------------------------------------------------------------------

    def _tell(self, cycle: Cycle, books: Books) -> None:
        """The line of progress: one that changes in a terminal, now and then one elsewhere."""
        spent_s = time.monotonic() - self._began_s
        left_s = spent_s / max(1, self._done) * (len(self._plan) - self._done)
        line = (
            f"cycle {cycle.number}/{len(self._plan)}  {cycle.topology.name}  {cycle.fault.name:<20}"
            f"{books.tasks:,} tasks, {books.open} open, {len(books.breaches)} breaches  "
            f"{spent_s:.0f} s, about {left_s:.0f} s left"
        )
        if self._out.isatty():
            self._out.write(f"\r\x1b[K{line}")
        elif cycle.number % LINE_CYCLES == 1:
            self._out.write(f"{line}\n")
        self._out.flush()

    def report(self) -> str:
        """The summary, breaches last."""
        tallies = sorted(self._tallies.values(), key=lambda tally: tally.fault)
        if self._is_timed:
            self.breaches += [sentence for tally in tallies if (sentence := tally.too_slow())]
        spent_s = time.monotonic() - self._began_s
        load = f"{os.getloadavg()[1]:.1f} processes wanted {os.cpu_count()} cores"
        times = f"times in heartbeat intervals of {self._interval_s:g} s"
        parts = [f"{self._done:,} cycles in {spent_s:.0f} s, while {load}; {times}"]
        if tallies:
            parts.append(summary.fault_table(tallies))
        if self._trends:
            parts.append(summary.trend_table(self._trends))
        sums = (f"{name}: {books.sum()}; slowest {books.slowest_s:.1f} s" for name, books in self._books.items())
        parts.append("\n".join(sums))
        parts.append("\n".join(f"{name}: {found.sum()}" for name, found in self._records.items()))
        if self.breaches:
            parts.append("\n".join(f"✗ {sentence}" for sentence in self.breaches))
        elif self._done < len(self._plan):
            parts.append(f"● no breach; {len(self._plan) - self._done} cycles were not run: the time was over")
        else:
            parts.append("● no breach")
        return "\n\n".join(parts) + "\n"


def say(text: str) -> None:
    """After the line of progress, on a line of its own."""
    sys.stdout.write(("\n" if sys.stdout.isatty() else "") + text)
    sys.stdout.flush()
