"""Handlers that a child process can import."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

from scale0.worker import current_task


def pid_of(_: int) -> int:
    return os.getpid()


def greet(name: str) -> str:
    return f"hello {name} from attempt {current_task().attempt} of {current_task().service}"


def fail() -> None:
    raise LookupError("not in this process")


def count(n: int) -> Iterator[int]:
    yield from range(n)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def exit_code(code: int) -> None:
    os._exit(code)


def announce_and_wait(path: str) -> None:
    """Say in a file that it has begun, then wait for ever."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(str(os.getpid()))
    threading.Event().wait()
