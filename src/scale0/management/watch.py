"""Every few seconds: how is the broker, and is anything wrong?

The core is asked for its listings, piece by piece where they are long; the process adds what it knows of itself; the
alarms look at both (`alarms.py`). Whatever changes is logged, kept as an event, pushed to open pages and posted to the
webhook. Nothing waits here: each answer brings the next step into the gate's thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

import msgspec
from structlog.typing import FilteringBoundLogger

from scale0.management import vitals as vital
from scale0.management.alarms import Alarms, Change, log_change
from scale0.management.departures import Departures
from scale0.management.events import Events
from scale0.management.network_commands import gather
from scale0.management.verdict import verdict
from scale0.management.vitals import Rows, Shell, Vitals
from scale0.management.webhook import Webhook

LOOK_S: Final = 5.0
PIECES_MAX: Final = 200  # of the workers' listing
LISTED: Final = ("services", "network", "brokers", "keys")

Ask = Callable[[str, dict[str, Any]], Future[Any]]


class Seen(msgspec.Struct, frozen=True):
    """What the last look found; replaced as a whole, so that any thread may read it."""

    verdict: dict[str, str]
    raised: list[dict[str, Any]] = []
    alarms: list[dict[str, Any]] = []


class Watch:
    """Looks after one broker. `step` puts work into the gate's thread, which alone may call `tick` and `heard`."""

    def __init__(
        self,
        ask: Ask,
        shell: Callable[[], Shell],
        step: Callable[[Callable[[], None]], None],
        events: Events,
        log: FilteringBoundLogger,
        webhook: Webhook | None = None,
    ) -> None:
        self.seen = Seen({"level": "ok", "text": "● no alarm so far"})
        self.departures = Departures()
        self.shell: Shell | None = None
        self.on_alarms: Callable[[list[dict[str, Any]]], None] = lambda rows: None
        self.on_vitals: Callable[[Vitals, Rows], None] = lambda vitals, rows: None
        self._ask, self._shell, self._step, self._events, self._log = ask, shell, step, events, log
        self._webhook = webhook
        self._alarms = Alarms()
        self._vitals: Vitals | None = None
        self._network: list[dict[str, Any]] = []
        self._look_at_s = 0.0

    def tick(self, now: float) -> None:
        """Ask for everything, if it is time; a look that got no answer is not waited for."""
        if now < self._look_at_s:
            return
        self._look_at_s = now + LOOK_S
        asked = {name: self._ask("list", {"what": name}) for name in LISTED}
        asked["workers"] = _all_pieces(self._ask)
        gather("", asked, lambda results: self._step(partial(self._look, results["results"])))

    def heard(self, name: str, text: str) -> None:
        """The core has raised an alarm, or the shell."""
        self._tell(self._alarms.note(name, text, time.monotonic()))

    def _look(self, results: list[dict[str, Any]]) -> None:
        found = {row["broker"]: _rows(row.get("result")) for row in results}
        rows = Rows(**{name: found.get(name) for name in (*LISTED, "workers")})
        if rows.workers is not None:
            self.departures.look(rows.workers, time.time_ns() // 1_000)
        self.shell = self._shell()
        self._vitals = vital.read(rows, self.shell)
        self._network = [dict(row) for row in rows.network or ()]
        self._tell(self._alarms.look(self._vitals, time.monotonic()))
        self.on_vitals(self._vitals, rows)

    def _tell(self, changes: Iterable[Change]) -> None:
        changed = list(changes)
        raised = self._alarms.raised()
        found = verdict(self._vitals, raised, self._network)
        self.seen = Seen(
            verdict={"level": found.level, "text": found.text},
            raised=[msgspec.structs.asdict(alarm) for alarm in raised],
            alarms=self._alarms.rows(),
        )
        for change in changed:
            log_change(self._log, change)
            alarm = change.alarm
            self._events.add("alarm", command=alarm.name, target=alarm.subject, result=f"{alarm.state}: {alarm.cause}")
            if self._webhook is not None:
                self._webhook.offer(alarm)
        if changed:
            self.on_alarms(self.seen.alarms)


def _rows(document: Any) -> list[dict[str, Any]] | None:
    rows = document.get("rows") if isinstance(document, dict) else document
    return rows if isinstance(rows, list) else None


def _all_pieces(ask: Ask) -> Future[Any]:
    """All rows of the workers, asked for piece by piece."""
    answer: Future[Any] = Future()
    rows: list[dict[str, Any]] = []

    def piece(asked: int, done: Future[Any]) -> None:
        error = done.exception()
        if error is not None:
            answer.set_exception(error)
            return
        part = done.result()["parts"]["workers"]
        rows.extend(part["rows"])
        if part.get("after") is None or asked >= PIECES_MAX:
            answer.set_result(rows)
            return
        arguments = {"parts": ["workers"], "after": part["after"]}
        ask("snapshot", arguments).add_done_callback(partial(piece, asked + 1))

    ask("snapshot", {"parts": ["workers"]}).add_done_callback(partial(piece, 1))
    return answer
