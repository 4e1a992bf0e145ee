"""A worker of the load, in a process of its own that may be killed at any moment.

    python -m tests.chaos.worker_process IDENTITY SHARE JOURNAL INTERVAL_S ENDPOINT…

Before it begins a task it writes the task's name into its journal, in one unbuffered append: whatever comes then, the
journal says what ran, and how often. It ends when its stdin ends; lines there set its wall clock.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

from tests.chaos.services import BIG, BIG_BYTES, MAX_ATTEMPTS, SERVICES, SHARES, Service, answer, parts
from tests.integration.broker_process import stdin_lines
from tests.integration.wall_clock import WallClock

CAPACITY = 4
_never = threading.Event()


class Journal:
    """A file of names, a line an execution; it is appended to by every process of the same identity in turn."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, name: str) -> None:
        os.write(self._file, f"{name}\n".encode())


def handler(service: Service, journal: Journal) -> Any:
    """The function behind a service."""

    def reply(question: str) -> str:
        journal.note(question)
        _never.wait(service.work_s)
        return answer(question)

    def stream(question: str) -> Iterator[str]:
        journal.note(question)
        for part in parts(question):
            _never.wait(service.work_s)
            yield part

    return stream if service.is_stream else reply


def _end_with_parent(clock: WallClock) -> None:
    for _ in clock.obey(stdin_lines()):
        pass
    os._exit(1)


def main() -> int:
    identity, share, path, interval_s, *endpoints = sys.argv[1:]
    # Ctrl-C goes to every process of the terminal; it is the parent's to end this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    clock = WallClock()
    clock.install()
    threading.Thread(target=_end_with_parent, args=(clock,), daemon=True).start()

    from scale0 import Worker

    journal = Journal(path)
    worker = Worker(
        *endpoints,
        identity=identity,
        capacity=CAPACITY,
        heartbeat_interval=float(interval_s),
        connect_timeout=float(interval_s),
        retry_forever=True,
    )
    for name in SHARES[int(share)]:
        if name == BIG:
            worker.add_service(name, lambda: bytes(BIG_BYTES), idempotent=True)
        else:
            service = SERVICES[name]
            attempts = MAX_ATTEMPTS if service.idempotent else 1
            worker.add_service(name, handler(service, journal), idempotent=service.idempotent, max_attempts=attempts)
    return worker.run()


if __name__ == "__main__":
    sys.exit(main())
