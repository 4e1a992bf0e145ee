"""What is replayed: when tasks of one service came, from whom, and for how long each held a slot.

A task's work is the time from its last dispatch to its outcome, as recorded: it has the handler's time in it and the
way there and back. Where workers differ notably in speed it is divided by that of the one who had it. A task that never
ran, because it waited too long or was turned away, is offered all the same; its work is drawn from the others', by a
fixed rule, so that a replay gives the same figures each time. A row that stands for several tasks is spread evenly over
the time to the next.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from scale0_pipeline.errors import NothingRecorded, PipelineError
from scale0_pipeline.gold import Gold
from scale0_pipeline.whatif import speeds
from scale0_pipeline.whatif.speeds import Floats

CLIENTS_MAX: Final = 1_000  # more are folded together: turns among so many are as good as among more
TASKS_MAX: Final = 5_000_000  # a longer window is better cut
PRIORITY_MAX: Final = 9
OUTCOME_LATE_US: Final = 3_600_000_000  # a row is filed under the time of its outcome, which may be so much later
REFUSED_FOR_ROOM: Final = (429, 503)
COLUMNS: Final = (
    "ts_us",
    "received_us",
    "dispatched_us",
    "client",
    "worker",
    "priority",
    "outcome",
    "code",
    "broker",
    "workers",
    "weight",
)
SCHEMA: Final = pa.schema(
    [("came_s", pa.float64()), ("work_s", pa.float64()), ("client", pa.int32()), ("priority", pa.int8())]
)


class About(msgspec.Struct, frozen=True):
    """What holds for all tasks of a window."""

    service: str
    since_us: int
    until_us: int
    peak: int  # the most that would be under way at once, were there always a free slot
    speeds: list[float]  # the slowness of its workers, rising; one alone if they were equal

    @property
    def window_s(self) -> float:
        return (self.until_us - self.since_us) / 1e6


class Recorded(msgspec.Struct, frozen=True):
    """Tasks of one service, in the order in which they came; times in seconds since the window began."""

    about: About
    came_s: Floats
    work_s: Floats
    client: NDArray[np.int32]
    priority: NDArray[np.int8]

    @property
    def erlangs(self) -> float:
        """Slots that the load keeps busy on average."""
        return float(self.work_s.sum()) / self.about.window_s if self.about.window_s > 0 else 0.0

    def to_ipc(self) -> bytes:
        """For the way to where it is replayed."""
        columns = [self.came_s, self.work_s, self.client, self.priority]
        named = SCHEMA.with_metadata({"about": msgspec.json.encode(self.about)})
        table = pa.table([pa.array(column) for column in columns], schema=named)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return bytes(sink.getvalue())

    @classmethod
    def from_ipc(cls, data: bytes) -> Recorded:
        with pa.ipc.open_stream(data) as reader:
            table = reader.read_all()
        about = msgspec.json.decode((table.schema.metadata or {})[b"about"], type=About)
        return cls(about, *(table[name].to_numpy() for name in SCHEMA.names))


class Measured(msgspec.Struct, frozen=True):
    """What was seen in the same window: latencies of tasks that were accepted, and how many workers there were."""

    tasks: int
    p50_us: float
    p99_us: float
    workers: int


def read(gold: Gold, service: str, since_us: int, until_us: int) -> tuple[Recorded, Measured]:
    """The tasks of a service that came within a window, from silver."""
    wanted = (pc.field("service") == service) & (pc.field("role") == "origin")
    rows = gold.rows("silver/tasks", since_us, until_us + OUTCOME_LATE_US, COLUMNS, wanted)
    received = rows["received_us"]
    rows = rows.filter(pc.and_(pc.greater_equal(received, since_us), pc.less(received, until_us)))
    is_refused = pc.equal(rows["outcome"], "refused")
    is_offered = pc.or_(pc.invert(is_refused), pc.is_in(rows["code"], pa.array(REFUSED_FOR_ROOM, pa.int16())))
    rows = rows.filter(is_offered).sort_by("received_us")
    if not rows.num_rows:
        raise NothingRecorded(f"no task of {service} is recorded there", "see what there is: scale0 pipeline report")
    if int(pc.sum(rows["weight"]).as_py() or rows.num_rows) > TASKS_MAX:
        raise PipelineError(f"over {TASKS_MAX:,} tasks are too many to replay at once", "name a shorter window")
    return tasks_of(rows, service, since_us, until_us), _measured(rows, until_us - since_us)


def tasks_of(rows: pa.Table, service: str, since_us: int, until_us: int) -> Recorded:
    """Rows of silver/tasks, sorted by arrival, as what is replayed."""
    came_us = _floats(rows["received_us"])
    worker = _numbers(rows["worker"])
    held_us = np.maximum(_floats(pc.subtract(rows["ts_us"], rows["dispatched_us"])), 0.0)
    factors = speeds.slowness(held_us, worker)
    work_us = _filled(np.where(worker >= 0, held_us / np.append(factors, 1.0)[worker], held_us))
    priority = np.clip(np.nan_to_num(_floats(rows["priority"])), 0, PRIORITY_MAX)
    client = _numbers(rows["client"])
    weight = np.maximum(np.nan_to_num(_floats(rows["weight"]), nan=1.0), 1.0).astype(np.int64)
    if weight.max(initial=1) > 1:
        came_us = _spread(came_us, weight, until_us)
        work_us, priority = np.repeat(work_us, weight), np.repeat(priority, weight)
        client = np.repeat(client, weight)
    came_s, work_s = (came_us - since_us) / 1e6, work_us / 1e6
    about = About(service, since_us, until_us, peak_of(came_s, work_s), speeds.of_fleet(factors, worker).tolist())
    folded = (client % CLIENTS_MAX).astype(np.int32)
    return Recorded(about, came_s, work_s, folded, priority.astype(np.int8))


def ends_of(came_s: Floats, work_s: Floats) -> Floats:
    """When each would end, if it began when it came. One without any work is there at that moment, too."""
    return np.asarray(np.maximum(came_s + work_s, np.nextafter(came_s, np.inf)))


def peak_of(came_s: Floats, work_s: Floats) -> int:
    """The most that are under way at once, if each begins when it comes."""
    times = np.concatenate([came_s, ends_of(came_s, work_s)])
    steps = np.concatenate([np.ones(len(came_s)), -np.ones(len(came_s))])
    order = np.lexsort((steps, times))  # one that ends makes room for one that comes at the same time
    return int(np.cumsum(steps[order]).max(initial=0))


def _floats(column: pa.ChunkedArray) -> Floats:
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False))


def _numbers(names: pa.ChunkedArray) -> NDArray[np.int64]:
    """Names by number, in the order of their first task; -1 for none."""
    encoded = names.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return np.asarray(pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)).astype(np.int64)


def _filled(work_us: Floats) -> Floats:
    """Work that is not known is that of another task, far enough away not to follow the same hour's mood."""
    known = work_us[~np.isnan(work_us)]
    if not len(known):
        raise NothingRecorded(
            "none of these tasks ever ran: their work is not known", "name a window in which some did"
        )
    missing = np.flatnonzero(np.isnan(work_us))
    filled = work_us.copy()
    filled[missing] = known[(missing * 7919) % len(known)]
    return filled


def _spread(came_us: Floats, weight: NDArray[np.int64], until_us: int) -> Floats:
    gaps = np.maximum(np.diff(came_us, append=float(until_us)), 0.0) / weight
    ends = np.cumsum(weight)
    within = np.arange(ends[-1]) - np.repeat(ends - weight, weight)
    return np.asarray(np.repeat(came_us, weight) + within * np.repeat(gaps, weight))


def _measured(rows: pa.Table, window_us: int) -> Measured:
    accepted = rows.filter(pc.not_equal(rows["outcome"], "refused"))
    latency_us = _floats(pc.subtract(accepted["ts_us"], accepted["received_us"]))
    p50_us, p99_us = np.quantile(latency_us, [0.5, 0.99], method="inverted_cdf") if len(latency_us) else (0.0, 0.0)
    return Measured(rows.num_rows, float(p50_us), float(p99_us), _workers(rows, window_us))


def _workers(rows: pa.Table, window_us: int) -> int:
    """How many there were. A broker counts its own, and the median does not mind the minute of a restart.

    Where one broker stood in for another, both have counted the same workers: so each counts for the part of the
    window in which it had tasks.
    """
    seen = [("workers", "approximate_median"), ("received_us", "min"), ("received_us", "max")]
    brokers = rows.group_by("broker").aggregate(seen).to_pylist()
    counts = [float(row["workers_approximate_median"] or 0) for row in brokers]
    if len(brokers) == 1:
        return round(counts[0])
    parts = [min(1.0, (row["received_us_max"] - row["received_us_min"]) / window_us) for row in brokers]
    return round(float(sum(count * part for count, part in zip(counts, parts, strict=True))))
