"""What `scale0 ctl` shows beyond the listings that anybody may ask for: tasks, events, audit, keys, connections.

The rules are those of `views.py`: pure functions over rows, the verdict first, problems first, unknown as a dash. A
listing that has no view of its own here, because it came with a newer broker, is shown all the same: its keys become
the columns.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from typing import Final

from rich.text import Text

from scale0.cli import more_views, render
from scale0.cli.config_diff import shorten
from scale0.cli.ctl_alarms import ALARMS
from scale0.cli.render import Cell, Column
from scale0.cli.views import BrokerInfo, Row, View, count, micros, moment, names, number, short_version, text

RESULT_CELLS_MAX: Final = 60  # of an event; --json has all of it
UNIT_TITLES: Final = {"_us": " s", "_per_s": "/s", "_bytes": " bytes", "_percent": " %"}


def moment_of(row: Row, key: str = "at") -> str:
    """`2024-05-01 12:00:00`, from the time of a row as it travels."""
    value = row.get(key)
    return render.safe(str(value)[:19].replace("T", " ")) if isinstance(value, str) and value else render.UNKNOWN


def _quiet(_rows: Sequence[Row]) -> str:
    return ""


def _as_sent(_row: Row) -> tuple[()]:
    return ()


# --- tasks --------------------------------------------------------------------------------------------------------


def _task_cells(row: Row) -> Sequence[Cell]:
    return (
        text(row, "id"),
        text(row, "service"),
        render.state(str(row.get("state", "unknown")).replace("_", " ")),
        render.seconds(micros(row, "age_us")),
        render.seconds(micros(row, "deadline_us")),
        number(row, "attempt"),
        text(row, "worker"),
        text(row, "client"),
        number(row, "priority"),
        number(row, "bytes"),
    )


def _tasks_verdict(rows: Sequence[Row], broker: BrokerInfo) -> tuple[str, str]:
    if not rows:
        return "ok", f"no task waits or runs {broker.short}"
    by_state = Counter(str(row.get("state")) for row in rows)
    told = f"{by_state['queued']:,} queued, {by_state['in_flight']:,} in flight"
    return "ok", f"{count(len(rows), 'task')}, {told} {broker.short}"


TASKS = View(
    "task",
    (
        Column("TASK"),
        Column("SERVICE", drop=1),
        Column("STATE"),
        Column("AGE s", is_number=True),
        Column("DEADLINE s", is_number=True),
        Column("ATTEMPT", is_number=True, drop=3),
        Column("WORKER", drop=2),
        Column("CLIENT", drop=4),
        Column("PRIORITY", is_number=True, is_wide_only=True),
        Column("BYTES", is_number=True, drop=5),
    ),
    _task_cells,
    lambda row: (micros(row, "deadline_us") is None, micros(row, "deadline_us") or 0),
    _tasks_verdict,
    _quiet,
)

# --- events and audit ---------------------------------------------------------------------------------------------


def _event_cells(row: Row) -> Sequence[Cell]:
    return (
        moment_of(row),
        text(row, "kind"),
        text(row, "actor"),
        text(row, "door"),
        text(row, "command"),
        text(row, "target"),
        shorten(text(row, "result"), RESULT_CELLS_MAX),
        text(row, "broker"),
    )


def _events_verdict(rows: Sequence[Row], broker: BrokerInfo) -> tuple[str, str]:
    return "ok", f"{count(len(rows), 'event') if rows else 'no event yet'} {broker.short}"


EVENTS = View(
    "event",
    (
        Column("UTC"),
        Column("KIND", drop=4),
        Column("ACTOR"),
        Column("DOOR", drop=3),
        Column("COMMAND"),
        Column("TARGET", drop=1),
        Column("RESULT"),
        Column("BROKER", drop=2),
    ),
    _event_cells,
    _as_sent,  # the newest first
    _events_verdict,
    _quiet,
)


def _audit_cells(row: Row) -> Sequence[Cell]:
    outcome = str(row.get("outcome") or "unknown")
    fill = {"begun": "off", "done": "ok"}.get(outcome, "warn")
    glyph = {"ok": "●", "off": "○", "warn": "!"}[fill]
    return (
        number(row, "seq"),
        moment_of(row),
        text(row, "user"),
        text(row, "role"),
        text(row, "door"),
        text(row, "source"),
        text(row, "command"),
        text(row, "target"),
        Text.assemble((glyph, render.STYLES[fill]), " ", render.safe(outcome)),
        text(row, "code"),
    )


def _audit_verdict(rows: Sequence[Row], broker: BrokerInfo) -> tuple[str, str]:
    if not rows:
        return "ok", f"nothing was done and nothing was denied yet {broker.short}"
    denied = sum(str(row.get("outcome")) not in {"begun", "done"} for row in rows)
    rest = f", {denied:,} failed or denied" if denied else ""
    return "ok", f"{count(len(rows), 'record')}{rest} {broker.short}"


AUDIT = View(
    "record",
    (
        Column("SEQ", is_number=True, drop=5),
        Column("UTC"),
        Column("USER"),
        Column("ROLE", drop=4),
        Column("DOOR", drop=2),
        Column("SOURCE", drop=3),
        Column("COMMAND"),
        Column("TARGET", drop=1),
        Column("OUTCOME"),
        Column("CODE", is_number=True),
    ),
    _audit_cells,
    _as_sent,  # the newest first
    _audit_verdict,
    lambda rows: "scale0 ctl audit --verify   (has nobody changed the file?)" if rows else "",
)

# --- the config ---------------------------------------------------------------------------------------------------


def _config_cells(row: Row) -> Sequence[Cell]:
    at_us = micros(row, "time_us")
    return (
        text(row, "version"),
        text(row, "author"),
        moment(at_us) if at_us is not None else render.UNKNOWN,
        text(row, "comment"),
        number(row, "brokers"),
        names(row, "behind"),
        names(row, "unknown"),
        text(row, "sequencer"),
    )


def _config_verdict(rows: Sequence[Row], broker: BrokerInfo) -> tuple[str, str]:
    row = rows[0] if rows else {}
    behind = [render.safe(name) for name in row.get("behind") or []]
    told = f"{count(int(row.get('brokers') or 0), 'broker')} of {render.safe(broker.network or '?')}"
    if behind:
        return "warn", f"{broker.config} current, {', '.join(behind)} behind; {told} {broker.short}"
    return "ok", f"{broker.config} current, nobody is behind; {told} {broker.short}"


CONFIG = View(
    "config",
    (
        Column("VERSION"),
        Column("AUTHOR", drop=2),
        Column("UTC", drop=3),
        Column("COMMENT", drop=5),
        Column("BROKERS", is_number=True),
        Column("BEHIND"),
        Column("UNKNOWN", drop=4),
        Column("SEQUENCER", drop=1),
    ),
    _config_cells,
    _as_sent,
    _config_verdict,
    lambda _rows: "scale0 ctl config show   (the document itself)",
)

# --- keys, and connections that are ignored -----------------------------------------------------------------------


def _key_cells(row: Row) -> Sequence[Cell]:
    until = row.get("until")
    return (
        text(row, "name"),
        text(row, "kind"),
        names(row, "serve"),
        names(row, "call"),
        moment_of(row, "until") if isinstance(until, str) else number(row, "until"),
        number(row, "sessions"),
        text(row, "key"),
    )


def _keys_verdict(rows: Sequence[Row], broker: BrokerInfo) -> tuple[str, str]:
    if not rows:
        return "off", f"no key is known: traffic is not encrypted {broker.short}"
    used = sum(bool(row.get("sessions")) for row in rows)
    return "ok", f"{count(len(rows), 'key')}, {used:,} in use {broker.short}"


KEYS = View(
    "key",
    (
        Column("NAME"),
        Column("KIND"),
        Column("SERVE", drop=1),
        Column("CALL", drop=2),
        Column("UNTIL", drop=3),
        Column("SESSIONS", is_number=True),
        Column("KEY", drop=4),
    ),
    _key_cells,
    lambda row: (str(row.get("kind")), str(row.get("name"))),
    _keys_verdict,
    lambda rows: "" if rows else "scale0 keys new broker",
)


def _ignored_cells(row: Row) -> Sequence[Cell]:
    return (
        text(row, "connection"),
        number(row, "bad"),
        render.seconds(micros(row, "penalty_us")),
        number(row, "ignored"),
        text(row, "reason"),
    )


def _ignored_verdict(rows: Sequence[Row], broker: BrokerInfo) -> tuple[str, str]:
    if not rows:
        return "ok", f"no connection sends what is malformed {broker.short}"
    ignored = sum(bool(row.get("penalty_us")) for row in rows)
    return "warn", f"{count(len(rows), 'connection')} sent what is malformed, {ignored:,} ignored now {broker.short}"


def _ignored_advice(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    worst = max(rows, key=lambda row: micros(row, "penalty_us") or 0)
    return f"scale0 ctl clear-error-client {shlex.quote(text(worst, 'connection'))}   (once its cause is mended)"


ERROR_CLIENTS = View(
    "connection",
    (
        Column("CONNECTION"),
        Column("BAD", is_number=True),
        Column("PENALTY s", is_number=True),
        Column("IGNORED", is_number=True, drop=2),
        Column("REASON", drop=1),
    ),
    _ignored_cells,
    lambda row: (-(micros(row, "penalty_us") or 0), str(row.get("connection"))),
    _ignored_verdict,
    _ignored_advice,
)

# --- workers of the whole network ---------------------------------------------------------------------------------


def _afar_cells(row: Row) -> Sequence[Cell]:
    return (
        text(row, "identity"),
        text(row, "broker"),
        render.state(str(row.get("state") or "unknown")),
        f"{number(row, 'busy')}/{number(row, 'capacity')}",
        f"{render.seconds(micros(row, 'heard_us'))}/{render.seconds(micros(row, 'interval_us'))}",
        short_version(row.get("config_version") or ""),
        names(row, "services"),
    )


def _afar_verdict(rows: Sequence[Row], broker: BrokerInfo) -> tuple[str, str]:
    brokers = len({row.get("broker") for row in rows})
    if not rows:
        return "bad", f"no worker is connected to any broker {broker.short}"
    return "ok", f"{count(len(rows), 'worker')} at {count(brokers, 'broker')} {broker.short}"


NETWORK_WORKERS = View(
    "worker",
    (
        Column("WORKER"),
        Column("BROKER"),
        Column("STATE"),
        Column("BUSY/CAP", is_number=True),
        Column("HEARTBEAT s", is_number=True, drop=2),
        Column("CONFIG", is_number=True, drop=3),
        Column("SERVICES", drop=1),
    ),
    _afar_cells,
    lambda row: (str(row.get("broker")), str(row.get("identity"))),
    _afar_verdict,
    lambda rows: "" if rows else "scale0 worker module:app",
)

# --- whatever else there is ---------------------------------------------------------------------------------------


def generic(name: str, rows: Sequence[Row]) -> View:
    """A view of a listing that nobody described: a column a key, in the order in which the broker has them."""
    keys = list(dict.fromkeys(key for row in rows for key, value in row.items() if not isinstance(value, dict)))
    columns = [Column(_title(key), drop=place) for place, key in enumerate(keys)]
    noun = name.replace("_", " ").removesuffix("s")

    def cells(row: Row) -> Sequence[Cell]:
        return [_cell(row, key) for key in keys]

    def verdict(shown: Sequence[Row], broker: BrokerInfo) -> tuple[str, str]:
        return "ok", f"{count(len(shown), noun) if shown else f'no {noun}'} {broker.short}"

    return View(noun, tuple(columns), cells, _as_sent, verdict, _quiet)


def _title(key: str) -> str:
    for ending, unit in UNIT_TITLES.items():
        if key.endswith(ending):
            return key.removesuffix(ending).replace("_", " ").upper() + unit
    return key.replace("_", " ").upper()


def _cell(row: Row, key: str) -> Cell:
    value = row.get(key)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return names(row, key)
    if isinstance(value, int | float):
        return render.seconds(value) if key.endswith("_us") else render.figure(value)
    return text(row, key)


VIEWS: dict[str, View] = {
    **more_views.VIEWS,
    "network_workers": NETWORK_WORKERS,
    "tasks": TASKS,
    "config": CONFIG,
    "alarms": ALARMS,
    "events": EVENTS,
    "audit": AUDIT,
    "keys": KEYS,
    "error_clients": ERROR_CLIENTS,
}
"""By the name of the listing."""


def view_of(name: str, rows: Sequence[Row]) -> View:
    """How the listing `name` is shown."""
    return VIEWS.get(name) or generic(name, rows)
