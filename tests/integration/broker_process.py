"""The command line in a process that ends with the test that started it.

    python -m tests.integration.broker_process broker --bind tcp://127.0.0.1:0 …

It is `scale0` and nothing else; but when its stdin ends, whoever started it is gone, and it ends at once.
"""

from __future__ import annotations

import os
import threading

from scale0.cli.main import run


def _end_with_parent() -> None:
    # Read without Python's buffer, whose lock would block the interpreter's exit.
    while os.read(0, 4096):
        pass
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    run()
