"""A broker is killed and started again under many workers: how long until all are served again, and is it a storm?

The workers are the sessions of the library, 250 to a process. The time runs from the line with which the new broker
says that it is ready until every worker has its READYOK; a storm would show as CONNECTs sent over and over.
"""

from __future__ import annotations

import contextlib
import time

import msgspec

import measure
import peers
from measure import READY, RENEWED, Page, median
from processes import Child, script
from report import Options, Result, Table, at_most, figure

_PER_PROCESS = 250
_INTERVAL_MS = 2_500
_INTERVALS_MAX = 3.0
_CONNECTS_MAX = 3.0  # CONNECTs a worker may send for one restart
_LIMIT_S = 60.0


class Fleet(msgspec.Struct):
    """One process with many worker sessions."""

    page: Page
    process: Child


def run(options: Options) -> Result:
    seen = []
    for repetition in range(max(1, options.repetitions - 1)):
        seen.append(_restart(options))
        options.say(f"restart {repetition + 1}: {options.restart_workers:,} workers back after {seen[-1][0]:.2f} s")
    seconds, connects, peak, cpu = (median([each[at] for each in seen]) for at in range(4))
    intervals = seconds / (_INTERVAL_MS / 1000)
    numbers = (seconds, intervals, connects, peak, cpu)
    row = [f"{options.restart_workers:,}", *(figure(number) for number in numbers)]
    columns = ["workers", "all back, s", "intervals", "CONNECTs a worker", "most CONNECTs/s", "broker CPU, s"]
    table = Table("Restart: a killed broker comes back", columns, [row])
    name = f"restart with {options.restart_workers:,} workers: all served again"
    verdicts = [
        at_most(name, intervals, _INTERVALS_MAX, " intervals"),
        at_most("restart without a storm: CONNECTs a worker", connects, _CONNECTS_MAX),
    ]
    return Result("restart", [table], verdicts)


def _restart(options: Options) -> tuple[float, float, float, float]:
    """Seconds until all are back, CONNECTs a worker, most CONNECTs in a second, the new broker's CPU seconds."""
    measure.raise_file_limit()
    count = options.restart_workers
    scale0 = peers.Scale0(default_heartbeat_interval_s=_INTERVAL_MS / 1000)
    with contextlib.ExitStack() as stack:
        with scale0.started(options.directory) as first:
            fleets = _fleets(first.frontend, count, stack, options)
            _wait(fleets, count, f"{count} workers to connect")
            first.child.kill()
        _wait(fleets, 0, "the workers to notice that their broker is gone")
        with scale0.started(options.directory, bind=first.frontend) as second:
            started = time.monotonic()
            before = _sum(fleets, RENEWED)  # those sent to nobody do not count
            peak = _wait(fleets, count, f"{count} workers to come back")
            seconds = time.monotonic() - started
            cpu = measure.cpu_s(second.child.pid)
        return seconds, (_sum(fleets, RENEWED) - before) / count, peak, cpu


def _fleets(endpoint: str, count: int, stack: contextlib.ExitStack, options: Options) -> list[Fleet]:
    fleets = []
    for number, first in enumerate(range(0, count, _PER_PROCESS)):
        page = Page(options.directory / f"fleet-{number}-{time.monotonic_ns()}.page", create=True)
        arguments = [page.path, endpoint, min(_PER_PROCESS, count - first), number, _INTERVAL_MS]
        process = stack.enter_context(script("fleet", arguments, options.directory))
        fleets.append(Fleet(page, process))
    return fleets


def _wait(fleets: list[Fleet], ready: int, what: str) -> float:
    """Wait until so many workers are ready; the most CONNECTs that were sent in one second meanwhile."""
    end = time.monotonic() + _LIMIT_S
    history = [(time.monotonic(), _sum(fleets, RENEWED))]
    while _sum(fleets, READY) != ready:
        now = time.monotonic()
        history.append((now, _sum(fleets, RENEWED)))
        dead = next((fleet.process for fleet in fleets if fleet.process.returncode is not None), None)
        if dead is not None:
            raise RuntimeError(f"a fleet ended while waiting for {what}:\n{dead.output.read_text()[-2000:]}")
        if now > end:
            raise TimeoutError(f"waited {_LIMIT_S:.0f} s for {what}; {_sum(fleets, READY)} are ready")
        time.sleep(0.02)
    history.append((time.monotonic(), _sum(fleets, RENEWED)))
    return float(max(sent - min(s for at, s in history if now - 1.0 <= at <= now) for now, sent in history))


def _sum(fleets: list[Fleet], slot: int) -> int:
    return sum(fleet.page.read(slot) for fleet in fleets)
