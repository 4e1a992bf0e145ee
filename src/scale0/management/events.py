"""What happened lately, for people: commands and denials, alarms, and changes of the broker's own state.

The last thousand are kept in memory, and each is pushed to open pages. What must outlive the process is in the audit
log and in the event log of the recorder.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

ROWS_MAX: Final = 1_000
TEXT_MAX: Final = 500


def utc_now() -> str:
    return datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Events:
    """The newest first. From any thread: a deque's own steps are whole."""

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._rows: deque[dict[str, Any]] = deque(maxlen=ROWS_MAX)
        self.on_event: Callable[[dict[str, Any]], None] = lambda row: None

    def add(
        self,
        kind: str,
        *,
        actor: str = "",
        door: str = "",
        command: str = "",
        target: str = "",
        result: str = "",
        command_id: str = "",
    ) -> None:
        """`kind` is command, denied, alarm or state."""
        row = {
            "at": utc_now(),
            "kind": kind,
            "actor": actor,
            "door": door,
            "command": command,
            "target": target[:TEXT_MAX],
            "result": result[:TEXT_MAX],
            "broker": self._broker,
            "command_id": command_id,
        }
        self._rows.appendleft(row)
        self.on_event(row)

    def rows(self) -> list[dict[str, Any]]:
        return list(self._rows)
