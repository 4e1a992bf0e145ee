"""Reads what a broker has recorded, back into rows by name: the plain way, for tests."""

from __future__ import annotations

from collections import Counter
from typing import Any

from scale0.core.broker import Broker
from scale0.core.recording import counts
from scale0.core.task_rows import FAILED, REPLIED
from scale0.events import OUTCOMES, TASK, TASK_FIELDS, Attempt, Note, Records

FIELDS = [name for name, code in TASK_FIELDS if "x" not in code]


class Reader:
    """Keeps the names that it was told; `read` takes what waits in the broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.names: dict[int, str] = {0: ""}
        self.tasks: list[dict[str, Any]] = []
        self.notes: list[Note] = []
        self.attempts: list[Attempt] = []

    def read(self) -> list[dict[str, Any]]:
        """Take what waits; all tasks so far."""
        records = self.broker.take_records()
        if records is not None:
            self._take(records)
        return self.tasks

    def check(self) -> None:
        """Every task that was settled has one row, and so has each that was refused."""
        rows = self.read()
        told = counts(self.broker.state)
        found = Counter("replied" if row["outcome"] in (REPLIED, FAILED) else OUTCOMES[row["outcome"]] for row in rows)
        assert (found["replied"], found["error"]) == (told["replied"], told["errored"])
        assert found["refused"] == told["refused"]

    def of(self, kind: str) -> list[Note]:
        self.read()
        return [note for note in self.notes if note.kind == kind]

    def _take(self, records: Records) -> None:
        self.names.update(records.names)
        self.notes += records.notes
        self.attempts += records.attempts
        for values in map(TASK.unpack, records.tasks):
            row = dict(zip(FIELDS, values, strict=True))
            named = {field[:-3]: self.names[number] for field, number in row.items() if field.endswith("_no")}
            self.tasks.append(row | named)
        if records.is_forgetting:
            self.names = {0: ""}
