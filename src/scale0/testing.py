"""A broker for your own tests, on a free port of this machine.

    from scale0.testing import broker

    with broker() as b, Client(b.endpoint) as client: ...

By default it runs in a thread of the test's process, which is quick; `process=True` gives it a process of its own that
can be killed like one. With pytest the fixture `scale0_broker` is there without an import. Keywords are the broker's
settings: `broker(default_heartbeat_interval_s=0.2, service={"pay": {"idempotent": True}})`.

Importing this module is cheap, for pytest does so at every start: ZeroMQ and the broker are loaded by the first start.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from scale0.core.settings import BrokerSettings
    from scale0.transport.server import Server

START_S: Final = 20.0  # the longest wait for a broker to begin, or to end
ANY_PORT: Final = "tcp://127.0.0.1:0"


class _Runner(Protocol):
    """A running broker, in a thread or a process."""

    endpoints: list[str]

    def stop(self) -> None: ...
    def kill(self) -> None: ...


class TestBroker:
    """A broker under test. `endpoint` stays the same over `restart`."""

    __test__ = False  # pytest: this is no test class

    def __init__(
        self, settings: BrokerSettings, bind: str, backend: str | None, state_dir: Path | None, *, process: bool
    ) -> None:
        self.settings = settings
        self._addresses = [bind] if backend is None else [bind, backend]
        self._state_dir = state_dir
        self._is_process = process
        self._runner: _Runner | None = None

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
        assert isinstance(self._runner, _InProcess), "only a broker with a process of its own has a pid"
        return self._runner.process.pid

    @property
    def server(self) -> Server:
        """The broker's insides, without `process=True`: for looking at, from its own thread only."""
        assert isinstance(self._runner, _InThread), "only a broker in a thread can be looked into"
        return self._runner.server

    def start(self) -> None:
        """Begin, on the same ports as before if it ran before."""
        assert self._runner is None, "it runs already"
        kind = _InProcess if self._is_process else _InThread
        self._runner = kind(self.settings, self._addresses, self._state_dir)
        self._addresses = self._runner.endpoints

    def stop(self) -> None:
        """End it cleanly: everybody is told. What is in flight gets no outcome from this broker."""
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.stop()

    def kill(self) -> None:
        """End it without a word, as a crash does."""
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.kill()

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


@contextlib.contextmanager
def broker(
    *,
    process: bool = False,
    bind: str = ANY_PORT,
    backend: str | None = None,
    state_dir: Path | None = None,
    **settings: Any,
) -> Iterator[TestBroker]:
    """A running broker that ends with the `with` block."""
    from scale0.core.settings import BrokerSettings
    from scale0.transport.settings_file import convert

    running = TestBroker(convert(settings, BrokerSettings), bind, backend, state_dir, process=process)
    running.start()
    try:
        yield running
    finally:
        running.stop()


class _InThread:
    """A broker in a thread. It is strict: an unexpected exception ends it, and `stop` raises it."""

    def __init__(self, settings: BrokerSettings, addresses: list[str], state_dir: Path | None) -> None:
        from scale0.transport.logs import make_log
        from scale0.transport.server import Server

        log = make_log(is_quiet=True)
        self.server = Server(settings, addresses[0], *addresses[1:], log=log, state_dir=state_dir, strict=True)
        self.endpoints = self.server.endpoints
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="scale0-broker", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._end(self.server.stop)

    def kill(self) -> None:
        self._end(self.server.kill)

    def _end(self, ask: Any) -> None:
        ask()
        self._thread.join(START_S)
        if self._thread.is_alive():
            raise RuntimeError(f"the broker's thread did not end within {START_S:g} s")
        if self._failure is not None:
            raise RuntimeError("the broker failed while it served") from self._failure

    def _run(self) -> None:
        try:
            self.server.run()
        except BaseException as failure:
            self._failure = failure


class _InProcess:
    """A broker in a process of its own, which ends with this one, however this one ends."""

    def __init__(self, settings: BrokerSettings, addresses: list[str], state_dir: Path | None) -> None:
        import msgspec

        from scale0.transport.child import Order, Report

        command = [sys.executable, "-m", "scale0.transport.child"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        backend = addresses[1] if len(addresses) > 1 else None
        order = Order(settings, addresses[0], backend, str(state_dir) if state_dir else None)
        try:
            assert self.process.stdin is not None
            self.process.stdin.write(msgspec.json.encode(order) + b"\n")
            self.process.stdin.flush()
            report = msgspec.json.decode(self._first_line(), type=Report)
        except BaseException:
            self.kill()
            raise
        if report.error:
            self.kill()
            raise RuntimeError(f"the broker did not start: {report.error}")
        self.endpoints = report.endpoints

    def stop(self) -> None:
        # The second signal ends what the first would wait for: stopping means now.
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(0.2)
        self.process.terminate()
        self._reap()

    def kill(self) -> None:
        self.process.kill()
        self._reap()

    def _reap(self) -> None:
        try:
            self.process.wait(START_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(START_S)
            raise RuntimeError(f"the broker's process did not end within {START_S:g} s") from None
        finally:
            for pipe in (self.process.stdin, self.process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()

    def _first_line(self) -> bytes:
        """Its report; a timer ends the wait if none comes."""
        assert self.process.stdout is not None
        timer = threading.Timer(START_S, self.process.kill)
        timer.start()
        try:
            line = self.process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            raise RuntimeError(f"the broker's process ended before it was ready (exit code {self.process.wait()})")
        return line


if "pytest" in sys.modules:  # pytest loads this module as its plugin; nobody else needs the fixture
    import pytest

    @pytest.fixture
    def scale0_broker() -> Iterator[TestBroker]:
        """A broker on a free port, for one test."""
        with broker() as running:
            yield running
