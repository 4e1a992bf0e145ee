"""A broker is killed and started again under many workers: how long until all are served again, and is it a storm?

The workers are the sessions of the library, 250 to a process. The time runs from the line with which the new broker
says that it is ready until every worker has its READYOK; a storm would show as CONNECTs sent over and over.
"""

from __future__ import annotations

import contextlib
import time

import fleets
import measure
import peers
from fleets import Fleet, total
from measure import READY, RENEWED, median
from report import Options, Result, Table, at_most, figure

_INTERVAL_S = 2.5
_INTERVALS_MAX = 3.0
_CONNECTS_MAX = 3.0  # CONNECTs a worker may send for one restart
_LIMIT_S = 60.0


def run(options: Options) -> Result:
    seen = []
    for repetition in range(max(1, options.repetitions - 1)):
        seen.append(_restart(options))
        options.say(f"restart {repetition + 1}: {options.restart_workers:,} workers back after {seen[-1][0]:.2f} s")
    seconds, connects, peak, cpu = (median([each[at] for each in seen]) for at in range(4))
    intervals = seconds / _INTERVAL_S
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
    scale0 = peers.Scale0(default_heartbeat_interval=_INTERVAL_S)
    with contextlib.ExitStack() as stack:
        with scale0.started(options.directory) as first:
            crew = fleets.start([first.frontend], count, _INTERVAL_S, stack, options.directory)
            _wait(crew, count, f"{count} workers to connect")
            first.child.kill()
        _wait(crew, 0, "the workers to notice that their broker is gone")
        with scale0.started(options.directory, bind=first.frontend) as second:
            started = time.monotonic()
            before = total(crew, RENEWED)  # those sent to nobody do not count
            peak = _wait(crew, count, f"{count} workers to come back")
            seconds = time.monotonic() - started
            cpu = measure.cpu_s(second.child.pid)
        return seconds, (total(crew, RENEWED) - before) / count, peak, cpu


def _wait(crew: list[Fleet], ready: int, what: str) -> float:
    """Wait until so many workers are ready; the most CONNECTs that were sent in one second meanwhile."""
    end = time.monotonic() + _LIMIT_S
    history = [(time.monotonic(), total(crew, RENEWED))]
    while total(crew, READY) != ready:
        now = time.monotonic()
        history.append((now, total(crew, RENEWED)))
        fleets.check(crew)
        if now > end:
            raise TimeoutError(f"waited {_LIMIT_S:.0f} s for {what}; {total(crew, READY)} are ready")
        time.sleep(0.02)
    history.append((time.monotonic(), total(crew, RENEWED)))
    return float(max(sent - min(s for at, s in history if now - 1.0 <= at <= now) for now, sent in history))
