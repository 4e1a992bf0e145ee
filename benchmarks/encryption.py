"""What encryption costs: the same broker, worker and client with keys and without, side by side.

Throughput with 500 in flight, CPU per task of each of the three processes, and p50 with one in flight. Windows and
blocks of the two alternate, so that the machine's mood hits both alike; what counts are the ratios. And once: how long
it takes until many clients that come at the same time have shaken hands, as after a broker's restart.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import zmq

import endtoend
import latency
import measure
import peers
from measure import Window, median, percentile
from processes import script
from report import Bars, Options, Result, Table, at_least, at_most, figure, thousands
from scale0 import Client
from scale0.core.permissions import Permission
from scale0.transport import allowed_file, key_files

_RATE_MIN = 0.6  # of the plain throughput
_P50_MAX = 1.5  # times the plain p50
_STORM_S_MAX = 10.0
_BODY = b"x" * 100
_PLAIN, _ENCRYPTED = "plain", "encrypted (CURVE)"


class Keys(msgspec.Struct, frozen=True):
    """Files of a broker and of those who come to it; without any, nothing is encrypted."""

    broker: str = ""
    allowed: str = ""
    own: str = ""
    server_key: str = ""

    @property
    def arguments(self) -> list[str]:
        return ["--key", self.broker, "--allowed", self.allowed] if self.broker else []

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """While the block runs, whoever is started connects with these."""
        told = {"SCALE0_KEY": self.own, "SCALE0_SERVER_KEY": self.server_key} if self.own else {}
        os.environ.update(told)
        try:
            yield
        finally:
            for name in told:
                del os.environ[name]


def run(options: Options) -> Result:
    sides = {_PLAIN: Keys(), _ENCRYPTED: make_keys(options.directory)}
    windows: dict[str, list[Window]] = {name: [] for name in sides}
    blocks: dict[str, list[list[float]]] = {name: [] for name in sides}
    for repetition in range(options.repetitions):
        for name, keys in sides.items():
            windows[name].append(_throughput(keys, options))
        for name, keys in sides.items():
            blocks[name].append(_one_in_flight(keys, options))
        rates = ", ".join(f"{name} {found[-1].tasks_per_s:,.0f} tasks/s" for name, found in windows.items())
        options.say(f"encryption {repetition + 1}/{options.repetitions}: {rates}")
    storm_s = _storm(sides[_ENCRYPTED], options)
    return _result(windows, blocks, storm_s, options.handshakes)


def make_keys(directory: Path) -> Keys:
    """A key for the broker and one for all others, which it allows."""
    broker, own = key_files.make("broker", "peer"), key_files.make("participant")
    key_files.save(directory / "broker.key", broker)
    key_files.save(directory / "participant.key", own)
    allowed_file.change(directory / "allowed.json", lambda _: [Permission(key=own.public, name="participant")])
    return Keys(
        broker=str(directory / "broker.key"),
        allowed=str(directory / "allowed.json"),
        own=str(directory / "participant.key"),
        server_key=broker.public,
    )


def _throughput(keys: Keys, options: Options) -> Window:
    directory = options.directory
    with (
        peers.Scale0().started(directory, arguments=keys.arguments) as running,
        keys.used(),
        script("participants", ["worker-async", running.backend], directory) as worker,
        endtoend.connected("client", running, worker, options) as (client, page),
    ):
        pids = {"client": client.pid, "broker": running.child.pid, "worker": worker.pid}
        measure.watch(page, {}, options.warm_up_s)
        return measure.watch(page, pids, options.seconds)


def _one_in_flight(keys: Keys, options: Options) -> list[float]:
    directory = options.directory
    with (
        peers.Scale0().started(directory, arguments=keys.arguments) as running,
        keys.used(),
        script("participants", ["worker-sync", running.backend], directory),
        Client(running.frontend) as client,
    ):

        def ask() -> None:
            client.call("echo", _BODY, timeout=20)

        latency.block(ask, max(1, options.calls // 5))
        return latency.block(ask, options.calls)


def _storm(keys: Keys, options: Options) -> float:
    """Seconds until all of so many clients that connect at once are through the handshake."""
    pair = key_files.own_pair(keys.own)
    assert pair is not None, "this side has a key"
    with peers.Scale0().started(options.directory, arguments=keys.arguments) as running:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        context.set(zmq.MAX_SOCKETS, 4 * options.handshakes + 64)
        try:
            waiting = zmq.Poller()
            started_s = time.monotonic()
            sockets = []
            for _ in range(options.handshakes):
                socket = context.socket(zmq.DEALER)
                key_files.use(socket, keys.server_key, pair)
                waiting.register(socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED), zmq.POLLIN)
                socket.connect(running.frontend)
                sockets.append(socket)
            left = options.handshakes
            while left:
                for monitor, _ in waiting.poll(60_000) or _nobody(left):
                    waiting.unregister(monitor)
                    left -= 1
            return time.monotonic() - started_s
        finally:
            context.destroy(linger=0)


def _nobody(left: int) -> list[tuple[zmq.Socket[bytes], int]]:
    raise RuntimeError(f"{left} handshakes did not end within a minute")


def _result(
    windows: dict[str, list[Window]], blocks: dict[str, list[list[float]]], storm_s: float, handshakes: int
) -> Result:
    rows = []
    p50 = {name: median([percentile(block, 50) for block in found]) for name, found in blocks.items()}
    for name, found in windows.items():
        costs = [
            figure(median([each.cpu_us_per_task(who) for each in found])) for who in ("client", "broker", "worker")
        ]
        rate = thousands(median([each.tasks_per_s for each in found]))
        rows.append([name, rate, *costs, figure(p50[name]), str(sum(each.errors for each in found))])
    columns = ["", "tasks/s", "client µs/task", "broker µs/task", "worker µs/task", "p50 µs, one in flight", "errors"]
    note = f"100-byte echo, capacity 64, 500 in flight. {handshakes:,} handshakes at once took {storm_s:.2f} s."
    pairs = zip(windows[_ENCRYPTED], windows[_PLAIN], strict=True)
    rate_ratio = median([one.tasks_per_s / other.tasks_per_s for one, other in pairs])
    both = zip(blocks[_ENCRYPTED], blocks[_PLAIN], strict=True)
    p50_ratio = median([percentile(one, 50) / percentile(other, 50) for one, other in both])
    verdicts = [
        at_least("tasks/s, encrypted ÷ plain", rate_ratio, _RATE_MIN, "×"),
        at_most("p50 of one in flight, encrypted ÷ plain", p50_ratio, _P50_MAX, "×"),
        at_most(f"{handshakes:,} handshakes at once", storm_s, _STORM_S_MAX, " s"),
    ]
    bars = Bars(
        "Encryption", "tasks/s", {name: median([w.tasks_per_s for w in found]) for name, found in windows.items()}
    )
    return Result("encryption", [Table("Encryption", columns, rows, note)], verdicts, [bars])
