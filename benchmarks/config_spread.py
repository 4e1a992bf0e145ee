"""A change of the config under way to thousands of workers on three brokers: how long, how often, and who suffers?

The change is given to the broker that is not its sequencer, so it takes the longest way: to the sequencer, to the other
brokers, and from each to its workers, paced. Two kinds of it: of a service's timeout, which is no part of what workers
get, so that CONFIGACK with the version is all they are told; and of `liveness`, which makes a CONFIG for each.

The time ends when the last worker has the new version, as the workers see it themselves. Whoever gets a second push
within the next intervals is counted too: a fetch that was not needed, or 426. Most workers are those of the load
generator, which leaves the cores to the brokers; some are sessions of the library, which ask for what they miss.

Meanwhile a client at each broker sends tasks at an even rate. Their p99 from the change until the last worker has it,
for one second at least, is compared with that of the seconds before; latencies of all repetitions are pooled.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec

import fleets
import load
import networks
from load import Load
from measure import (
    CONFIGACKS,
    CONFIGS,
    ERRORS,
    NEWEST,
    REACHED,
    REACHED_US,
    READY,
    Page,
    median,
    percentile,
    wait_until,
)
from networks import Network
from report import Bars, Options, Result, Table, Verdict, at_most, exactly, figure
from workers import has_files_for

_BROKERS = 3
_INTERVALS_MAX = 2.0
_P99_RATIO_MAX = 2.0
_TASKS_PER_S = 150  # of the client at each broker
_DURING_MIN_S = 1.0
_BEFORE_INTERVALS = 2.0  # how long tasks are watched before a change
_AFTER_INTERVALS = 3.0  # by then 426 or a fetch would have brought a second push
_LIMIT_S = 60.0
_TIMEOUT, _LIVENESS = "a service's timeout", "liveness"


class Scene(msgspec.Struct):
    """The network, its workers and its clients, all at work."""

    network: Network
    workers: int
    pages: list[Page]  # of the workers
    clients: list[Page]

    def total(self, slot: int) -> int:
        return sum(page.read(slot) for page in self.pages)

    def latencies_us(self, from_s: float, until_s: float) -> list[float]:
        return [each for page in self.clients for each in page.latencies_us(from_s, until_s)]


class Figures(msgspec.Struct):
    """All repetitions of one kind of change."""

    seconds: list[float] = []
    configs: list[float] = []  # a worker
    configacks: list[float] = []
    before_us: list[float] = []
    during_us: list[float] = []


def run(options: Options) -> Result:
    count = options.spread_workers
    if not has_files_for(count // _BROKERS, options):
        return Result("config_spread", verdicts=[_reach(count, "a change", None)])
    found: dict[str, Figures] = defaultdict(Figures)
    with _scene(options) as scene:
        for repetition in range(options.repetitions):
            changes: dict[str, dict[str, Any]] = {
                _TIMEOUT: {"service": [{"name": load.SERVICE, "timeout": 50.0 - repetition}]},
                _LIVENESS: {"liveness": 4 + repetition},
            }
            for name, keys in changes.items():
                figures = found[name]
                _change(scene, keys, figures, options)
                options.say(f"config {repetition + 1}/{options.repetitions}, {name}: {figures.seconds[-1]:.2f} s")
        errors = scene.total(ERRORS) + sum(page.read(ERRORS) for page in scene.clients)
    rows = [_row(name, figures, options) for name, figures in found.items()]
    columns = ["what changed", "last worker has it, s", "intervals", "CONFIGs a worker", "CONFIGACKs a worker"]
    columns += ["p50 before, ms", "p50 during, ms", "p99 before, ms", "p99 during, ms"]
    title = f"A change of the config reaches {count:,} workers on {_BROKERS} brokers"
    verdicts = [verdict for name, figures in found.items() for verdict in _verdicts(name, figures, options)]
    verdicts.append(at_most("errors during the changes, of workers and of tasks", errors, 0))
    p99s = {
        f"{when} a change of {name}": percentile(latencies, 99) / 1000
        for name, figures in found.items()
        for when, latencies in (("before", figures.before_us), ("during", figures.during_us))
    }
    table = Table(title, columns, rows, _note(options))
    return Result("config_spread", [table], verdicts, [Bars("Task p99 while a config spreads", "ms", p99s)])


@contextlib.contextmanager
def _scene(options: Options) -> Iterator[Scene]:
    """Everybody is connected, and has told its config version in a heartbeat."""
    directory, interval_s = options.directory, options.interval_s
    of_library = _of_library(options)
    shares = [len(range(at, options.spread_workers - of_library, _BROKERS)) for at in range(_BROKERS)]
    with networks.settled(_BROKERS, directory, interval_s) as network, contextlib.ExitStack() as stack:
        pages, clients = [], []
        for number, (endpoint, share) in enumerate(zip(network.endpoints, shares, strict=True), 1):
            ping_ms = round(interval_s * 1000)
            work = Load(share, in_flight=0, capacity=1, ping_ms=ping_ms, is_even=True, name=f"at-b{number}")
            generator = load.running(work, endpoint, endpoint, directory, is_native=True, limit_s=_LIMIT_S)
            pages.append(stack.enter_context(generator).page)
            options.say(f"config: {share:,} workers at b{number}")
        crew = fleets.start(network.endpoints, of_library, interval_s, stack, directory)
        wait_until(lambda: fleets.total(crew, READY) == of_library, "the library's sessions to connect", _LIMIT_S)
        for number, endpoint in enumerate(network.endpoints, 1):
            work = Load(0, rate=_TASKS_PER_S, ping_ms=round(interval_s * 1000), name=f"client-{number}")
            client = load.running(work, endpoint, endpoint, directory, is_native=True)
            clients.append(stack.enter_context(client).page)
        scene = Scene(network, options.spread_workers, [*pages, *(fleet.page for fleet in crew)], clients)
        time.sleep(_BEFORE_INTERVALS * interval_s)
        yield scene


def _of_library(options: Options) -> int:
    """So many of the workers are sessions of the library."""
    return min(fleets.PER_PROCESS, options.spread_workers // 10)


def _change(scene: Scene, keys: dict[str, Any], into: Figures, options: Options) -> None:
    time.sleep(_BEFORE_INTERVALS * options.interval_s)
    newest = max(page.read(NEWEST) for page in scene.pages)
    configs, configacks = scene.total(CONFIGS), scene.total(CONFIGACKS)
    started = time.monotonic()
    scene.network.apply(keys)

    def is_everywhere() -> bool:
        return all(page.read(NEWEST) > newest for page in scene.pages) and scene.total(REACHED) == scene.workers

    wait_until(is_everywhere, f"{scene.workers:,} workers to get the new version", _LIMIT_S)
    ended = max(page.read(REACHED_US) for page in scene.pages) / 1e6
    time.sleep(max(_AFTER_INTERVALS * options.interval_s, _DURING_MIN_S))
    into.seconds.append(ended - started)
    into.configs.append((scene.total(CONFIGS) - configs) / scene.workers)
    into.configacks.append((scene.total(CONFIGACKS) - configacks) / scene.workers)
    into.before_us += scene.latencies_us(started - _BEFORE_INTERVALS * options.interval_s, started)
    into.during_us += scene.latencies_us(started, max(ended, started + _DURING_MIN_S))


def _row(name: str, figures: Figures, options: Options) -> list[str]:
    seconds = median(figures.seconds)
    counts = [f"{median(each):.4g}" for each in (figures.configs, figures.configacks)]
    times = [
        figure(percentile(latencies, percent) / 1000)
        for percent in (50, 99)
        for latencies in (figures.before_us, figures.during_us)
    ]
    return [name, figure(seconds), figure(seconds / options.interval_s), *counts, *times]


def _reach(workers: int, name: str, intervals: float | None) -> Verdict:
    target = f"config change reaches {workers:,} workers on {_BROKERS} brokers, {name}"
    return at_most(target, intervals, _INTERVALS_MAX, " intervals")


def _verdicts(name: str, figures: Figures, options: Options) -> list[Verdict]:
    before_ms, during_ms = (percentile(each, 99) / 1000 for each in (figures.before_us, figures.during_us))
    p99 = at_most(f"task p99 during ÷ before, {name}", during_ms / before_ms, _P99_RATIO_MAX, "×")
    p99.measured += f", {figure(during_ms)} ÷ {figure(before_ms)} ms"
    # All workers have the new version, so as many pushes as workers mean one for each.
    pushes = [sum(each) for each in zip(figures.configs, figures.configacks, strict=True)]
    verdicts = [
        _reach(options.spread_workers, name, max(figures.seconds) / options.interval_s),
        exactly(f"pushes a worker, CONFIG or CONFIGACK, {name}", pushes, 1),
    ]
    if name == _LIVENESS:
        verdicts.append(exactly(f"CONFIGs a worker, {name}", figures.configs, 1))
    return [*verdicts, p99]


def _note(options: Options) -> str:
    lines = [
        f"Heartbeats each {options.interval_s:g} s; {_of_library(options)} of the workers are sessions of the library; "
        f"{_TASKS_PER_S} tasks/s to each broker. Medians for times; the slowest repetition counts for its target.",
    ]
    if load.compiled(options.directory) is None:
        lines.append("No C compiler: most workers are in Python and share the cores with the brokers.")
    return "\n".join(lines)
