"""Brokers for your own tests, on free ports of this machine.

    from scale0.testing import broker, running_network

    with broker() as b, Client(b.endpoint) as client: ...
    with running_network(3) as network, Client(network.endpoints) as client: ...

By default they run in threads of the test's process, which is quick; `process=True` gives each a process of its own
that can be killed like one. With pytest the fixture `scale0_broker` is there without an import. Keywords are the
broker's settings: `broker(default_heartbeat_interval_s=0.2, service={"pay": {"idempotent": True}})`.

Importing this module is cheap, for pytest does so at every start: ZeroMQ and the broker are loaded by the first start.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from scale0.core.settings import BrokerSettings
    from scale0.protocol.network import Document
    from scale0.transport.running import InProcess, InThread
    from scale0.transport.security import Security
    from scale0.transport.server import Server

START_S: Final = 60.0  # the longest wait for a broker's answer, or for brokers to find one another
ASK_S: Final = 2.0  # the longest wait for one answer of a broker that may just be starting
LOOK_S: Final = 0.02  # between two looks at a network that is not complete yet
ANY_PORT: Final = "tcp://127.0.0.1:0"


class TestBroker:
    """A broker under test. `endpoint` stays the same over `restart`."""

    __test__ = False  # pytest: this is no test class

    def __init__(
        self,
        settings: BrokerSettings,
        bind: str = ANY_PORT,
        backend: str | None = None,
        state_dir: Path | None = None,
        *,
        process: bool = False,
        publish: str | None = None,
        seeds: Sequence[str] = (),
        document: Document | None = None,
        telemetry: Path | None = None,
        security: Security | None = None,
    ) -> None:
        self.settings = settings
        self.seeds = list(seeds)
        """The brokers that it joins by when it starts."""
        self._addresses = [bind] if backend is None else [bind, backend]
        self._publish = publish
        self._document = document
        self._state_dir = state_dir
        self._telemetry = telemetry
        self._security = security
        self._is_process = process
        self._runner: InThread | InProcess | None = None

    @property
    def identity(self) -> str:
        return self.settings.identity

    @property
    def endpoint(self) -> str:
        """Where clients and workers connect."""
        return self._addresses[0]

    @property
    def backend(self) -> str:
        """Where workers connect: the same as `endpoint` unless a backend was asked for."""
        return self._addresses[-1]

    @property
    def is_running(self) -> bool:
        return self._runner is not None

    @property
    def pid(self) -> int:
        """The broker's process, with `process=True`."""
        process = getattr(self._runner, "process", None)
        assert process is not None, "only a broker with a process of its own has a pid"
        return int(process.pid)

    @property
    def server(self) -> Server:
        """The broker's insides, without `process=True`: for looking at, from its own thread only."""
        server: Server | None = getattr(self._runner, "server", None)
        assert server is not None, "only a broker in a thread can be looked into"
        return server

    def start(self) -> None:
        """Begin, on the same ports as before if it ran before."""
        from scale0.transport.child import Order
        from scale0.transport.recording import Telemetry
        from scale0.transport.running import InProcess, InThread

        assert self._runner is None, "it runs already"
        order = Order(
            settings=self.settings,
            bind=self._addresses[0],
            backend=self._addresses[1] if len(self._addresses) > 1 else None,
            publish=self._publish,
            seeds=self.seeds,
            document=self._document,
            state_dir=str(self._state_dir) if self._state_dir else None,
            telemetry=Telemetry(str(self._telemetry), str(self._telemetry / "data")) if self._telemetry else None,
            security=self._security,
        )
        self._runner = InProcess(order) if self._is_process else InThread(order)
        self._addresses, self._publish = self._runner.endpoints, self._runner.publishes_at

    def stop(self) -> None:
        """End it cleanly: everybody is told. What is in flight gets no outcome from this broker."""
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.stop()
            self._wait_for_recorder()

    def kill(self) -> None:
        """End it without a word, as a crash does."""
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.kill()
            self._wait_for_recorder()

    def _wait_for_recorder(self) -> None:
        """What it recorded is complete when its broker has ended for a test."""
        from scale0.telemetry import lock

        if self._telemetry is not None and not lock.wait(self._telemetry, START_S):
            raise RuntimeError(f"the recorder in {self._telemetry} did not end within {START_S:g} s")

    def restart(self, *, kill: bool = False) -> None:
        """End it, cleanly or by `kill`, and begin again on the same ports."""
        if kill:
            self.kill()
        else:
            self.stop()
        self.start()

    def manage(self, command: str, **arguments: Any) -> Any:
        """Run an operator's command (`list`, `disable`, `drain` …), without `process=True`."""
        return self.server.manage(command, arguments).result(START_S)

    def listing(self, name: str) -> dict[str, Any]:
        """What this broker answers as `scale0.NAME`. Raises `Scale0Error` if it does not, or another one did."""
        from scale0 import Client
        from scale0.errors import Scale0Error

        if not self._is_process:
            listed: dict[str, Any] = self.manage("list", what=name)
            return listed
        with Client(self.endpoint, timeout=ASK_S, connect_timeout=ASK_S) as client:
            document: dict[str, Any] = json.loads(client.call(f"scale0.{name}", returns=bytes))
        if document["broker"]["identity"] != self.identity:
            raise Scale0Error(f"{self.identity} sent the asker to {document['broker']['identity']}")
        return document


def managed_by(directory: Path, users: Mapping[str, str], role: str = "admin") -> dict[str, str]:
    """The `management` of a broker that these users, names and passwords, may manage; its files are in `directory`.

    The passwords' hashes are weak, and quick: for tests.
    """
    from argon2 import PasswordHasher

    from scale0.management.users import User, write_users

    hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    path = directory / "users.json"
    write_users(path, {name: User(hasher.hash(password), role) for name, password in users.items()})
    return {"users": str(path)}


@contextlib.contextmanager
def broker(
    *,
    process: bool = False,
    bind: str = ANY_PORT,
    backend: str | None = None,
    state_dir: Path | None = None,
    publish: str | None = None,
    seeds: Sequence[str] = (),
    document: Document | None = None,
    telemetry: Path | None = None,
    security: Security | None = None,
    **settings: Any,
) -> Iterator[TestBroker]:
    """A running broker that ends with the `with` block. With `seeds` it joins the network of those brokers.

    With `telemetry` it records there: segments are in `telemetry / "data"`, complete when it has stopped. With
    `security`, the files of its key and of the keys that it allows, everything is encrypted.
    """
    from scale0.transport.settings_file import from_keywords

    running = TestBroker(
        from_keywords(settings),
        bind,
        backend,
        state_dir,
        process=process,
        publish=publish,
        seeds=seeds,
        document=document,
        telemetry=telemetry,
        security=security,
    )
    running.start()
    try:
        yield running
    finally:
        running.stop()


class TestNetwork:
    """Brokers that know one another. Each may be killed, stopped and started by itself."""

    __test__ = False

    def __init__(self, brokers: Sequence[TestBroker]) -> None:
        self.brokers = list(brokers)

    @property
    def endpoints(self) -> list[str]:
        """Where clients and workers connect: any of these leads to all."""
        return [broker.endpoint for broker in self.brokers]

    def wait(self, limit_s: float = START_S) -> None:
        """Until all brokers that run are active, linked with one another, and have the same config."""
        end_s = time.monotonic() + limit_s
        while (missing := self._missing()) is not None:
            if time.monotonic() >= end_s:
                raise RuntimeError(f"the network was not complete within {limit_s:g} s: {missing}")
            time.sleep(LOOK_S)

    def _missing(self) -> str | None:
        """What keeps it from being complete, if anything does."""
        from scale0.errors import Scale0Error

        running = [broker for broker in self.brokers if broker.is_running]
        versions = set()
        for asked in running:
            try:
                rows = {row["identity"]: row for row in asked.listing("network")["rows"]}
            except Scale0Error as error:
                return f"{asked.identity}: {error}"
            for other in running:
                row = rows.get(other.identity)
                if row is None or row["state"] != "active" or row["link"] not in ("self", "up"):
                    known = f"{row['state']}, link {row['link']}" if row else "unknown"
                    return f"{other.identity} is {known} to {asked.identity}"
                versions.add(row["config_version"])
        return None if len(versions) <= 1 else f"config versions differ: {', '.join(sorted(map(str, versions)))}"


@contextlib.contextmanager
def running_network(
    count: int = 2,
    *,
    group: str = "",
    process: bool = False,
    state_dir: Path | None = None,
    telemetry: Path | None = None,
    **settings: Any,
) -> Iterator[TestNetwork]:
    """`count` running brokers of one group, the others joined by the first, complete when the block begins.

    They are named `broker-1`, `broker-2` …. With `state_dir` each keeps its state in a directory there, and with
    `telemetry` each records in one. Who is started again joins by the others.
    """
    from scale0.transport.settings_file import from_keywords

    brokers: list[TestBroker] = []
    with contextlib.ExitStack() as ends:
        for number in range(1, count + 1):
            identity = f"broker-{number}"
            made = TestBroker(
                from_keywords({**settings, "identity": identity, "group": group}),
                state_dir=state_dir / identity if state_dir is not None else None,
                process=process,
                publish=ANY_PORT,
                seeds=[brokers[0].endpoint] if brokers else [],
                telemetry=telemetry / identity if telemetry is not None else None,
            )
            made.start()
            ends.callback(made.stop)
            brokers.append(made)
        for made in brokers:
            made.seeds = [other.endpoint for other in brokers if other is not made]
        network = TestNetwork(brokers)
        network.wait()
        yield network


if "pytest" in sys.modules:  # pytest loads this module as its plugin; nobody else needs the fixture
    import pytest

    @pytest.fixture
    def scale0_broker() -> Iterator[TestBroker]:
        """A broker on a free port, for one test."""
        with broker() as running:
            yield running
