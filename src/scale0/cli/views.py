"""What each listing shows: its columns, its order, its verdict and the next command.

A view is made of pure functions over the rows that a broker sent: no network, no terminal. Problems come first, then
names. The verdict is one sentence that can be read alone; the next command is named only when there is one to give, for
healthy is quiet. Rows come from elsewhere, perhaps from a newer broker: a key that is missing is shown as unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from rich.text import Text

from scale0.cli import render
from scale0.cli.render import Cell, Column

Row = dict[str, Any]


class BrokerInfo(msgspec.Struct):
    """Who answered."""

    identity: str = "?"
    state: str = "unknown"
    epoch: int = 0
    config_version: str | int = ""
    uptime_us: int = 0
    network: str = ""
    group: str = ""

    @property
    def config(self) -> str:
        return short_version(self.config_version)

    @property
    def short(self) -> str:
        return f"({render.safe(self.identity)}, config {self.config})"


def short_version(version: str | int) -> str:
    """`v42`: the version's number, without epoch and hash."""
    parts = str(version).split(".")
    if len(parts) != 3:
        return f"v{render.safe(parts[0] or '0')}"
    epoch, number = parts[0], parts[1]
    return f"v{render.safe(number if epoch == '1' else f'{epoch}.{number}')}"  # a forced change opens an epoch


def _as_they_are(rows: Sequence[Row]) -> Sequence[Row]:
    return rows


def _nothing(_rows: Sequence[Row], _is_wide: bool) -> list[Text]:
    return []


class View(msgspec.Struct, frozen=True):
    """How one listing is shown.

    `verdict` gives fill and sentence; `rank` sorts, problems first; `digest` adds to each row what the others say of
    it; `sections` stand below the table, and with `True` leave nothing out.
    """

    noun: str
    columns: tuple[Column, ...]
    cells: Callable[[Row], Sequence[Cell]]
    rank: Callable[[Row], tuple[Any, ...]]
    verdict: Callable[[Sequence[Row], BrokerInfo], tuple[str, str]]
    advise: Callable[[Sequence[Row]], str]
    digest: Callable[[Sequence[Row]], Sequence[Row]] = _as_they_are
    sections: Callable[[Sequence[Row], bool], list[Text]] = _nothing


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 worker`, `2 workers`, `1,204 tasks`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {plural or noun + 's'}"


def text(row: Row, key: str) -> str:
    value = row.get(key)
    return render.UNKNOWN if value is None or value == "" else render.safe(value)


def number(row: Row, key: str) -> str:
    value = row.get(key)
    return render.figure(value) if isinstance(value, int | float) else render.UNKNOWN


def micros(row: Row, key: str) -> float | None:
    value = row.get(key)
    return value if isinstance(value, int | float) else None


def mebibytes(row: Row, key: str) -> str:
    value = micros(row, key)
    return render.UNKNOWN if value is None else render.figure(value / 2**20)


def names(row: Row, key: str) -> str:
    value = row.get(key)
    return " ".join(render.safe(item) for item in value) if isinstance(value, list) and value else render.UNKNOWN


def moment(time_us: float) -> str:
    """`2024-05-01 12:00:00`, in UTC."""
    try:
        return datetime.fromtimestamp(time_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return render.UNKNOWN  # no moment of our calendar


# --- services -----------------------------------------------------------------------------------------------------


def _service_cells(row: Row) -> Sequence[Cell]:
    idempotent = row.get("idempotent")
    return (
        text(row, "name"),
        render.state(str(row.get("state", "unknown"))),
        number(row, "workers"),
        f"{number(row, 'free')}/{number(row, 'capacity')}",
        number(row, "queued"),
        render.seconds(micros(row, "oldest_us")),
        number(row, "tasks_per_s"),
        render.ms(micros(row, "p50_us")),
        render.ms(micros(row, "p99_us")),
        number(row, "errors_5m"),
        render.UNKNOWN if idempotent is None else "yes" if idempotent else "no",
    )


def _services_verdict(rows: Sequence[Row], broker: BrokerInfo) -> tuple[str, str]:
    if not rows:
        return "off", f"no service yet {broker.short}"
    bare = sum(row.get("state") == "no worker" for row in rows)
    full = sum(row.get("state") == "full" for row in rows)
    services = count(len(rows), "service")
    if bare:
        return "bad" if bare == len(rows) else "warn", f"{services}, {bare:,} without workers {broker.short}"
    if full:
        return "ok", f"{services}, {full:,} with every slot taken {broker.short}"
    return "ok", f"{services}, all served {broker.short}"


def _services_advice(rows: Sequence[Row]) -> str:
    if not rows:
        return "scale0 worker module:app   (no worker has announced a service)"
    bare = [render.safe(row.get("name", "?")) for row in rows if row.get("state") == "no worker"]
    if bare:
        more = f" and {len(bare) - 1:,} more" if len(bare) > 1 else ""
        return f"scale0 worker module:app   (one that serves {bare[0]}{more})"
    waiting = [row for row in rows if (micros(row, "oldest_us") or 0) >= 1_000_000]
    if waiting:
        slow = max(waiting, key=lambda row: micros(row, "oldest_us") or 0)
        wait = render.seconds(micros(slow, "oldest_us"))
        return f"scale0 worker module:app   (tasks of {render.safe(slow.get('name', '?'))} wait {wait} s for a slot)"
    return ""


SERVICES = View(
    "service",
    (
        Column("SERVICE"),
        Column("STATE"),
        Column("WORKERS", is_number=True, drop=4),
        Column("FREE/CAP", is_number=True),
        Column("QUEUED", is_number=True),
        Column("OLDEST s", is_number=True, drop=3),
        Column("TASKS/s", is_number=True, drop=1),
        Column("p50 ms", is_number=True, is_wide_only=True),
        Column("p99 ms", is_number=True, drop=2),
        Column("ERR/5m", is_number=True, drop=5),
        Column("IDEMPOTENT", is_wide_only=True),
    ),
    _service_cells,
    lambda row: (row.get("state") != "no worker", row.get("state") != "full", str(row.get("name"))),
    _services_verdict,
    _services_advice,
)

# --- workers ------------------------------------------------------------------------------------------------------


def is_late(row: Row) -> bool:
    """Silent for longer than its interval, with some room for jitter: perhaps gone soon."""
    age, interval = micros(row, "heartbeat_age_us"), micros(row, "heartbeat_interval_us")
    return bool(age is not None and interval and age > 1.5 * interval)


def _is_worker_problem(row: Row) -> bool:
    return is_late(row) or bool(row.get("stuck"))


def _clock(row: Row) -> str:
    offset = micros(row, "clock_offset_us")
    if offset is None:
        return render.UNKNOWN
    millis = round(offset / 1_000)
    return f"{millis:+,}".replace("-", "−") if millis else "0"


def _worker_cells(row: Row) -> Sequence[Cell]:
    shown = render.state(str(row.get("state", "unknown")))
    if is_late(row) or row.get("is_behind"):
        shown = Text.assemble(("!", render.STYLES["warn"]), " ", render.safe(row.get("state", "unknown")))
    age, interval = micros(row, "heartbeat_age_us"), micros(row, "heartbeat_interval_us")
    return (
        text(row, "identity"),
        shown,
        number(row, "lru"),
        f"{number(row, 'busy')}/{number(row, 'capacity')}",
        number(row, "stuck"),
        f"{render.seconds(age)}/{render.seconds(interval)}",
        short_version(row.get("config_version") or ""),
        _clock(row),
        render.ms(micros(row, "p99_us")),
        number(row, "dispatched"),
        names(row, "services"),
        number(row, "sessions_per_h"),
        text(row, "dialect"),
    )


def _workers_verdict(rows: Sequence[Row], broker: BrokerInfo) -> tuple[str, str]:
    if not rows:
        return "bad", f"no worker is connected {broker.short}"
    late = sum(is_late(row) for row in rows)
    stuck = sum(row.get("stuck") or 0 for row in rows)
    draining = sum(row.get("state") == "draining" for row in rows)
    troubles = [f"{late:,} silent"] * bool(late) + [f"{count(stuck, 'slot')} stuck"] * bool(stuck)
    workers = count(len(rows), "worker")
    if troubles:
        return "warn", f"{workers}, {', '.join(troubles)} {broker.short}"
    busy = sum(row.get("busy") or 0 for row in rows)
    capacity = sum(row.get("capacity") or 0 for row in rows)
    rest = f", {draining:,} draining" if draining else ""
    return "ok", f"{workers}, {busy:,} of {count(capacity, 'slot')} busy{rest} {broker.short}"


def _workers_advice(rows: Sequence[Row]) -> str:
    if not rows:
        return "scale0 worker module:app"
    if any(row.get("stuck") for row in rows):
        worst = max(rows, key=lambda row: row.get("stuck") or 0)
        return f"restart {render.safe(worst.get('identity', '?'))}   (its handlers run on for tasks that are settled)"
    return ""


WORKERS = View(
    "worker",
    (
        Column("WORKER"),
        Column("STATE"),
        Column("LRU", is_number=True, drop=2),
        Column("BUSY/CAP", is_number=True),
        Column("STUCK", is_number=True, drop=5),
        Column("HEARTBEAT s", is_number=True, drop=1),
        Column("CONFIG", is_number=True, drop=6),
        Column("CLOCK ms", is_number=True, drop=7),
        Column("p99 ms", is_number=True, drop=8),
        Column("TASKS", is_number=True, drop=4),
        Column("SERVICES", drop=3),
        Column("SESSIONS/h", is_number=True, is_wide_only=True),
        Column("DIALECT", is_wide_only=True),
    ),
    _worker_cells,
    lambda row: (
        not _is_worker_problem(row),
        row.get("lru") is None,
        row.get("lru") or 0,
        str(row.get("identity")),
    ),
    _workers_verdict,
    _workers_advice,
)
