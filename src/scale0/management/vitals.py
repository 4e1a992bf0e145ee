"""How a broker and its network are, in the few figures that alarms and the verdict need.

The gate asks the core for its listings, adds what only the process knows, and `read` makes `Vitals` of both. Rows are
taken as they come: what a listing does not have, or what could not be asked, is `None`, and what is not known raises no
alarm and clears none. Of workers, which may be thousands, only the worst of each kind are kept.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

Row = Mapping[str, Any]

WORST_KEPT = 20
"""So many names are kept of what may concern every worker; all are counted."""


class Rows(msgspec.Struct, kw_only=True):
    """Rows of the listings of the same names; `None`: they could not be had."""

    services: Sequence[Row] | None = None
    workers: Sequence[Row] | None = None
    network: Sequence[Row] | None = None
    brokers: Sequence[Row] | None = None
    keys: Sequence[Row] | None = None


class Shell(msgspec.Struct, kw_only=True):
    """What the broker's process says of itself."""

    identity: str
    at_us: int  # UTC
    network: str = ""
    queued_per_service_max: int | None = None
    loop_late_us: int | None = None  # the longest that its loop kept others waiting, since the last look
    cpu_percent: float | None = None
    rss_bytes: int | None = None
    memory_bytes: int | None = None  # what the process may have: of its container, or of the machine
    disk_bytes: int | None = None  # of the file system that keeps its state
    disk_free_bytes: int | None = None
    connections: int | None = None
    connections_max: int | None = None
    recorder_dropped_bytes: int | None = None  # in all, since its start
    audit_error: str | None = None  # why the audit trail cannot be written; "": it can
    page_error: str | None = None  # why the page's process does not run though it should; "": it runs
    webhook_failures: int | None = None  # attempts in a row


class ServiceVitals(msgspec.Struct):
    name: str
    workers: int = 0
    workers_afar: int = 0  # at linked peers
    queued: int = 0
    oldest_s: float = 0.0  # how long its oldest task has waited
    settled_5m: float = 0.0
    errors_5m: int = 0


class BrokerVitals(msgspec.Struct):
    """One broker of the network, as this one sees it."""

    identity: str
    state: str
    link: str
    is_self: bool = False
    is_behind: bool = False
    silent_s: float | None = None
    star: str | None = None
    fallback: str | None = None  # of an active one of a pair: how its standby is
    fallback_broker: str = ""
    workers: int | None = None


class Measure(msgspec.Struct):
    """One thing measured of many workers: how many there are, and the worst of them, the very worst first."""

    count: int = 0
    worst: list[tuple[float, str]] = []

    @property
    def highest(self) -> float:
        return self.worst[0][0] if self.worst else 0.0


class WorkersVitals(msgspec.Struct):
    count: int
    stuck: Measure  # slots that stay occupied past their deadlines
    sessions: Measure  # sessions in the last hour, of those with more than one
    behind: Measure  # config
    skew_s: Measure  # clocks that differ from the broker's, either way


class Vitals(msgspec.Struct, kw_only=True):
    shell: Shell
    services: list[ServiceVitals] | None = None
    brokers: list[BrokerVitals] | None = None
    workers: WorkersVitals | None = None
    dead_letters: int | None = None
    error_clients: int | None = None
    keys_s: dict[str, float] | None = None  # of keys that expire: the seconds that remain


def read(rows: Rows, shell: Shell) -> Vitals:
    """The vitals that these rows tell."""
    own = rows.brokers[0] if rows.brokers else {}
    return Vitals(
        shell=shell,
        services=None if rows.services is None else _services(rows.services, rows.network or ()),
        brokers=None if rows.network is None else [_broker(row) for row in rows.network],
        workers=None if rows.workers is None else _workers(rows.workers),
        dead_letters=own.get("dead_letters"),
        error_clients=own.get("error_clients"),
        keys_s=None if rows.keys is None else _keys(rows.keys, shell.at_us),
    )


def _services(rows: Iterable[Row], network: Sequence[Row]) -> list[ServiceVitals]:
    afar: dict[str, int] = {}
    for broker in network:
        if broker.get("link") == "up":
            for name, workers in (broker.get("services") or {}).items():
                afar[name] = afar.get(name, 0) + workers
    return [
        ServiceVitals(
            name=row["name"],
            workers=row.get("workers") or 0,
            workers_afar=afar.get(row["name"], 0),
            queued=row.get("queued") or 0,
            oldest_s=(row.get("oldest_us") or 0) / 1e6,
            settled_5m=row.get("settled_5m") or (row.get("tasks_per_s") or 0.0) * 300,
            errors_5m=row.get("errors_5m") or 0,
        )
        for row in rows
    ]


def _broker(row: Row) -> BrokerVitals:
    heard_us = row.get("heard_us")
    return BrokerVitals(
        identity=row["identity"],
        state=row.get("state") or "unknown",
        link=row.get("link") or "down",
        is_self=bool(row.get("is_self")),
        is_behind=bool(row.get("is_behind")),
        silent_s=None if heard_us is None else heard_us / 1e6,
        star=row.get("star"),
        fallback=row.get("fallback"),
        fallback_broker=row.get("fallback_broker") or "",
        workers=row.get("workers"),
    )


def _workers(rows: Sequence[Row]) -> WorkersVitals:
    return WorkersVitals(
        count=len(rows),
        stuck=_measure((row.get("stuck") or 0, row) for row in rows),
        sessions=_measure(
            (row.get("sessions_per_h") or 0, row) for row in rows if (row.get("sessions_per_h") or 0) > 1
        ),
        behind=_measure((float(bool(row.get("is_behind"))), row) for row in rows),
        skew_s=_measure((abs(row.get("clock_offset_us") or 0) / 1e6, row) for row in rows),
    )


def _measure(values: Iterable[tuple[float, Row]]) -> Measure:
    found = [(float(value), str(row["identity"])) for value, row in values if value]
    return Measure(len(found), heapq.nsmallest(WORST_KEPT, found, key=lambda each: (-each[0], each[1])))


def _keys(rows: Iterable[Row], at_us: int) -> dict[str, float]:
    """The seconds until each name's last key expires; not of names with one that does not: it is the successor."""
    last_s: dict[str, float] = {}
    for row in rows:
        name = str(row.get("name") or row.get("key"))
        last_s[name] = max(last_s.get(name, -math.inf), _seconds(row.get("until")))
    return {name: until_s - at_us / 1e6 for name, until_s in last_s.items() if until_s != math.inf}


def _seconds(until: object) -> float:
    """UTC in seconds since 1970, of a time as key files write it; without one, never."""
    if not isinstance(until, str) or not until:
        return math.inf
    try:
        at = datetime.fromisoformat(until)
    except ValueError:
        return math.inf
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
