"""Generated tasks and notes as one table of events: numbered in the order of time, and with their names spelled out.

Names are written as Arrow dictionaries, which cost a number a row. What is null for every row is left out; the
segment's writer adds it.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from scale0 import events
from scale0.telemetry.segments import ARROW_SCHEMA, complete
from scale0_pipeline.generate.notes import OFFSET_ERROR_US, Note, version
from scale0_pipeline.generate.tasks import ERROR, FAILED, NOBODY, REFUSED, REPLIED, Tasks
from scale0_pipeline.generate.world import BROKERS, CLIENTS, GROUPS, SERVICES, Day, Flags, Ints, World, nonces
from scale0_pipeline.units import MINUTE_US

CLIENT_ERROR_US = 256


class Run(msgspec.Struct):
    """One run of a broker's process: how far its numbers and counters are."""

    broker: int
    boot: str
    seq: int = 0
    accepted: int = 0
    replied: int = 0
    errored: int = 0
    refused: int = 0
    dropped: int = 0


def number(run: Run, tasks: Tasks, notes: list[Note]) -> tuple[Ints, Ints]:
    """The numbers of a part's tasks and notes: both in one order of time. The run's counters go on."""
    times = np.concatenate([tasks.ts_us, np.array([note.ts_us for note in notes], dtype=np.int64)])
    seqs = np.empty(len(times), dtype=np.int64)
    seqs[np.argsort(times, kind="stable")] = run.seq + 1 + np.arange(len(times))
    _fill_gauges(run, tasks, notes, seqs[len(tasks) :])
    run.seq += len(times)
    settled = ~tasks.is_relay
    run.replied += int((settled & (tasks.outcome <= FAILED)).sum())
    run.errored += int((settled & (tasks.outcome == ERROR)).sum())
    run.refused += int((tasks.outcome == REFUSED).sum())
    return seqs[: len(tasks)], seqs[len(tasks) :]


def _fill_gauges(run: Run, tasks: Tasks, notes: list[Note], seqs: Ints) -> None:
    settled = ~tasks.is_relay
    totals = [
        np.concatenate([[0], np.cumsum(settled & flags)])
        for flags in (tasks.outcome <= FAILED, tasks.outcome == ERROR, tasks.outcome == REFUSED)
    ]
    for note, seq in zip(notes, seqs.tolist(), strict=True):
        if note.kind != "gauge":
            continue
        place = int(np.searchsorted(tasks.ts_us, note.ts_us))
        replied, errored, refused = (int(total[place]) for total in totals)
        note.detail = {
            "accepted": run.replied + replied + run.errored + errored,
            "replied": run.replied + replied,
            "errored": run.errored + errored,
            "refused": run.refused + refused,
            "queued": 0,
            "in_flight": 0,
            "last_seq": seq - 1,
            "dropped": run.dropped,
        }


def task_table(world: World, day: Day, run: Run, tasks: Tasks, seqs: Ints, origin_us: int) -> Any:
    """The tasks' rows."""
    count = len(tasks)
    has_worker = tasks.worker != NOBODY
    was_sent = tasks.dispatched_us != 0
    is_told = tasks.work_us != NOBODY
    offsets = _offsets(world, tasks, origin_us)
    client_offset = (tasks.client * 1_237) % 4_001 - 2_000
    old, new = version(day, 0), version(day, day.changed_us)
    changed = day.changed_us if world.with_faults else np.iinfo(np.int64).max
    version_no = (tasks.ts_us >= changed).astype(np.int64)
    worker_version_no = (tasks.ts_us >= changed + (tasks.worker % 7) * MINUTE_US).astype(np.int64)
    pool_sizes = np.array([len(pool[0]) for pool in world.pools] + [0])[tasks.service]
    names = [worker.name for worker in world.workers]
    columns = {
        **_constants(run, count),
        "seq": pa.array(seqs),
        "ts_us": pa.array(tasks.ts_us),
        "role": _names(tasks.is_relay.astype(np.int64), list(events.ROLES)),
        "service": _names(tasks.service, [one.name for one in SERVICES] + ["serach"]),
        "client": _names(tasks.client, [f"client-{place + 1:02d}" for place in range(CLIENTS)]),
        "nonce": _names(tasks.client, nonces(world.seed)),
        "sequence": pa.array(tasks.sequence),
        "worker": _names(tasks.worker, names),
        "via": _names(tasks.via, list(BROKERS)),
        "epoch": pa.array(tasks.epoch.astype(np.int32)),
        "hops": pa.array(tasks.is_relay.astype(np.int16)),
        "priority": pa.array((tasks.client % 3).astype(np.int16)),
        "attempt": pa.array((was_sent.astype(np.int16) + (tasks.lost_worker != NOBODY)).astype(np.int16)),
        "attempts": _attempts(tasks, names),
        "outcome": _names(tasks.outcome, list(events.OUTCOMES)),
        "code": pa.array(tasks.code.astype(np.int16)),
        "request_bytes": pa.array(tasks.request_bytes),
        "reply_bytes": pa.array(tasks.reply_bytes),
        "parts": pa.array(np.zeros(count, dtype=np.int32)),
        "config_version": _names(version_no, [old, new]),
        "worker_version": _names(np.where(is_told, worker_version_no, NOBODY), [old, new]),
        "sent_us": pa.array(tasks.received_us - 240 - tasks.sequence % 97 + client_offset),
        "received_us": pa.array(tasks.received_us),
        "dispatched_us": pa.array(tasks.dispatched_us, mask=~was_sent),
        "worker_us": pa.array(tasks.ts_us - 200 + offsets, mask=~(is_told & has_worker)),
        "wait_us": pa.array(tasks.wait_us, mask=~is_told),
        "work_us": pa.array(tasks.work_us, mask=~is_told),
        "client_offset_us": pa.array(client_offset),
        "worker_offset_us": pa.array(offsets, mask=~has_worker),
        "client_error_us": pa.array(np.full(count, CLIENT_ERROR_US, dtype=np.int64)),
        "worker_error_us": pa.array(np.full(count, OFFSET_ERROR_US, dtype=np.int64), mask=~has_worker),
        "free": pa.array((tasks.sequence % 5).astype(np.int32)),
        "queued": pa.array(tasks.queued.astype(np.int32)),
        "workers": pa.array(pool_sizes.astype(np.int32)),
        "weight": pa.array(np.ones(count, dtype=np.int32)),
    }
    return pa.table(columns)


def note_table(run: Run, notes: list[Note], seqs: Ints) -> Any:
    """The notes' rows."""
    columns = {
        **_constants(run, len(notes)),
        "kind": pa.array([note.kind for note in notes]),
        "seq": pa.array(seqs),
        "ts_us": pa.array([note.ts_us for note in notes]),
        "subject": pa.array([note.subject or None for note in notes], pa.string()),
        "what": pa.array([note.what or None for note in notes], pa.string()),
        "value": pa.array([note.value for note in notes], pa.int64()),
        "detail": pa.array(
            [msgspec.json.encode(note.detail).decode() if note.detail else None for note in notes], pa.string()
        ),
    }
    return pa.table(columns)


def joined(tasks: Any, notes: Any) -> Any:
    """All columns of both, with the types of segments, in the order of `seq`."""
    types = {name: tasks.schema.field(name).type for name in tasks.schema.names}
    target = pa.schema([pa.field(field.name, types.get(field.name, field.type)) for field in ARROW_SCHEMA])
    table = pa.concat_tables([_cast(complete(tasks), target), _cast(complete(notes), target)])
    return table.take(np.argsort(table["seq"].to_numpy(), kind="stable"))


def _cast(table: Any, schema: Any) -> Any:
    return pa.table([_as(table[field.name], field.type) for field in schema], schema=schema)


def _as(column: Any, wanted: Any) -> Any:
    if column.type == wanted:
        return column
    return column.dictionary_encode().cast(wanted) if pa.types.is_dictionary(wanted) else column.cast(wanted)


def _constants(run: Run, count: int) -> dict[str, Any]:
    none = np.zeros(count, dtype=np.int64)
    return {
        "v": pa.array(np.full(count, events.VERSION, dtype=np.int16)),
        "kind": _names(none, ["task"]),
        "broker": _names(none, [BROKERS[run.broker]]),
        "boot": _names(none, [run.boot]),
        "group": _names(none, [GROUPS[run.broker]]),
        "dialect": _names(none, ["NATIVE"]),
    }


def _names(numbers: Ints, names: list[str]) -> Any:
    absent: Flags = numbers == NOBODY
    codes = pa.array(np.where(absent, 0, numbers).astype(np.int32), mask=absent if absent.any() else None)
    return pa.DictionaryArray.from_arrays(codes, pa.array(names))


def _offsets(world: World, tasks: Tasks, origin_us: int) -> Ints:
    bases = np.array([worker.offset_us for worker in world.workers])[tasks.worker]
    drifts = np.array([worker.drift_ppm for worker in world.workers])[tasks.worker]
    noise = (tasks.sequence * 7_919) % 101 - 50
    return (bases + drifts * (tasks.ts_us - origin_us) / 1e6 + noise).astype(np.int64)


def _attempts(tasks: Tasks, names: list[str]) -> Any:
    had_one = tasks.lost_worker != NOBODY
    offsets = np.concatenate([[0], np.cumsum(had_one)]).astype(np.int32)
    lost_at_us = tasks.lost_at_us[had_one]
    field = ARROW_SCHEMA.field("attempts").type.value_type
    values = pa.StructArray.from_arrays(
        [
            pa.array([names[place] for place in tasks.lost_worker[had_one].tolist()], pa.string()),
            pa.nulls(len(lost_at_us), pa.string()),
            pa.array((tasks.received_us[had_one] + lost_at_us) // 2),
            pa.array(lost_at_us),
            pa.array(["lost"] * len(lost_at_us), pa.string()),
        ],
        fields=[field.field(place) for place in range(field.num_fields)],
    )
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(~had_one))


assert REPLIED < FAILED < ERROR < REFUSED  # `number` counts by this order
