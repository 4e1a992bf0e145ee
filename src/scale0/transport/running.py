"""A broker that runs for its starter: in a thread of this process, or in a process of its own.

A thread is quick to start, and the broker can be looked into. A process can be killed like one; it ends with this one,
however this one ends (`child.py`). Both take the same `Order`, and `endpoints` and `publishes_at` name the real ports.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from scale0.transport.child import Order, Report
from scale0.transport.logs import make_log
from scale0.transport.server import Server

START_S: Final = 60.0  # the longest wait for a broker to begin, or to end
GENTLE_S: Final = 0.2  # how long a stopping process may finish what it holds


class InThread:
    """A broker in a thread. It is strict: an unexpected exception ends it, and `stop` raises it."""

    def __init__(self, order: Order) -> None:
        self.server = Server(
            order.settings,
            order.bind,
            order.backend,
            log=make_log(is_quiet=True),
            publish=order.publish,
            seeds=order.seeds,
            document=order.document,
            state_dir=Path(order.state_dir) if order.state_dir else None,
            telemetry=order.telemetry,
            security=order.security,
            strict=True,
        )
        self.endpoints = self.server.endpoints
        self.publishes_at = self.server.publishes_at
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="scale0-broker", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._end(self.server.stop)

    def kill(self) -> None:
        self._end(self.server.kill)

    def _end(self, ask: Callable[[], None]) -> None:
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


class InProcess:
    """A broker in a process of its own, which ends with this one, however this one ends."""

    def __init__(self, order: Order) -> None:
        command = [sys.executable, "-m", "scale0.transport.child"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
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
        self.publishes_at = report.publishes_at

    def stop(self) -> None:
        # The second signal ends what the first would wait for: stopping means now.
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(GENTLE_S)
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
