"""The record of a run, counted after all recorders have ended, against everybody who counted too.

Each broker numbers its rows. So of every run of a broker's process each number up to the last one that anybody knows
must be in the record once, or within a loss that the record tells of: a note of dropped rows, or a gap in the
catalogue. The gauges in it say how many tasks had been settled by then, and as many rows must be there or be told as
lost. The last number is known from the broker itself if it ended in order. If it was killed, its recorder says which
row came last, and peers say which numbers they had heard of: what is between was lost with it.

One thing can nobody tell: rows that a broker had made and not yet handed over when it was killed, and that no peer had
heard of. They are of its last moment, and the clients' own books bound them: in it each client got no more outcomes
than it had tasks open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from scale0.telemetry import catalogue
from scale0.telemetry.catalogue import Entry
from scale0.telemetry.place import Place
from tests.chaos.client_process import IN_FLIGHT
from tests.chaos.services import SERVICES

COLUMNS = [
    "broker",
    "boot",
    "seq",
    "kind",
    "role",
    "service",
    "client",
    "nonce",
    "sequence",
    "outcome",
    "subject",
    "value",
    "detail",
]
DARK_MAX = IN_FLIGHT * len(SERVICES)  # outcomes that one client gets in the last moment of a broker
SENTENCES_MAX = 20  # of one kind are enough

Row = Mapping[str, Any]
Processes = Mapping[tuple[str, int], list[int]]
"""Of each broker's processes, by pid, how many tasks it had settled at each look."""


class Gauge(msgspec.Struct):
    """What a broker's once-a-second gauge says, as far as it can be counted."""

    last_seq: int
    replied: int = 0
    errored: int = 0
    refused: int = 0


class Run:
    """All that is known of one run of a broker's process."""

    def __init__(self, broker: str, boot: str) -> None:
        self.broker, self.boot = broker, boot
        self.pid = 0
        self.rows: Counter[int] = Counter()  # by number
        self.dropped: set[int] = set()  # numbers of rows that only say that others are lost
        self.lost: list[tuple[int, int]] = []  # told: from number to number
        self.settled: list[int] = []  # numbers of the rows of tasks, by what became of them
        self.refused: list[int] = []
        self.gauges: list[Gauge] = []
        self.ends: list[tuple[int, bool]] = []  # the last number, and whether the broker said so itself
        self.peers_heard = 0  # the highest number that a peer tells of

    def read(self, row: Row) -> None:
        seq, kind = int(row["seq"]), row["kind"]
        self.rows[seq] += 1
        if kind == "task":
            (self.refused if row["outcome"] == "refused" else self.settled).append(seq)
        elif kind == "boot":
            self.pid = int(_detail(row)["pid"])
        elif kind == "dropped":
            self.dropped.add(seq)
            self.lost.append((int(_detail(row)["seq_lo"]), int(_detail(row)["seq_hi"])))
        elif kind == "gauge":
            self.gauges.append(msgspec.convert(_detail(row), Gauge))
        elif kind == "boot_end":
            self.ends.append((int(row["value"]), bool(_detail(row)["clean"])))

    # --- sums ---------------------------------------------------------------------------------------------------------

    @property
    def last(self) -> int:
        """The highest number that its own record tells of, its own end aside."""
        return max((end for end, _ in self.ends), default=max(self.rows, default=0))

    @property
    def was_killed(self) -> bool:
        return not any(is_clean for _, is_clean in self.ends)

    @property
    def recorded(self) -> int:
        return len(self.rows.keys() - self.dropped) - len(self.ends)

    @property
    def told(self) -> int:
        return sum(high - low + 1 for low, high in self.lost)

    @property
    def heard(self) -> int:
        """Rows that were lost with it, and are known from its peers."""
        return max(0, self.peers_heard - self.last)

    # --- what must hold -----------------------------------------------------------------------------------------------

    @property
    def is_hearsay(self) -> bool:
        """Only peers tell of it: it was killed while its predecessor's recorder was still at work in the directory."""
        return not self.rows

    def breaches(self) -> list[str]:
        if self.is_hearsay:
            return []
        found = [self._of(f"row {seq} is recorded {times} times") for seq, times in self.rows.items() if times > 1]
        if len(self.ends) != 1:
            found.append(self._of(f"its record has {len(self.ends)} ends"))
        lost = {seq for low, high in self.lost for seq in range(low, high + 1)}
        there = self.rows.keys() - self.dropped
        if both := sorted(there & lost):
            found.append(self._of(f"rows {_span(both)} are told as lost, and are there"))
        if neither := sorted(set(range(1, self.last + 1)) - there - lost):
            found.append(self._of(f"rows {_span(neither)} are neither there nor told as lost"))
        if not self.was_killed and self.peers_heard > self.last:
            found.append(self._of(f"it ended with row {self.last}, and peers have heard of {self.peers_heard}"))
        return found + [sentence for gauge in self.gauges if (sentence := self._differs(gauge))][:1]

    def _differs(self, gauge: Gauge) -> str:
        """A sentence if the tasks recorded by then, and those that may be among the lost, are not what was counted."""
        lost = sum(min(high, gauge.last_seq) - low + 1 for low, high in self.lost if low <= gauge.last_seq)
        for name, counted, rows in (
            ("settled", gauge.replied + gauge.errored, self.settled),
            ("refused", gauge.refused, self.refused),
        ):
            there = sum(seq <= gauge.last_seq for seq in rows)
            if not there <= counted <= there + lost:
                counts = f"{there:,} are recorded and {lost:,} rows told as lost"
                return self._of(f"by row {gauge.last_seq} it had {name} {counted:,} tasks; {counts}")
        return ""

    def _of(self, sentence: str) -> str:
        return f"record of {self.broker}, run {self.boot[-8:]}: {sentence}"


class Record:
    """All runs of all brokers of a network."""

    def __init__(self) -> None:
        self.runs: dict[tuple[str, str], Run] = {}
        self.tasks: set[tuple[str, str, str, int]] = set()  # settled for clients: service, client, nonce, sequence
        self.segments = 0

    def read(self, row: Row) -> None:
        self._run(row["broker"], row["boot"]).read(row)
        if row["kind"] == "task" and row["role"] == "origin" and row["outcome"] != "refused":
            self.tasks.add((row["service"], row["client"], row["nonce"], row["sequence"]))
        elif row["kind"] == "peer_gauge" and _detail(row).get("boot"):
            about = self._run(row["subject"], _detail(row)["boot"])
            about.peers_heard = max(about.peers_heard, int(row["value"]))

    def read_gap(self, entry: Entry) -> None:
        self._run(entry.broker, entry.boot).lost.append((entry.seq_lo, entry.seq_hi))

    def _run(self, broker: str, boot: str) -> Run:
        return self.runs.setdefault((broker, boot), Run(broker, boot))

    # --- sums ---------------------------------------------------------------------------------------------------------

    @property
    def recorded(self) -> int:
        return sum(run.recorded for run in self.runs.values())

    @property
    def told(self) -> int:
        return sum(run.told for run in self.runs.values())

    @property
    def heard(self) -> int:
        return sum(run.heard for run in self.runs.values())

    @property
    def killed(self) -> int:
        return sum(run.was_killed for run in self.runs.values())

    def sum(self) -> str:
        known = self.recorded + self.told + self.heard
        return (
            f"{self.recorded:,} rows recorded in {self.segments:,} segments by {len(self.runs)} runs, "
            f"{self.told:,} lost and told, {self.heard:,} lost with {self.killed} killed brokers; "
            f"completeness {100 * self.recorded / known if known else 100:.2f} %"
        )

    # --- what must hold -----------------------------------------------------------------------------------------------

    def breaches(self, processes: Processes, ended: Mapping[tuple[str, str], int]) -> list[str]:
        """Against the brokers' processes, and against the tasks that ended, by client and service."""
        found = [sentence for run in self.runs.values() for sentence in run.breaches()]
        return (found + self._without_record(processes) + self._without_row(ended))[:SENTENCES_MAX]

    def _without_record(self, processes: Processes) -> list[str]:
        """Every process left a record, with as many rows, there or known as lost, as it was seen to have settled.

        The last look at one that was killed does not count: what it had just settled was not handed over yet. One that
        never had a recorder is known from its peers.
        """
        hearsay = Counter(run.broker for run in self.runs.values() if run.is_hearsay)
        runs = {(run.broker, run.pid): run for run in self.runs.values()}
        found = []
        for (broker, pid), counts in processes.items():
            run = runs.get((broker, pid))
            if run is None:
                hearsay[broker] -= 1
                if hearsay[broker] < 0:
                    found.append(f"record of {broker}: there is none of its process {pid}")
                continue
            seen = max(counts[:-1] if run.was_killed else counts, default=0)
            known = len(run.settled) + run.told + run.heard
            if known < seen:
                found.append(f"record of {broker}: process {pid} had settled {seen:,} tasks, and {known:,} are known")
        return found

    def _without_row(self, ended: Mapping[tuple[str, str], int]) -> list[str]:
        """Every outcome that a client got was settled by a broker, which made a row of it."""
        rows = Counter((client, service) for service, client, _, _ in self.tasks)
        found = [
            f"record: {client} had {count:,} tasks of {service}, and {rows[client, service]:,} are recorded"
            for (client, service), count in ended.items()
            if rows[client, service] > count
        ]
        missing = sum(max(0, count - rows[key]) for key, count in ended.items())
        dark = self.killed * len({client for client, _ in ended}) * DARK_MAX
        if missing > self.told + self.heard + dark:
            known = f"{self.told + self.heard:,} rows are known as lost, and {dark:,} may be lost unknown"
            found.append(f"record: {missing:,} tasks that ended have no row; {known}")
        return found


def read_place(place: Place) -> Record:
    """All that the catalogue has."""
    record = Record()
    for entry in catalogue.read_all(place, {}):
        if entry.gap:
            record.read_gap(entry)
            continue
        record.segments += 1
        table = pq.read_table(pa.BufferReader(place.read_bytes(entry.path)), columns=COLUMNS)
        for row in table.to_pylist():
            record.read(row)
    return record


def _detail(row: Row) -> dict[str, Any]:
    detail: dict[str, Any] = msgspec.json.decode(row["detail"]) if row["detail"] else {}
    return detail


def _span(numbers: Iterable[int]) -> str:
    ordered = sorted(numbers)
    return f"{ordered[0]}…{ordered[-1]} ({len(ordered):,})" if len(ordered) > 1 else str(ordered[0])
