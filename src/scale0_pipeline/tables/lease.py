"""The lease: one process at a time writes the tables.

A holder says every few seconds that it lives. Who comes while it does is refused, and told who holds it. When the
holder is gone, or silent for long, the next one takes the lease with a higher number, the fence. Being silent is not
being dead: a process that was stopped, or whose disk hung, may go on a minute later. It finds the higher fence in the
log and in the tables, and commits nothing more. So the clock decides only who waits; that nothing is written twice
hangs on no clock.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final

import msgspec

from scale0.telemetry.place import Place
from scale0_pipeline.errors import LeaseHeld, LeaseLost
from scale0_pipeline.tables.log import PIPELINE, BatchLog

RENEW_S: Final = 5.0
SILENT_S: Final = 60.0  # after so long a holder on another machine counts as gone
ENDED: Final = ("Z", "X", "x")  # states of a process that has ended, and whose parent has not looked
TRIES_MAX: Final = 10  # others that may be quicker while we take it


class Holder(msgspec.Struct):
    """Who has the lease, as `pipeline/lease.json` says."""

    fence: int
    host: str
    pid: int
    started: str  # tells two processes with the same pid apart, where the system says so
    since_us: int
    renewed_us: int
    is_released: bool = False

    def is_gone(self, now_us: int) -> bool:
        """Whether its process has ended, or has been silent for so long that it counts as ended."""
        if self.is_released or now_us - self.renewed_us > SILENT_S * 1e6:
            return True
        return self.host == socket.gethostname() and started(self.pid) != self.started


class Lease:
    """The right to write; a context manager."""

    def __init__(self, place: Place, name: str = PIPELINE) -> None:
        self.name = name
        self._place = place
        self._log = BatchLog(place)
        self._file = ("pipeline", "lease.json" if name == PIPELINE else f"lease-{name}.json")
        self._lock = threading.Lock()  # of the log, which several threads ask
        self.on_renew: Callable[[], None] | None = None
        """Called whenever the lease is renewed."""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._holder: Holder | None = None

    @property
    def fence(self) -> int:
        assert self._holder is not None, "the lease is not held"
        return self._holder.fence

    def acquire(self) -> None:
        """Take the lease. Raises LeaseHeld, which names who has it."""
        for _ in range(TRIES_MAX):
            fence = self._log.fence(self.name)
            holder = self.holder()
            if holder is not None and holder.fence == fence and not holder.is_gone(_now_us()):
                raise _held(holder)
            if self._log.raise_fence(self.name, fence + 1):
                break
        else:
            raise LeaseHeld("others keep taking the lease", "run one pipeline at a time")
        now_us = _now_us()
        pid = os.getpid()
        self._holder = Holder(fence + 1, socket.gethostname(), pid, started(pid), now_us, now_us)
        self._tell()

    def check(self) -> None:
        """Raises LeaseLost if another one has taken it."""
        with self._lock:
            fence = self._log.fence(self.name)
        if fence > self.fence:
            raise LeaseLost(
                "another pipeline has taken the lease, for this one was silent for too long",
                "this one ends; its work is done by the other",
            )

    def renew(self) -> None:
        """Say that the holder lives."""
        self.check()
        self._tell()
        if self.on_renew is not None:
            self.on_renew()

    def release(self) -> None:
        """Give it back, unless another one has it by now."""
        with contextlib.suppress(LeaseLost):
            self.check()
            assert self._holder is not None
            self._holder.is_released = True
            self._tell()

    def holder(self) -> Holder | None:
        """Who has it, or had it last."""
        try:
            return msgspec.json.decode(self._place.read_bytes(*self._file), type=Holder)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def __enter__(self) -> Lease:
        self.acquire()
        self._thread = threading.Thread(target=self._keep, name="scale0-lease", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self.release()

    def _keep(self) -> None:
        """Renew until the end. A failure to do so is left to the next `check`: it costs time, and nothing else."""
        while not self._ended.wait(RENEW_S):
            try:
                self.renew()
            except LeaseLost:
                return
            except OSError:
                continue

    def _tell(self) -> None:
        assert self._holder is not None
        self._holder.renewed_us = _now_us()
        self._place.write_atomic(self._file, msgspec.json.encode(self._holder))


def started(pid: int) -> str:
    """When a process of this machine started, in the kernel's words; "" if there is none, or nobody says so."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return "" if fields[0] in ENDED else fields[19]
    except (OSError, IndexError):
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except OSError:
        return "alive"
    return "alive"


def _held(holder: Holder) -> LeaseHeld:
    since = f"{datetime.fromtimestamp(holder.since_us / 1e6, UTC):%Y-%m-%d %H:%M:%S}"
    return LeaseHeld(
        f"a pipeline writes these tables already: process {holder.pid} on {holder.host}, since {since} UTC",
        "stop that one, or let it work: one is enough",
    )


def _now_us() -> int:
    return time.time_ns() // 1_000
