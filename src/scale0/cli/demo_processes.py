"""The demo's processes: real ones, each started, killed and ended here, and none ever left behind."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from scale0.cli import demo_page, demo_record
from scale0.cli.demo_child import HEARTBEAT_S
from scale0.errors import Scale0Error

READY = re.compile(r"ready on (\S+)")
START_LIMIT_S = 20.0
END_LIMIT_S = 10.0

BROKERS = ("demo-1", "demo-2")
SETTINGS = f"""default_heartbeat_interval = {HEARTBEAT_S}
failback = "automatic"
failback_after = 1.0
"""


class DemoFailed(Scale0Error):
    """A process of the demo did not do its part."""


class Processes:
    """Children by name. As a context manager it ends them all, whatever happened."""

    def __init__(self, *, is_recording: bool = True) -> None:
        self._is_recording = is_recording and demo_record.is_possible()
        self._children: dict[str, subprocess.Popen[str]] = {}
        self._directory = tempfile.TemporaryDirectory(prefix="scale0-demo-", ignore_cleanup_errors=True)
        self.directory = Path(self._directory.name)

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.end_all()
        if self._is_recording:
            demo_record.wait(self.directory, BROKERS)
        self._directory.cleanup()

    def start_broker(
        self, name: str, *, bind: str = "tcp://127.0.0.1:0", join: str = "", is_managed: bool = False
    ) -> str:
        """Start a broker, alone or to join another, with a page or without, and return its address."""
        settings = self.directory / "broker.toml"
        settings.write_text(SETTINGS, encoding="utf-8")
        how: list[str | Path] = ["--join", join] if join else ["--config", settings]
        if self._is_recording:
            how += demo_record.options(self.directory, name)
        if is_managed:
            how += demo_page.options(self.directory)
        child = self._start(
            name, "broker", "--bind", bind, "--identity", name, "--state-dir", self.directory / name, *how
        )
        line = _first_line(child, START_LIMIT_S)
        found = READY.search(line)
        if found is None:
            raise DemoFailed(f"broker {name} did not start\n{self.last_words(name)}")
        return found[1]

    def start_worker(self, service: str, endpoint: str, identity: str) -> None:
        self._start(identity, "worker", service, endpoint, identity)

    def kill(self, name: str) -> None:
        """SIGKILL: the process cannot say goodbye."""
        child = self._children.pop(name)
        child.kill()
        child.wait(END_LIMIT_S)
        _close_pipes(child)

    def pause(self, name: str) -> None:
        self._children[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self._children[name].send_signal(signal.SIGCONT)

    def names(self) -> list[str]:
        return list(self._children)

    def fallen(self) -> list[str]:
        """Children that ended although nobody asked them to."""
        return [name for name, child in self._children.items() if child.poll() is not None]

    def log_of(self, name: str) -> Path:
        """What a child writes to stderr."""
        return self.directory / f"{name}.log"

    def last_words(self, name: str, lines: int = 8) -> str:
        """The end of what a child wrote to stderr."""
        log = self.log_of(name)
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def end_all(self) -> dict[str, int]:
        """Workers first, then the brokers, politely; whoever stays is killed. Returns their exit codes."""
        codes: dict[str, int] = {}
        workers = [name for name in self._children if name not in BROKERS]
        for names in (workers, *([name] for name in reversed(BROKERS) if name in self._children)):
            for name in names:
                with contextlib.suppress(ProcessLookupError):
                    self._children[name].send_signal(signal.SIGTERM)
                    self._children[name].send_signal(signal.SIGCONT)  # it may be paused, and could not hear
            deadline_s = time.monotonic() + END_LIMIT_S
            for name in names:
                codes[name] = _reap(self._children.pop(name), deadline_s)
        return codes

    def _start(self, name: str, *arguments: str | Path) -> subprocess.Popen[str]:
        with self.log_of(name).open("ab") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", "scale0.cli.demo_child", *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if name in BROKERS else subprocess.DEVNULL,
                stderr=log,
                text=True,
                # Ctrl-C goes to the whole process group of a terminal; the demo alone decides who ends when.
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        self._children[name] = child
        return child


def _first_line(child: subprocess.Popen[str], limit_s: float) -> str:
    """The first line on the child's stdout, or nothing if it does not come in time."""
    assert child.stdout is not None
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.append(child.stdout.readline()), daemon=True)  # type: ignore[union-attr]
    reader.start()
    reader.join(limit_s)
    return lines[0] if lines else ""


def _reap(child: subprocess.Popen[str], deadline_s: float) -> int:
    try:
        return child.wait(max(0.1, deadline_s - time.monotonic()))
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()
    finally:
        _close_pipes(child)


def _close_pipes(child: subprocess.Popen[str]) -> None:
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
