"""End to end: our own Python client and worker against NATS with nats-py, one worker, 500 in flight, 100-byte echo.

Here the libraries are measured, not the brokers: they take most of the time. The handler is sync in one row and async
in the other; the client is `map(in_flight=500)`, sync and asyncio. With nats-py 500 coroutines call `request` in turn.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterator

import measure
import peers
from measure import Page, Window, median, wait_until_ready
from peers import Running
from processes import Child, script
from report import Bars, Options, Result, Table, Verdict, at_least, figure, thousands

IN_FLIGHT = 500
BODY_BYTES = 100
_NATS = "NATS, nats-py"
_ROLES = {  # name of the row → roles of worker and client in participants.py
    "scale0, sync handler": ("worker-sync", "client"),
    "scale0, async handler": ("worker-async", "client"),
    "scale0, async handler, AsyncClient": ("worker-async", "client-async"),
    _NATS: ("nats-worker", "nats-client"),
}


def run(options: Options) -> Result:
    found: dict[str, list[Window]] = defaultdict(list)
    nats = peers.Nats()
    names = [name for name in _ROLES if name != _NATS or nats.has_client()]
    for repetition in range(options.repetitions):
        for name in names:
            window = _measure(name, options)
            found[name].append(window)
            options.say(f"end to end {repetition + 1}/{options.repetitions}, {name}: {window.tasks_per_s:,.0f} tasks/s")
    rows = [_row(name, found[name]) for name in names]
    note = "One worker with capacity 64, 500 in flight, 100-byte echo; each in a process of its own."
    if not nats.has_client():
        note += f"\nNATS is not installed: {nats.install}; pip install nats-py"
    columns = ["", "tasks/s", "client µs/task", "broker µs/task", "worker µs/task", "errors"]
    bars = Bars("End to end", "tasks/s", {name: median([each.tasks_per_s for each in found[name]]) for name in names})
    return Result("endtoend", [Table("End to end", columns, rows, note)], _verdicts(found), [bars])


def _measure(name: str, options: Options) -> Window:
    worker_role, client_role = _ROLES[name]
    peer: peers.Peer = peers.Nats() if name == _NATS else peers.Scale0()
    directory = options.directory
    with (
        peer.started(directory) as running,
        script("participants", [worker_role, running.backend], directory) as worker,
        connected(client_role, running, worker, options) as (client, page),
    ):
        pids = {"client": client.pid, "broker": running.child.pid, "worker": worker.pid}
        measure.watch(page, {}, options.warm_up_s)
        window = measure.watch(page, pids, options.seconds)
    if not window.tasks:
        raise RuntimeError(f"{name}: no task was answered in {window.seconds:.1f} s")
    return window


@contextlib.contextmanager
def connected(role: str, running: Running, worker: Child, options: Options) -> Iterator[tuple[Child, Page]]:
    """The client, once the first tasks have come back."""
    if role == "nats-client":
        worker.wait_for_line("ready")
    page = Page(options.directory / f"{role}-{time.monotonic_ns()}.page", create=True)
    arguments = [role, running.frontend, page.path, IN_FLIGHT, BODY_BYTES]
    with script("participants", arguments, options.directory) as client:
        wait_until_ready(page, 1, 20, [client, worker])
        end = time.monotonic() + 20
        while not page.read(measure.COMPLETED):
            if client.returncode is not None or time.monotonic() > end:
                raise RuntimeError(f"{role} got no reply:\n{client.output.read_text()[-2000:]}")
            time.sleep(0.01)
        yield client, page
        page.write(measure.STOP, 1)
    page.close()
    page.path.unlink()


def _row(name: str, windows: list[Window]) -> list[str]:
    costs = [figure(median([each.cpu_us_per_task(who) for each in windows])) for who in ("client", "broker", "worker")]
    return [
        name,
        thousands(median([each.tasks_per_s for each in windows])),
        *costs,
        str(sum(each.errors for each in windows)),
    ]


def _verdicts(found: dict[str, list[Window]]) -> list[Verdict]:
    verdicts = []
    for name in list(_ROLES)[:2]:
        ratio = None
        if found[_NATS]:
            ratio = median([a.tasks_per_s / b.tasks_per_s for a, b in zip(found[name], found[_NATS], strict=True)])
        verdicts.append(at_least(f"end to end, {name} ÷ NATS with nats-py, tasks/s", ratio, 1.0, "×"))
    return verdicts
