"""What a task costs that crosses from one broker to another, against one that finds its worker where it came in.

Two brokers of one group, a client at the first; the workers are at the first too (*local*) or at the second
(*forwarded*). The cost is the CPU of both brokers together, all threads, so a forwarded task is two brokers' work:
routed twice, and its reply passed on twice. At full speed two brokers share the cores and neither is pressed as hard as
one alone, and whoever is pressed harder wakes up less often: so, as in `routing`, at an equal rate too. The workers are
the load generator's, which stay where they are put; what the brokers say of forwarded tasks shows which way it went.

One in flight is measured with the libraries: one worker at the second broker, and clients at both, in turn.
"""

from __future__ import annotations

import time
from collections import defaultdict

import msgspec

import load
import measure
import networks
from latency import block
from load import Load, compiled
from measure import Window, equal_rate, median, percentile
from processes import script
from report import Bars, Options, Result, Table, Verdict, at_most, figure, thousands
from scale0 import Client

_RATIO_MAX = 2.2
_SUSTAINED = 0.98  # of the rate that was asked
_WORKERS = 2
_MOST = 0.95  # of the tasks must have gone the way that is measured
_LOCAL, _FORWARDED = "local", "forwarded"
_FULL, _EQUAL = "full speed", "equal rate"
_BODY = b"x" * 100


class Figures(msgspec.Struct):
    """All repetitions of one way at one speed."""

    cpu_us: list[float] = []
    tasks_per_s: list[float] = []
    p50_us: list[float] = []
    errors: int = 0


Found = dict[tuple[str, str], Figures]


def run(options: Options) -> Result:
    found: Found = defaultdict(Figures)
    rate = 0
    for repetition in range(options.repetitions):
        for speed in (_FULL, _EQUAL):
            for way in (_LOCAL, _FORWARDED):
                _measure(way, Load(_WORKERS, rate=rate if speed == _EQUAL else 0), options, found[way, speed])
            rate = rate or equal_rate(*(found[way, _FULL].tasks_per_s[0] for way in (_LOCAL, _FORWARDED)))
            costs = ", ".join(f"{way} {found[way, speed].cpu_us[-1]:.1f}" for way in (_LOCAL, _FORWARDED))
            options.say(f"forwarding {repetition + 1}/{options.repetitions}, {speed}: {costs} µs/task")
    alone = _one_in_flight(options)
    rows = [_row(way, speed, found[way, speed]) for speed in (_EQUAL, _FULL) for way in (_LOCAL, _FORWARDED)]
    columns = ["", "µs/task", "tasks/s", "p50, µs", "errors"]
    title = "Forwarding: CPU per task of both brokers together"
    tables = [Table(title, columns, rows, _note(options, rate)), _latency_table(alone)]
    bars = [Bars(f"CPU per task, both brokers, {speed}", "µs", _costs(found, speed)) for speed in (_EQUAL, _FULL)]
    return Result("forwarding", tables, _verdicts(found, rate), bars)


def _measure(way: str, work: Load, options: Options, into: Figures) -> None:
    directory = options.directory
    with networks.started(2, directory) as network:
        first, second = network.endpoints
        backend = first if way == _LOCAL else second
        with load.running(work, first, backend, directory, is_native=True) as generator:
            page = generator.page
            measure.watch(page, {}, options.warm_up_s)
            forwarded = network.rows(first)["b2"]["forwarded"]
            started = time.monotonic()
            window = measure.watch(page, network.pids, options.seconds)
            latencies = page.latencies_us(started, time.monotonic())
            forwarded = network.rows(first)["b2"]["forwarded"] - forwarded
    _check(way, window, forwarded)
    into.cpu_us.append(window.cpu_us_per_task(*window.cpu_s))
    into.tasks_per_s.append(window.tasks_per_s)
    into.errors += window.errors
    if latencies:
        into.p50_us.append(percentile(latencies, 50))


def _check(way: str, window: Window, forwarded: int) -> None:
    """The load went the way that is measured."""
    if not window.tasks:
        raise RuntimeError(f"{way}: no task was answered in {window.seconds:.1f} s")
    is_so = forwarded == 0 if way == _LOCAL else forwarded >= window.tasks * _MOST
    if not is_so:
        raise RuntimeError(f"{way}: {forwarded:,} of {window.tasks:,} tasks were forwarded")


def _one_in_flight(options: Options) -> dict[str, list[list[float]]]:
    """µs of each call, in alternating blocks."""
    directory = options.directory
    with (
        networks.started(2, directory) as network,
        script("participants", ["worker-sync", network.endpoints[1]], directory),
        Client(network.endpoints[1]) as local,
        Client(network.endpoints[0]) as forwarded,
    ):
        clients = {_LOCAL: local, _FORWARDED: forwarded}
        asks = {way: lambda client=client: client.call("echo", _BODY, timeout=30) for way, client in clients.items()}
        found: dict[str, list[list[float]]] = {way: [] for way in asks}
        for ask in asks.values():
            block(ask, max(1, options.calls // 5))
        for repetition in range(options.repetitions * 2):
            for way, ask in asks.items():
                found[way].append(block(ask, options.calls))
            p50s = ", ".join(f"{way} {median(blocks[-1]):.0f} µs" for way, blocks in found.items())
            options.say(f"forwarding {repetition + 1}/{options.repetitions * 2}, one in flight: {p50s}")
    return found


def _row(way: str, speed: str, figures: Figures) -> list[str]:
    p50_us = figure(median(figures.p50_us)) if figures.p50_us else "–"
    rate = thousands(median(figures.tasks_per_s))
    return [f"scale0, {way}, {speed}", figure(median(figures.cpu_us)), rate, p50_us, str(figures.errors)]


def _latency_table(found: dict[str, list[list[float]]]) -> Table:
    rows = []
    for way, blocks in found.items():
        p50, p99 = (median([percentile(each, percent) for each in blocks]) for percent in (50, 99))
        rows.append([f"scale0, {way}", figure(p50), figure(p99)])
    note = "Sync client and worker, the same worker for both; medians of alternating blocks."
    return Table("Forwarding: one in flight, µs", ["", "p50", "p99"], rows, note)


def _costs(found: Found, speed: str) -> dict[str, float]:
    return {f"scale0, {way}": median(found[way, speed].cpu_us) for way in (_LOCAL, _FORWARDED)}


def _verdicts(found: Found, rate: int) -> list[Verdict]:
    verdicts = []
    for speed in (_EQUAL, _FULL):
        local, forwarded = found[_LOCAL, speed], found[_FORWARDED, speed]
        # within one repetition, since the machine's mood changes between them
        ratio = median([b / a for a, b in zip(local.cpu_us, forwarded.cpu_us, strict=True)])
        verdict = at_most(f"broker CPU per task, forwarded ÷ local, {speed}", ratio, _RATIO_MAX, "×")
        verdict.measured += f", {figure(median(forwarded.cpu_us))} ÷ {figure(median(local.cpu_us))} µs"
        sustained = min(median(local.tasks_per_s), median(forwarded.tasks_per_s))
        if speed == _EQUAL and sustained < rate * _SUSTAINED:
            verdict.is_reached = False
            verdict.measured += f", at {sustained:,.0f} of {rate:,} tasks/s"
        verdicts.append(verdict)
    verdicts.append(at_most("errors, local and forwarded", sum(each.errors for each in found.values()), 0))
    return verdicts


def _note(options: Options, rate: int) -> str:
    lines = [
        f"100-byte echo, {_WORKERS} workers with capacity 64, at most 500 in flight; all threads, user + system. "
        f"Equal rate: {rate:,} tasks/s; its p50 tells whether a broker was near its limit."
    ]
    if compiled(options.directory) is None:
        lines.append("No C compiler: the load generator is Python and is itself the bottleneck.")
    return "\n".join(lines)
