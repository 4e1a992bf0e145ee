"""What looking costs: how soon the overview of a large broker answers, and what open pages take from a busy one.

The broker runs with its page's process, as `scale0 broker --manage` starts it. *Answers*: with thousands of workers and
hundreds of services, GETs of the overview and of the workers are timed in turns; every fourth of each waits until the
last snapshot has grown too old to be handed out again. *Pages*: one broker under one load, in rounds of short windows
without and with open event streams; which comes first changes with each round, so that a machine that grows slower or
faster favours neither. What counts is the ratio within a round, of the throughput and of the broker's CPU per task. On
a machine with few cores the page's process, the readers and the load share them with the broker: there the figure to
trust is the CPU that each process takes, and most of all what open pages add to it while no task is there (*looking*).
"""

from __future__ import annotations

import contextlib
import http.client
import json
import selectors
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

import measure
import peers
from load import Load
from measure import median
from processes import child
from report import Bars, Options, Result, Table, at_least, at_most, figure, thousands
from scale0.management.http.snapshots import FRESH_S, REST, REST_S_MAX
from scale0.testing import managed_by

_OVERVIEW_MS_MAX = 50.0
_THROUGHPUT_MIN = 0.95
_CPU_RATIO_MAX = 1.05
_USER, _PASSWORD = "bench", "bench-bench"
_BUSY_WORKERS = 50
_SERVING = 2
_LOOKING = 3  # windows: a large listing is taken every other second
_ROUNDS = 2  # for each repetition that is asked for
_TOPICS = ("overview", "workers", "services", "overview", "tasks")  # what pages look at, in turns
_SERVICES = """
from scale0 import Worker

app = Worker()
for number in range({count}):
    app.service(f"service-{{number}}")(lambda: None)
"""


class Page(msgspec.Struct):
    """A broker's page, and a session there."""

    host: str
    port: int
    cookie: str
    pid: int  # of its process


class Cost(msgspec.Struct):
    """What open pages cost under one load: medians over the rounds."""

    tasks_per_s: float  # without them
    throughput: float  # with ÷ without
    cpu: float  # the broker's CPU per task, with ÷ without
    page_percent: float  # of a core, for the page's process
    snapshots_per_s: float  # that were read

    def row(self, name: str) -> list[str]:
        ratios = [f"{self.throughput:.3f}×", f"{self.cpu:.3f}×"]
        return [name, thousands(self.tasks_per_s), *ratios, figure(self.page_percent), figure(self.snapshots_per_s)]


def run(options: Options) -> Result:
    answers, looking = _answers(options)
    timed = Table(
        f"Answers with {options.page_workers:,} workers and {options.page_services:,} services, ms",
        ["GET", "p50", "p95", "worst"],
        [[name, *(figure(each) for each in _percentiles(times))] for name, times in answers.items()],
        "Every fourth comes when the last snapshot is too old to be handed out again, as when nobody else looks.",
    )
    added = Table(
        f"{options.pages} open pages of a broker with {options.page_workers:,} workers and no task: CPU, ms a second",
        ["process", "no page", f"{options.pages} pages"],
        [[name, *(figure(window.cpu_percent(name) * 10) for window in looking)] for name in ("broker", "page")],
    )
    costs = {name: _cost(name, load, options) for name, load in _loads(options).items()}
    pages = Table(
        f"{options.pages} open pages: what a busy broker loses",
        ["load", "tasks/s", "throughput", "broker's CPU/task", "page's process, % of a core", "snapshots/s"],
        [cost.row(name) for name, cost in costs.items()],
    )
    verdicts = [at_most("overview, p95", _percentiles(answers["overview"])[1], _OVERVIEW_MS_MAX, " ms")]
    for name, cost in costs.items():
        what = f"with {options.pages} pages ÷ without, {name}"
        verdicts.append(at_least(f"throughput {what}", cost.throughput, _THROUGHPUT_MIN, "×"))
        verdicts.append(at_most(f"broker's CPU per task {what}", cost.cpu, _CPU_RATIO_MAX, "×"))
    shown = {name: cost.throughput for name, cost in costs.items()}
    bars = Bars(f"Throughput with {options.pages} open pages ÷ without", "×", shown, _THROUGHPUT_MIN)
    return Result("management", [timed, added, pages], verdicts, [bars])


def _loads(options: Options) -> dict[str, Load]:
    return {
        f"{_BUSY_WORKERS} workers": Load(_BUSY_WORKERS),
        f"{_SERVING} of {options.page_workers:,} workers": Load(options.page_workers, serving=_SERVING),
    }


# --- answers --------------------------------------------------------------------------------------------------------


def _answers(options: Options) -> tuple[dict[str, list[float]], tuple[measure.Window, measure.Window]]:
    """How long each GET took, in ms; and windows without and with open pages."""
    peer = peers.Scale0()
    idle = Load(options.page_workers, in_flight=0)
    paths = {"overview": "/api/v1/overview", "workers, by problems": "/api/v1/workers?sort=problems&limit=200"}
    with (
        _managed(peer, options) as (running, page),
        peer.loaded(running, idle, options.directory),
        _serving(running.frontend, options),
    ):
        options.say(f"management: {options.page_workers:,} workers are there")
        connection = http.client.HTTPConnection(page.host, page.port)
        _wait_for_services(connection, page, options.page_services)
        found: dict[str, list[float]] = {name: [] for name in paths}
        rest_s = REST_S_MAX
        for number in range(options.page_calls):
            if number % 4 == 0:
                time.sleep(rest_s)
            for name, path in paths.items():
                found[name].append(_timed(connection, page, path))
            if number % 4 == 0:  # a snapshot is handed out the longer, the longer it took
                slowest_ms = max(times[-1] for times in found.values())
                rest_s = max(FRESH_S, min(REST_S_MAX, REST * slowest_ms / 1e3))
        for name, times in found.items():
            options.say(f"management: {name} p95 {_percentiles(times)[1]:.1f} ms")
        pids, window_s = {"broker": running.child.pid, "page": page.pid}, _LOOKING * options.seconds
        closed = measure.watch(None, pids, window_s)
        with Readers(page, options.pages):
            time.sleep(options.warm_up_s)
            return found, (closed, measure.watch(None, pids, window_s))


@contextlib.contextmanager
def _serving(endpoint: str, options: Options) -> Iterator[None]:
    """A worker that offers many services."""
    (options.directory / "many_services.py").write_text(_SERVICES.format(count=options.page_services))
    command = [sys.executable, "-m", "scale0", "worker", "many_services:app", "--broker", endpoint]
    with child("worker", ["env", f"PYTHONPATH={options.directory}", *command], options.directory, limit_s=1.0):
        yield


def _wait_for_services(connection: http.client.HTTPConnection, page: Page, count: int, limit_s: float = 60.0) -> None:
    end = time.monotonic() + limit_s
    while json.loads(_get(connection, page, "/api/v1/services?limit=1"))["all"] < count:
        if time.monotonic() > end:
            raise TimeoutError(f"{count} services were not there within {limit_s:g} s")
        time.sleep(0.2)


def _timed(connection: http.client.HTTPConnection, page: Page, path: str) -> float:
    """One GET in ms."""
    began = time.perf_counter()
    _get(connection, page, path)
    return (time.perf_counter() - began) * 1e3


def _get(connection: http.client.HTTPConnection, page: Page, path: str) -> bytes:
    connection.request("GET", path, headers={"Cookie": page.cookie})
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"GET {path}: {answer.status} {body[:200]!r}")
    return body


def _percentiles(times: list[float]) -> tuple[float, float, float]:
    ordered = sorted(times)
    return ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))], ordered[-1]


# --- pages ----------------------------------------------------------------------------------------------------------


class Round(msgspec.Struct):
    """A window without open pages and one with them, and the snapshots a second that were read in that."""

    closed: measure.Window
    opened: measure.Window
    snapshots_per_s: float

    @property
    def throughput(self) -> float:
        return self.opened.tasks_per_s / self.closed.tasks_per_s

    @property
    def cpu(self) -> float:
        return self.opened.cpu_us_per_task("broker") / self.closed.cpu_us_per_task("broker")


def _cost(name: str, load: Load, options: Options) -> Cost:
    rounds = []
    for one in _rounds(load, options):
        rounds.append(one)
        ratios = f"throughput {one.throughput:.3f} ×, CPU per task {one.cpu:.3f} ×"
        page = f"page {one.opened.cpu_percent('page'):.1f} % of a core"
        options.say(f"management, {name}, round {len(rounds)}: {ratios}, {page}")
    return Cost(
        tasks_per_s=median([one.closed.tasks_per_s for one in rounds]),
        throughput=median([one.throughput for one in rounds]),
        cpu=median([one.cpu for one in rounds]),
        page_percent=median([one.opened.cpu_percent("page") for one in rounds]),
        snapshots_per_s=median([one.snapshots_per_s for one in rounds]),
    )


def _rounds(load: Load, options: Options) -> Iterator[Round]:
    peer = peers.Scale0()
    with _managed(peer, options) as (running, page), peer.loaded(running, load, options.directory) as counters:
        pids = {"broker": running.child.pid, "page": page.pid}

        def closed() -> measure.Window:
            measure.watch(counters, {}, options.warm_up_s)
            return measure.watch(counters, pids, options.seconds)

        def opened() -> tuple[measure.Window, float]:
            with Readers(page, options.pages) as readers:
                measure.watch(counters, {}, options.warm_up_s)
                count = readers.snapshots
                window = measure.watch(counters, pids, options.seconds)
                return window, (readers.snapshots - count) / window.seconds

        for number in range(options.repetitions * _ROUNDS):
            if number % 2:
                (after, read), before = opened(), closed()
            else:
                before, (after, read) = closed(), opened()
            if not before.tasks or not after.tasks or not read:
                raise RuntimeError("no task was answered, or no page was shown anything")
            yield Round(before, after, read)


class Readers:
    """Open pages: event streams that are read, and counted."""

    def __init__(self, page: Page, count: int) -> None:
        self.snapshots = 0
        self._selector = selectors.DefaultSelector()
        self._is_over = False
        for number in range(count):
            stream = socket.create_connection((page.host, page.port))
            path = f"/api/v1/stream?topic={_TOPICS[number % len(_TOPICS)]}"
            host = f"{page.host}:{page.port}"  # with the port, for which the cookie is named
            stream.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {page.cookie}\r\n\r\n".encode())
            answer = stream.recv(1 << 16)
            if not answer.startswith(b"HTTP/1.1 200 "):
                raise RuntimeError(f"a page was refused: {answer[:80]!r}")
            self._selector.register(stream, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Readers:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._is_over = True
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            stream = key.fileobj
            assert isinstance(stream, socket.socket)
            stream.close()

    def _read(self) -> None:
        while not self._is_over:
            for key, _ in self._selector.select(0.1):
                stream = key.fileobj
                assert isinstance(stream, socket.socket)
                data = stream.recv(1 << 20)
                if not data:
                    raise RuntimeError("a page was dropped")
                self.snapshots += data.count(b"event: snapshot")


# --- the broker -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _managed(peer: peers.Scale0, options: Options) -> Iterator[tuple[peers.Running, Page]]:
    """A broker with a page, and a session there."""
    home = options.directory / f"managed-{time.monotonic_ns()}"
    home.mkdir()
    users = managed_by(home, {_USER: _PASSWORD})["users"]
    arguments = ["--manage", "127.0.0.1:0", "--manage-users", users]
    with peer.started(options.directory, arguments=arguments) as running:
        url = urlsplit(running.child.wait_for_line("page: http").split("page: ")[1].split()[0])
        host, port = url.hostname or "", url.port or 0
        yield running, Page(host, port, _log_in(host, port), _page_of(running.child.pid))


def _log_in(host: str, port: int) -> str:
    connection = http.client.HTTPConnection(host, port)
    body = json.dumps({"user": _USER, "password": _PASSWORD})
    connection.request("POST", "/api/v1/login", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    return (answer.getheader("set-cookie") or "").partition(";")[0]


def _page_of(pid: int) -> int:
    """The process that a broker starts for its page."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for one in (thread / "children").read_text().split():
            if "scale0.management.http" in Path(f"/proc/{one}/cmdline").read_text():
                return int(one)
    raise LookupError("the broker has no page's process")
