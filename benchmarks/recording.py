"""What recording costs: the broker's CPU per task with and without it, and the recorder's CPU per event.

The same load goes to a broker that records and to one that does not, in turns, at full speed and at an equal rate: what
counts is the ratio within a repetition. The recorder's own cost is measured apart, to its end: a file of frames, as a
broker would write them, goes through a recorder process, from the first byte to the last segment in its place; what a
process costs that has nothing to record is taken off.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

import measure
import peers
from load import Load
from measure import equal_rate, median
from report import Bars, Options, Result, Table, Verdict, at_most, figure, thousands
from scale0.events import TASK, Note, Records
from scale0.telemetry import frames, lock
from scale0.telemetry.columns import RECORD
from scale0.telemetry.frames import Goodbye, Hello, Kind, Order

_RATIO_MAX = 1.08
_EVENT_US_MAX = 1.5
_WORKERS = 50
_SPEEDS = _FULL, _EQUAL = ("full speed", "equal rate")
_BURST = 200  # tasks that leave a broker together
_NAMES = 400
_LIMIT_S = 60.0


class Figures(msgspec.Struct):
    """All repetitions of one kind of broker under one load."""

    broker_us: list[float] = []
    recorder_us: list[float] = []
    tasks_per_s: list[float] = []


def run(options: Options) -> Result:
    found = {(name, is_on): Figures() for name in _SPEEDS for is_on in (False, True)}
    rate = 0
    for repetition in range(options.repetitions):
        for name in _SPEEDS:
            load = Load(_WORKERS, rate=rate if name == _EQUAL else 0)
            for is_on in (False, True):
                _measure(load, options, found[name, is_on], is_on=is_on)
            rate = rate or equal_rate(*(found[_FULL, is_on].tasks_per_s[0] for is_on in (False, True)))
            ratio = found[name, True].broker_us[-1] / found[name, False].broker_us[-1]
            options.say(f"recording {repetition + 1}/{options.repetitions}, {name}: {ratio:.3f} ×")
    event_us = [_event_us(options) for _ in range(options.repetitions)]
    rows = [_row(name, is_on, figures) for (name, is_on), figures in found.items()]
    columns = ["load", "recording", "broker µs/task", "recorder µs/task", "tasks/s"]
    note = "The recorder's share of one window has little sealing in it; its whole cost is in the next table."
    whole = [[thousands(options.recorded_events), figure(median(event_us)), figure(min(event_us))]]
    tables = [
        Table("Recording: CPU per task", columns, rows, note),
        Table(
            "The recorder alone: CPU per event, µs, sealing and shipping included", ["events", "median", "least"], whole
        ),
    ]
    bars = [Bars("CPU per task with recording", "µs", {name: median(found[name, True].broker_us) for name in _SPEEDS})]
    return Result("recording", tables, _verdicts(found, event_us), bars)


def _measure(load: Load, options: Options, into: Figures, *, is_on: bool) -> None:
    telemetry = options.directory / f"telemetry-{time.monotonic_ns()}"
    arguments = ["--telemetry", "--telemetry-dir", str(telemetry)] if is_on else []
    peer = peers.Scale0()
    with peer.started(options.directory, arguments=arguments) as running:
        pids = {"broker": running.child.pid}
        if is_on:
            pids["recorder"] = _recorder_of(running.child.pid, telemetry)
        with peer.loaded(running, load, options.directory) as page:
            measure.watch(page, {}, options.warm_up_s)
            window = measure.watch(page, pids, options.seconds)
    if is_on and not lock.wait(telemetry, _LIMIT_S):
        raise RuntimeError(f"the recorder did not end within {_LIMIT_S:g} s after its broker")
    into.broker_us.append(window.cpu_us_per_task("broker"))
    into.recorder_us.append(window.cpu_us_per_task("recorder") if is_on else 0.0)
    into.tasks_per_s.append(window.tasks_per_s)


def _recorder_of(pid: int, telemetry: Path) -> int:
    """The only process that a broker starts, once it is at work."""
    end = time.monotonic() + _LIMIT_S
    while not list(telemetry.glob("wal/*")):
        if time.monotonic() > end:
            raise TimeoutError(f"nothing was recorded within {_LIMIT_S:g} s")
        time.sleep(0.01)
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


# --- the recorder alone ---------------------------------------------------------------------------------------------


def _event_us(options: Options) -> float:
    """CPU µs of a recorder for one event: of a process with all of them, less that of one with none."""
    costs = []
    for count in (0, options.recorded_events):
        with _frames(options.directory, count) as path, path.open("rb") as file:
            before = _children_s()
            subprocess.run([sys.executable, "-m", "scale0.telemetry"], stdin=file, check=True, capture_output=True)
            costs.append(_children_s() - before)
    return (costs[1] - costs[0]) * 1e6 / options.recorded_events


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextlib.contextmanager
def _frames(directory: Path, count: int) -> Iterator[Path]:
    """What a broker tells of so many tasks, in a file."""
    path = directory / f"frames-{os.getpid()}-{count}"
    place = directory / f"recorded-{time.monotonic_ns()}"  # a recorder leaves out what its directory has already
    order = Order(str(place), str(place / "data"))
    with path.open("wb") as file:
        file.write(frames.frame(Kind.ORDER, order) + frames.frame(Kind.HELLO, Hello("bench", f"run-{count}", 10**15)))
        names = [(number, f"name-{number}") for number in range(1, _NAMES)]
        file.write(frames.encode(Records(names, [], [Note(1, 0.0, "boot")], [])))
        rows = _rows(count)
        for first in range(0, count, _BURST):
            file.write(frames.encode(Records([], [], [], [row.tobytes() for row in rows[first : first + _BURST]])))
        file.write(frames.frame(Kind.GOODBYE, Goodbye(count + 1, 0.0)))
    try:
        yield path
    finally:
        path.unlink()


def _rows(count: int) -> np.ndarray:  # type: ignore[type-arg]
    """Tasks as they are: 30 services, 100 clients, 200 workers, times that differ."""
    chance = np.random.default_rng(1)
    rows = np.zeros(count, dtype=RECORD)
    assert RECORD.itemsize == TASK.size
    rows["seq"] = np.arange(2, count + 2)
    rows["sequence"] = chance.integers(1, 10**6, count)
    rows["received_s"] = 1.0 + np.cumsum(chance.exponential(1 / 20_000, count))
    rows["dispatched_s"] = rows["received_s"] + chance.exponential(0.0005, count)
    rows["settled_s"] = np.sort(rows["dispatched_s"] + chance.exponential(0.002, count))
    rows["sent_us"] = rows["worker_us"] = 10**15 + (rows["received_s"] * 1e6).astype("i8")
    rows["work_us"] = chance.integers(100, 9_000, count)
    rows["wait_us"] = chance.integers(0, 1_000, count)
    rows["request_bytes"] = rows["reply_bytes"] = chance.integers(10, 500, count)
    rows["service_no"] = chance.integers(1, 30, count)
    rows["client_no"] = chance.integers(30, 130, count)
    rows["worker_no"] = chance.integers(130, 330, count)
    rows["dialect_no"], rows["config_version_no"], rows["code"] = 331, 332, 200
    return rows


# --- what is said ---------------------------------------------------------------------------------------------------


def _row(name: str, is_on: bool, figures: Figures) -> list[str]:
    recorder = figure(median(figures.recorder_us)) if is_on else "–"
    rate = thousands(median(figures.tasks_per_s))
    return [name, "on" if is_on else "off", figure(median(figures.broker_us)), recorder, rate]


def _verdicts(found: dict[tuple[str, bool], Figures], event_us: list[float]) -> list[Verdict]:
    verdicts = []
    for name in _SPEEDS:
        pairs = zip(found[name, True].broker_us, found[name, False].broker_us, strict=True)
        ratio = median([on / off for on, off in pairs])
        verdicts.append(at_most(f"broker CPU per task, recording ÷ not, {name}", ratio, _RATIO_MAX, "×"))
    verdicts.append(at_most("recorder CPU per event, sealing included", median(event_us), _EVENT_US_MAX, " µs"))
    return verdicts
