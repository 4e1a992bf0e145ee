"""A worker in a process of its own, made of a bare socket, that tells on stdout what it does.

    python -m tests.integration.worker_process ENDPOINT IDENTITY SERVICE [idempotent] [echo|hold]

`echo` answers each task with its body and its identity. `hold` keeps the task until a line comes on stdin, and then
answers. It ends when stdin ends, so it never outlives the test.
"""

from __future__ import annotations

import os
import sys
import threading

import zmq

from scale0.protocol.messages import ForceNegotiate, Task
from tests.integration.wire import RawWorker


def main() -> None:
    endpoint, identity, service = sys.argv[1:4]
    worker = RawWorker(endpoint, identity, service, idempotent="idempotent" in sys.argv, interval_ms=0)
    released = threading.Event()
    threading.Thread(target=_read_stdin, args=(released,), daemon=True).start()
    _tell("ready")
    held: Task | None = None
    while True:
        if worker.socket.poll(100 if held is None else 20, zmq.POLLIN):
            message = worker.hear()
            if isinstance(message, ForceNegotiate):
                _tell("negotiate")
                ids: list[bytes] = [held.id] if held else []
                worker.connect(ids)
                worker.ready(ids)
                _tell("ready")
            elif isinstance(message, Task):
                held = message
                _tell("took")
        else:
            worker.beat()
        if held is not None and ("hold" not in sys.argv or released.is_set()):
            worker.reply(held, *held.body, identity.encode())
            held = None
            released.clear()
            _tell("replied")


def _read_stdin(released: threading.Event) -> None:
    while os.read(0, 100):
        released.set()
    os._exit(0)


def _tell(what: str) -> None:
    sys.stdout.write(what + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
