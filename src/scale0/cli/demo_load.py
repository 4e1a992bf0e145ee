"""The demo's client: a steady load, and a ledger of its own.

Every submitted task is entered once and settled once, by the outcome that its future brought. The ledger knows nothing
of the broker's counters; the demo's closing sum compares the two.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, deque
from typing import Any

import msgspec

from scale0.errors import TaskError

WINDOW_S = 4.0  # over which rates and latencies are shown
PACE_S = 0.01
OPEN_MAX = 2_000  # the load waits rather than flood a machine that cannot keep up
TASK_TIMEOUT_S = 10.0


class Kind(msgspec.Struct, frozen=True):
    """One sort of task: how many a second, and with which argument."""

    service: str
    tasks_per_s: float
    argument: Any


KINDS = (
    Kind("greet", 300.0, "Ada"),
    Kind("resize", 35.0, 640),
    Kind("render", 12.0, "harbour"),
)


QUESTIONS = "scale0"
"""The account of what the demo asks the broker itself: tasks like any other, and in the broker's books too."""


class Account:
    """One service's side of the ledger."""

    def __init__(self) -> None:
        self.submitted = 0
        self.replied = 0
        self.wrong = 0  # replies that do not answer what was asked
        self.errors: Counter[int] = Counter()
        self.recent: deque[tuple[float, float]] = deque()  # (when settled, latency), replies only

    @property
    def errored(self) -> int:
        return self.errors.total()

    @property
    def open(self) -> int:
        return self.submitted - self.replied - self.errored

    def forget_before(self, moment_s: float) -> None:
        while self.recent and self.recent[0][0] < moment_s:
            self.recent.popleft()


class Figures(msgspec.Struct, frozen=True):
    """What one service did lately, as the client saw it."""

    tasks_per_s: float
    p50_us: float | None
    p99_us: float | None
    open: int
    errored: int


class Ledger:
    """All accounts, behind one lock: outcomes come in on the client's thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._settled = threading.Condition(self._lock)
        self.accounts = {name: Account() for name in (*(kind.service for kind in KINDS), QUESTIONS)}

    def submit(self, service: str) -> None:
        with self._lock:
            self.accounts[service].submitted += 1

    def settle(self, service: str, error: BaseException | None, latency_s: float, is_right: bool) -> None:
        now = time.monotonic()
        with self._lock:
            account = self.accounts[service]
            if error is None:
                account.replied += 1
                account.wrong += not is_right
                account.recent.append((now, latency_s))
            else:
                account.errors[error.code if isinstance(error, TaskError) else 0] += 1
            self._settled.notify_all()

    def wait_until_settled(self, limit_s: float) -> bool:
        with self._lock:
            return self._settled.wait_for(lambda: not self._open(), limit_s)

    @property
    def open(self) -> int:
        with self._lock:
            return self._open()

    def _open(self) -> int:
        return sum(account.open for account in self.accounts.values())

    @property
    def tasks(self) -> int:
        """So many were submitted for workers; questions to the broker itself are not recorded."""
        with self._lock:
            return sum(account.submitted for name, account in self.accounts.items() if name != QUESTIONS)

    def totals(self) -> tuple[int, int, Counter[int], int]:
        """Submitted, replied, errors by code, wrong replies."""
        with self._lock:
            accounts = self.accounts.values()
            errors: Counter[int] = Counter()
            for account in accounts:
                errors.update(account.errors)
            return (
                sum(account.submitted for account in accounts),
                sum(account.replied for account in accounts),
                errors,
                sum(account.wrong for account in accounts),
            )

    def figures(self, service: str, elapsed_s: float) -> Figures:
        now = time.monotonic()
        with self._lock:
            account = self.accounts[service]
            account.forget_before(now - WINDOW_S)
            latencies = sorted(latency for _when, latency in account.recent)
            covered_s = max(0.5, min(WINDOW_S, elapsed_s))
            return Figures(
                len(latencies) / covered_s,
                _share(latencies, 0.50),
                _share(latencies, 0.99),
                account.open,
                account.errored,
            )


def _share(latencies: list[float], share: float) -> float | None:
    return latencies[min(len(latencies) - 1, int(share * len(latencies)))] * 1e6 if latencies else None


class Load:
    """Submits each kind at its pace from a thread of its own, until it is stopped."""

    def __init__(self, client: Any, ledger: Ledger) -> None:
        self._client = client
        self._ledger = ledger
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self.error: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        began_s = time.monotonic()
        owed = dict.fromkeys((kind.service for kind in KINDS), 0.0)
        last_s = began_s
        try:
            while not self._stopping.wait(PACE_S):
                now = time.monotonic()
                for kind in KINDS:
                    owed[kind.service] += (now - last_s) * kind.tasks_per_s
                    while owed[kind.service] >= 1 and self._ledger.open < OPEN_MAX:
                        owed[kind.service] -= 1
                        self._submit(kind)
                last_s = now
        except BaseException as error:
            self.error = error

    def _submit(self, kind: Kind) -> None:
        service, argument = kind.service, kind.argument
        if isinstance(argument, str):
            argument = f"{argument}-{random.randrange(1_000)}"
        expected = {"greet": f"hello {argument}", "render": f"{argument}.png"}.get(service, 320)
        began_s = time.monotonic()
        self._ledger.submit(service)
        try:
            future = self._client.submit(service, argument, timeout=TASK_TIMEOUT_S)
        except TaskError as error:  # refused before it was sent: that is this task's outcome
            self._ledger.settle(service, error, 0.0, is_right=False)
            return

        def settle(done: Any) -> None:
            error = done.exception()
            is_right = error is None and done.result() == expected
            self._ledger.settle(service, error, time.monotonic() - began_s, is_right)

        future.add_done_callback(settle)
