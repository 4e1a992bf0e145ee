"""What pages look at, asked of the broker once a second for all of them together.

A topic is a listing. Whoever wants it gets the last snapshot if that is younger than a second; if not, one question
goes to the broker however many are waiting. Long listings come in pieces, so that none of them holds the routing loop
(`snapshot`). What is shown of a snapshot is a view: filter, sort, limit; equal views are made and serialised once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from scale0.errors import ProtocolError
from scale0.management.filters import Filter, arranged, severity
from scale0.management.http.door import LOOKER, Door, ask
from scale0.management.http.shapes import LIMIT_DEFAULT
from scale0.protocol.codes import Code

FRESH_S: Final = 1.0
REST: Final = 20  # times as long as it took: so looking takes at most a twentieth of the broker's time
REST_S_MAX: Final = 2.5  # pages show what is older than 3 s as stale
READ_WITHIN_S: Final = 15.0
PIECES_MAX: Final = 200  # of one listing: 100,000 rows
VIEWS_KEPT_MAX: Final = 64  # of one snapshot
IN_PIECES: Final = frozenset({"overview", "services", "workers", "clients", "tasks", "network_workers"})
"""Topics that are asked for piece by piece; all others are short."""


class View(msgspec.Struct, frozen=True):
    """What of a listing is shown."""

    filter: str = ""
    sort: str = ""
    limit: int = LIMIT_DEFAULT
    offset: int = 0


class Snapshot:
    """One topic at one moment."""

    def __init__(self, topic: str, seq: int, document: dict[str, Any], taken_s: float) -> None:
        self.topic, self.seq, self.document, self.taken_s = topic, seq, document, taken_s
        self._views: dict[View, bytes] = {}
        self._events: dict[View, bytes] = {}
        self._problems: int | None = None

    @property
    def state(self) -> str:
        """The state of the broker then."""
        broker = self.document.get("broker")
        return str(broker.get("state", "unknown")) if isinstance(broker, Mapping) else "unknown"

    @property
    def rows(self) -> list[dict[str, Any]]:
        rows = self.document.get("rows")
        return rows if isinstance(rows, list) else []

    def shown(self, view: View) -> bytes:
        """The document of a view, as JSON."""
        found = self._views.get(view)
        if found is None:
            if len(self._views) >= VIEWS_KEPT_MAX:
                self._views.clear()
            found = self._views[view] = msgspec.json.encode(self._document(view))
        return found

    def event(self, view: View) -> bytes:
        """A view as the event that says it; all who look at it are handed the same bytes."""
        found = self._events.get(view)
        if found is None:
            if len(self._events) >= VIEWS_KEPT_MAX:
                self._events.clear()
            at, topic = msgspec.json.encode(self.document.get("at")), msgspec.json.encode(self.topic)
            head = b'{"seq":%d,"at":%b,"topic":%b,"document":' % (self.seq, at, topic)
            found = self._events[view] = message("snapshot", head + self.shown(view) + b"}")
        return found

    def _document(self, view: View) -> dict[str, Any]:
        if "rows" not in self.document:
            return self.document
        rows = self.rows
        if self._problems is None:
            self._problems = sum(1 for row in rows if severity(row))
        matching = Filter(view.filter).rows(rows) if view.filter.strip() else rows
        ordered = arranged(matching, view.sort) if view.sort else matching
        page = ordered[view.offset : view.offset + view.limit]
        counts = {"all": self.document.get("total", len(rows)), "problems": self._problems}
        counts["total"] = len(matching) if view.filter.strip() else max(counts["all"], len(rows))
        return {**self.document, "rows": page, **counts, "shown": len(page)}


def message(event: str, data: bytes) -> bytes:
    """One server-sent event; JSON has no line breaks of its own."""
    return b"event: " + event.encode() + b"\ndata: " + data + b"\n\n"


class Snapshots:
    """The last snapshot of each topic, and the one question that is on its way for each."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._last: dict[str, Snapshot] = {}
        self._asking: dict[str, asyncio.Task[Snapshot]] = {}
        self._took_s: dict[str, float] = {}
        self._seq = 0
        self.asked = 0  # questions that went to the broker, in all

    async def get(self, topic: str, fresh_s: float = FRESH_S) -> Snapshot:
        """A snapshot that is at most so old. Raises `ProtocolError` if the broker does not give one."""
        last = self._last.get(topic)
        if last is not None and time.monotonic() - last.taken_s < max(fresh_s, self.rest_s(topic)):
            return last
        task = self._asking.get(topic)
        if task is None:
            task = self._asking[topic] = asyncio.create_task(self._ask(topic))
            task.add_done_callback(lambda done: self._asked(topic, done))
        return await asyncio.shield(task)

    def spoil(self) -> None:
        """Something was changed: what is kept does not tell of it."""
        self._last.clear()
        self._asking.clear()

    async def _ask(self, topic: str) -> Snapshot:
        taken_s = time.monotonic()
        document = await _read(self._door, topic)
        self._seq += 1
        self.asked += 1
        self._took_s[topic] = time.monotonic() - taken_s
        return Snapshot(topic, self._seq, document, taken_s)

    def rest_s(self, topic: str) -> float:
        """How long a topic rests after a snapshot: one that takes long is taken less often, for it costs the broker."""
        return min(REST_S_MAX, REST * self._took_s.get(topic, 0.0))

    def _asked(self, topic: str, task: asyncio.Task[Snapshot]) -> None:
        is_current = self._asking.get(topic) is task
        if is_current:
            del self._asking[topic]
        if task.cancelled() or task.exception() is not None:
            return
        if is_current:
            self._last[topic] = task.result()


async def _read(door: Door, topic: str) -> dict[str, Any]:
    """The listing of a topic. A walk that others pushed out of the broker's memory is begun once more."""
    if topic not in IN_PIECES:
        return await _at_once(door, topic)
    try:
        return await _in_pieces(door, topic)
    except ProtocolError as error:
        if error.code != Code.MALFORMED:
            raise
        return await _in_pieces(door, topic)


async def _at_once(door: Door, topic: str) -> dict[str, Any]:
    document = await ask(door, LOOKER, "list", {"what": topic}, within_s=READ_WITHIN_S)
    return _checked(document, topic)


async def _in_pieces(door: Door, topic: str) -> dict[str, Any]:
    """Piece after piece; the document is put together as `list` would have given it."""
    head: dict[str, Any] = {"schema": f"scale0.{topic}/1", "at": _now(), "complete": False, "broker": {}}
    rows: list[Any] = []
    total, after = 0, None
    for number in range(PIECES_MAX):
        arguments = {"parts": [topic]} if after is None else {"parts": [topic], "after": after}
        piece = _checked(await ask(door, LOOKER, "snapshot", arguments, within_s=READ_WITHIN_S), topic)
        part = _checked(piece.get("parts", {}).get(topic), topic)
        if number == 0:
            head |= {key: piece[key] for key in ("at", "broker") if key in piece}
        if "rows" not in part:
            return {**head, **part, "complete": True}
        rows += part["rows"]
        total, after = part.get("total", len(rows)), part.get("after")
        if after is None:
            break
    return {**head, "complete": after is None, "rows": rows, "total": total}


def _checked(document: Any, topic: str) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise ProtocolError(Code.UNEXPECTED, f"the broker gave no listing of {topic}; are both of one version?")
    return document


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
