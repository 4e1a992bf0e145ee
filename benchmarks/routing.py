"""What one task costs in the broker: CPU per task and tasks/s, side by side with the limit and with peers.

100-byte echo, capacity 64, 500 in flight. Three regimes, for a process that is pressed harder wakes up less often and
so pays less for each task. At *full speed* each broker gets the next task as soon as one is answered: from a load in C,
which no broker waits for, and from one in Python, which is what Python programs can press a broker with. Both speak
bundles, since our clients and workers do: without them Scale0 would pay for messages that nobody sends to it. At an
*equal rate* Scale0 and `zmq.proxy` get the same number of tasks a second, three quarters of what Scale0 does at full
speed.
"""

from __future__ import annotations

from collections import defaultdict

import msgspec

import measure
import peers
from load import Load, compiled
from measure import Window, equal_rate, median
from report import Bars, Options, Result, Table, Verdict, at_most, figure, thousands

_RATIO_MAX = 2.5
_CPU_US_MAX = 18.0
_SUSTAINED = 0.98  # of the rate that was asked


class Figures(msgspec.Struct):
    """All repetitions of one broker with one number of workers."""

    cpu_us: list[float] = []
    tasks_per_s: list[float] = []
    rss_mib: list[float] = []
    errors: int = 0

    def add(self, window: Window, rss_kib: int) -> None:
        self.cpu_us.append(window.cpu_us_per_task("broker"))
        self.tasks_per_s.append(window.tasks_per_s)
        self.rss_mib.append(rss_kib / 1024)
        self.errors += window.errors


Found = dict[tuple[str, int], Figures]


def run(options: Options) -> Result:
    others = [peers.ZmqProxy(), peers.Bare(), peers.Nats(), peers.Gearmand()]
    full: Found = defaultdict(Figures)
    in_python: Found = defaultdict(Figures)
    equal: Found = defaultdict(Figures)
    rates: dict[int, int] = {}
    for repetition in range(options.repetitions):
        for workers in options.routing_workers:
            for peer in [peers.Scale0(), *others]:
                if peer.is_installed():
                    _measure(peer, Load(workers), options, full[peer.name, workers])
            own = full[peers.Scale0.name, workers]
            rate = rates.setdefault(workers, equal_rate(own.tasks_per_s[0]))
            for peer in (peers.Scale0(), peers.ZmqProxy(), peers.Bare()):
                _measure(peer, Load(workers, is_compiled=False), options, in_python[peer.name, workers])
                _measure(peer, Load(workers, rate=rate), options, equal[peer.name, workers])
            cost = own.cpu_us[-1]
            options.say(f"routing {repetition + 1}/{options.repetitions}, {workers} workers: {cost:.1f} µs/task")
    counts = options.routing_workers
    columns = ["broker", *(f"µs/task, {n} w" for n in counts), *(f"tasks/s, {n} w" for n in counts), "MiB"]
    names = [peers.Scale0.name, *(peer.name for peer in others)]
    first = [_row(name, full, counts) for name in names]
    second = [_row(name, in_python, counts) for name in names[:3]]
    third = [_row(name, equal, counts) for name in names[:3]]
    tables = [
        Table("Routing at full speed: broker CPU per task, tasks/s, memory", columns, first, _note(others, options)),
        Table("Routing at full speed, under a load written in Python", columns, second),
        Table("Routing at an equal rate, three quarters of Scale0's full speed", columns, third),
    ]
    bars = [Bars(f"CPU per task at full speed, {n} workers", "µs", _costs(names, full, n)) for n in counts]
    return Result("routing", tables, _verdicts(full, in_python, equal, rates), bars)


def _measure(peer: peers.Peer, load: Load, options: Options, into: Figures) -> Window:
    with peer.started(options.directory) as running, peer.loaded(running, load, options.directory) as page:
        measure.watch(page, {}, options.warm_up_s)
        window = measure.watch(page, {"broker": running.child.pid}, options.seconds)
        into.add(window, measure.rss_kib(running.child.pid))
    if not window.tasks:
        raise RuntimeError(f"{peer.name} answered no task in {window.seconds:.1f} s with {load.workers} workers")
    return window


def _row(name: str, found: Found, counts: tuple[int, ...]) -> list[str]:
    figures = [found.get((name, workers)) for workers in counts]
    cpu = [figure(median(each.cpu_us)) if each else "–" for each in figures]
    rate = [thousands(median(each.tasks_per_s)) if each else "–" for each in figures]
    last = figures[-1]
    return [name, *cpu, *rate, figure(median(last.rss_mib)) if last else "–"]


def _costs(names: list[str], found: Found, workers: int) -> dict[str, float]:
    return {name: median(found[name, workers].cpu_us) for name in names if (name, workers) in found}


def _verdicts(full: Found, in_python: Found, equal: Found, rates: dict[int, int]) -> list[Verdict]:
    verdicts = []
    for workers, rate in rates.items():
        where = f"{workers} workers"
        own = full[peers.Scale0.name, workers]
        for regime, found in (("full speed", full), ("full speed, load in Python", in_python)):
            target = f"CPU per task ÷ zmq.proxy, {regime}, {where}"
            verdicts.append(at_most(target, _ratio(found, workers), _RATIO_MAX, "×"))
        verdict = at_most(f"CPU per task ÷ zmq.proxy, equal rate, {where}", _ratio(equal, workers), _RATIO_MAX, "×")
        sustained = median(equal[peers.Scale0.name, workers].tasks_per_s)
        verdict.measured += f" at {sustained:,.0f} tasks/s"
        if sustained < rate * _SUSTAINED:
            verdict.is_reached = False
            verdict.measured += f" of {rate:,}"
        verdicts.append(verdict)
        verdicts.append(at_most(f"CPU per task, full speed, {where}", median(own.cpu_us), _CPU_US_MAX, " µs"))
        errors = sum(found[peers.Scale0.name, workers].errors for found in (full, in_python, equal))
        verdicts.append(at_most(f"errors, {where}", errors, 0))
    return verdicts


def _ratio(found: Found, workers: int) -> float:
    """The median of the ratios within each repetition."""
    own, limit = found[peers.Scale0.name, workers], found[peers.ZmqProxy.name, workers]
    return median([a / b for a, b in zip(own.cpu_us, limit.cpu_us, strict=True)])


def _note(others: list[peers.Peer], options: Options) -> str:
    lines = [
        "100-byte echo, capacity 64, 500 in flight; medians of interleaved repetitions; all threads, user + system."
    ]
    lines += [f"{peer.name} is not installed: {peer.install}" for peer in others if not peer.is_installed()]
    if compiled(options.directory) is None:
        lines.append("No C compiler: the load generator is Python and is itself the bottleneck.")
    return "\n".join(lines)
