"""The command line in a process that ends with the test that started it.

    python -m tests.integration.broker_process broker --bind tcp://127.0.0.1:0 …

It is `scale0` and nothing else; but when its stdin ends, whoever started it is gone, and it ends at once. What comes on
stdin before that sets its wall clock (`wall_clock.py`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

from tests.integration.wall_clock import WallClock


def stdin_lines() -> Iterator[str]:
    """What the parent says. Read without Python's buffer, whose lock would block the interpreter's exit."""
    rest = b""
    while more := os.read(0, 4096):
        *lines, rest = (rest + more).split(b"\n")
        yield from (line.decode() for line in lines)


def _end_with_parent(clock: WallClock) -> None:
    for _ in clock.obey(stdin_lines()):
        pass
    os._exit(1)


if __name__ == "__main__":
    wall_clock = WallClock()
    wall_clock.install()
    threading.Thread(target=_end_with_parent, args=(wall_clock,), daemon=True).start()

    from scale0.cli.main import run

    run()
