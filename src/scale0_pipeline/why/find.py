"""Finding the rows of one task: in the tables, and in segments that no table has yet.

A task may have left rows at several brokers: one where it was settled for its client, one at each broker that ran it
for another, and after a fail-over a second settlement. Tables are read from the newest day on; segments by their
catalogue, those first that ended last, and once a row is found only those whose times touch it. So `why` answers
within seconds of the task, and does not read a year to explain a minute.

An id may be cut short: its beginning, or the beginning of its nonce, is enough where it fits one task only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from scale0 import events
from scale0.telemetry import catalogue
from scale0.telemetry.catalogue import Entry
from scale0.telemetry.segments import ARROW_SCHEMA
from scale0_pipeline import words
from scale0_pipeline.errors import NothingRecorded, PipelineError, UnknownTask
from scale0_pipeline.gold import Gold, fitted
from scale0_pipeline.units import MINUTE_US

CONSUMER: Final = "pipeline"
CANDIDATES_MAX: Final = 10
AROUND_US: Final = 10 * MINUTE_US
"""Rows of one task are this close to each other at most, their own durations aside."""
NOTES_MAX: Final = 200
"""Notes about a task's workers and brokers that are looked at."""
NOTED: Final = ("session", "failover", "dropped", "boot", "boot_end")

TASK_COLUMNS: Final = [
    column.name for column in events.COLUMNS if column.name not in ("subject", "what", "value", "detail")
]
NOTE_COLUMNS: Final = ["kind", "broker", "boot", "seq", "ts_us", "subject", "what", "value", "detail"]
FULL_ID: Final = re.compile(r"(?P<client>.+)\.(?P<nonce>[0-9a-f]{16})\.(?P<sequence>\d{1,19})", re.DOTALL)

Row = dict[str, Any]


class AmbiguousTask(PipelineError):
    """Several tasks begin so. `candidates` are some of them, the newest first."""

    def __init__(self, text: str, candidates: list[Row]) -> None:
        lines = "\n".join(_candidate(row) for row in candidates)
        super().__init__(f"several tasks begin with {words.visible(text)}; write more of one of them", lines)
        self.candidates = candidates


def _candidate(row: Row) -> str:
    when, service = words.date_and_time(row["ts_us"]), words.name(row["service"])
    return f"{words.visible(id_of(row))}  {row['code']} {service}  {when}"


class Found(msgspec.Struct):
    """The rows of one task, and the notes about who took part in it."""

    task_id: str
    rows: list[Row]
    notes: list[Row]
    is_from_segments: bool


def id_of(row: Row) -> str:
    """A row's task, as people write it."""
    return events.task_id(row["client"] or "", row["nonce"] or "", row["sequence"] or 0)


def find(gold: Gold, text: str) -> Found:
    """Everything that is recorded of one task. Raises UnknownTask, AmbiguousTask or NothingRecorded."""
    wanted = text.strip()
    if not wanted:
        raise PipelineError("no task is named", "give its id, or how it begins: scale0 why ID")
    whole = FULL_ID.fullmatch(wanted)
    first = next(_search(gold, is_exactly(whole)), None) if whole else None
    if first is None:
        first = _one(_search(gold, begins(wanted)), wanted)
    if first is None:
        raise _unknown(gold, wanted)
    task_id = id_of(first)
    rows, is_from_segments = _all_rows(gold, first)
    return Found(task_id, rows, _notes(gold, rows), is_from_segments)


def _unknown(gold: Gold, wanted: str) -> PipelineError:
    if not gold.has("silver/tasks") and not catalogue.brokers(gold.place):
        return NothingRecorded(
            f"nothing is recorded in {gold.place.uri()}",
            "start a broker that records: scale0 broker --telemetry; or name another place with --data",
        )
    return UnknownTask(
        f"no task begins with {words.visible(wanted)} in {gold.place.uri()}",
        "a recorder hands over what it has every 30 s; `scale0 pipeline collect` brings what other brokers hold",
    )


def is_exactly(whole: re.Match[str]) -> pc.Expression:
    """The rows of one id; whole numbers first, for files say which of them they hold."""
    return _same(whole["client"], whole["nonce"], int(whole["sequence"]))


def _same(client: str, nonce: str, sequence: int) -> pc.Expression:
    return (pc.field("sequence") == sequence) & (pc.field("nonce") == nonce) & (pc.field("client") == client)


def begins(wanted: str) -> pc.Expression:
    """The rows whose id, or the part of it that begins with the nonce, starts so."""
    client, nonce, sequence = (pc.field(name) for name in ("client", "nonce", "sequence"))
    tail = pc.binary_join_element_wise(nonce, sequence.cast(pa.string()), pc.scalar("."))
    whole = pc.binary_join_element_wise(client, tail, pc.scalar("."))
    return pc.starts_with(whole, wanted) | pc.starts_with(tail, wanted)


def _search(gold: Gold, is_meant: pc.Expression) -> Iterator[Row]:
    """Rows of tasks that are meant, the newest first; those in no table yet before those that are."""
    for entry in sorted(_unread(gold), key=lambda entry: -entry.ts_hi_us):
        yield from _segment(gold, entry, TASK_COLUMNS, is_meant & (pc.field("kind") == "task"))
    for day in reversed(gold.days("silver/tasks")):
        yield from _silver(gold, is_meant & (pc.field("day") == day))


def _one(rows: Iterable[Row], wanted: str) -> Row | None:
    """The one task that is meant; none, if there is none."""
    tasks: dict[str, Row] = {}
    for row in rows:
        tasks.setdefault(id_of(row), row)
        if len(tasks) > CANDIDATES_MAX:
            break
    if len(tasks) > 1:
        raise AmbiguousTask(wanted, list(tasks.values())[:CANDIDATES_MAX])
    return next(iter(tasks.values()), None)


def _all_rows(gold: Gold, first: Row) -> tuple[list[Row], bool]:
    """All rows of a task, oldest first, each once; whether any of them is in no table yet."""
    is_same = _same(first["client"], first["nonce"], first["sequence"])
    since, until = span_us([first])
    tabled = list(_silver(gold, is_same, since, until))
    fresh = [
        row
        for entry in _unread(gold)
        if entry.ts_lo_us <= until and entry.ts_hi_us >= since
        for row in _segment(gold, entry, TASK_COLUMNS, is_same & (pc.field("kind") == "task"))
    ]
    rows = {(row["broker"], row["boot"], row["seq"]): row for row in [first, *fresh, *tabled]}
    return sorted(rows.values(), key=lambda row: (row["ts_us"], row["broker"])), len(rows) > len(tabled)


def span_us(rows: list[Row]) -> tuple[int, int]:
    """The time in which rows of the same task can lie."""
    begun = [row["received_us"] if row["received_us"] is not None else row["ts_us"] for row in rows]
    return min(begun) - AROUND_US, max(row["ts_us"] for row in rows) + AROUND_US


def _notes(gold: Gold, rows: list[Row]) -> list[Row]:
    """Notes of the same time about the workers and brokers that took part, oldest first."""
    since, until = span_us(rows)
    kinds = pc.field("kind").isin(list(NOTED)) & (pc.field("ts_us") >= since) & (pc.field("ts_us") <= until)
    found: list[Row] = []
    for batch in gold.batches("silver/notes", since, until, NOTE_COLUMNS, kinds):
        found += batch.to_pylist()
    for entry in _unread(gold):
        if entry.ts_lo_us <= until and entry.ts_hi_us >= since:
            found += _segment(gold, entry, NOTE_COLUMNS, kinds)
    brokers = {row["broker"] for row in rows}
    concerned = brokers | {row["worker"] for row in rows} | {a["worker"] for row in rows for a in row["attempts"] or ()}
    near = [
        note
        for note in found
        if note["broker"] in brokers and (note["kind"] != "session" or note["subject"] in concerned)
    ]
    unique = {(note["broker"], note["boot"], note["seq"]): note for note in near}
    return sorted(unique.values(), key=lambda note: note["ts_us"])[:NOTES_MAX]


def _silver(gold: Gold, where: pc.Expression, since: int | None = None, until: int | None = None) -> Iterator[Row]:
    for batch in gold.batches("silver/tasks", since, until, TASK_COLUMNS, where):
        yield from sorted(batch.to_pylist(), key=lambda row: -row["ts_us"])


def _unread(gold: Gold) -> list[Entry]:
    """Segments that no table has yet: all of them, before the first table is made."""
    position: catalogue.Position = {}
    if gold.has("silver/tasks"):
        reader = catalogue.consumers(gold.place).get(CONSUMER)
        position = reader.position if reader is not None else {}
    return [entry for entry in catalogue.read_all(gold.place, position) if entry.path]


def _segment(gold: Gold, entry: Entry, columns: list[str], where: pc.Expression) -> list[Row]:
    """Rows of one segment. One that retention has taken away meanwhile has none."""
    place = gold.place
    try:
        stored = ds.dataset(place.path(entry.path), filesystem=place.fs, format="parquet")
        names = [name for name in columns if name in stored.schema.names]
        table = stored.to_table(columns=names, filter=where)
    except FileNotFoundError:
        return []
    schema = pa.schema([ARROW_SCHEMA.field(name) for name in columns])
    rows = [row for batch in table.to_batches() for row in fitted(batch, schema).to_pylist()]
    return sorted(rows, key=lambda row: -row["ts_us"])
