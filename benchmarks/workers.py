"""Whether a task costs the same however many workers are connected.

Two figures, for two different questions. *Two of n serve*: n workers are connected and two of them offer the service
asked for; all that grows is the broker's tables, so the cost per task must stay flat. *All n serve*: the LRU queue
sends each task to another connection, and the kernel's share grows with it, for any broker; there the figure is the
ratio to `zmq.proxy` with as many workers.
"""

from __future__ import annotations

from collections import defaultdict

import measure
import peers
from load import Load
from measure import median
from report import Bars, Options, Result, Table, Verdict, at_most, figure

_FLAT_MAX = 1.2
_RATIO_MAX = 2.5
_SERVING = 2

_FEW, _ALL, _PROXY = "scale0, two of n serve", "scale0, all n serve", "zmq.proxy, all n serve"


def run(options: Options) -> Result:
    found: dict[tuple[str, int], list[float]] = defaultdict(list)
    counts = [count for count in options.connected_workers if has_files_for(count, options)]
    for repetition in range(options.repetitions):
        for count in counts:
            few = _measure(peers.Scale0(), Load(count, serving=_SERVING), options)
            every = _measure(peers.Scale0(), Load(count), options)
            proxy = _measure(peers.ZmqProxy(), Load(count), options)
            for name, window in ((_FEW, few), (_ALL, every), (_PROXY, proxy)):
                found[name, count].append(window.cpu_us_per_task("broker"))
            cost = few.cpu_us_per_task("broker")
            options.say(f"workers {repetition + 1}/{options.repetitions}, {count:,} connected: {cost:.1f} µs/task")
    rows = [[name, *(figure(median(found[name, count])) for count in counts)] for name in (_FEW, _ALL, _PROXY)]
    ratio = [median(found[_ALL, count]) / median(found[_PROXY, count]) for count in counts]
    rows.append(["scale0 ÷ zmq.proxy, all n serve", *(f"{figure(each)}×" for each in ratio)])
    table = Table("Connected workers: broker CPU per task, µs", ["", *(f"n = {count:,}" for count in counts)], rows)
    bars = Bars("CPU per task, two of n serve", "µs", {f"{count:,}": median(found[_FEW, count]) for count in counts})
    return Result("workers", [table], _verdicts(found, counts, ratio), [bars])


def has_files_for(workers: int, options: Options) -> bool:
    """Whether the system lets one process open as many connections; a generator needs two files for each."""
    is_enough = measure.raise_file_limit() > 2 * workers + 200
    if not is_enough:
        options.say(f"{workers:,} workers left out: they need `ulimit -Hn {2 * workers + 256}`")
    return is_enough


def _measure(peer: peers.Peer, load: Load, options: Options) -> measure.Window:
    with peer.started(options.directory) as running, peer.loaded(running, load, options.directory) as page:
        measure.watch(page, {}, options.warm_up_s)
        window = measure.watch(page, {"broker": running.child.pid}, options.seconds)
    if not window.tasks:
        raise RuntimeError(f"{peer.name} answered no task in {window.seconds:.1f} s with {load.workers} workers")
    return window


def _verdicts(found: dict[tuple[str, int], list[float]], counts: list[int], ratio: list[float]) -> list[Verdict]:
    verdicts = []
    for count in counts[1:]:
        # within one repetition, since the machine's mood changes between them
        growth = median([b / a for a, b in zip(found[_FEW, counts[0]], found[_FEW, count], strict=True)])
        verdicts.append(
            at_most(f"cost per task, {count:,} connected ÷ {counts[0]:,} connected", growth, _FLAT_MAX, "×")
        )
    for count, each in zip(counts, ratio, strict=True):
        verdicts.append(at_most(f"cost per task ÷ zmq.proxy, all {count:,} serve", each, _RATIO_MAX, "×"))
    return verdicts
