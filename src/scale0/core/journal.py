"""What a broker will have recorded: rows that wait for its shell, and the numbers of the names in them.

A row of a finished task is packed at once into a record of fixed width (`events.TASK`); everything else is rare and
becomes a note. The shell takes all of it with `Broker.take_records`, at the end of a burst, and brings it to a process
of its own: the core neither waits for that nor knows whether it succeeded. Rows are numbered here, so that one that is
lost on the way leaves a hole.

Names are chosen by strangers. So the table of numbers has a cap: when it is full all numbers are void and the reader is
told so. Counting goes on, so that whoever has kept a number (`named`) sees by its size whether it still holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from scale0.events import HERE_PART, TASK, Attempt, Note, Records
from scale0.protocol.messages import ConfigVersion

if TYPE_CHECKING:
    from scale0.core.sessions import Session

NAMES_MAX: Final = 200_000
OPTIONS_LOOKED_AT_BYTES_MAX: Final = 4096
U32: Final = 0xFFFF_FFFF


class Named(Protocol):
    """What keeps the number of its name: a session, a service."""

    name_no: int


class Journal:
    """Rows that wait to be taken, of one run of a broker's process."""

    __slots__ = (
        "attempts",
        "boot",
        "config",
        "config_no",
        "epoch",
        "gauge_at_s",
        "here",
        "is_forgetting",
        "last_no",
        "new_names",
        "notes",
        "numbers",
        "refused",
        "seq",
        "services_at_s",
        "tasks",
        "told_workers",
        "void_no",
    )

    def __init__(self, boot: str) -> None:
        self.boot = boot
        self.seq = 0  # of the last row
        self.tasks: list[bytes] = []
        self.notes: list[Note] = []
        self.attempts: list[Attempt] = []
        self.numbers: dict[str | bytes, int] = {}  # of names, and of packed config versions
        self.new_names: list[tuple[int, str]] = []
        self.last_no = 0  # that was given to a name
        self.void_no = 0  # this number and all below it are void
        self.config = b""  # the packed version and the epoch that were last recorded, and what rows say of them
        self.config_no = self.epoch = 0
        self.here = b""
        self.is_forgetting = False
        self.refused = 0  # tasks that were never accepted
        self.gauge_at_s = -math.inf
        self.services_at_s = -math.inf
        self.told_workers: Iterator[Session] = iter(())  # whose turn it is to be summed up

    @property
    def waiting_bytes(self) -> int:
        """About how much waits; notes are small and few."""
        return TASK.size * len(self.tasks) + 100 * (len(self.notes) + len(self.attempts))

    def number(self, name: str | bytes) -> int:
        """The number of a name; of a packed config version, that of its text."""
        known = self.numbers.get(name)
        if known is not None:
            return known
        if len(self.numbers) >= NAMES_MAX:
            # Rows that wait here name the old numbers, so they must be taken first: see `Broker.take_records`.
            self.is_forgetting = True
        number = self.numbers[name] = self.last_no = self.last_no + 1
        self.new_names.append((number, name if isinstance(name, str) else str(ConfigVersion.unpack(name))))
        return number

    def named(self, thing: Named, name: str) -> int:
        """The number of a thing's name, from now on kept with the thing; it asks again when that is void."""
        thing.name_no = self.number(name)
        return thing.name_no

    def look_around(self, version: bytes, epoch: int) -> bytes:
        """What rows say of the config and the epoch that hold now, kept until others do."""
        self.config, self.epoch = version, epoch
        self.config_no = self.number(version)
        self.here = HERE_PART.pack(epoch & U32, self.config_no)
        return self.here

    def note(self, at_s: float, kind: str, subject: str, what: str, value: int | None, detail: dict[str, Any]) -> None:
        self.seq += 1
        self.notes.append(Note(self.seq, at_s, kind, subject, what, value, detail))

    def take(self) -> Records | None:
        """All that waits, or None. The caller has it alone from now on."""
        if not self.tasks and not self.notes:
            return None
        records = Records(self.new_names, self.attempts, self.notes, self.tasks, self.is_forgetting)
        self.new_names, self.attempts, self.notes, self.tasks = [], [], [], []
        if self.is_forgetting:
            self.numbers.clear()
            self.is_forgetting = False
            self.void_no = self.last_no
            self.config = b""
        return records


def trace_of(options: bytes) -> str:
    """The trace that a task belongs to, if its options carry W3C's `traceparent`: version-trace-parent-flags."""
    if b"traceparent" not in options or len(options) > OPTIONS_LOOKED_AT_BYTES_MAX:
        return ""
    try:
        parent = msgspec.msgpack.decode(options)["traceparent"]
        trace = parent.split("-")[1]
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError, IndexError):
        return ""
    return trace if len(trace) == 32 and trace.isalnum() else ""
