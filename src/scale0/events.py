"""What a broker records: the vocabulary of telemetry, with a version.

One wide event is written per finished task, and small notes beside it tell what else happened: sessions, config,
fail-overs, gauges. All of them are rows of one table, `COLUMNS`; a row is known by `(broker, boot, seq)`, where `boot`
names one run of a broker's process and `seq` counts its rows. Events only gain columns, all of them nullable, and the
type of a column never changes: so a reader of any age reads rows of any age.

A task's row leaves the broker as a record of fixed width, `TASK`, because that costs it half a microsecond instead of
four. Names travel once: a record holds their numbers, and `Names` says which name a number stands for. Times in records
are seconds of the broker's monotonic clock; whoever reads them adds the wall clock's anchor (`BOOT`, `ANCHOR`).
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

import msgspec

VERSION: Final = 1

# --- the table ----------------------------------------------------------------------------------------------------


class Column(NamedTuple):
    """One column. `type` is string, int16, int32, int64 or attempts; µs are UTC since 1970 or durations."""

    name: str
    type: str
    meaning: str


KEY: Final = ("broker", "boot", "seq")

COLUMNS: Final = (
    Column("v", "int16", "version of the vocabulary that the row was written with"),
    Column("kind", "string", "what happened: one of KINDS"),
    Column("broker", "string", "who recorded it"),
    Column("boot", "string", "the run of its process: a UUID of version 7"),
    Column("seq", "int64", "the row's number in that run, from 1"),
    Column("ts_us", "int64", "when it happened; of a task, when it was settled or refused"),
    # of tasks
    Column("role", "string", "origin: this broker settled it for its client; relay: it ran it for another broker"),
    Column("service", "string", "the service asked for"),
    Column("client", "string", "who asked; in a relay's row, still the client"),
    Column("nonce", "string", "of the client's process, in hex: with client and sequence, the task's id"),
    Column("sequence", "int64", "the task's number in the client's process"),
    Column("worker", "string", "who had its last attempt; null if it was never dispatched"),
    Column("via", "string", "the broker that its last attempt was forwarded to; then `worker` is null"),
    Column("group", "string", "the broker's group"),
    Column("dialect", "string", "how its client speaks"),
    Column("epoch", "int32", "the broker's epoch"),
    Column("hops", "int16", "brokers that it had passed before this one"),
    Column("priority", "int16", "0 lowest"),
    Column("attempt", "int16", "attempts that count, the last one included"),
    Column("attempts", "attempts", "earlier attempts, oldest first; null if there were none"),
    Column("outcome", "string", "replied, failed (the handler raised), error, or refused (never accepted)"),
    Column("code", "int16", "200 replied, 500 failed, else the status code"),
    Column("request_bytes", "int64", "its body"),
    Column("reply_bytes", "int64", "the final reply's body"),
    Column("parts", "int32", "partial replies that went to the client"),
    Column("config_version", "string", "of the broker, when it was settled"),
    Column("worker_version", "string", "the config version that the reply named"),
    Column("trace_id", "string", "of the trace that the task belongs to"),
    Column("sent_us", "int64", "when the client sent it, by the client's clock"),
    Column("received_us", "int64", "when the broker received it"),
    Column("dispatched_us", "int64", "when its last attempt left for the worker; null if none did"),
    Column("worker_us", "int64", "when the worker replied, by the worker's clock"),
    Column("wait_us", "int64", "in the worker, before the handler ran; null if not told"),
    Column("work_us", "int64", "in the handler; null if not told"),
    Column("client_offset_us", "int64", "the client's clock less the broker's; null if not measured"),
    Column("worker_offset_us", "int64", "the worker's clock less the broker's; null if not measured"),
    Column("client_error_us", "int64", "the offset is known to within this"),
    Column("worker_error_us", "int64", "the offset is known to within this"),
    Column("free", "int32", "workers with room for it when it was last dispatched, the chosen one included"),
    Column("queued", "int32", "tasks of its service that waited then"),
    Column("workers", "int32", "workers of its service that the broker knew when it was settled"),
    Column("weight", "int32", "tasks that this row stands for; more than 1 only where a service is sampled"),
    # of everything else
    Column("subject", "string", "whom it is about: a worker, a broker, a service"),
    Column("what", "string", "what became of it: one of the kind's verbs"),
    Column("value", "int64", "the one figure that matters, if there is one"),
    Column("detail", "string", "the rest, as a JSON object"),
)

ATTEMPT_FIELDS: Final = (  # of a member of `attempts`, in this order
    Column("worker", "string", "who had it"),
    Column("via", "string", "the broker that it was forwarded to"),
    Column("dispatched_us", "int64", "when it left for the worker"),
    Column("ended_us", "int64", "when it was over"),
    Column("outcome", "string", "lost, returned or unsent"),
)

KINDS: Final = {
    "task": "a task was settled or refused",
    "boot": "recording began; detail: pid, wall_us, version, group, endpoints",
    "boot_end": "the process ended; value: the last seq; detail.clean: whether it said so itself",
    "anchor": "the wall clock was set; value: by how many µs",
    "gauge": "each second; detail: accepted, replied, errored, refused, queued, in_flight, last_seq, dropped,"
    " workers, clients",
    "service_gauge": "each 10 s, a service; value: queued; detail: workers, capacity, busy, free",
    "peer_gauge": "what a peer told of itself; value: its last seq; detail: boot, accepted, settled, open_tasks",
    "session": "a participant; what: opened, moved, ready, lost, closed; detail: role, services, capacity, why",
    "worker": "a worker, when something of it changed and each 60 s; detail: state, capacity, busy, interval_ms,"
    " offset_us, offset_error_us, config_version, dispatched, process",
    "member": "a broker of the network; what: linked, lost, left; detail: group, why",
    "config": "what: applied, refused; subject: the version; detail: author, comment, former",
    "failover": "what: took_over, stepped_down, handed_over, doubtful, resumed, restored;"
    " value: the epoch; detail: partner, former_epoch, tasks",
    "state": "the broker's mode; what: the new mode; detail: former",
    "alarm": "subject: its name; detail: text",
    "audit": "an operator's command; subject: who; what: the command; detail: arguments, result, door",
    "dropped": "rows that could not be recorded; value: how many; detail: seq_lo, seq_hi, why",
    "hint": "advice that the broker heard of; subject: whom it is about; what: heard, applied, expired, refused",
}

# --- records of fixed width -----------------------------------------------------------------------------------------

NO_NAME: Final = 0  # the number of no name
UNKNOWN_US: Final = -1  # a duration that was not told; any that is negative counts as such
UNKNOWN_OFFSET: Final = -(1 << 63)
NEVER_S: Final = -1.0  # a time that did not come

ROLES: Final = ("origin", "relay")
OUTCOMES: Final = ("replied", "failed", "error", "refused")

# A task's record, in its order; names end in _no for a name's number, in _s for the monotonic clock.
OWN_FIELDS: Final = (
    ("seq", "Q"),
    ("sequence", "Q"),
    ("received_s", "d"),
    ("dispatched_s", "d"),
    ("settled_s", "d"),
    ("sent_us", "q"),
    ("worker_us", "q"),
    ("wait_us", "q"),
    ("work_us", "q"),
    ("request_bytes", "I"),
    ("reply_bytes", "I"),
    ("parts", "I"),
    ("free", "I"),
    ("queued", "I"),
    ("workers", "I"),
    ("service_no", "I"),
    ("worker_version_no", "I"),
    ("trace_no", "I"),
)
ENDING_FIELDS: Final = (
    ("code", "H"),
    ("role", "B"),  # place in ROLES
    ("outcome", "B"),  # place in OUTCOMES
    ("hops", "B"),
)
TERMS_FIELDS: Final = (
    ("priority", "B"),
    ("attempt", "B"),
    ("earlier", "B"),  # Attempt notes that tell of its earlier attempts, with this record's seq
    ("own_spare", "4x"),
)
CLIENT_FIELDS: Final = (
    ("nonce", "8s"),
    ("client_offset_us", "q"),
    ("client_no", "I"),
    ("dialect_no", "I"),
    ("client_error_bits", "B"),  # the offset is known to within 2**n µs; 0: not measured
    ("client_spare", "7x"),
)
HOLDER_FIELDS: Final = (  # of who had the last attempt, a worker or another broker
    ("worker_offset_us", "q"),
    ("worker_no", "I"),
    ("via_no", "I"),
    ("worker_error_bits", "B"),
    ("holder_spare", "7x"),
)
HERE_FIELDS: Final = (("epoch", "I"), ("config_version_no", "I"))
TASK_FIELDS: Final = (*OWN_FIELDS, *ENDING_FIELDS, *TERMS_FIELDS, *CLIENT_FIELDS, *HOLDER_FIELDS, *HERE_FIELDS)


def _layout(*fields: tuple[str, str]) -> str:
    return "".join(code for _, code in fields)


TASK: Final = struct.Struct("<" + _layout(*TASK_FIELDS))
ENDING_PART: Final = struct.Struct("<" + _layout(*ENDING_FIELDS))
CLIENT_PART: Final = struct.Struct("<" + _layout(*CLIENT_FIELDS))
HOLDER_PART: Final = struct.Struct("<" + _layout(*HOLDER_FIELDS))
HERE_PART: Final = struct.Struct("<" + _layout(*HERE_FIELDS))
TASK_OF_PARTS: Final = struct.Struct(
    f"<{_layout(*OWN_FIELDS)}{ENDING_PART.size}s{_layout(*TERMS_FIELDS)}"
    f"{CLIENT_PART.size}s{HOLDER_PART.size}s{HERE_PART.size}s"
)
"""The same record, of parts that were packed before: they are the same for many tasks."""
assert TASK_OF_PARTS.size == TASK.size, "a record is the same however it is packed"


class Attempt(msgspec.Struct, array_like=True):
    """An earlier attempt of a task; told before the task's record, and joined to it by `seq`."""

    seq: int
    worker: str
    via: str
    dispatched_s: float
    ended_s: float
    outcome: str


class Note(msgspec.Struct, array_like=True):
    """Any row that is not a task's."""

    seq: int
    at_s: float
    kind: str
    subject: str = ""
    what: str = ""
    value: int | None = None
    detail: dict[str, Any] = {}


class Records(msgspec.Struct):
    """What a broker has to record since it was last asked, in the order in which it must be read.

    `tasks` are `TASK` records, a row each. `is_forgetting`: after these records all numbers of names are void.
    """

    names: list[tuple[int, str]]
    attempts: list[Attempt]
    notes: list[Note]
    tasks: list[bytes]
    is_forgetting: bool = False


def task_id(client: str, nonce: str, sequence: int) -> str:
    """A task's id as people write it, as `protocol.ids.show_id` has it."""
    return f"{client}.{nonce}.{sequence}"
