"""What a drill does to a network, and how it takes it back: a killed or paused process, a cut between two brokers.

A fault strikes once. `mend` takes back what can be taken back, as often as it is called: by the end of its time, by an
abort, by Ctrl-C. What must not stay if the drill itself dies is guarded from outside: a paused process by a child that
lets it go on, a partition by the brokers' own clocks.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from scale0.errors import Scale0Error, UsageError
from scale0.transport.addresses import this_process

SIGNALS: Final = {"KILL": signal.SIGKILL, "TERM": signal.SIGTERM, "STOP": signal.SIGSTOP}
GUARD_MARGIN_S: Final = 2  # the guard of a paused process comes after the drill itself would have

Manage = Callable[[str, str, dict[str, Any]], Any]
"""Carries out a management command, with arguments, at the broker with this address."""


class Fault(Protocol):
    """Something that is done to the network. `lasts_s`: it is mended after so long; None: it is not."""

    lasts_s: float | None

    def strike(self) -> None: ...
    def mend(self) -> None: ...


class ProcessFault:
    """A signal to a broker's or a worker's process."""

    def __init__(self, process: str, name: str, for_s: float) -> None:
        self.pid = pid_of(process)
        self.lasts_s = for_s if name == "STOP" else None
        self._signal = SIGNALS[name]
        self._guard: subprocess.Popen[bytes] | None = None

    def strike(self) -> None:
        if self.lasts_s is not None:
            script = f"sleep {self.lasts_s + GUARD_MARGIN_S:g}; kill -CONT {self.pid}"
            self._guard = subprocess.Popen(["sh", "-c", script], start_new_session=True, stdin=subprocess.DEVNULL)
        try:
            os.kill(self.pid, self._signal)
        except PermissionError:
            self.mend()
            raise UsageError(f"process {self.pid} belongs to another user; run the drill as that user") from None
        except ProcessLookupError:
            self.mend()
            raise Scale0Error(f"process {self.pid} is gone already") from None

    def mend(self) -> None:
        guard, self._guard = self._guard, None
        if guard is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, signal.SIGCONT)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(guard.pid, signal.SIGKILL)
        guard.wait()


class Side(msgspec.Struct, frozen=True):
    """One broker of a pair that is cut."""

    identity: str
    address: str


class PartitionFault:
    """No word between two brokers, or none from the first to the second. Each of them drops its share."""

    def __init__(self, one: Side, other: Side, for_s: float, manage: Manage, *, is_one_way: bool) -> None:
        self.lasts_s: float | None = for_s
        self._manage = manage
        self._cuts = [
            (one, other, "sent" if is_one_way else "both"),
            (other, one, "received" if is_one_way else "both"),
        ]
        self._struck: list[tuple[Side, Side]] = []

    def strike(self) -> None:
        try:
            for side, peer, lost in self._cuts:
                arguments = {"peer": peer.identity, "for_s": self.lasts_s, "lost": lost}
                self._manage(side.address, "partition", arguments)
                self._struck.append((side, peer))
        except Scale0Error:
            self.mend()
            raise

    def mend(self) -> None:
        struck, self._struck = self._struck, []
        for side, peer in struck:
            with contextlib.suppress(Scale0Error):  # it heals by itself when its time is over
                self._manage(side.address, "heal", {"peer": peer.identity})


# --- whose process it is ------------------------------------------------------------------------------------------


def pid_of(process: str) -> int:
    return int(process.rpartition(":")[2])


def host_of(process: str) -> str:
    return process.rpartition(":")[0]


def check_process(what: str, process: str | None, command: str) -> None:
    """Raise unless this process runs on this machine, and ending it does not end the drill."""
    if not process or not process.rpartition(":")[2].isdigit():
        raise UsageError(f"{what} does not tell which process it is\nit speaks an older version, or another dialect")
    here = host_of(this_process())
    if host_of(process) != here:
        raise UsageError(f"{what} runs on {host_of(process)}, and this is {here}\nrun there: {command}")
    pid = pid_of(process)
    if pid <= 1 or pid in _own_line():
        raise UsageError(f"{what} runs in process {pid}, which the drill itself depends on\nchoose another")
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        raise UsageError(
            f"{what} names process {pid}, and there is none here\nrun in its container: {command}"
        ) from None
    except PermissionError:
        raise UsageError(f"{what} is process {pid} of another user; run the drill as that user") from None


def _own_line(proc: Path = Path("/proc")) -> set[int]:
    """This process and its parents, as far as the system tells."""
    line = {os.getpid(), os.getppid()}
    pid = os.getppid()
    while pid > 1:
        try:  # the name stands in brackets and may hold anything; the parent is the second word after it
            pid = int((proc / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
        line.add(pid)
    return line


def command_of(pid: int, proc: Path = Path("/proc")) -> str:
    """The name of a process, to show who will be hit; never its arguments, which may hold secrets."""
    try:
        return (proc / str(pid) / "comm").read_text().strip()
    except OSError:
        return ""
