"""`scale0 config history`: every version of the config that is remembered, and what each one changed.

A version that lost, because both sides of a partition changed the config, stays in the list: somebody wanted it, and
perhaps still does.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

import msgspec

from scale0.cli import render
from scale0.cli.config_diff import shorten
from scale0.cli.render import Cell, Column
from scale0.cli.views import BrokerInfo, Row, View, count, micros, moment, short_version, text
from scale0.errors import ProtocolError, SettingsError
from scale0.protocol import documents
from scale0.protocol.network import Document
from scale0.protocol.network_diff import diff

CHANGE_CELLS_MAX: Final = 50  # of the first change of a version


def _digest(rows: Sequence[Row]) -> Sequence[Row]:
    """Each row with what it changed against the version before it, which stands below it."""
    digested: list[Row] = []
    before: Document | None = None
    for row in reversed(rows):
        document = _document(row)
        changes = diff(before, document) if before and document else []
        told = f"{changes[0].key} {changes[0].text}" if changes else ""
        more = f" and {len(changes) - 1:,} more" if len(changes) > 1 else ""
        digested.append({**row, "changes": f"{shorten(told, CHANGE_CELLS_MAX)}{more}"})
        if row.get("state") != "lost":
            before = document
    return digested[::-1]


def document_of(row: Row) -> Document:
    """The document in a row of `scale0.config` or `scale0.config_history`."""
    if not isinstance(row.get("document"), dict):
        raise ProtocolError(501, "this broker does not show its config: it is older than networks of brokers")
    try:
        return documents.decode(msgspec.json.encode(row["document"]), "JSON", Document)
    except SettingsError as error:
        raise ProtocolError(400, f"version {row.get('version')} cannot be read here: {error}") from error


def _document(row: Row) -> Document | None:
    """The row's document; `None` if it cannot be read here, as one of a newer broker."""
    try:
        return document_of(row)
    except ProtocolError:
        return None


def _cells(row: Row) -> Sequence[Cell]:
    time_us = micros(row, "time_us")
    return (
        short_version(row.get("version") or ""),
        render.state(str(row.get("state", "unknown"))),
        moment(time_us) if time_us else render.UNKNOWN,
        text(row, "author"),
        text(row, "changes"),
        text(row, "comment"),
        text(row, "version"),
    )


def _verdict(rows: Sequence[Row], broker: BrokerInfo) -> tuple[str, str]:
    name = render.safe(broker.network or "scale0")
    if not rows:
        return "off", f"{name}: no version yet {broker.short}"
    lost = sum(row.get("state") == "lost" for row in rows)
    versions = f"{name}: {count(len(rows), 'version')}, {broker.config} current"
    return ("warn", f"{versions}, {lost:,} lost in a partition") if lost else ("ok", versions)


def _advise(rows: Sequence[Row]) -> str:
    lost = next((str(row.get("version")) for row in rows if row.get("state") == "lost"), "")
    return f"scale0 config diff {shlex.quote(render.safe(lost))}   (what was lost)" if lost else ""


HISTORY = View(
    "version",
    (
        Column("VERSION"),
        Column("STATE"),
        Column("TIME UTC", drop=2),
        Column("AUTHOR", drop=3),
        Column("CHANGES", drop=1),
        Column("COMMENT", drop=4),
        Column("WHOLE VERSION", is_wide_only=True),
    ),
    _cells,
    lambda _row: (),  # as the broker sends them: the newest first
    _verdict,
    _advise,
    _digest,
)
