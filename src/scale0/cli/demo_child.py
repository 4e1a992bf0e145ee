"""A process of the demo: the broker, or a worker of the three services.

A child ends when its parent does, however that came about: it reads its standard input, which nobody writes to, and the
end of that means that the parent is gone. So not even `kill -9` of the demo leaves an orphan.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scale0.worker import Worker

GRACE_S = 5.0  # for leaving cleanly, once the parent is gone

HEARTBEAT_S = 0.5  # the demo finds a lost worker sooner than is the default

CAPACITY = {"greet": 16, "resize": 1, "render": 2}
"""How many tasks of a kind one worker takes at once: computing is best done one by one, waiting need not be."""


def greet(name: str) -> str:
    """Microseconds."""
    return f"hello {name}"


def resize(width: int) -> int:
    """5 to 20 ms of computing. Not declared idempotent: if its worker is lost, the caller is told so, by 502."""
    ends_s = time.perf_counter() + random.uniform(0.005, 0.020)
    rows = 0
    while time.perf_counter() < ends_s:
        rows += sum(range(width)) % 2
    return width // 2


def render(scene: str) -> str:
    """100 to 300 ms of waiting, as for a disk. Idempotent: dispatched again if its worker is lost."""
    time.sleep(random.uniform(0.1, 0.3))
    return f"{scene}.png"


def make_worker(service: str, endpoint: str, identity: str) -> Worker:
    """A worker of one of the three services."""
    from scale0.worker import Worker

    worker = Worker(endpoint, identity=identity, capacity=CAPACITY[service], heartbeat_interval=HEARTBEAT_S)
    handlers: dict[str, Callable[..., object]] = {"greet": greet, "resize": resize, "render": render}
    worker.add_service(service, handlers[service], idempotent=service == "render", max_attempts=3)
    return worker


def end_with_parent() -> None:
    """Leave when standard input ends: politely first, and for certain after a grace."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE_S)
        os._exit(1)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def main(arguments: list[str]) -> int:
    """`broker OPTIONS…`, or `worker SERVICE ENDPOINT IDENTITY`."""
    end_with_parent()
    if arguments[0] == "broker":
        from scale0.cli.main import main as command_line

        return command_line(arguments)
    service, endpoint, identity = arguments[1:]
    make_worker(service, endpoint, identity).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
