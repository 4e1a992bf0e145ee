"""`kill -9` of the pipeline, again and again, while segments come in and a reader looks on.

Some days of a made-up network are recorded in advance, and their segments arrive a few at a time. Each time
`scale0 pipeline run` is started, in a session of its own, and is killed with its JVM and everything: while it starts,
or after some of its tables have been committed, as chance will have it. At the end one run is left alone. Then the
tables must be the same as those of a place with the same segments where nothing was ever killed.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import TextIO

import msgspec

from scale0.telemetry import catalogue, segments
from scale0.telemetry.place import Place
from scale0_pipeline.generate import generate
from tests.chaos import children, pipeline_tables
from tests.chaos.pipeline_reader import ROWS, Reader, read
from tests.chaos.stage import look_until
from tests.cli.processes import ROOT, environment

TASKS, DAYS = 3_000, 2
UNTIL = date(2026, 3, 4)  # so that the same seed makes the same days
AT_START = 0.2  # of the kills come while it starts …
START_S = 4.0  # … within this time
COMMITS_MAX = 40  # the others come after so many commits at most: about two batches
MOMENT_S = 0.4  # and up to this much later, so that they hit anything
IDLE_S = 20.0  # without a commit for so long, all is done that there was
LIMIT_S = 600.0  # for one run that is left alone
TRIES_MAX = 3  # runs for each kill: one that catches up may be done before it is killed


class PipelineRun:
    """So many kills. `breaches` is empty if everything held."""

    def __init__(self, kills: int, directory: Path, seed: int, out: TextIO) -> None:
        self.breaches: list[str] = []
        self._kills, self._directory, self._out = kills, directory, out
        self._random = random.Random(f"{seed}:pipeline")
        self._seed = seed
        self._place = Place(directory / "data")
        self._reader = Reader(self._place)
        self._killed = self._killed_at_start = self._tasks = 0
        self._began_s = time.monotonic()

    def run(self) -> None:
        """All kills, and what the tables say then."""
        recorded = Place(self._directory / "recorded")
        generate(recorded.url, TASKS, DAYS, self._seed, until=UNTIL)
        coming = sorted(catalogue.read_all(recorded, {}), key=lambda entry: (entry.sealed_us, entry.number))
        with self._reader:
            for number in range(TRIES_MAX * self._kills):
                if self._killed == self._kills:
                    break
                share = len(coming) // max(1, self._kills - self._killed)
                self._arrive(recorded, coming[:share])
                del coming[:share]
                self._tell(number)
                self._start_and_kill()
            self._arrive(recorded, coming)
            self._run_to_end(self._place)
            self._reader.look()
        untouched = Place(self._directory / "untouched")
        self._copy_record(untouched)
        self._run_to_end(untouched)
        rows = read(self._place, ROWS)
        self._tasks = len(rows)
        self.breaches += self._reader.breaches(rows)
        self.breaches += pipeline_tables.differences(self._place, untouched)

    def _arrive(self, source: Place, entries: list[catalogue.Entry]) -> None:
        for entry in entries:
            content = source.read_bytes(entry.path)
            segments.publish(self._place, msgspec.structs.replace(entry, number=0), content)

    def _copy_record(self, to: Place) -> None:
        for broker in catalogue.brokers(self._place):
            for entry in catalogue.read(self._place, broker):
                segments.publish(to, msgspec.structs.replace(entry, number=0), self._place.read_bytes(entry.path))

    # --- one run of the pipeline --------------------------------------------------------------------------------------

    def _start_and_kill(self) -> None:
        is_at_start = self._random.random() < AT_START
        wait_s, commits = self._random.uniform(0, START_S), self._random.randint(1, COMMITS_MAX)
        moment_s, is_once = self._random.uniform(0, MOMENT_S), self._random.random() < 0.5
        before = self._commits()
        with self._running(self._place, "--once" if is_once else "--interval=0.3") as process:
            if is_at_start:
                self._wait(process, wait_s)
            else:
                self._await_commits(process, before, commits)
                self._wait(process, moment_s)
            if process.poll() is None:
                self._killed += 1
                self._killed_at_start += is_at_start
            elif process.returncode:
                self.breaches.append(f"the pipeline ended by itself with {process.returncode}; its log says why")

    def _await_commits(self, process: subprocess.Popen[bytes], before: int, wanted: int) -> None:
        """Until it has made so many, or has ended, or has had nothing to do for a while."""
        last, last_s = before, time.monotonic()

        def is_time() -> bool:
            nonlocal last, last_s
            now = self._commits()
            if now != last:
                last, last_s = now, time.monotonic()
            is_idle = last > before and time.monotonic() - last_s > IDLE_S
            return process.poll() is not None or last - before >= wanted or is_idle

        look_until(is_time, "the pipeline commits something", LIMIT_S)

    def _commits(self) -> int:
        return sum(1 for _ in (self._directory / "data" / "tables").glob("*/*/_delta_log/*.json"))

    def _run_to_end(self, place: Place) -> None:
        with self._running(place, "--once") as process:
            code = process.wait(LIMIT_S)
        if code:
            self.breaches.append(f"the pipeline that was left alone ended with {code}; its log says why")

    @contextlib.contextmanager
    def _running(self, place: Place, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        """The pipeline, in a session of its own; nothing of it is left after the block."""
        command = [*children.with_its_parent(), sys.executable, "-m", "scale0", "pipeline", "run"]
        with (self._directory / "pipeline.log").open("ab") as log:
            process = subprocess.Popen(
                [*command, "--data", place.url, "--master", "local[2]", *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=environment(),
                start_new_session=True,
            )
        try:
            yield process
        finally:
            look_until(lambda: not kill_session(process.pid), "nothing of the pipeline runs any more")
            process.wait()

    @staticmethod
    def _wait(process: subprocess.Popen[bytes], moment_s: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(moment_s)

    # --- what it says -------------------------------------------------------------------------------------------------

    def _tell(self, number: int) -> None:
        spent_s = time.monotonic() - self._began_s
        line = f"run {number + 1}: {self._killed} of {self._kills} kills, {self._reader.looks:,} looks, {spent_s:.0f} s"
        self._out.write(f"\r\x1b[K{line}" if self._out.isatty() else f"{line}\n")
        self._out.flush()

    def report(self) -> str:
        spent_s = time.monotonic() - self._began_s
        seen = sum(len(totals) for totals in self._reader.seen.values())
        lines = [
            f"pipeline: {self._killed} kills in {spent_s:.0f} s, {self._killed_at_start} of them while it started; "
            f"a reader looked {self._reader.looks:,} times and saw {seen:,} totals; {self._tasks:,} rows of tasks",
            "",
            *(f"✗ {sentence}" for sentence in self.breaches),
        ]
        if not self.breaches:
            lines.append("● no breach: every total was a committed one, and the tables are those of an untouched run")
        return "\n".join(lines) + "\n"


def kill_session(leader: int) -> int:
    """kill -9 of every process in a session; how many there were. Python workers leave the group, not the session."""
    found = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader and fields[0] != "Z":
                os.kill(int(process.name), signal.SIGKILL)
                found += 1
    return found
