"""The pure core alone: what its rules cost for one task, there and back, without sockets, frames or bytes.

Everything stays in this process. 500 tasks are in flight, each reply is given by the worker that got the task, and the
worker's slot takes the next one. The same is done with few and with many workers, in turns, since the cost must not
depend on their number; with a single worker, whose slots are always taken, so that nearly every task waits in the
queue; and with a broker that only answers, whose cost is this loop's own and is taken off the others.
"""

from __future__ import annotations

import gc
import time
from collections import deque

from measure import median
from report import Bars, Options, Result, Table, at_most, figure
from scale0.core.broker import Broker
from scale0.core.effects import Effect, Route, Send
from scale0.core.settings import BrokerSettings
from scale0.protocol import dialects
from scale0.protocol.ids import id_prefix, make_id
from scale0.protocol.messages import Connect, Ping, Ready, ServiceOffer, Task, TaskReply

_GROWTH_MAX = 1.2
_LOOP, _QUEUED = 0, 1  # numbers of workers with a meaning of their own
_NAMES = {_LOOP: "loop alone", _QUEUED: "1 worker, tasks wait"}
_IN_FLIGHT = 500
_BODY = (b"x" * 100,)
_CLIENT_ROUTE = Route(b"\0client")
_NONCE = bytes(8)
_PREFIX = id_prefix("client", _NONCE)


class Answering:
    """A broker without rules: what is left when it is measured is the loop."""

    def receive(self, route: Route, dialect: dialects.Dialect, message: object, now: float) -> list[Effect]:
        if isinstance(message, Task):
            return [Send(_CLIENT_ROUTE, dialects.WORKER, message)]
        return [Send(_CLIENT_ROUTE, dialects.CLIENT, message)] if isinstance(message, TaskReply) else []

    def tick(self, now: float, wall_s: float) -> list[Effect]:
        return []


class Bench:
    """A broker with `workers` sessions of capacity 64, and one client. No workers: a broker that only answers."""

    def __init__(self, workers: int) -> None:
        self.now = 1_000.0
        self.broker: Broker | Answering = Broker(BrokerSettings(), now=self.now, wall_s=1e9) if workers else Answering()
        self.sequence = 0
        self.pending: deque[tuple[Route, Task]] = deque()
        self.routes = [Route(b"\0" + number.to_bytes(5, "big")) for number in range(workers)]
        for number, route in enumerate(self.routes):
            connect = Connect(identity=f"w{number}", nonce=_NONCE, services=["echo"])
            self.broker.receive(route, dialects.WORKER, connect, self.now)
            ready = Ready(services=[ServiceOffer("echo")], capacity=64, time_us=10**15)
            self.broker.receive(route, dialects.WORKER, ready, self.now)
        self.broker.receive(_CLIENT_ROUTE, dialects.CLIENT, Connect(identity="client", nonce=_NONCE), self.now)
        for _ in range(_IN_FLIGHT):
            self.submit()

    def submit(self) -> None:
        self.sequence += 1
        behind = min(self.sequence, _IN_FLIGHT) - 1
        task = Task(make_id(_PREFIX, self.sequence), "echo", _BODY, remaining_ms=60_000, behind=behind)
        self.collect(self.broker.receive(_CLIENT_ROUTE, dialects.CLIENT, task, self.now))

    def collect(self, effects: list[Effect]) -> None:
        for effect in effects:
            if type(effect) is Send and type(effect.message) is Task:
                self.pending.append((effect.route, effect.message))

    def run(self, tasks: int) -> float:
        """CPU µs a task, of the core and of this loop."""
        gc.collect()
        started = time.process_time_ns()
        for _ in range(tasks):
            route, task = self.pending.popleft()
            reply = TaskReply(task.id, task.body, task.attempt, wait_us=1, work_us=1)
            self.collect(self.broker.receive(route, dialects.WORKER, reply, self.now))
            self.submit()
            self.now += 1e-5
        return (time.process_time_ns() - started) / 1000 / tasks

    def keep_alive(self) -> None:
        """All workers heartbeat and the timers run, outside of the measured time."""
        for route in self.routes:
            self.broker.receive(route, dialects.WORKER, Ping(10**15), self.now)
        self.broker.receive(_CLIENT_ROUTE, dialects.CLIENT, Ping(10**15), self.now)
        self.broker.tick(self.now, 1e9)


def run(options: Options) -> Result:
    few, many = options.core_workers
    benches = {count: Bench(count) for count in (_LOOP, _QUEUED, few, many)}
    found: dict[int, list[float]] = {count: [] for count in benches}
    repetitions = options.repetitions * 2 + 1
    for bench in benches.values():
        bench.run(max(1, options.core_tasks // 10))
    for repetition in range(repetitions):
        for count, bench in benches.items():
            bench.keep_alive()
            found[count].append(bench.run(options.core_tasks))
        costs = ", ".join(f"{_NAMES.get(count, f'{count:,} workers')} {cost[-1]:.2f}" for count, cost in found.items())
        options.say(f"core {repetition + 1}/{repetitions}: {costs} µs")
    net = {count: [a - b for a, b in zip(costs, found[_LOOP], strict=True)] for count, costs in found.items()}
    growth = median([b / a for a, b in zip(net[few], net[many], strict=True)])
    names = {count: _NAMES.get(count, f"{count:,} workers") for count in benches if count != _LOOP}
    rows = [[names[count], figure(median(net[count])), figure(min(net[count]))] for count in names]
    note = f"Both ways together; this loop's own {figure(median(found[_LOOP]))} µs are taken off. No codec, no socket."
    table = Table("The core alone: CPU per task, µs", ["", "median", "least"], rows, note)
    verdict = at_most(f"core's cost per task, {many:,} ÷ {few:,} workers", growth, _GROWTH_MAX, "×")
    bars = Bars("The core alone", "µs", {names[count]: median(net[count]) for count in names})
    return Result("core_cost", [table], [verdict], [bars])
