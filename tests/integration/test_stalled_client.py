"""A client that sends and never reads: others are served as before, and the broker's memory stays bounded (rule 33)."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scale0.protocol.messages import Task
from scale0.testing import broker
from tests.integration.wire import LIMIT_S, RawClient, RawWorker, decode_answer

TASKS = 4_000
BODY = bytes(128 * 1024)
MEMORY_BYTES_MAX = 400 * 1024 * 1024  # of the 500 MiB of replies that the client asks for and leaves unread


@contextmanager
def worker_thread(endpoint: str) -> Iterator[None]:
    """A worker that answers an empty body by a large one, and any other by itself."""
    is_ready, is_over = threading.Event(), threading.Event()

    def serve() -> None:
        with RawWorker(endpoint, "worker", "big", capacity=16) as worker:
            is_ready.set()
            while not is_over.is_set():
                frames = worker.get_within(0.2)
                task = decode_answer(frames)[1] if frames else None
                if isinstance(task, Task):
                    worker.reply(task, task.body[0] or BODY)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert is_ready.wait(LIMIT_S)
        yield
    finally:
        is_over.set()
        thread.join(LIMIT_S)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_client_that_never_reads_disturbs_nobody() -> None:
    with (
        broker(process=True) as running,
        worker_thread(running.endpoint),
        RawClient(running.endpoint, "good") as good,
        RawClient(running.endpoint, "stalled", unread_max=1) as stalled,
    ):
        for number in range(TASKS):
            stalled.submit("big", b"", timeout_s=60.0)
            if number % 20 == 0:
                stalled.beat()
                assert good.call("big", b"mine").body == (b"mine",)
                assert resident_bytes(running.pid) < MEMORY_BYTES_MAX, f"after {number} tasks"


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
