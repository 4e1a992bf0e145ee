"""From a broker's frames to a table of events.

Rows are numbered by the broker, and everything that is lost on the way, for whatever cause, leaves a hole in the
numbers. So loss is found here and nowhere else: each hole becomes one row `dropped`, which has the number of the last
row that is missing. A row whose number was seen before is a repetition, and is left out: a broker tells again what a
recorder that was killed may have missed.

Nothing is done per task in Python. Records are read as one array of numpy, rows that are not tasks get their place
among them as empty records, and each column is made from a field of the array.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from scale0.events import Attempt, Note
from scale0.telemetry import frames, sampling
from scale0.telemetry.columns import RECORD, Clock, Rows, make_table
from scale0.telemetry.frames import Goodbye, Hello, Kind

NAMES_MAX: Final = 400_000  # numbers of names that are kept at once; a broker forgets all of them long before
OTHER: Final = "other"  # a name whose number is beyond that, or was never told


class Unpacker:
    """What must be known to read the next frame of one run: whose it is, names, the clock, and the last row read."""

    def __init__(self, hello: Hello, rates: Mapping[str, int] | None = None) -> None:
        self.hello = hello
        self.seq = hello.seq  # of the last row that was read, or is known to be lost
        self.at_s = 0.0  # when that was, by the broker's monotonic clock
        self.is_over = False
        self.why_lost = "dropped"
        self._rates = dict(rates or {})
        self._names: list[str | None] = [None]  # by number; 0 is the number of no name
        self._texts = pa.array([], pa.string())  # the same, when it was last asked for

    def preamble(self) -> bytes:
        """What a reader must have seen before the next frame: the beginning of a new log."""
        told = [(number, name) for number, name in enumerate(self._names) if name is not None]
        hello = msgspec.structs.replace(self.hello, seq=self.seq)
        return frames.frame(Kind.HELLO, hello) + (frames.frame(Kind.NAMES, told) if told else b"")

    def table(self, chunks: Iterable[bytes]) -> Any | None:
        """The rows of `chunks`, sorted; None if there are none."""
        tables, span = [], _Span()
        for chunk in chunks:
            for kind, payload in frames.split(chunk):
                if kind is Kind.TASKS:
                    span.tasks.append(payload)
                elif kind is Kind.NOTES:
                    span.notes += frames.read_notes(payload)
                elif kind is Kind.ATTEMPTS:
                    span.attempts += frames.read_attempts(payload)
                elif kind is Kind.NAMES:
                    self._learn(frames.read_names(payload))
                elif kind is Kind.GOODBYE:
                    span.notes.append(self._end(frames.read_goodbye(payload)))
                elif kind in (Kind.FORGET, Kind.HELLO):  # rows up to here are read with what was known until now
                    tables.append(self._span_table(span))
                    span = _Span()
                    self._begin_anew(kind, payload)
        tables.append(self._span_table(span))
        found = [table for table in tables if table is not None]
        if len(found) < 2:
            return found[0] if found else None
        return pa.concat_tables(found).unify_dictionaries()

    def _begin_anew(self, kind: Kind, payload: memoryview) -> None:
        if kind is Kind.FORGET:
            self._names = [None]
        else:
            self.hello = frames.read_hello(payload)
            self.seq = max(self.seq, self.hello.seq)

    def _end(self, goodbye: Goodbye) -> Note:
        """The last row of a run. What its broker recorded, and is not here, is lost."""
        self.is_over = True
        last_seq, detail = goodbye.last_seq, {"clean": goodbye.clean}
        return Note(last_seq + 1, goodbye.at_s, "boot_end", self.hello.broker, "", last_seq, detail)

    def _learn(self, told: list[tuple[int, str]]) -> None:
        names = self._names
        for number, name in told:
            if number >= NAMES_MAX:
                continue
            names += [None] * (number + 1 - len(names))
            names[number] = name
        self._texts = self._texts[:0]

    def _span_table(self, span: _Span) -> Any | None:
        tasks = np.frombuffer(b"".join(span.tasks), dtype=RECORD)
        tasks = tasks[_news(tasks["seq"].astype(np.int64), self.seq)]
        notes = _new_notes(span.notes, self.seq)
        notes += self._lost(tasks, notes)
        if not len(tasks) and not notes:
            return None
        notes.sort(key=lambda note: note.seq)
        clock = self._clock(notes)
        weights = self._weigh(tasks)
        self.seq = max(int(tasks["seq"][-1]) if len(tasks) else 0, notes[-1].seq if notes else 0)
        self.at_s = max(float(tasks["settled_s"][-1]) if len(tasks) else 0.0, notes[-1].at_s if notes else 0.0)
        if weights is not None:
            tasks, weights = tasks[weights > 0], weights[weights > 0]
        return make_table(Rows(self.hello, tasks, weights, notes, span.attempts, clock, self._known()))

    def _lost(self, tasks: Any, notes: list[Note]) -> list[Note]:
        """A row for each hole in the numbers since the last row that was read."""
        numbers = np.concatenate([tasks["seq"].astype(np.int64), np.array([one.seq for one in notes], dtype=np.int64)])
        numbers.sort()
        before = np.concatenate([[self.seq], numbers[:-1]]) if len(numbers) else numbers
        found = []
        for hole in np.flatnonzero(numbers - before > 1):
            low, high = int(before[hole]) + 1, int(numbers[hole]) - 1
            at = np.searchsorted(tasks["seq"], high)
            at_s = float(tasks["settled_s"][at]) if at < len(tasks) else self.at_s
            detail = {"seq_lo": low, "seq_hi": high, "why": self.why_lost}
            found.append(Note(high, at_s, "dropped", self.hello.broker, "", high - low + 1, detail))
        return found

    def _clock(self, notes: list[Note]) -> Clock:
        """The wall clock from here on: it is another one after each note that says that it was set."""
        clock = Clock(self.hello.anchor_us, [one for one in notes if one.kind == "anchor" and one.value is not None])
        self.hello = msgspec.structs.replace(self.hello, anchor_us=int(clock.anchors_us[-1]))
        return clock

    def _weigh(self, tasks: Any) -> Any | None:
        rates = {number: self._rates[name] for number, name in enumerate(self._names) if name in self._rates}
        return sampling.weigh(tasks, rates) if rates and len(tasks) else None

    def _known(self) -> Any:
        """The names by number; what was never told is not mistaken for something else."""
        if len(self._texts) != len(self._names):
            self._texts = pa.array([None, *[OTHER if name is None else name for name in self._names[1:]]], pa.string())
        return self._texts


class _Span:
    """Frames between two moments at which all numbers are forgotten."""

    def __init__(self) -> None:
        self.tasks: list[memoryview] = []
        self.notes: list[Note] = []
        self.attempts: list[Attempt] = []


def _news(numbers: Any, seq: int) -> Any:
    """Which rows come after `seq` and after all rows before them; a run's numbers only rise."""
    if not len(numbers):
        return slice(0)
    highest = np.maximum.accumulate(np.concatenate([[seq], numbers[:-1]]))
    is_new = numbers > highest
    return slice(None) if is_new.all() else is_new


def _new_notes(notes: list[Note], seq: int) -> list[Note]:
    """The same of notes; they are few."""
    found = {one.seq: one for one in notes if one.seq > seq}
    return list(found.values())
