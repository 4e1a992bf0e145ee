"""The drill's load: a client that sends tasks at a steady pace and writes down what becomes of each.

By default they go to a service of the drill's own, served by workers that it starts, in turn at each broker; so a
drill can run on any network and touches no real service. Those workers echo who they are, and at which broker. An
operator's own service has no echo: then attempts are known by the reply, the client's own moves by its link, and that a
peer's worker answered is not known.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from scale0.cli.drill_ledger import Ledger, Outcome
from scale0.cli.drill_worker import Echo, Order
from scale0.errors import Scale0Error, TaskError
from scale0.transport.addresses import this_process

SERVICE: Final = "drill"
PACE_S: Final = 0.005
OPEN_MAX: Final = 20_000  # then the load waits rather than flood a network that answers nothing
END_S: Final = 5.0
UNREACHABLE: Final = 503  # the code under which a task is booked that could not even be submitted


class Ask(msgspec.Struct, frozen=True):
    """What is sent: to which service, with which arguments, how often, and how long each may take."""

    rate_per_s: float = 200.0
    timeout_s: float = 10.0
    service: str = SERVICE
    args: list[Any] = []
    kwargs: dict[str, Any] = {}

    @property
    def has_echo(self) -> bool:
        return self.service == SERVICE


class Workers:
    """The drill's own workers, each a process. As a context manager it ends them all."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._children: list[subprocess.Popen[bytes]] = []
        self._directory = tempfile.TemporaryDirectory(prefix="scale0-drill-")

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_exception: object) -> None:
        for child in self._children:
            with contextlib.suppress(ProcessLookupError):
                child.terminate()
        for child in self._children:
            try:
                child.wait(END_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            if child.stdin is not None:
                child.stdin.close()
        self._directory.cleanup()

    def start(self, count: int, brokers: Sequence[str], work_s: float, *, is_idempotent: bool) -> None:
        """Workers that prefer one broker after the other, and know them all."""
        for number in range(count):
            name = f"drill-{os.getpid()}-{number + 1}"
            turned = [*brokers[number % len(brokers) :], *brokers[: number % len(brokers)]]
            order = Order(SERVICE, name, turned, work_s, is_idempotent)
            with self._log(name).open("wb") as log:
                self._children.append(_start(order, log))
            self.names.append(name)

    def process_of(self, name: str) -> str:
        """Where this worker's process is found."""
        host, _, _ = this_process().rpartition(":")
        return f"{host}:{self._children[self.names.index(name)].pid}"

    def last_words(self) -> str:
        """What the workers complained of, to be shown when none of them is ready."""
        said = [self._log(name).read_text(encoding="utf-8", errors="replace").splitlines() for name in self.names]
        return "\n".join(line for lines in said for line in lines[-2:])

    def _log(self, name: str) -> Path:
        return Path(self._directory.name) / f"{name}.log"


def _start(order: Order, log: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "scale0.cli.drill_worker", msgspec.json.encode(order).decode()],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=log,
        start_new_session=True,  # Ctrl-C is for the drill, which ends them in its own time
    )


class Load:
    """Sends from a thread of its own until it is stopped. `names` tells a broker's name by its address."""

    def __init__(self, client: Any, ask: Ask, ledger: Ledger, names: Mapping[str, str]) -> None:
        self.error: BaseException | None = None
        self._client = client
        self._ask = ask
        self._ledger = ledger
        self._names = names
        self._number = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="drill-load", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def via(self) -> str:
        """The broker that the client is at now."""
        return self._name(self._client.broker)

    def _name(self, address: str) -> str:
        return self._names.get(address, address)

    def _run(self) -> None:
        owed, last_s = 0.0, time.monotonic()
        try:
            while not self._stopping.wait(PACE_S):
                now = time.monotonic()
                # What a stalled process did not send is not made up for: that would be another load.
                owed = min(owed + (now - last_s) * self._ask.rate_per_s, max(1.0, self._ask.rate_per_s))
                last_s = now
                while owed >= 1 and self._ledger.open < OPEN_MAX and not self._stopping.is_set():
                    owed -= 1
                    self._send()
        except BaseException as error:
            self.error = error

    def _send(self) -> None:
        ask, number = self._ask, self._number
        self._number += 1
        args, returns = ((number,), Echo) if ask.has_echo else (tuple(ask.args), Any)
        self._ledger.send(number, time.monotonic(), self.via, ask.timeout_s)
        try:
            future = self._client.submit(ask.service, *args, timeout=ask.timeout_s, returns=returns, **ask.kwargs)
        except Scale0Error as error:  # not even sent: that is its outcome
            self._ledger.settle(number, time.monotonic(), Outcome(_code(error), via=self.via))
            return
        future.add_done_callback(self._settle(number))

    def _settle(self, number: int) -> Callable[[Any], None]:
        def settle(future: Any) -> None:
            now, error = time.monotonic(), future.exception()
            attempt = getattr(future.record.outcome, "attempt", 1)
            if error is not None:
                outcome = Outcome(_code(error), attempt, self.via)
            elif self._ask.has_echo:
                echo: Echo = future.result()
                attempt = max(attempt, echo.attempt)
                is_right = echo.number == number
                outcome = Outcome(0, attempt, self.via, echo.worker, self._name(echo.broker), is_right)
            else:
                outcome = Outcome(0, attempt, self.via)
            self._ledger.settle(number, now, outcome)

        return settle


def _code(error: BaseException) -> int:
    return error.code if isinstance(error, TaskError) else UNREACHABLE
