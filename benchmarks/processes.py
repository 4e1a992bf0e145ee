"""Child processes of a benchmark, each of which ends with it, however it ends.

A child is started with the kernel's parent-death signal, so that even a killed benchmark leaves nothing behind; its
output goes to a file under the run's directory, whose end is quoted when the child fails.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
_PR_SET_PDEATHSIG: Final = 1
_libc: Final = ctypes.CDLL(None)


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Child:
    """One started process and the file that its output goes to."""

    def __init__(self, name: str, command: Sequence[str], directory: Path) -> None:
        self.name = name
        self.output = directory / f"{name}-{time.monotonic_ns()}.log"
        with self.output.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=HERE,
                preexec_fn=_die_with_parent,  # noqa: PLW1509  no thread runs yet when children are started
            )
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    def wait_for_line(self, word: str, limit_s: float = 20.0) -> str:
        """The first line of output that holds `word`."""
        end = time.monotonic() + limit_s
        while True:
            text = self.output.read_text(errors="replace")
            for line in text.splitlines(keepends=True):
                if word in line and line.endswith("\n"):
                    return line.strip()
            if self.returncode is not None:
                raise RuntimeError(f"{self.name} ended with code {self.returncode}:\n{text[-2000:]}")
            if time.monotonic() > end:
                raise TimeoutError(f"{self.name} did not say {word!r} within {limit_s:.0f} s:\n{text[-2000:]}")
            time.sleep(0.01)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def end(self, limit_s: float = 3.0) -> None:
        """Ask it to end, and make it end when it does not."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(limit_s)
            except subprocess.TimeoutExpired:
                self.kill()


@contextlib.contextmanager
def child(name: str, command: Sequence[str], directory: Path, *, limit_s: float = 3.0) -> Iterator[Child]:
    started = Child(name, command, directory)
    try:
        yield started
    finally:
        started.end(limit_s)


@contextlib.contextmanager
def script(name: str, arguments: Sequence[object], directory: Path) -> Iterator[Child]:
    """One of the scripts of this folder, by its name without `.py`."""
    command = [sys.executable, str(HERE / f"{name}.py"), *map(str, arguments)]
    with child(name, command, directory) as started:
        yield started


def free_port() -> int:
    """A port that was free a moment ago, for servers that cannot choose one themselves."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for_port(port: int, child: Child, limit_s: float = 10.0) -> None:
    end = time.monotonic() + limit_s
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if child.returncode is not None:
            raise RuntimeError(f"{child.name} ended with code {child.returncode}:\n{child.output.read_text()[-2000:]}")
        if time.monotonic() > end:
            raise TimeoutError(f"{child.name} did not listen on port {port} within {limit_s:.0f} s")
        time.sleep(0.02)
