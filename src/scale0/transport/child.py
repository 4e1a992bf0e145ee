"""A broker process that belongs to its parent: `scale0.testing` starts it, and it never outlives who started it.

Parent and child speak JSON lines: the parent writes one `Order` to the child's stdin and keeps the pipe open; the child
writes one line with its endpoints, or with what went wrong, to stdout. When stdin ends, the parent is gone, however it
ended, and the child ends at once.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec

from scale0.core.settings import BrokerSettings
from scale0.errors import Scale0Error
from scale0.protocol.network import Document
from scale0.transport.process import run_broker
from scale0.transport.recording import Telemetry
from scale0.transport.security import Security


class Order(msgspec.Struct):
    """What the parent asks for."""

    settings: BrokerSettings
    bind: str
    backend: str | None = None
    publish: str | None = None
    seeds: list[str] = []
    document: Document | None = None
    state_dir: str | None = None
    telemetry: Telemetry | None = None
    security: Security | None = None


class Report(msgspec.Struct):
    """What the child says: the endpoints that it bound, or why it could not."""

    endpoints: list[str] = []
    publishes_at: str | None = None
    error: str = ""


def main() -> int:
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=Order)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        run_broker(
            order.settings,
            order.bind,
            order.backend,
            publish=order.publish,
            seeds=order.seeds,
            document=order.document,
            state_dir=Path(order.state_dir) if order.state_dir else None,
            telemetry=order.telemetry,
            security=order.security,
            ready=lambda server: _say(Report(server.endpoints, server.publishes_at)),
            is_quiet=True,
        )
    except Scale0Error as error:
        _say(Report(error=str(error)))
        return 1
    return 0


def _say(report: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()


def _end_with_parent() -> None:
    # Read without Python's buffer, whose lock would block the interpreter's exit.
    while os.read(0, 4096):
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
