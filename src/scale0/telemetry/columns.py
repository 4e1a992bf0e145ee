"""The columns of events, each made at once from a field of the broker's records.

Names stay numbers until the end: a column of names is a dictionary of those that occur in it, and indices. What a
record marks as unknown becomes null, and so does every task's column in a row that is no task's.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from scale0.events import (
    ATTEMPT_FIELDS,
    NEVER_S,
    OUTCOMES,
    ROLES,
    TASK,
    TASK_FIELDS,
    UNKNOWN_OFFSET,
    UNKNOWN_US,
    VERSION,
    Attempt,
    Note,
)
from scale0.telemetry.frames import Hello
from scale0.telemetry.segments import ARROW_SCHEMA

_CODES: Final = {"Q": "<u8", "q": "<i8", "d": "<f8", "I": "<u4", "H": "<u2", "B": "u1"}


def _fields() -> list[Any]:
    found: list[Any] = []
    for name, code in TASK_FIELDS:
        if code in _CODES:
            found.append((name, _CODES[code]))
        else:  # so many bytes, or so many of nothing
            found.append((name, "u1", (int(code[:-1]),)))
    return found


RECORD: Final = np.dtype(_fields())
assert RECORD.itemsize == TASK.size, "numpy reads records as the broker packs them"

_REFUSED: Final = OUTCOMES.index("refused")
_HEX: Final = np.frombuffer(bytes(range(256)).hex().encode(), dtype=np.uint16)  # the two digits of each byte


class Clock:
    """Wall time of a row: the monotonic time plus an anchor, which is another one after each note `anchor`."""

    def __init__(self, anchor_us: int, notes: list[Note]) -> None:
        self._seqs = np.array([one.seq for one in notes], dtype=np.int64)
        self.anchors_us = np.cumsum([anchor_us, *[one.value or 0 for one in notes]], dtype=np.int64)

    def anchor_us(self, seqs: Any) -> Any:
        """What is added to the times in these rows."""
        if not len(self._seqs):
            return self.anchors_us[0]
        return self.anchors_us[np.searchsorted(self._seqs, seqs, side="right")]


class Rows(NamedTuple):
    """What a table is made of; tasks and notes are each sorted, and `weights` is None when each stands for itself."""

    hello: Hello
    tasks: Any
    weights: Any
    notes: list[Note]
    attempts: list[Attempt]
    clock: Clock
    names: Any


def make_table(rows: Rows) -> Any:
    """One table with the columns of `ARROW_SCHEMA`, sorted by `seq`."""
    columns = _Columns(rows)
    return pa.table([columns.make(name) for name in ARROW_SCHEMA.names], names=ARROW_SCHEMA.names)


class _Columns:
    """Tasks and notes merged: a note is an empty record, so that every column has all rows."""

    def __init__(self, rows: Rows) -> None:
        self._hello, self._notes, self._attempts, self._names = rows.hello, rows.notes, rows.attempts, rows.names
        self._count = len(rows.tasks) + len(rows.notes)
        note_seqs = np.array([note.seq for note in rows.notes], dtype=np.int64)
        self._note_at = np.searchsorted(rows.tasks["seq"].astype(np.int64), note_seqs) + np.arange(len(rows.notes))
        self._is_note = np.zeros(self._count, dtype=bool)
        self._is_note[self._note_at] = True
        self._is_task = _bits(~self._is_note) if rows.notes else None
        self._tasks = _with_notes(rows.tasks, rows.notes, self._note_at) if rows.notes else rows.tasks
        self._seqs = self._tasks["seq"].astype(np.int64)
        self._anchor_us = rows.clock.anchor_us(self._seqs)
        self._weights = np.ones(self._count, dtype=np.int32)
        if rows.weights is not None:
            self._weights[~self._is_note] = rows.weights

    def make(self, name: str) -> Any:
        """The column of this name."""
        maker = getattr(self, f"_make_{name}", None)
        return maker() if maker is not None else _MAKERS[name](self, name)

    # --- ways to make one ---------------------------------------------------------------------------------------------

    def _number(self, values: Any, kind: Any, unknown: Any | None = None) -> Any:
        """Figures of tasks: null in a note's row, and where they are unknown."""
        valid = self._is_task if unknown is None or not unknown.any() else _bits(~(self._is_note | unknown))
        return _array(values.astype(kind), valid)

    def _field(self, name: str) -> Any:
        """A figure that every task has."""
        return self._number(self._tasks[name], ARROW_SCHEMA.field(name).type.to_pandas_dtype())

    def _span_us(self, name: str) -> Any:
        values = self._tasks[name]
        return self._number(values, np.int64, values == UNKNOWN_US)

    def _offset(self, name: str) -> Any:
        values = self._tasks[name]
        return self._number(values, np.int64, values == UNKNOWN_OFFSET)

    def _error(self, name: str) -> Any:
        bits = self._tasks[name.replace("_us", "_bits")]
        return self._number(np.int64(1) << np.minimum(bits, 62).astype(np.int64), np.int64, bits == 0)

    def _foreign_clock(self, name: str) -> Any:
        values = self._tasks[name]
        return self._number(values, np.int64, values <= 0)

    def _moment(self, name: str) -> Any:
        values = self._tasks[name.replace("_us", "_s")]
        return self._number(self._wall_us(values), np.int64, values < 0)

    def _wall_us(self, values_s: Any) -> Any:
        return np.rint(values_s * 1e6).astype(np.int64) + self._anchor_us

    def _name(self, name: str) -> Any:
        numbers = self._tasks["trace_no" if name == "trace_id" else f"{name}_no"]
        numbers = np.minimum(numbers, len(self._names))  # the first beyond stands for all that were never told
        used = np.zeros(len(self._names) + 1, dtype=bool)
        used[numbers] = True
        used[0] = False
        places = np.cumsum(used, dtype=np.int32) - 1
        known = np.flatnonzero(used)
        texts = self._names.take(pa.array(np.minimum(known, len(self._names) - 1)))
        if used[-1]:
            texts = pa.concat_arrays([texts[:-1], pa.array(["other"])])
        return _dictionary(self._number(places[numbers], np.int32, numbers == 0), texts)

    def _word(self, words: tuple[str, ...], name: str) -> Any:
        return _dictionary(self._number(self._tasks[name], np.int8), pa.array(words))

    def _constant(self, text: str) -> Any:
        return _dictionary(_array(np.zeros(self._count, dtype=np.int8)), pa.array([text]))

    def _sparse(self, texts: list[str]) -> Any:
        """Texts of the notes, in their rows; an empty one is null."""
        indices = np.zeros(self._count, dtype=np.int32)
        unknown = np.ones(self._count, dtype=bool)
        indices[self._note_at] = np.arange(len(texts))
        unknown[self._note_at] = [not text for text in texts]
        return _dictionary(_array(indices, _bits(~unknown)), pa.array(texts, pa.string()))

    # --- those that are like no other ---------------------------------------------------------------------------------

    def _make_v(self) -> Any:
        return _array(np.full(self._count, VERSION, dtype=np.int16))

    def _make_kind(self) -> Any:
        kinds = list(dict.fromkeys(["task", *[note.kind for note in self._notes]]))
        indices = np.zeros(self._count, dtype=np.int16)
        indices[self._note_at] = [kinds.index(note.kind) for note in self._notes]
        return _dictionary(_array(indices), pa.array(kinds))

    def _make_broker(self) -> Any:
        return self._constant(self._hello.broker)

    def _make_boot(self) -> Any:
        return self._constant(self._hello.boot)

    def _make_group(self) -> Any:
        return self._constant(self._hello.group) if self._hello.group else pa.nulls(self._count, pa.string())

    def _make_seq(self) -> Any:
        return _array(self._seqs)

    def _make_ts_us(self) -> Any:
        return _array(self._wall_us(self._tasks["settled_s"]))

    def _make_role(self) -> Any:
        return self._word(ROLES, "role")

    def _make_outcome(self) -> Any:
        return self._word(OUTCOMES, "outcome")

    def _make_weight(self) -> Any:
        return self._number(self._weights, np.int32)

    def _make_free(self) -> Any:
        return self._number(self._tasks["free"], np.int32, self._tasks["dispatched_s"] == NEVER_S)

    def _make_queued(self) -> Any:
        """As it was at the dispatch, or when the task was refused."""
        is_known = (self._tasks["dispatched_s"] != NEVER_S) | (self._tasks["outcome"] == _REFUSED)
        return self._number(self._tasks["queued"], np.int32, ~is_known)

    def _make_nonce(self) -> Any:
        """In hex: two digits a byte."""
        digits = _HEX[self._tasks["nonce"]]
        offsets = np.arange(self._count + 1, dtype=np.int32) * 2 * digits.shape[1]
        return pa.StringArray.from_buffers(self._count, pa.py_buffer(offsets), pa.py_buffer(digits), self._is_task)

    def _make_attempts(self) -> Any:
        """Earlier attempts stand beside their task's record, and are found by its number."""
        kind = ARROW_SCHEMA.field("attempts").type
        told = sorted(self._attempts, key=lambda attempt: attempt.seq)
        numbers = np.array([attempt.seq for attempt in told], dtype=np.int64)
        starts, ends = np.searchsorted(numbers, self._seqs), np.searchsorted(numbers, self._seqs, side="right")
        rows = np.flatnonzero(ends > starts)
        if not len(rows):
            return pa.nulls(self._count, kind)
        anchors = np.broadcast_to(self._anchor_us, (self._count,))
        values: list[list[dict[str, Any]] | None] = [None] * self._count
        for row in rows:
            anchor_us = int(anchors[row])
            values[row] = [_attempt(attempt, anchor_us) for attempt in told[starts[row] : ends[row]]]
        return pa.array(values, kind)

    def _make_subject(self) -> Any:
        return self._sparse([note.subject for note in self._notes])

    def _make_what(self) -> Any:
        return self._sparse([note.what for note in self._notes])

    def _make_detail(self) -> Any:
        return self._sparse([msgspec.json.encode(note.detail).decode() if note.detail else "" for note in self._notes])

    def _make_value(self) -> Any:
        values, unknown = np.zeros(self._count, dtype=np.int64), np.ones(self._count, dtype=bool)
        values[self._note_at] = [note.value or 0 for note in self._notes]
        unknown[self._note_at] = [note.value is None for note in self._notes]
        return _array(values, _bits(~unknown))


def _bits(flags: Any) -> Any:
    """Flags as Arrow keeps them, a bit each."""
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def _array(values: Any, valid: Any | None = None) -> Any:
    """Figures as an Arrow array, without a copy; `valid` has a bit for each that is not null."""
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [valid, pa.py_buffer(values)])


def _dictionary(indices: Any, texts: Any) -> Any:
    return pa.DictionaryArray.from_arrays(indices, texts, safe=False)


def _with_notes(tasks: Any, notes: list[Note], note_at: Any) -> Any:
    """The records of tasks and, at `note_at`, empty ones with number and time; copied in slices, for notes are few."""
    empty = np.zeros(len(notes), dtype=RECORD)
    empty["seq"] = [note.seq for note in notes]
    empty["settled_s"] = [note.at_s for note in notes]
    raw, raw_empty = (part.view(np.uint8).reshape(len(part), RECORD.itemsize) for part in (tasks, empty))
    pieces, before = [], 0
    for index, place in enumerate(note_at - np.arange(len(notes))):
        pieces += [raw[before:place], raw_empty[index : index + 1]]
        before = place
    return np.concatenate([*pieces, raw[before:]]).reshape(-1).view(RECORD)


def _attempt(attempt: Attempt, anchor_us: int) -> dict[str, Any]:
    moments_us = [anchor_us + round(moment_s * 1e6) for moment_s in (attempt.dispatched_s, attempt.ended_s)]
    fields = [attempt.worker or None, attempt.via or None, *moments_us, attempt.outcome]
    return {column.name: value for column, value in zip(ATTEMPT_FIELDS, fields, strict=True)}


_MAKERS: Final = {
    **dict.fromkeys(("service", "client", "worker", "via", "dialect"), _Columns._name),
    **dict.fromkeys(("config_version", "worker_version", "trace_id"), _Columns._name),
    **dict.fromkeys(("sequence", "epoch", "hops", "priority", "attempt", "code"), _Columns._field),
    **dict.fromkeys(("request_bytes", "reply_bytes", "parts", "workers"), _Columns._field),
    **dict.fromkeys(("received_us", "dispatched_us"), _Columns._moment),
    **dict.fromkeys(("sent_us", "worker_us"), _Columns._foreign_clock),
    **dict.fromkeys(("wait_us", "work_us"), _Columns._span_us),
    **dict.fromkeys(("client_offset_us", "worker_offset_us"), _Columns._offset),
    **dict.fromkeys(("client_error_us", "worker_error_us"), _Columns._error),
}
"""How the columns are made that have many like them."""
