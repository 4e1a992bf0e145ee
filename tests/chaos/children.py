"""The workers and clients of the load, seen from the run: started, killed, paused, told something, ended.

None outlives the run. Each ends when its stdin does; and where `setpriv` is there the kernel kills it with its parent,
so that one which was paused just then does not stay.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.cli.processes import ROOT, environment

LIMIT_S = 40.0  # for a process to end


def with_its_parent() -> list[str]:
    """What comes before a command, so that the kernel ends it with this process."""
    return ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []


class Child:
    """A process that is started again under the same name after it was killed. What it says goes to `hear`."""

    def __init__(self, identity: str, logs: Path, command: Sequence[str], hear: Callable[[str], None]) -> None:
        self.identity = identity
        self._command = [*with_its_parent(), sys.executable, "-m", *command]
        self._log = logs / f"{identity}.log"
        self._hear = hear
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        assert self._process is None, f"{self.identity} runs already"
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
                env=environment(),
            )
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()

    def kill(self) -> None:
        """kill -9."""
        process, self._process = self._running(), None
        process.kill()
        process.wait(LIMIT_S)
        self._close(process)

    def pause(self) -> None:
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    def say(self, line: str) -> None:
        stdin = self._running().stdin
        assert stdin is not None
        stdin.write(f"{line}\n")
        stdin.flush()

    def await_end(self, limit_s: float) -> int:
        """Until it ends by itself, and all that it said was heard. Its exit code."""
        process, self._process = self._running(), None
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(LIMIT_S)
            raise AssertionError(f"{self.identity} did not end within {limit_s:g} s") from None
        finally:
            self._close(process)

    def end(self) -> None:
        """Whatever it does: it is over."""
        if self._process is not None:
            self.kill()

    def _running(self) -> subprocess.Popen[str]:
        assert self._process is not None, f"{self.identity} does not run"
        return self._process

    def _close(self, process: subprocess.Popen[str]) -> None:
        assert self._reader is not None
        self._reader.join(LIMIT_S)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._hear(line.rstrip("\n"))


def worker(identity: str, share: int, logs: Path, interval_s: float, endpoints: Sequence[str]) -> Child:
    """A worker whose journal is beside its log."""
    command = ["tests.chaos.worker_process", identity, str(share), str(journal_of(identity, logs)), str(interval_s)]
    return Child(identity, logs, [*command, *endpoints], lambda line: None)


def client(
    kind: str, identity: str, logs: Path, interval_s: float, endpoints: Sequence[str], hear: Callable[[str], None]
) -> Child:
    return Child(identity, logs, ["tests.chaos.client_process", kind, identity, str(interval_s), *endpoints], hear)


def journal_of(identity: str, logs: Path) -> Path:
    return logs / f"{identity}.journal"


def runs(logs: Path) -> Counter[str]:
    """How often each task ran, by all journals."""
    counted: Counter[str] = Counter()
    for path in logs.glob("*.journal"):
        counted.update(path.read_text().split())
    return counted
