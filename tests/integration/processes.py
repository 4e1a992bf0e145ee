"""Worker processes that end with their test, and tell what they do."""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMIT_S = 60.0


class WorkerProcess:
    """`tests.integration.worker_process`, started."""

    def __init__(self, endpoint: str, identity: str, service: str, *modes: str) -> None:
        command = [sys.executable, "-m", "tests.integration.worker_process", endpoint, identity, service, *modes]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._said: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        self.expect("ready")

    def expect(self, what: str) -> None:
        """Wait until it says so."""
        while True:
            said = self._said.get(timeout=LIMIT_S)
            assert said, f"the worker ended, and never said {what!r}"
            if said == what:
                return

    def release(self) -> None:
        """Let it answer the task that it holds."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def send_signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        self.process.kill()
        self.process.wait(LIMIT_S)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        try:
            for line in self.process.stdout:
                self._said.put(line.strip())
        except ValueError:
            pass  # closed by `end`
        self._said.put("")


@contextmanager
def worker_process(endpoint: str, identity: str, service: str, *modes: str) -> Iterator[WorkerProcess]:
    worker = WorkerProcess(endpoint, identity, service, *modes)
    try:
        yield worker
    finally:
        worker.end()
