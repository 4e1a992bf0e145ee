"""Days of a network that never was, as segments: for trying out, for tests, and for measuring.

`generate` writes what the recorders of `world` would have written, through the same door as they do. The same seed
gives the same rows. With faults the record has what real ones have: segments that come late, segments that come twice,
rows that were lost and counted, a crash whose last rows nobody wrote, tasks that were settled twice, tasks that
crossed.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import msgspec
import numpy as np

from scale0.telemetry.place import Place
from scale0.telemetry.segments import write_segment
from scale0_pipeline.errors import PipelineError
from scale0_pipeline.generate import notes as noted
from scale0_pipeline.generate import rows, tasks, world
from scale0_pipeline.generate.notes import Note
from scale0_pipeline.generate.rows import Run
from scale0_pipeline.generate.world import BROKERS, EU_1, US_1, Day, Ints, Span, World
from scale0_pipeline.progress import Progress, silent
from scale0_pipeline.units import DAY_US, MINUTE_US

ROWS_PER_SEGMENT: Final = 150_000
PARTS: Final = (4, 8, 12, 24, 48, 96, 144)  # into which a day may be cut
LATE_PART: Final = 1  # of us-1: its segment comes when the day is over
REPEATED_PART: Final = 2  # of eu-1: half of its rows come twice

__all__ = ["Summary", "generate"]


class Summary(msgspec.Struct):
    """What was written. `tasks` are those of origins; `dropped` and `crashed` rows are in no segment."""

    tasks: int = 0
    rows: int = 0
    segments: int = 0
    relayed: int = 0
    doubled: int = 0
    dropped: int = 0
    crashed: int = 0
    repeated: int = 0
    from_us: int = 0
    to_us: int = 0


class _Writer(msgspec.Struct):
    """Where segments go, the runs that are on, and what waits to come late."""

    place: Place
    world: World
    origin_us: int
    summary: Summary
    runs: dict[int, Run] = {}
    late: list[tuple[Any, Run]] = []
    told: list[
        tuple[Span, str, Ints, Ints, int]
    ] = []  # of eu-1, in this part: boot, times and numbers, the last number


def generate(
    place_url: str,
    events: int,
    days: int,
    seed: int,
    progress: Progress = silent,
    with_faults: bool = True,
    until: date | None = None,
) -> Summary:
    """Write `events` tasks over the `days` before `until` (today, in UTC) into a data place."""
    if events < 1 or days < 1:
        raise PipelineError(f"{events} events in {days} days are none", "ask for at least one event and one day")
    last = until if until is not None else datetime.now(UTC).date()
    first = last - timedelta(days)
    network = world.make_world(events, days, seed, with_faults)
    plan = [world.make_day(network, first, index) for index in range(days)]
    shares = [world.load(day, day.start_us, world.DAY_MINUTES).sum() for day in plan]
    ends = np.round(np.cumsum(shares) / np.sum(shares) * events).astype(np.int64)
    summary = Summary(from_us=plan[0].start_us, to_us=plan[-1].start_us + DAY_US)
    writer = _Writer(Place(place_url), network, plan[0].start_us, summary)
    done = 0
    for day, end in zip(plan, ends.tolist(), strict=True):
        _write_day(writer, day, done, end - done, is_last=day is plan[-1], progress=progress, of=events)
        done = end
    return summary


def _write_day(
    writer: _Writer, day: Day, sequence_lo: int, events: int, *, is_last: bool, progress: Progress, of: int
) -> None:
    wanted = events / (2 * ROWS_PER_SEGMENT)
    parts = next((size for size in PARTS if size >= wanted), PARTS[-1])
    step_us = DAY_US // parts
    shares = [world.load(day, day.start_us + part * step_us, step_us // MINUTE_US).sum() for part in range(parts)]
    ends = np.round(np.cumsum(shares) / np.sum(shares) * events).astype(np.int64).tolist()
    done = 0
    for part, end in enumerate(ends):
        span = Span(day.start_us + part * step_us, day.start_us + (part + 1) * step_us)
        _write_part(writer, day, part, span, sequence_lo + done + 1, end - done, is_last and part == parts - 1)
        done = end
        progress("generate", sequence_lo + done, of)
    while writer.late:
        _seal(writer, *writer.late.pop(0))


def _write_part(writer: _Writer, day: Day, part: int, span: Span, sequence_lo: int, events: int, is_end: bool) -> None:
    network = writer.world
    drawn = tasks.draw(network, day, span.from_us, span.to_us, events, sequence_lo)
    writer.summary.tasks += len(drawn)
    crossed = tasks.relays(network, day, drawn, span.from_us)
    again = tasks.doubled(day, drawn, span.from_us, span.to_us)
    writer.summary.relayed += len(crossed)
    writer.summary.doubled += len(again)
    everything = tasks.join([drawn, crossed, again]) if len(crossed) + len(again) else drawn
    for broker in range(len(BROKERS)):
        own = everything.take(everything.broker == broker)
        for running, is_new in noted.runs(day, broker, span):
            mine = own.take(running.holds(own.ts_us))
            table, run = _rows(writer, day, broker, running, mine, is_new, is_end)
            if network.with_faults and broker == US_1 and part == LATE_PART:
                writer.late.append((table, run))
                continue
            _seal(writer, table, run)
            if network.with_faults and broker == EU_1 and part == REPEATED_PART and table.num_rows > 1:
                half = table.slice(table.num_rows // 2)
                _seal(writer, half, run)
                writer.summary.repeated += half.num_rows
                writer.summary.rows -= half.num_rows


def _rows(
    writer: _Writer, day: Day, broker: int, span: Span, mine: tasks.Tasks, is_new: bool, is_end: bool
) -> tuple[Any, Run]:
    """A run's rows of a part of the day, less those that were lost."""
    network, origin_us = writer.world, writer.origin_us
    is_boot = is_new or broker not in writer.runs
    if is_boot:
        writer.runs[broker] = Run(broker, world.draw_boot(network.seed, broker, span.from_us))
    run = writer.runs[broker]
    notes = noted.of_part(network, day, broker, span, is_boot, origin_us)
    is_dropping = network.with_faults and broker == US_1 and span.from_us <= day.dropped.to_us < span.to_us
    if is_dropping:
        notes.append(Note(day.dropped.to_us, "dropped"))
    if broker == US_1:
        _hear_of_peer(writer, day, notes)
    notes.sort(key=lambda note: note.ts_us)
    if is_end:
        notes.append(Note(span.to_us - 1, "boot_end", "", "", None, {"clean": True}))
    task_seqs, note_seqs = rows.number(run, mine, notes)
    if is_end:
        notes[-1].value = int(note_seqs[-1])
    lost = _dropped(writer, day, run, notes, mine, task_seqs, note_seqs) if is_dropping else Span(0, 0)
    if broker == EU_1:
        writer.told.append((span, run.boot, mine.ts_us, task_seqs, run.seq))
        if network.with_faults and span.to_us == day.reign.from_us:
            lost = Span(run.seq - tasks.LOST_ROWS + 1, run.seq + 1)
            writer.summary.crashed += tasks.LOST_ROWS
    table = rows.joined(
        rows.task_table(network, day, run, mine, task_seqs, origin_us), rows.note_table(run, notes, note_seqs)
    )
    if lost.to_us:
        table = table.filter(~lost.holds(table["seq"].to_numpy()))
    return table, run


def _dropped(
    writer: _Writer, day: Day, run: Run, notes: list[Note], mine: tasks.Tasks, task_seqs: Ints, note_seqs: Ints
) -> Span:
    """The numbers of the rows that the recorder could not keep; the note says which."""
    place = next(place for place, note in enumerate(notes) if note.kind == "dropped")
    seq_hi = int(note_seqs[place])  # the note has the number of the last row that is lost
    note_times = np.array([note.ts_us for note in notes])
    since = [task_seqs[mine.ts_us >= day.dropped.from_us], note_seqs[note_times >= day.dropped.from_us]]
    seq_lo = int(np.concatenate(since).min())
    notes[place].value = seq_hi - seq_lo + 1
    notes[place].detail = {"seq_lo": seq_lo, "seq_hi": seq_hi, "why": "the recorder is behind"}
    run.dropped += seq_hi - seq_lo + 1
    writer.summary.dropped += seq_hi - seq_lo + 1
    return Span(seq_lo, seq_hi)


def _hear_of_peer(writer: _Writer, day: Day, notes: list[Note]) -> None:
    """What eu-1 told of its numbers; once more just before its crash, so that the crash is bounded."""
    silent_ones = [note for note in notes if note.kind == "peer_gauge"]
    for span, boot, times, seqs, last_seq in writer.told:
        for note in list(silent_ones):
            place = int(np.searchsorted(times, note.ts_us))
            if place and span.from_us <= note.ts_us < span.to_us:
                note.value, note.detail = int(seqs[place - 1]), {"boot": boot, "in_flight": 0}
                silent_ones.remove(note)
        if writer.world.with_faults and span.to_us == day.reign.from_us:
            notes.append(
                Note(span.to_us - 10_000, "peer_gauge", BROKERS[EU_1], "", last_seq, {"boot": boot, "in_flight": 9})
            )
    for note in silent_ones:
        notes.remove(note)
    writer.told.clear()


def _seal(writer: _Writer, table: Any, run: Run) -> None:
    if not table.num_rows:
        return
    write_segment(writer.place, table, BROKERS[run.broker], run.boot, "generate")
    writer.summary.segments += 1
    writer.summary.rows += table.num_rows
