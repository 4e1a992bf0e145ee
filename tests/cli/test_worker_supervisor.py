"""`--processes` and `--reload`, with real processes and a real broker."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scale0.cli.worker_command import WorkerCommand
from scale0.cli.worker_supervisor import snapshot
from scale0.client import Client
from scale0.testing import TestBroker, broker

LIMIT_S = 120.0
TASKS = """
import os
from scale0.worker import Worker
worker = Worker()

@worker.service("look")
def look(version: int = {version}) -> list[int]:
    return [os.getpid(), version]
"""


@contextlib.contextmanager
def supervisor(place: Path, command: WorkerCommand) -> Iterator[subprocess.Popen[bytes]]:
    code = (
        "import sys, msgspec; from scale0.cli import failures; from scale0.cli.worker_command import *;"
        "sys.exit(run(msgspec.json.decode(sys.argv[1], type=WorkerCommand)))"
    )
    data = msgspec.json.encode(command).decode()
    with subprocess.Popen([sys.executable, "-c", code, data], cwd=place, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(LIMIT_S)
                except subprocess.TimeoutExpired:
                    process.kill()


def until(ask: Callable[[], Any], what: str) -> Any:
    """Ask until the answer is true, within the limit."""
    limit_s = time.monotonic() + LIMIT_S
    while True:
        answer = ask()
        if answer:
            return answer
        assert time.monotonic() < limit_s, f"no {what} within {LIMIT_S} s"
        threading.Event().wait(0.05)


def workers(client: Client) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = client.call("scale0.workers", timeout=LIMIT_S)["rows"]
    return [row for row in rows if row["state"] == "ready"]


@pytest.fixture
def running() -> Iterator[TestBroker]:
    with broker(default_heartbeat_interval_s=0.5, liveness=6) as running:
        yield running


def test_a_crashed_process_is_replaced_and_a_signal_ends_all(running: TestBroker, tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS.format(version=1))
    command = WorkerCommand(target="tasks:worker", brokers=[running.endpoint], processes=2)
    with supervisor(tmp_path, command) as process, Client(running.endpoint) as client:
        first = until(lambda: two if len(two := workers(client)) == 2 else None, "two workers")
        pid, _ = client.call("look", timeout=LIMIT_S)
        os.kill(pid, signal.SIGKILL)
        names = {row["identity"] for row in first}
        until(lambda: len({row["identity"] for row in workers(client)} - names) == 1, "replacement")
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_S) == 0
        until(lambda: not workers(client), "empty list")


def test_an_import_error_ends_the_command_with_2(tmp_path: Path) -> None:
    with supervisor(tmp_path, WorkerCommand(target="nothing:worker", processes=2)) as process:
        assert process.wait(LIMIT_S) == 2
        assert process.stderr is not None
        assert b"there is no module 'nothing'" in process.stderr.read()


def test_a_missing_broker_ends_the_command_with_3(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS.format(version=1).replace("Worker()", "Worker(connect_timeout=0.2)"))
    command = WorkerCommand(target="tasks", brokers=["tcp://127.0.0.1:9"], processes=2)
    with supervisor(tmp_path, command) as process:
        assert process.wait(LIMIT_S) == 3


def test_children_end_when_the_supervisor_is_killed(running: TestBroker, tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS.format(version=1))
    command = WorkerCommand(target="tasks", brokers=[running.endpoint], processes=2)
    with supervisor(tmp_path, command) as process, Client(running.endpoint) as client:
        until(lambda: len(workers(client)) == 2, "two workers")
        process.kill()
        until(lambda: not workers(client), "empty list")


def test_a_change_in_the_source_starts_again(running: TestBroker, tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.py"
    tasks.write_text(TASKS.format(version=1))
    command = WorkerCommand(target="tasks", brokers=[running.endpoint], is_reloading=True)
    with supervisor(tmp_path, command) as process, Client(running.endpoint) as client:
        until(lambda: workers(client), "worker")
        assert client.call("look", timeout=LIMIT_S)[1] == 1
        _write(tasks, "this is no Python")
        until(lambda: not workers(client), "empty list")  # and it waits for a change that helps
        _write(tasks, TASKS.format(version=2))
        until(lambda: workers(client), "worker again")
        assert client.call("look", timeout=LIMIT_S)[1] == 2
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0


def _write(path: Path, text: str) -> None:
    """Write, with a time that differs from the last one even on a coarse clock."""
    former_ns = path.stat().st_mtime_ns
    path.write_text(text)
    os.utime(path, ns=(former_ns + 10**9, former_ns + 10**9))


def test_only_source_files_are_watched(tmp_path: Path) -> None:
    for name in ("a.py", "sub/b.py", ".hidden/c.py", "venv/d.py", "sub/__pycache__/e.py", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert [os.path.relpath(path, tmp_path) for path in snapshot(tmp_path)] == ["a.py", "sub/b.py"]
