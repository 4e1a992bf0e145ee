"""The views of brokers, clients and dead letters, and the table of all; see `views.py` for the rules that all keep."""

from __future__ import annotations

from collections.abc import Sequence

from scale0.cli import render
from scale0.cli.history_view import HISTORY
from scale0.cli.network_view import NETWORK
from scale0.cli.render import Cell, Column
from scale0.cli.views import SERVICES, WORKERS, BrokerInfo, Row, View, count, mebibytes, micros, names, number, text

# --- brokers ------------------------------------------------------------------------------------------------------


def _broker_cells(row: Row) -> Sequence[Cell]:
    return (
        text(row, "identity"),
        render.state(str(row.get("state", "unknown"))),
        number(row, "workers"),
        number(row, "clients"),
        number(row, "accepted"),
        number(row, "replied"),
        number(row, "errored"),
        number(row, "queued"),
        number(row, "in_flight"),
        number(row, "cpu_percent"),
        mebibytes(row, "rss_bytes"),
        names(row, "endpoints"),
    )


def _brokers_verdict(rows: Sequence[Row], broker: BrokerInfo) -> tuple[str, str]:
    if not rows:
        return "off", f"no broker told of itself {broker.short}"
    brokers = count(len(rows), "broker")
    idle = [row for row in rows if row.get("state") not in {"active", "passive"}]
    if idle:
        first = f"{render.safe(idle[0].get('identity', '?'))} is {render.safe(idle[0].get('state', '?'))}"
        return "bad" if len(idle) == len(rows) else "warn", f"{brokers}, {first} {broker.short}"
    return "ok", f"{brokers}, up {uptime(broker.uptime_us)} {broker.short}"


def _brokers_advice(rows: Sequence[Row]) -> str:
    return "scale0 ctl enable" if any(row.get("state") == "disabled" for row in rows) else ""


def uptime(uptime_us: int) -> str:
    """The two largest units: `3 d 4 h`, `12 min 5 s`."""
    left = uptime_us // 1_000_000
    parts: list[str] = []
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        amount, left = divmod(left, length)
        if amount or (unit == "s" and not parts):
            parts.append(f"{amount} {unit}")
    return " ".join(parts[:2])


BROKERS = View(
    "broker",
    (
        Column("BROKER"),
        Column("STATE"),
        Column("WORKERS", is_number=True, drop=3),
        Column("CLIENTS", is_number=True, drop=4),
        Column("ACCEPTED", is_number=True, drop=2),
        Column("REPLIED", is_number=True, drop=1),
        Column("ERRORS", is_number=True),
        Column("QUEUED", is_number=True),
        Column("IN FLIGHT", is_number=True),
        Column("CPU %", is_number=True, drop=6),
        Column("RSS MiB", is_number=True, drop=7),
        Column("ENDPOINTS", drop=5),
    ),
    _broker_cells,
    lambda row: (row.get("state") == "active", str(row.get("identity"))),
    _brokers_verdict,
    _brokers_advice,
)

# --- clients ------------------------------------------------------------------------------------------------------


def _client_cells(row: Row) -> Sequence[Cell]:
    return (
        text(row, "identity"),
        render.state("absent" if row.get("is_absent") else "here"),
        number(row, "open_tasks"),
        number(row, "tasks_per_s"),
        number(row, "errors_5m"),
        number(row, "limit_percent"),
        number(row, "outcomes_kept"),
        render.seconds(micros(row, "heard_us")),
        text(row, "dialect"),
    )


def _clients_verdict(rows: Sequence[Row], broker: BrokerInfo) -> tuple[str, str]:
    if not rows:
        return "off", f"no client is connected {broker.short}"
    tasks = count(sum(row.get("open_tasks") or 0 for row in rows), "task")
    absent = sum(bool(row.get("is_absent")) for row in rows)
    rest = f", {absent:,} absent" if absent else ""
    return "warn" if absent else "ok", f"{count(len(rows), 'client')}{rest}, {tasks} open {broker.short}"


CLIENTS = View(
    "client",
    (
        Column("CLIENT"),
        Column("STATE"),
        Column("OPEN", is_number=True),
        Column("TASKS/s", is_number=True),
        Column("ERR/5m", is_number=True, drop=4),
        Column("LIMIT %", is_number=True, drop=5),
        Column("KEPT", is_number=True, drop=2),
        Column("HEARD s", is_number=True, drop=1),
        Column("DIALECT", drop=3),
    ),
    _client_cells,
    lambda row: (-(row.get("open_tasks") or 0), str(row.get("identity"))),
    _clients_verdict,
    lambda rows: "" if rows else "scale0 call SERVICE",
)

# --- dead letters -------------------------------------------------------------------------------------------------


def _letter_cells(row: Row) -> Sequence[Cell]:
    return (
        text(row, "id"),
        text(row, "service"),
        text(row, "client"),
        text(row, "code"),
        number(row, "attempts"),
        text(row, "died_at"),
        number(row, "bytes"),
        text(row, "text"),
    )


def _letters_verdict(rows: Sequence[Row], broker: BrokerInfo) -> tuple[str, str]:
    if not rows:
        return "ok", f"no dead letter: no task failed its last attempt {broker.short}"
    services = sorted({str(row.get("service", "?")) for row in rows})
    of = render.safe(services[0]) if len(services) == 1 else count(len(services), "service")
    return "warn", f"{count(len(rows), 'task')} of {of} failed the last attempt {broker.short}"


DEAD_LETTERS = View(
    "dead letter",
    (
        Column("TASK", drop=4),
        Column("SERVICE"),
        Column("CLIENT", drop=3),
        Column("CODE", is_number=True),
        Column("ATTEMPTS", is_number=True),
        Column("DIED AT", drop=2),
        Column("BYTES", is_number=True, drop=5),
        Column("WHY", drop=1),
    ),
    _letter_cells,
    lambda _row: (),  # as the broker sends them: the newest first
    _letters_verdict,
    lambda rows: "scale0 workers   (who was lost?)" if rows else "",
)

VIEWS: dict[str, View] = {
    "services": SERVICES,
    "workers": WORKERS,
    "clients": CLIENTS,
    "brokers": BROKERS,
    "network": NETWORK,
    "config_history": HISTORY,
    "dead_letters": DEAD_LETTERS,
}
"""By the name of the built-in service, without `scale0.`."""
