"""How soon a loss is noticed, in heartbeat intervals: of workers by their broker, and of a broker by its fallback.

Many workers are killed at once, each in its own place between two heartbeats; the time runs from the kill until the
broker does not count them any more. Of a pair, whoever serves is killed, in turn; the time runs from the kill until a
task that was submitted right after it has its reply from the other.
"""

from __future__ import annotations

import contextlib
import itertools
import time

import msgspec

import fleets
import measure
import networks
from load import SERVICE
from measure import READY, percentile, wait_until
from processes import script
from report import Options, Table, Verdict, at_most, figure
from scale0 import Client

_WORKER_MAX = 3.0
_BROKER_MAX = 4.0
_SPREAD_INTERVALS = 3  # until heartbeats have lost the rhythm of the start
_LOOK_S = 0.01
_LIMIT_S = 60.0
_BODY = b"x" * 100


class Lost(msgspec.Struct):
    """Intervals until each loss was noticed."""

    workers: list[float]
    brokers: list[float]


def measured(options: Options) -> Lost:
    lost = Lost(_lost_workers(options), _lost_brokers(options))
    workers, brokers = percentile(lost.workers, 99), percentile(lost.brokers, 99)
    options.say(f"losses, p99: a worker {workers:.2f} intervals, a broker {brokers:.2f}")
    return lost


def table(lost: Lost) -> Table:
    rows = []
    for what, taken in (("a worker, missed by its broker", lost.workers), ("a broker, replaced", lost.brokers)):
        figures = [figure(percentile(taken, percent)) for percent in (50, 99)]
        rows.append([what, str(len(taken)), *figures, figure(max(taken))])
    note = "From kill -9; a broker is replaced when a client has its first reply from the fallback."
    return Table("Losses, in heartbeat intervals", ["", "kills", "p50", "p99", "max"], rows, note)


def verdicts(lost: Lost) -> list[Verdict]:
    return [
        at_most("a lost worker is missed, p99", percentile(lost.workers, 99), _WORKER_MAX, " intervals"),
        at_most("a lost broker is replaced, p99", percentile(lost.brokers, 99), _BROKER_MAX, " intervals"),
    ]


def _lost_workers(options: Options) -> list[float]:
    count, interval_s = options.lost_workers, options.interval_s
    with (
        networks.started(1, options.directory, default_heartbeat_interval=interval_s) as network,
        contextlib.ExitStack() as stack,
    ):
        crew = fleets.start(network.endpoints, count, interval_s, stack, options.directory)
        wait_until(lambda: fleets.total(crew, READY) == count, f"{count} workers to connect")
        measure.watch(None, {}, _SPREAD_INTERVALS * interval_s)
        killed_s = time.monotonic()
        for fleet in crew:
            fleet.process.kill()
        taken: list[float] = []
        while len(taken) < count:
            left = network.workers()[0]
            now_s = time.monotonic()
            taken += [(now_s - killed_s) / interval_s] * (count - left - len(taken))
            if now_s - killed_s > _LIMIT_S:
                raise TimeoutError(f"{left} of {count} killed workers were not missed within {_LIMIT_S:.0f} s")
            time.sleep(_LOOK_S)
    return taken


def _lost_brokers(options: Options) -> list[float]:
    interval_s = options.failover_interval_s
    keys = {"default_heartbeat_interval": interval_s, "service": [{"name": SERVICE}]}  # known before its worker comes
    taken = []
    with networks.started(2, options.directory, **keys) as network:
        network.pair()
        with (
            script("participants", ["worker-sync", network.endpoints[0]], options.directory),
            Client(network.endpoints) as client,
        ):
            client.call(SERVICE, _BODY, timeout=_LIMIT_S)
            for kill, number in zip(range(options.failovers), itertools.cycle((1, 2)), strict=False):
                network.await_followed(number)
                measure.watch(None, {}, interval_s * kill / options.failovers)  # kills at all points of an interval
                killed_s = time.monotonic()
                network.brokers[number - 1].child.kill()
                client.call(SERVICE, _BODY, timeout=_LIMIT_S)
                taken.append((time.monotonic() - killed_s) / interval_s)
                network.restart(number)
    return taken
