"""Many scenarios at once, on all cores: each lane is a process that runs one at a time (`lane.py`).

Scenarios are drawn one by one as lanes get free, so that their number need not be known, nor have an end. A lane that
dies takes nothing with it but its scenario, which counts as failed. With one job everything runs in this process.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import BinaryIO, cast

import msgspec

from scale0.simulator.lane import receive_result, send
from scale0.simulator.run import Result, run
from scale0.simulator.scenario import Scenario

WAIT_S = 0.2  # at most, until `results` lets its reader look at the clock
END_WAIT_S = 5.0


def cores() -> int:
    """How many lanes this process may keep busy."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Lane:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "scale0.simulator.lane"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C is for this process, which ends its lanes itself
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin = cast("BinaryIO", self.process.stdin)
        self.stdout = cast("BinaryIO", self.process.stdout)
        self.scenario: Scenario | None = None

    def begin(self, scenario: Scenario) -> None:
        self.scenario = scenario
        with contextlib.suppress(BrokenPipeError):  # its end shows where its result is waited for
            send(self.stdin, scenario)

    def take(self) -> Result:
        """The result of what it was given."""
        assert self.scenario is not None, "only a lane that works has a result"
        result = receive_result(self.stdout)
        if result is None:
            result = _died(self.scenario, self.process.wait())
        self.scenario = None
        return result

    def end(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        if self.scenario is not None:
            self.process.kill()
        try:
            self.process.wait(END_WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.stdout.close()


class Lanes:
    """`with Lanes(jobs) as lanes: for result in lanes.results(scenarios): …`"""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._lanes: list[_Lane] = []
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> Lanes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for lane in self._lanes:
            lane.end()
        self._lanes.clear()
        self._selector.close()

    def results(self, scenarios: Iterable[Scenario]) -> Iterator[Result | None]:
        """Results as they come, in any order; None when some time has passed without one."""
        waiting = iter(scenarios)
        if self.jobs == 1:
            yield from map(run, waiting)
            return
        while len(self._lanes) < self.jobs and (scenario := next(waiting, None)) is not None:
            self._open(scenario)
        while any(lane.scenario is not None for lane in self._lanes):
            ready = self._selector.select(WAIT_S)
            if not ready:
                yield None
            for key, _ in ready:
                lane = cast("_Lane", key.data)
                result = lane.take()
                if lane.process.poll() is not None:
                    self._close(lane)
                if (scenario := next(waiting, None)) is not None:
                    lane.begin(scenario) if lane in self._lanes else self._open(scenario)
                yield result

    def _open(self, scenario: Scenario) -> None:
        lane = _Lane()
        self._lanes.append(lane)
        self._selector.register(lane.stdout, selectors.EVENT_READ, lane)
        lane.begin(scenario)

    def _close(self, lane: _Lane) -> None:
        self._selector.unregister(lane.stdout)
        self._lanes.remove(lane)
        lane.end()


def _died(scenario: Scenario, code: int) -> Result:
    """What is told of a scenario whose process ended under it."""
    violation = f"process: the process that ran it ended with code {code}"
    empty = Result(scenario, 0, "", {}, {}, 0, 0, 0.0, 0.0)
    return msgspec.structs.replace(empty, violation=violation, rule="process")
