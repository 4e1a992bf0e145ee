"""What the process adds to the core's listings: alarms, events, the audit log; the verdict; processor and memory."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from scale0.management.audit import Audit
from scale0.management.events import Events
from scale0.management.neighbours import Neighbours
from scale0.management.vocabulary import SHELL_LISTINGS, Principal
from scale0.management.watch import Ask, Watch

PIECE_ROWS_MAX: Final = 500
TOUCHED: Final = frozenset({"overview", "brokers", "network"})

Row = dict[str, Any]


class Views:
    """Completes what is listed. From any thread."""

    def __init__(
        self, ask: Ask, watch: Watch, events: Events, audit: Audit | None, neighbours: Neighbours | None = None
    ) -> None:
        self._ask, self._watch, self._events, self._audit = ask, watch, events, audit
        self._neighbours = neighbours

    def complete(self, principal: Principal, command: str, arguments: dict[str, Any]) -> Future[Any] | None:
        """The answer, if the core alone does not have it."""
        if command == "list":
            return self._list(str(arguments.get("what", "brokers")), arguments)
        if command == "snapshot":
            return self._snapshot([str(part) for part in arguments.get("parts", ())], arguments)
        return None

    def _list(self, what: str, arguments: dict[str, Any]) -> Future[Any] | None:
        if what in SHELL_LISTINGS:
            limit = arguments.get("limit") or None

            def fill(document: Row) -> Row:
                rows = self._rows(what)
                return {**document, "schema": f"scale0.{what}/1", "rows": rows[:limit], "total": len(rows)}

            return _then(self._ask("list", {"what": "brokers"}), fill)
        if what in TOUCHED:
            return _then(self._ask("list", arguments), lambda document: self._touched(what, document))
        return None

    def _snapshot(self, parts: list[str], arguments: dict[str, Any]) -> Future[Any] | None:
        ours = [part for part in parts if part in SHELL_LISTINGS]
        touched = [part for part in parts if part in TOUCHED]
        if not ours and not touched:
            return None
        asked = {**arguments, "parts": [part for part in parts if part not in SHELL_LISTINGS] or ["brokers"]}

        def fill(document: Row) -> Row:
            found = {name: part for name, part in document.get("parts", {}).items() if name in parts}
            for name in touched:
                if name in found:
                    found[name] = self._touched(name, found[name])
            for name in ours:
                rows = self._rows(name)
                found[name] = {"rows": rows[:PIECE_ROWS_MAX], "after": None, "total": len(rows)}
            return {**document, "parts": found}

        return _then(self._ask("snapshot", asked), fill)

    def _touched(self, what: str, part: Row) -> Row:
        """The overview gets verdict and alarms; a broker what its process knows of itself, the network that of all."""
        rows = part.get("rows")
        if what == "network":
            return {**part, "rows": self._neighbours.added_to(rows or ())} if self._neighbours is not None else part
        if what == "overview":
            seen = self._watch.seen
            added = {"verdict": seen.verdict, "alarms": seen.raised}
            return {**part, **added} if rows is None else {**part, "rows": [{**row, **added} for row in rows]}
        shell = self._watch.shell
        figures = {
            name: getattr(shell, name) if shell is not None else None
            for name in ("cpu_percent", "rss_bytes", "connections")
        }
        return {**part, "rows": [{**row, **figures} for row in rows or ()]}

    def _rows(self, what: str) -> list[Row]:
        if what == "alarms":
            return self._watch.seen.alarms
        if what == "gone_workers":
            return self._watch.departures.rows
        if what == "events":
            return self._events.rows()
        return list(self._audit.rows) if self._audit is not None else []


def _then(asked: Future[Any], change: Callable[[Row], Row]) -> Future[Any]:
    """What was asked for, changed."""
    answer: Future[Any] = Future()

    def done(asked: Future[Any]) -> None:
        error = asked.exception()
        if error is not None:
            answer.set_exception(error)
            return
        try:
            answer.set_result(change(asked.result()))
        except Exception as error:
            answer.set_exception(error)

    asked.add_done_callback(done)
    return answer
