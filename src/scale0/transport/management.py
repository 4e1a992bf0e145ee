"""The broker's side of the gate: what is asked goes to the loop, what the loop is asked goes to the gate.

It begins when there is something to manage with (users, a page, a webhook), else when the first peer sends a command.
Everything here but `heed`, `notice` and `answered`, which are the loop's, may be called from any thread.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
from structlog.typing import FilteringBoundLogger

from scale0 import __version__
from scale0.core.askers import Later
from scale0.core.broker import Broker
from scale0.core.effects import Alarm, Answered, Asked, Effect, Persist
from scale0.core.settings import ManagementSettings
from scale0.errors import ProtocolError, SettingsError
from scale0.management import otlp
from scale0.management.audit import Audit
from scale0.management.channel import Hello
from scale0.management.gate import Gate, Principal
from scale0.management.neighbours import ASKER, Neighbours
from scale0.management.network_commands import refused
from scale0.management.otlp import Push
from scale0.management.page_process import TOKEN_S, PageProcess
from scale0.management.permits import capped, limit_of
from scale0.management.places import audit_path
from scale0.management.probe import Probe
from scale0.management.users import Users
from scale0.management.views import Views
from scale0.management.vitals import Shell
from scale0.management.vocabulary import Role
from scale0.management.watch import Watch
from scale0.management.webhook import Webhook
from scale0.protocol.codes import Code
from scale0.protocol.messages import Error, ManagementReq
from scale0.transport.addresses import is_loopback
from scale0.transport.loop import Loop
from scale0.transport.recording import Recording


class Management:
    """Gate, watch and page of one broker."""

    def __init__(
        self,
        broker: Broker,
        loop: Loop,
        *,
        endpoints: Sequence[str],
        state_dir: Path | None,
        recording: Recording | None,
        connections: Callable[[], int],
        now: Callable[[], float],
        log: FilteringBoundLogger,
    ) -> None:
        self._broker, self._loop, self._now, self._log = broker, loop, now, log
        self._settings: ManagementSettings = broker.state.local.management
        self._local_ports = {index for index, endpoint in enumerate(endpoints) if is_loopback(endpoint)}
        self._state_dir, self._recording, self._connections = state_dir, recording, connections
        self._waiting: dict[int, Future[Any]] = {}  # for another broker's word; the core limits and ends the wait
        self._late_s = 0.0
        self._gate: Gate | None = None
        self._watch: Watch | None = None
        self._webhook: Webhook | None = None
        self._push: Push | None = None
        self._page: PageProcess | None = None
        self._probe = Probe(state_dir)
        self.identity = broker.state.settings.identity

    # --- the life of it ---------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The broker serves from now on."""
        settings = self._settings
        if settings.users or settings.http or settings.webhook or otlp.is_wanted(settings.otlp):
            self._begin_gate()
        if settings.http:
            self._begin_page()

    def close(self) -> None:
        """The broker has ended; whoever waits is told."""
        if self._page is not None:
            self._page.close()
        if self._gate is not None:
            self._gate.close()
        if self._webhook is not None:
            self._webhook.close()
        if self._push is not None:
            self._push.close()
        for asked in self._waiting.values():
            if not asked.done():
                asked.set_exception(ProtocolError(Code.NOT_ACCEPTING, "the broker stopped before it was answered"))

    @property
    def gate(self) -> Gate:
        return self._gate if self._gate is not None else self._begin_gate()

    def page_url(self) -> str:
        """Where the page is; `SettingsError` if there is none."""
        if self._page is None:
            raise SettingsError("this broker has no page; start it with --manage HOST:PORT")
        return self._page.url()

    def new_token(self, role: Role | str = Role.ADMIN, for_s: float = TOKEN_S) -> str:
        """A token for one login at the page."""
        if self._page is None:
            raise SettingsError("this broker has no page; start it with --manage HOST:PORT")
        return self._page.new_token(Role.read(role) if isinstance(role, str) else role, for_s)

    def _begin_gate(self) -> Gate:
        settings = self._settings
        place = audit_path(settings, self._state_dir, self.identity)
        users = Users(Path(settings.users) if settings.users else None)
        if users.why:
            self._log.error(users.why)
        audit = Audit(place) if place is not None else None
        gate = self._gate = Gate(self, users, audit, self._log)
        if settings.webhook:
            network = self._broker.state.settings.network
            self._webhook = Webhook(settings.webhook, network=network, broker=self.identity, log=self._log)
        watch = self._watch = Watch(self.manage, self._shell, gate.step, gate.events, self._log, self._webhook)
        if otlp.is_wanted(settings.otlp):
            self._push = Push(
                settings.otlp,
                identity=self.identity,
                network=self._broker.state.settings.network,
                log=self._log,
                raised=lambda: watch.seen.raised,
            )
            watch.on_vitals = self._push.take
        neighbours = Neighbours(lambda: gate.ask(ASKER, "list", {"what": "brokers"}, brokers="all"))
        gate.complete = Views(self.manage, watch, gate.events, audit, neighbours).complete
        gate.on_tick = watch.tick
        gate.begin()
        return gate

    def _begin_page(self) -> None:
        settings, gate = self._settings, self.gate
        told = {**msgspec.to_builtins(settings), "http": settings.http}
        told["data"] = self._recording.data if self._recording is not None else ""
        network = self._broker.state.settings.network
        hello = Hello(self.identity, network, __version__, settings.users, [], told)
        page = self._page = PageProcess(gate, hello, self._log)
        gate.events.on_event = partial(page.push, "event")
        if self._watch is not None:
            self._watch.on_alarms = partial(page.push, "alarms")
        page.begin()

    # --- what the gate needs of the broker --------------------------------------------------------------------------

    def manage(self, command: str, arguments: dict[str, Any] | None = None) -> Future[Any]:
        """Have it carried out on the loop. Its result may come later: from another broker, or from files."""
        answer: Future[Any] = Future()
        asked_s = time.monotonic()

        def run() -> list[Effect]:
            self._late_s = max(self._late_s, time.monotonic() - asked_s)
            try:
                result, effects = self._broker.manage(command, arguments or {}, self._now())
            except Exception as error:
                answer.set_exception(error)
                return []
            if isinstance(result, Later):
                self._waiting[result.key] = answer
            else:
                answer.set_result(result)
            return effects

        return self._call(run, answer)

    def pass_on(
        self, request: ManagementReq, brokers: list[str] | Literal["all"], for_s: float
    ) -> Future[dict[str, Future[Any]]]:
        """Have other brokers carry it out: a future for each of them."""
        answer: Future[dict[str, Future[Any]]] = Future()

        def run() -> list[Effect]:
            passed, effects = self._broker.pass_on(request, brokers, for_s, self._now())
            asked: dict[str, Future[Any]] = {}
            for name, key in passed.keys.items():
                asked[name] = self._waiting[key] = Future()
            asked |= {name: refused(why) for name, why in passed.failed.items()}
            answer.set_result(asked)
            return effects

        return self._call(run, answer)

    def record(self, row: dict[str, Any]) -> None:
        """A copy of an audit record for the event log."""
        if self._recording is None:
            return

        def note() -> list[Effect]:
            journal = self._broker.state.journal
            if journal is not None:
                told = ("role", "door", "source", "target", "outcome", "arguments", "text", "command_id", "seq", "prev")
                detail = {name: row[name] for name in told if row.get(name)}
                journal.note(self._now(), "audit", row["user"], row["command"], row["code"] or None, detail)
            return []

        self._call(note, Future())

    def _call(self, run: Callable[[], list[Effect]], answer: Future[Any]) -> Future[Any]:
        try:
            self._loop.call(run)
        except RuntimeError as error:
            answer.set_exception(ProtocolError(Code.OVER_LIMIT, f"{error}; try again soon"))
        return answer

    def _shell(self) -> Shell:
        state, figures = self._broker.state, self._probe.look()
        late_s, self._late_s = self._late_s, 0.0
        audit = self._gate.audit if self._gate is not None else None
        return Shell(
            identity=self.identity,
            at_us=time.time_ns() // 1_000,
            network=state.settings.network,
            queued_per_service_max=state.limits.queued_per_service,
            loop_late_us=round(late_s * 1e6),
            cpu_percent=figures.cpu_percent,
            rss_bytes=figures.rss_bytes,
            memory_bytes=figures.memory_bytes,
            disk_bytes=figures.disk_bytes,
            disk_free_bytes=figures.disk_free_bytes,
            connections=self._connections(),
            connections_max=figures.open_files_max,
            recorder_dropped_bytes=self._recording.dropped_bytes if self._recording is not None else None,
            audit_error=audit.why if audit is not None else None,
            page_error=self._page.why if self._page is not None else None,
            webhook_failures=self._webhook.failures if self._webhook is not None else None,
        )

    # --- the loop's own thread --------------------------------------------------------------------------------------

    def answered(self, effect: Answered) -> None:
        """Another broker's word: to who asked for it, or to the log if that was the settings file."""
        message, asked = effect.message, self._waiting.pop(effect.key, None)
        if asked is None:
            if isinstance(message, Error):
                self._log.error(f"settings not changed: {message.text}")
        elif isinstance(message, Error):
            asked.set_exception(ProtocolError(message.code, message.text))
        else:
            asked.set_result(message.result)

    def notice(self, effect: Alarm | Persist) -> None:
        """Something that people should see."""
        if self._gate is None or self._watch is None:
            return
        if isinstance(effect, Alarm):
            self._gate.step(partial(self._watch.heard, effect.name, effect.text))
        else:
            self._gate.events.add("state", target=self.identity, result=effect.state)

    def heed(self, asked: Asked) -> None:
        """MANAGEMENTREQ came; files are not looked at in the loop."""
        self.gate.step(partial(self._heed, asked))

    # --- the gate's thread ------------------------------------------------------------------------------------------

    def _heed(self, asked: Asked) -> None:
        """Who is it, and may he?"""
        is_local = is_loopback(asked.dialed) if asked.dialed else asked.route[0] in self._local_ports
        if not (asked.is_encrypted or is_local):
            text = "MANAGEMENTREQ is heard over encrypted sockets, or on this machine alone; see scale0 keys"
            self._deny(asked, Code.NOT_ALLOWED, text)
            return
        if asked.peer:
            role = capped(asked.role, asked.role_max)
            if role is None:
                self._deny(asked, Code.NOT_ALLOWED, f"{asked.peer} may pass no commands on to {self.identity}")
            else:
                limit = limit_of(asked.role, role, asked.peer, self.identity, is_proven=asked.is_proven)
                self._ask(asked, Principal(asked.user[:100], role, "peer", asked.peer, limit=limit))
            return
        users = self.gate.users
        users.look()
        if not users and not users.why:
            text = "management over MANAGEMENTREQ is off: this broker has no users; scale0 user add NAME"
            self._deny(asked, Code.NOT_ALLOWED, text)
            return
        source = asked.public_key or "local"
        known = self.gate.authenticate(asked.user, asked.password, source)
        known.add_done_callback(partial(self._known, asked))

    def _known(self, asked: Asked, known: Future[Principal]) -> None:
        if known.exception() is not None:
            self._answer(asked.key, known)
        else:
            self._ask(asked, known.result())

    def _ask(self, asked: Asked, principal: Principal) -> None:
        brokers: Any = "own" if asked.peer else asked.brokers
        done = self.gate.ask(principal, asked.command, asked.arguments, command_id=asked.command_id, brokers=brokers)
        done.add_done_callback(partial(self._answer, asked.key))

    def _deny(self, asked: Asked, code: Code, text: str) -> None:
        door, source = ("peer", asked.peer) if asked.peer else ("managementreq", asked.public_key or "unencrypted")
        self.gate.deny(asked.user, "", door, source, asked.command, int(code), text)
        self._answer(asked.key, refused(text, code))

    def _answer(self, key: int, done: Future[Any]) -> None:
        error = done.exception()
        result = done.result() if error is None else error
        if error is not None and not isinstance(error, ProtocolError):
            result = ProtocolError(500, "this command failed; the broker's log has more")
        with contextlib.suppress(RuntimeError):  # so many calls wait that this one is late anyway
            self._loop.call(lambda: self._broker.answer(key, result, self._now()))
