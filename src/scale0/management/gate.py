"""The one path of every command, whatever door it came by.

    known? → arguments → role → audit "begun", on disk → carried out on the loop → audit "done" or "failed" → answer

A denial is audited, too. If the audit log cannot be written, changes are refused, except `disable`: it is what one
reaches for when everything else is broken. What only looks is not audited and never waits for the disk. The gate has a
thread of its own for all that writes; passwords have another two (`passwords.py`); the loop has neither.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from functools import partial
from typing import Any, Final, Literal, Protocol
from uuid import uuid4

import msgspec
from structlog.typing import FilteringBoundLogger

from scale0.core.hints import KEY, KEY_MAY
from scale0.errors import ProtocolError
from scale0.management import network_commands
from scale0.management.audit import Audit, Record
from scale0.management.denials import Denials
from scale0.management.events import Events, utc_now
from scale0.management.passwords import Authenticator
from scale0.management.permits import check_arguments, summary_of, target_of, why_denied
from scale0.management.users import Users
from scale0.management.vocabulary import COMMANDS, Command, Principal
from scale0.protocol.codes import Code
from scale0.protocol.messages import ManagementReq

__all__ = ["Brokers", "Engine", "Gate", "Principal"]

UNDERWAY_MAX: Final = 200  # commands; one more is answered 429
COMMAND_S: Final = 55.0  # the longest that one may take; then 504
TICK_S: Final = 1.0
CLOSE_S: Final = 5.0  # how long its thread may take to end; a disk that hangs does not hold the broker
NEEDS_NO_AUDIT: Final = frozenset({"disable"})

Brokers = Literal["own", "all"] | list[str]


class Engine(Protocol):
    """What the gate needs of the broker. From any thread."""

    @property
    def identity(self) -> str: ...

    def manage(self, command: str, arguments: dict[str, Any]) -> Future[Any]:
        """Have it carried out on the loop."""

    def pass_on(
        self, request: ManagementReq, brokers: list[str] | Literal["all"], for_s: float
    ) -> Future[dict[str, Future[Any]]]:
        """Have it carried out by other brokers, too."""

    def record(self, row: dict[str, Any]) -> None:
        """Put a copy of an audit record into the event log, if the broker records."""


class Job(msgspec.Struct, eq=False):
    """A command that is underway."""

    principal: Principal
    command: Command
    arguments: dict[str, Any]
    command_id: str
    brokers: Brokers
    answer: Future[Any]
    until_s: float


class Gate:
    """See the module. `complete` adds to what the core lists what only the process knows."""

    def __init__(self, engine: Engine, users: Users, audit: Audit | None, log: FilteringBoundLogger) -> None:
        self.users, self.audit = users, audit
        self.events = Events(engine.identity)
        self.authenticator = Authenticator(users)
        self.complete: Callable[[Principal, str, dict[str, Any]], Future[Any] | None] = lambda *asked: None
        self.on_tick: Callable[[float], None] = lambda now: None
        self._engine, self._log = engine, log
        self._denials = Denials()
        self._steps: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._underway: set[Job] = set()
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="gate", daemon=True)

    # --- from any thread --------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Nothing is taken any more; what is underway is answered that the broker ends."""
        self._is_closed = True
        self.authenticator.close()
        self._steps.put(None)
        if self._thread.is_alive():
            self._thread.join(CLOSE_S)
        for job in list(self._underway):
            self._settle(job, ProtocolError(Code.NOT_ACCEPTING, "the broker stopped before it was done"))

    def step(self, work: Callable[[], None]) -> None:
        """Do this in the gate's thread."""
        self._steps.put(work)

    def authenticate(self, user: str, password: str, source: str, door: str = "managementreq") -> Future[Principal]:
        """Who this is; a failure is audited, and raises `ProtocolError` 401 or 429 in the future."""
        answer = self.authenticator.authenticate(user, password, source, door)

        def look(done: Future[Principal]) -> None:
            error = done.exception()
            if isinstance(error, ProtocolError):
                self.deny(user, "", door, source, "login", int(error.code), error.text)

        answer.add_done_callback(look)
        return answer

    def ask(
        self,
        principal: Principal,
        command: str,
        arguments: dict[str, Any],
        *,
        command_id: str = "",
        brokers: Brokers = "own",
    ) -> Future[Any]:
        """Have a command carried out; the future holds its result, or the `ProtocolError` that refused it."""
        answer: Future[Any] = Future()
        try:
            job = self._check(principal, command, arguments, command_id, brokers, answer)
        except ProtocolError as error:
            answer.set_exception(error)
            return answer
        if job.command.is_change:
            self._steps.put(partial(self._begin, job))
        else:
            self._carry_out(job)
        return answer

    def deny(self, user: str, role: str, door: str, source: str, what: str, code: int, text: str = "") -> None:
        """Somebody was denied something, here or by the page's process: it is audited."""
        record = Record(
            at=utc_now(), user=user[:100], role=role, door=door, source=source[:200], command=what[:100],
            outcome="denied", code=code, text=text[:500],
        )  # fmt: skip
        self._steps.put(partial(self._write_denial, record))

    # --- checks -----------------------------------------------------------------------------------------------------

    def _check(
        self,
        principal: Principal,
        name: str,
        arguments: dict[str, Any],
        command_id: str,
        brokers: Brokers,
        answer: Future[Any],
    ) -> Job:
        command = COMMANDS.get(name)
        if command is None:
            raise ProtocolError(Code.UNEXPECTED, f"no command {name!r}; there are {', '.join(COMMANDS)}")
        checked = check_arguments(command, arguments)
        why = why_denied(principal, command, checked)
        if not why and principal.user == KEY and name not in KEY_MAY:
            why = f"{KEY} may send {' and '.join(KEY_MAY)}, not {name}"
        if why:
            self.deny(principal.user, principal.role.text, principal.door, principal.source, name, 403, why)
            raise ProtocolError(Code.NOT_ALLOWED, why)
        if not isinstance(brokers, list) and brokers not in ("own", "all"):
            raise ProtocolError(Code.MALFORMED, "brokers: own, all, or a list of their names")
        until_s = time.monotonic() + COMMAND_S
        job = Job(principal, command, checked, command_id or str(uuid4()), brokers, answer, until_s)
        with self._lock:
            if self._is_closed:
                raise ProtocolError(Code.NOT_ACCEPTING, "the broker ends")
            if len(self._underway) >= UNDERWAY_MAX:
                raise ProtocolError(Code.OVER_LIMIT, f"{UNDERWAY_MAX} commands are underway; try again soon")
            self._underway.add(job)
        return job

    # --- carrying out -----------------------------------------------------------------------------------------------

    def _carry_out(self, job: Job) -> None:
        is_own, others = network_commands.others(job.brokers, self._engine.identity)
        if job.brokers == "own":
            self._own(job).add_done_callback(partial(self._done, job))
            return
        request = ManagementReq(
            auth_id=job.principal.user,
            auth_password="",
            seq=0,
            command=job.command.name,
            arguments=job.arguments,
            command_id=job.command_id,
            role=job.principal.role.text,
        )
        asked = {self._engine.identity: self._own(job)} if is_own else {}
        passed = self._engine.pass_on(request, others, float(job.arguments.get("timeout_s") or 0.0))
        passed.add_done_callback(partial(self._gather, job, asked))

    def _own(self, job: Job) -> Future[Any]:
        completed = self.complete(job.principal, job.command.name, job.arguments)
        if completed is not None:
            return completed
        author = {"author": job.principal.user} if job.command.is_change else {}
        return self._engine.manage(job.command.name, {**job.arguments, **author})

    def _gather(self, job: Job, asked: dict[str, Future[Any]], passed: Future[dict[str, Future[Any]]]) -> None:
        if passed.exception() is not None:
            self._done(job, passed)
            return

        def gathered(results: dict[str, Any]) -> None:
            answer: Future[Any] = Future()
            answer.set_result(results)
            self._done(job, answer)

        network_commands.gather(job.command_id, {**asked, **passed.result()}, gathered)

    def _done(self, job: Job, done: Future[Any]) -> None:
        """It was carried out, or failed: from the loop's thread, or any other."""
        error = done.exception()
        result = done.result() if error is None else _as_refusal(error, self._log)
        if job.command.is_change:
            self._steps.put(partial(self._end, job, result))
        else:
            self._settle(job, result)

    def _settle(self, job: Job, result: Any) -> None:
        with self._lock:
            if job not in self._underway:
                return
            self._underway.discard(job)
        with contextlib.suppress(InvalidStateError):
            if isinstance(result, ProtocolError):
                job.answer.set_exception(result)
            else:
                job.answer.set_result(result)

    # --- the gate's own thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        if self.audit is not None:
            self.audit.begin()
        tick_at_s = time.monotonic()
        while True:
            try:
                step = self._steps.get(timeout=max(0.0, tick_at_s - time.monotonic()))
            except queue.Empty:
                tick_at_s = time.monotonic() + TICK_S
                step = self._tick
            if step is None:
                break
            try:
                step()
            except Exception:
                self._log.exception("unexpected exception in the gate; it goes on")
        self._write(self._denials.due(time.monotonic(), is_end=True))
        if self.audit is not None:
            self.audit.close()

    def _tick(self) -> None:
        now = time.monotonic()
        self._write(self._denials.due(now))
        if self.users.look() and self.users.why:
            self._log.error(self.users.why)
        for job in [job for job in list(self._underway) if now >= job.until_s]:
            text = f"{job.command.name} took longer than {COMMAND_S:g} s; it may have been done all the same"
            self._end(job, ProtocolError(Code.DEADLINE_IN_FLIGHT, text))
        self.on_tick(now)

    def _begin(self, job: Job) -> None:
        why = self._write([self._record(job, "begun", 0)])
        if why and job.command.name not in NEEDS_NO_AUDIT:
            text = f"{job.command.name} is refused, for it cannot be audited: {why}; disable alone goes without"
            self._settle(job, ProtocolError(Code.NOT_ACCEPTING, text))
            self._tell(job, 503, text)
            return
        self._carry_out(job)

    def _end(self, job: Job, result: Any) -> None:
        """Its end is on disk before it is answered."""
        is_refused = isinstance(result, ProtocolError)
        is_partial = isinstance(result, dict) and job.brokers != "own" and not result.get("complete")
        code = int(result.code) if is_refused else 207 if is_partial else 200
        text = result.text if is_refused else _told(result) if is_partial else ""
        if job.command.is_change:
            self._write([self._record(job, "failed" if is_refused else "done", code, text)])
            self._tell(job, code, text)
        self._settle(job, result)

    def _tell(self, job: Job, code: int, text: str) -> None:
        who, name, target = job.principal, job.command.name, target_of(job.command, job.arguments)
        result = f"{code} {text}".strip() if code != 200 else "done"
        self._log.info(
            "command", command=name, target=target, user=who.user, door=who.door, code=code, command_id=job.command_id
        )
        self.events.add(
            "command", actor=who.user, door=who.door, command=name, target=target, result=result,
            command_id=job.command_id,
        )  # fmt: skip

    def _write_denial(self, record: Record) -> None:
        written = self._denials.add(record, time.monotonic())
        if not written:
            return
        self._write(written)
        self._log.warning(
            "denied", command=record.command, user=record.user, door=record.door, source=record.source, code=record.code
        )
        result = f"{record.code} {record.text}".strip()
        self.events.add("denied", actor=record.user, door=record.door, command=record.command, result=result)

    def _record(self, job: Job, outcome: str, code: int, text: str = "") -> Record:
        who = job.principal
        return Record(
            at=utc_now(), user=who.user, role=who.role.text, door=who.door, source=who.source,
            command=job.command.name, target=target_of(job.command, job.arguments), outcome=outcome, code=code,
            text=text[:500], command_id=job.command_id, arguments=summary_of(job.arguments, job.brokers),
        )  # fmt: skip

    def _write(self, records: Sequence[Record]) -> str:
        """Why they could not be written, or nothing."""
        if not records:
            return ""
        if self.audit is None:
            return "there is no place for the audit log; give management.audit, or a state directory"
        try:
            self.audit.write(records)
        except ProtocolError as error:
            self._log.error(error.text)
            return self.audit.why
        for record in records:
            self._engine.record(msgspec.structs.asdict(record))
        return ""


def _as_refusal(error: BaseException, log: FilteringBoundLogger) -> ProtocolError:
    if isinstance(error, ProtocolError):
        return error
    log.error("a command failed unexpectedly", exc_info=error)
    return ProtocolError(500, "this command failed; the broker's log has more")


def _told(result: dict[str, Any]) -> str:
    failed = [f"{row['broker']}: {row['code']} {row.get('text', '')}" for row in result["results"] if "text" in row]
    return "; ".join(failed)
