"""One task in flight: our sync client and worker against bare sockets through `zmq.proxy`, p50 and p99.

Blocks of calls alternate between the two, both being up all the time, so that the machine's mood hits both alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import zmq

import peers
from measure import median, percentile
from processes import script
from report import Bars, Options, Result, Table, at_most, figure
from scale0 import Client

_RATIO_MAX = 1.5
_BODY = b"x" * 100
_OURS, _BARE = "scale0, sync client and worker", "REQ and DEALER through zmq.proxy"


def run(options: Options) -> Result:
    directory = options.directory
    found: dict[str, list[list[float]]] = {_OURS: [], _BARE: []}
    with (
        peers.Scale0().started(directory) as scale0,
        peers.ZmqProxy().started(directory) as proxy,
        script("participants", ["worker-sync", scale0.backend], directory),
        script("participants", ["bare-worker", proxy.backend], directory) as bare_worker,
        zmq.Context() as context,
        context.socket(zmq.REQ) as bare,
        Client(scale0.frontend) as client,
    ):
        bare_worker.wait_for_line("ready")
        bare.set(zmq.LINGER, 0)
        bare.set(zmq.RCVTIMEO, 10_000)
        bare.connect(proxy.frontend)

        def ask_bare() -> None:
            bare.send(_BODY)
            bare.recv()

        def ask_ours() -> None:
            client.call("echo", _BODY, timeout=10)

        asks = {_OURS: ask_ours, _BARE: ask_bare}
        for ask in asks.values():
            block(ask, max(1, options.calls // 5))
        for repetition in range(options.repetitions * 2):
            for name, ask in asks.items():
                found[name].append(block(ask, options.calls))
            p50s = ", ".join(f"{name} {median(blocks[-1]):.0f} µs" for name, blocks in found.items())
            options.say(f"latency {repetition + 1}/{options.repetitions * 2}: {p50s}")
    return _result(found)


def block(ask: Callable[[], None], calls: int) -> list[float]:
    """µs of each call."""
    times = []
    for _ in range(calls):
        started = time.perf_counter_ns()
        ask()
        times.append((time.perf_counter_ns() - started) / 1000)
    return times


def _result(found: dict[str, list[list[float]]]) -> Result:
    p50 = {name: median([percentile(block, 50) for block in blocks]) for name, blocks in found.items()}
    p99 = {name: median([percentile(block, 99) for block in blocks]) for name, blocks in found.items()}
    rows = [[name, figure(p50[name]), figure(p99[name])] for name in found]
    ratio = median([percentile(a, 50) / percentile(b, 50) for a, b in zip(found[_OURS], found[_BARE], strict=True)])
    table = Table("One in flight: µs", ["", "p50", "p99"], rows, "Medians of alternating blocks.")
    verdict = at_most("one in flight, p50 ÷ bare sockets through zmq.proxy", ratio, _RATIO_MAX, "×")
    bars = Bars("One in flight, p50", "µs", p50)
    return Result("latency", [table], [verdict], [bars])
