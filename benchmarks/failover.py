"""What a fallback broker costs while nothing happens, and how soon it serves when something does.

A broker *alone* against one that is *followed*: its fallback holds a copy of its state, told of every change. The cost
is the CPU of the broker that serves; what the fallback itself spends stands beside it. A task that may be repeated goes
to its worker at once, one that must not waits until the fallback knows of it (rule 31): so both kinds are measured, as
in `forwarding` at an equal rate and at full speed, and one in flight for what the waiting adds.

Then the losses, by `losses.py`: workers that are killed, until their broker misses them, and whoever of the pair
serves, until a client has its reply from the other.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterator

import msgspec

import load
import losses
import measure
import networks
from latency import block
from load import Load, compiled
from measure import equal_rate, median, percentile
from networks import Network
from processes import script
from report import Bars, Options, Result, Table, Verdict, at_most, figure, thousands
from scale0 import Client

_RATIO_MAX = 1.40
_SUSTAINED = 0.98  # of the rate that was asked
_WORKERS = 2
_ALONE, _FOLLOWED = "alone", "followed"
_REPEATABLE, _ONCE = "idempotent", "not idempotent"
_FULL, _EQUAL = "full speed", "equal rate"
_BODY = b"x" * 100


class Figures(msgspec.Struct):
    """All repetitions of one way, for one kind of service, at one speed."""

    cpu_us: list[float] = []  # of the broker that serves
    fallback_us: list[float] = []
    tasks_per_s: list[float] = []
    p50_us: list[float] = []
    p99_us: list[float] = []
    errors: int = 0


Key = tuple[str, str, str]  # way, kind, speed
Found = dict[Key, Figures]


def run(options: Options) -> Result:
    found: Found = defaultdict(Figures)
    rates: dict[str, int] = {}
    for repetition in range(options.repetitions):
        for kind in (_REPEATABLE, _ONCE):
            for speed in (_FULL, _EQUAL):
                work = Load(_WORKERS, rate=rates[kind] if speed == _EQUAL else 0)
                for way in _WAYS:
                    _measure(way, kind, work, options, found[way, kind, speed])
                rates.setdefault(kind, equal_rate(*(found[way, kind, _FULL].tasks_per_s[0] for way in _WAYS)))
                costs = ", ".join(f"{way} {found[way, kind, speed].cpu_us[-1]:.1f}" for way in (_ALONE, _FOLLOWED))
                options.say(f"failover {repetition + 1}/{options.repetitions}, {kind}, {speed}: {costs} µs/task")
    alone = _one_in_flight(options)
    lost = losses.measured(options)
    title = "A fallback that follows: CPU per task of the broker that serves"
    columns = ["", "µs/task", "fallback, µs/task", "tasks/s", "p50, µs", "p99, µs", "errors"]
    rows = [_row(key, found[key]) for key in _keys()]
    tables = [Table(title, columns, rows, _note(options, rates)), _latency_table(alone), losses.table(lost)]
    bars = [
        Bars(f"CPU per task, {kind}, {speed}", "µs", {way: median(found[way, kind, speed].cpu_us) for way in _WAYS})
        for kind in (_REPEATABLE, _ONCE)
        for speed in (_EQUAL, _FULL)
    ]
    return Result("failover", tables, [*_verdicts(found, rates), *losses.verdicts(lost)], bars)


_WAYS = (_ALONE, _FOLLOWED)


def _keys() -> list[Key]:
    return [(way, kind, speed) for kind in (_REPEATABLE, _ONCE) for speed in (_EQUAL, _FULL) for way in _WAYS]


@contextlib.contextmanager
def _served(way: str, kind: str, options: Options) -> Iterator[Network]:
    """A broker, alone or followed, at which `echo` may be repeated or must not."""
    service = [{"name": load.SERVICE, "idempotent": kind == _REPEATABLE}]
    with networks.started(1 if way == _ALONE else 2, options.directory, service=service) as network:
        if way == _FOLLOWED:
            network.pair()
        yield network


def _measure(way: str, kind: str, work: Load, options: Options, into: Figures) -> None:
    with _served(way, kind, options) as network:
        first = network.endpoints[0]
        with load.running(work, first, first, options.directory, is_native=True) as generator:
            page = generator.page
            measure.watch(page, {}, options.warm_up_s)
            started = time.monotonic()
            window = measure.watch(page, network.pids, options.seconds)
            latencies = page.latencies_us(started, time.monotonic())
            if way == _FOLLOWED and not network.is_followed(1):
                raise RuntimeError(f"{kind}: the fallback did not keep up")
    if not window.tasks:
        raise RuntimeError(f"{way}, {kind}: no task was answered in {window.seconds:.1f} s")
    into.cpu_us.append(window.cpu_us_per_task("b1"))
    if way == _FOLLOWED:
        into.fallback_us.append(window.cpu_us_per_task("b2"))
    into.tasks_per_s.append(window.tasks_per_s)
    into.errors += window.errors
    if latencies:
        into.p50_us.append(percentile(latencies, 50))
        into.p99_us.append(percentile(latencies, 99))


def _one_in_flight(options: Options) -> dict[str, list[list[float]]]:
    """µs of each call of a task that must not be repeated, in alternating blocks."""
    directory = options.directory
    found: dict[str, list[list[float]]] = {way: [] for way in _WAYS}
    with contextlib.ExitStack() as stack:
        asks = {}
        for way in _WAYS:
            endpoint = stack.enter_context(_served(way, _ONCE, options)).endpoints[0]
            stack.enter_context(script("participants", ["worker-sync", endpoint], directory))
            client = stack.enter_context(Client(endpoint))
            asks[way] = lambda client=client: client.call("echo", _BODY, timeout=30)
        for ask in asks.values():
            block(ask, max(1, options.calls // 5))
        for repetition in range(options.repetitions * 2):
            for way, ask in asks.items():
                found[way].append(block(ask, options.calls))
            p50s = ", ".join(f"{way} {median(blocks[-1]):.0f} µs" for way, blocks in found.items())
            options.say(f"failover {repetition + 1}/{options.repetitions * 2}, one in flight: {p50s}")
    return found


def _row(key: Key, figures: Figures) -> list[str]:
    way, kind, speed = key
    shown = [figures.cpu_us, figures.fallback_us, figures.p50_us, figures.p99_us]
    cpu_us, fallback_us, p50_us, p99_us = (figure(median(values)) if values else "–" for values in shown)
    rate = thousands(median(figures.tasks_per_s))
    return [f"{way}, {kind}, {speed}", cpu_us, fallback_us, rate, p50_us, p99_us, str(figures.errors)]


def _latency_table(found: dict[str, list[list[float]]]) -> Table:
    rows = []
    for way, blocks in found.items():
        p50, p99 = (median([percentile(each, percent) for each in blocks]) for percent in (50, 99))
        rows.append([way, figure(p50), figure(p99)])
    note = "Sync client and worker, a service that must not be repeated; medians of alternating blocks."
    return Table("A fallback that follows: one in flight, µs", ["", "p50", "p99"], rows, note)


def _verdicts(found: Found, rates: dict[str, int]) -> list[Verdict]:
    verdicts = []
    for kind in (_REPEATABLE, _ONCE):
        for speed in (_EQUAL, _FULL):
            alone, followed = (found[way, kind, speed] for way in _WAYS)
            # within one repetition, since the machine's mood changes between them
            ratio = median([b / a for a, b in zip(alone.cpu_us, followed.cpu_us, strict=True)])
            verdict = at_most(f"broker CPU per task, followed ÷ alone, {kind}, {speed}", ratio, _RATIO_MAX, "×")
            verdict.measured += f", {figure(median(followed.cpu_us))} ÷ {figure(median(alone.cpu_us))} µs"
            sustained = min(median(alone.tasks_per_s), median(followed.tasks_per_s))
            if speed == _EQUAL and sustained < rates[kind] * _SUSTAINED:
                verdict.is_reached = False
                verdict.measured += f", at {sustained:,.0f} of {rates[kind]:,} tasks/s"
            verdicts.append(verdict)
    verdicts.append(at_most("errors, alone and followed", sum(each.errors for each in found.values()), 0))
    return verdicts


def _note(options: Options, rates: dict[str, int]) -> str:
    lines = [
        f"100-byte echo, {_WORKERS} workers with capacity 64, at most 500 in flight; all threads, user + system. "
        f"Equal rate: {' and '.join(f'{rate:,}' for rate in rates.values())} tasks/s."
    ]
    if compiled(options.directory) is None:
        lines.append("No C compiler: the load generator is Python and is itself the bottleneck.")
    return "\n".join(lines)
