"""What a document would change, if it were applied: key by key, and whom each change touches. Nothing is changed.

Whom it touches comes from what this broker knows of the network: a broker that is disabled or taken out sends its
workers and clients elsewhere, a service's setting concerns those who serve it, and whatever holds for the whole network
concerns everybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scale0.core import config_service, network_listings
from scale0.core.listings import Row
from scale0.core.operations import is_text
from scale0.core.state import State
from scale0.errors import ProtocolError, SettingsError
from scale0.protocol import documents, network_diff, network_rules
from scale0.protocol.codes import Code
from scale0.protocol.limits import DOCUMENT_BYTES_MAX
from scale0.protocol.network import Document
from scale0.protocol.network_diff import Change


def read(arguments: dict[str, Any]) -> Document:
    """The document that was given; what does not validate is refused, with each key (rule 22)."""
    text = arguments.get("document")
    if not isinstance(text, str | bytes) or (isinstance(text, str) and not is_text(text)):
        raise ProtocolError(Code.MALFORMED, "document: the JSON text of the network's config is needed")
    data = text.encode() if isinstance(text, str) else text
    if len(data) > DOCUMENT_BYTES_MAX:
        raise ProtocolError(Code.TOO_LARGE, f"document: at most {DOCUMENT_BYTES_MAX:,} bytes, not {len(data):,}")
    try:
        return documents.decode(data, "JSON", Document)
    except SettingsError as error:
        raise ProtocolError(Code.MALFORMED, str(error)) from None


def check(state: State, arguments: dict[str, Any]) -> Any:
    """The changes that this document would make to the one that holds now."""
    current = state.config.document
    wanted = read(arguments).over(current)
    try:
        network_rules.check(wanted)
    except SettingsError as error:
        raise ProtocolError(Code.MALFORMED, str(error)) from None
    rows = network_listings.network(state)
    changes = [_describe(change, rows) for change in network_diff.diff(current, wanted)]
    return {
        "base": str(state.config.version),
        "sequencer": config_service.sequencer(state),
        "changed": bool(changes),
        "changes": changes,
        "moving": {
            "workers": sum(change["workers"] for change in changes if change["is_moving"]),
            "clients": sum(change["clients"] for change in changes if change["is_moving"]),
        },
    }


def _describe(change: Change, rows: Sequence[Row]) -> dict[str, Any]:
    brokers, is_moving, service = _touched(change, rows)
    told = [row for row in rows if row["identity"] in brokers]
    return {
        "key": change.key,
        "before": change.before,
        "after": change.after,
        "text": change.text,
        "brokers": brokers,
        "workers": sum(_workers(row, service) for row in told),
        "clients": 0 if service else sum(_count(row, "clients") for row in told),
        "is_moving": is_moving,
    }


def _touched(change: Change, rows: Sequence[Row]) -> tuple[list[str], bool, str]:
    """The brokers that it concerns, whether their participants must move, and the service that it is about."""
    for row in rows:
        broker = f"broker.{row['identity']}"
        if change.key == broker or change.key.startswith(f"{broker}."):
            is_taken_out = change.key == broker and change.after is None
            is_disabled = change.key == f"{broker}.state" and change.after == "disabled"
            return [str(row["identity"])], is_taken_out or is_disabled, ""
    if change.key.startswith("service."):
        service = _service(change, rows)
        return [str(row["identity"]) for row in rows if service and _workers(row, service)], False, service
    return [str(row["identity"]) for row in rows], False, ""


def _service(change: Change, rows: Sequence[Row]) -> str:
    """The service that a key is about. Names may have dots in them, so the longest that fits is meant."""
    names = {str(name) for row in rows if isinstance(served := row.get("services"), dict) for name in served}
    fitting = [name for name in names if f"{change.key}.".startswith(f"service.{name}.")]
    return max(fitting, key=len, default="")


def _workers(row: Row, service: str) -> int:
    if not service:
        return _count(row, "workers")
    served = row.get("services")
    return int(served.get(service, 0)) if isinstance(served, dict) else 0


def _count(row: Row, key: str) -> int:
    value = row.get(key)
    return value if isinstance(value, int) else 0
