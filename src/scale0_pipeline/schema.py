"""What each table holds: names, types and meanings of its columns, in their order.

This is the contract between those who make tables and those who read them. The transforms end in a `select` of exactly
these columns, tests compare what they return with it, and the chapter "Tables" of docs/pipeline.md is this text again.
Types are Spark's names. Nothing here needs Spark, so that readers without it know the tables, too.

Times are µs since 1970 in UTC and end in `_us`, as durations do; `day` is the UTC day that a row is filed under, and
tables are partitioned by it. Tables only gain columns, at their end, and never change a type.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from scale0 import events
from scale0_pipeline import schema_gold

ATTEMPTS: Final = (
    "array<struct<"
    + ",".join(f"{field.name}:{'bigint' if field.type == 'int64' else 'string'}" for field in events.ATTEMPT_FIELDS)
    + ">>"
)
TYPES: Final = {
    "string": "string",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "attempts": ATTEMPTS,
}
"""The types of the events' vocabulary, as Spark names them."""


class Field(NamedTuple):
    """One column of a table."""

    name: str
    type: str
    meaning: str


class Contract(NamedTuple):
    """One table: what a row of it is, and its columns."""

    text: str
    fields: tuple[Field, ...]
    of_events: tuple[str, ...] = ()  # those of the fields that are columns of events, as they are

    @property
    def names(self) -> tuple[str, ...]:
        """The columns in their order."""
        return tuple(field.name for field in self.fields)


EVENTS: Final = tuple(Field(column.name, TYPES[column.type], column.meaning) for column in events.COLUMNS)

OF_ALL: Final = ("v", "kind", "broker", "boot", "seq", "ts_us")
OF_NOTES: Final = ("subject", "what", "value", "detail")
OF_TASKS: Final = tuple(field.name for field in EVENTS if field.name not in OF_ALL + OF_NOTES)

_FIRST = """
day            date     the UTC day that it is filed under
"""
_BATCH = """
batch          bigint   the batch that wrote it
"""

SILVER_AND_FACTS: Final = {
    "silver/tasks": (
        "One row for each row of a task, of origins and relays alike.",
        _FIRST,
        OF_ALL + OF_TASKS,
        """
        task_id            string   client, nonce and sequence, as people write it
        is_origin          boolean  the row of the broker that settled it for its client
        latency_us         bigint   from received to settled
        queue_us           bigint   without a worker: from received to the last dispatch, less earlier attempts
        worker_us_total    bigint   in the worker, waiting and working; null if it did not tell
        network_us         bigint   from dispatch to outcome, less the time in the worker; null if that is not known
        client_network_us  bigint   from the client to the broker, by corrected clocks; null if they were not measured
        is_future          boolean  its time lay over five minutes ahead of its landing
        landed_us          bigint   when its batch was planned
        """
        + _BATCH,
    ),
    "silver/notes": (
        "One row for everything else that brokers recorded.",
        _FIRST,
        OF_ALL + OF_NOTES,
        _BATCH,
    ),
    "silver/worker_sessions": (
        "One row for each session of a worker and each day that it touched, as far as that day's end.",
        _FIRST,
        (),
        """
        worker      string   whose session
        broker      string   where
        boot        string   in which run of the broker's process
        opened_us   bigint   when it was opened; of one that is older than the look-back, the first sign of it
        closed_us   bigint   when it was lost or closed; null: open at the day's end
        why         string   why it ended, as the broker said; a broker's end or crash ends all its sessions
        services    string   the services that it announced, as a JSON list
        capacity    int      its slots when it last had some; null if it never did
        """,
    ),
    "silver/config_applied": (
        "One row for each time that a broker took up a version of the config.",
        _FIRST,
        (),
        """
        ts_us    bigint   when
        broker   string   which broker
        version  string   the new version
        former   string   the one before
        author   string   who wrote it
        """,
    ),
    "silver/gaps": (
        "One row for each run of row numbers that are known to be lost.",
        _FIRST,
        (),
        """
        broker  string   whose rows
        boot    string   of which run of its process
        seq_lo  bigint   first number of the run
        seq_hi  bigint   last number of the run
        rows    bigint   how many are lost
        why     string   dropped (the recorder was behind), crashed (lost with the broker),
                         forced (deleted for want of room) or missing (nobody said why)
        """,
    ),
    "silver/doubled": (
        "The rows of tasks that were settled twice around a fail-over, but for the first one of each. Facts hold them; "
        "what is derived from facts takes them out again.",
        _FIRST,
        OF_ALL + OF_TASKS,
        """
        first_broker  string   who settled it first
        first_us      bigint   when
        """,
    ),
    "facts/minute": (
        "Settled and refused tasks of origins, by minute and latency; rows with equal keys add up.",
        _FIRST,
        (),
        """
        minute_us       bigint   the minute's start
        service         string   the service asked for
        broker          string   who settled them
        code            smallint 200 replied, 500 failed, else the status code
        outcome         string   replied, failed, error or refused
        bucket          int      of the latency: see Buckets
        count           bigint   tasks
        latency_us      bigint   sum
        queue_us        bigint   sum
        worker_us       bigint   sum, over tasks whose worker told it
        network_us      bigint   sum, over tasks of which it is known
        network_count   bigint   tasks of which it is known
        max_latency_us  bigint   the longest; adds up by maximum
        request_bytes   bigint   sum
        reply_bytes     bigint   sum
        retries         bigint   attempts beyond the first
        """
        + _BATCH,
    ),
    "facts/hour": (
        "Settled tasks of origins and relays, by hour and by who took part; rows with equal keys add up.",
        _FIRST,
        (),
        """
        hour_us         bigint   the hour's start
        worker          string   who had the last attempt; null if it was never dispatched or was forwarded
        via             string   the broker that it was forwarded to
        client          string   who asked
        service         string   the service asked for
        role            string   origin or relay
        broker          string   who recorded it
        config_version  string   the broker's
        worker_version  string   the worker's
        count           bigint   tasks
        errors          bigint   tasks that were not replied to, or whose handler failed
        latency_us      bigint   sum
        work_us         bigint   sum
        wait_us         bigint   sum
        request_bytes   bigint   sum
        reply_bytes     bigint   sum
        first_us        bigint   the first settlement; adds up by minimum
        last_us         bigint   the last settlement; adds up by maximum
        n_offset        bigint   rows with the worker's clock offset
        sum_t           bigint   Σ t, t the settlement in s since the hour's start
        sum_offset      bigint   Σ offset in µs, held within ±100 s
        sum_t_offset    bigint   Σ t·offset
        sum_t2          bigint   Σ t²
        sum_offset2     bigint   Σ offset² in ms²
        """
        + _BATCH,
    ),
    "facts/split": (
        "Where the time of dispatched tasks went, by hour; rows with equal keys add up.",
        _FIRST,
        (),
        """
        hour_us  bigint  the hour's start
        service  string  the service asked for
        part     string  queue, worker or network
        bucket   int     of the time in that part; −3 where it is not known
        count    bigint  tasks
        """
        + _BATCH,
    ),
    "facts/recorded": (
        "What is known of the numbers of rows, by hour: what arrived, and what counters say.",
        _FIRST,
        (),
        """
        hour_us   bigint  the hour's start
        broker    string  whose rows
        boot      string  of which run of its process
        evidence  string  row, gauge, end, peer or gap
        rows      bigint  rows that arrived; 0 but for `row`
        tasks     bigint  those of them that are tasks'
        last_seq   bigint  the highest number that is told of; adds up by maximum
        first_seq  bigint  the lowest number that arrived; adds up by minimum
        """
        + _BATCH,
    ),
}

QUALITY: Final = {
    "quality/results": (
        "One row for each rule that was looked at in a batch.",
        _FIRST,
        (),
        """
        batch      bigint   the batch
        table      string   the table that was looked at
        rule       string   the rule's name
        rows       bigint   rows that were looked at
        failed     bigint   those that break it
        is_broken  boolean  any does
        sample     string   the key of one of them
        """,
    ),
    "quality/quarantine": (
        "Lines of imported files that are no events.",
        _FIRST,
        (),
        """
        file_sha256  string  the file
        line         bigint  the line's number in it
        text         string  the line, at most 4,096 characters of it
        why          string  what is wrong with it
        """,
    ),
}


def parse(text: str) -> tuple[Field, ...]:
    """Lines of name, type and meaning; a line that is indented further goes on with the meaning before it."""
    fields: list[Field] = []
    lines = [line for line in text.splitlines() if line.strip()]
    for line in lines:
        words = line.split(maxsplit=2)
        if line.startswith(" " * 20):
            fields[-1] = fields[-1]._replace(meaning=f"{fields[-1].meaning} {line.strip()}")
        else:
            fields.append(Field(words[0], words[1], words[2]))
    return tuple(fields)


def _contract(text: str, before: str, of_events: tuple[str, ...], after: str) -> Contract:
    by_name = {field.name: field for field in EVENTS}
    return Contract(text, parse(before) + tuple(by_name[name] for name in of_events) + parse(after), of_events)


TABLES: Final[dict[str, Contract]] = {
    **{name: _contract(*parts) for name, parts in SILVER_AND_FACTS.items()},
    **{name: Contract(text, parse(fields)) for name, (text, fields) in schema_gold.GOLD.items()},
    **{name: _contract(*parts) for name, parts in QUALITY.items()},
}
"""Every table, in the order in which documents list them."""


def as_markdown() -> str:
    """The chapter "Tables" of docs/pipeline.md."""
    parts = ["## Tables\n", INTRODUCTION]
    for name, contract in TABLES.items():
        parts.append(f"\n### {name}\n\n{contract.text}\n\n| column | type | meaning |\n|---|---|---|")
        parts += [
            f"| `{field.name}` | {field.type} | {field.meaning} |"
            for field in contract.fields
            if field.name not in contract.of_events
        ]
        if contract.of_events:
            listed = ", ".join(f"`{column}`" for column in contract.of_events)
            parts.append(f"\nAnd, as brokers recorded them: {listed}.")
    return "\n".join(parts) + "\n"


INTRODUCTION: Final = """\
All tables are Delta tables under `tables/` of the data place, readable by anything that reads Delta. `silver` keeps
every event, `facts` keeps sums that add up, `gold` answers questions, `quality` says what to doubt. Times and durations
are µs and end in `_us`; times are UTC since 1970. `day` is the UTC day that a row is filed under, and tables are
partitioned by it. Tables only gain columns, at their end, and never change a type.

Buckets: a duration falls into bucket floor(log2(µs) · 32), which is 2.2 % wide. Zero has bucket −1, a negative duration
−2, and what has none, because the task was refused or nobody told, −3. Percentiles are the middle of the bucket that
holds the task of that rank, so they are within 1.1 % of the exact one, after any sum of histograms.
"""

if __name__ == "__main__":
    print(as_markdown(), end="")
