"""A worker as users write it, for tests that send it signals: `python signal_script.py ENDPOINT`.

Its service `wait` ends when the file that it is given is there, so that a test decides when.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from scale0.worker import Worker

worker = Worker(sys.argv[1] if len(sys.argv) > 1 else "tcp://127.0.0.1:5555", capacity=4)


@worker.service("add")
def add(a: int, b: int) -> int:
    return a + b


@worker.service("wait")
def wait(place: str) -> str:
    never = threading.Event()
    while not Path(place).exists():
        never.wait(0.01)
    return "waited"


if __name__ == "__main__":
    sys.exit(worker.run())
