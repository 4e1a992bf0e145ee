"""The shell around a worker's session: carries out its effects, and feeds it messages and results.

Everything here runs in the link's thread (`link_thread.py`), which decides when. `receive` and `send_results` are the
two halves of a task's way through a worker, and the only places where a microsecond counts: TASK goes straight to its
decoder, and tasks and replies pass the session in batches.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from scale0.core.participant import (
    Abort,
    Connected,
    Failed,
    Keep,
    Left,
    Note,
    Open,
    ParticipantEffect,
    Ready,
    Transmit,
)
from scale0.core.worker_session import Answer, WorkerSession
from scale0.errors import ProtocolError, UsageError
from scale0.protocol import codec, native
from scale0.protocol.dialects import WORKER
from scale0.protocol.messages import UNKNOWN_US, Command, Disconnect, Message, Ping, Status, Task
from scale0.protocol.native import PREFIX_BYTES, decode_task, encode_taskreply
from scale0.transport.dealer import Dealer
from scale0.transport.key_files import KeyPair
from scale0.transport.saved_config import SavedConfigFile
from scale0.worker.handlers import Handler, cancelled_body
from scale0.worker.job import Job
from scale0.worker.outbox import Outbox, Result
from scale0.worker.runner import Runner

logger = logging.getLogger("scale0.worker")

NAMES_TOLD = 5  # of services, in a line of the log

FAREWELL_S: Final = 1.0  # how long a leaving worker waits to know that its last replies have arrived
_HEADER: Final = WORKER.header
_TASK_PREFIX: Final = _HEADER + bytes((Command.TASK,))
_PONG_PREFIX: Final = _HEADER + bytes((Command.PONG,))


class Shell:
    """One session, its socket and its jobs."""

    def __init__(
        self,
        session: WorkerSession,
        outbox: Outbox,
        handlers: Mapping[str, Handler],
        sync_runner: Runner,
        async_runner: Runner,
        saved_config: SavedConfigFile,
        pair: KeyPair | None = None,
    ) -> None:
        self.session = session
        self.dealer = Dealer(pair)
        self.runners = (sync_runner, async_runner)  # indexed by whether a handler is async
        self.jobs: dict[tuple[bytes, int], Job] = {}  # at most the capacity, and what a lost session left running
        self.on_socket: Callable[[], None] = _ignore  # another socket is open, or will be in a moment
        self.on_ready: Callable[[], object] = _ignore
        self.is_over = False
        self.was_cut_short = False  # it ended with work unfinished
        self.error: BaseException | None = None
        self._outbox = outbox
        self._handlers = handlers
        self._saved_config = saved_config
        # Streams that wait for the link: the session keeps replies within a bound, and a stream must have no gap.
        self._stalled: deque[Result] = deque()
        self._socket_number = 0
        self._has_connected = False
        self._is_taken = False  # the broker has said READYOK on this socket
        self._is_leaving = False
        self._effects: dict[type[ParticipantEffect], Callable[..., None]] = {
            Transmit: self._transmit,
            Open: self._open,
            Abort: self._abort,
            Connected: self._connected,
            Ready: self._ready,
            Note: lambda effect: note(effect.text, is_usual=effect.is_usual),
            Keep: lambda effect: saved_config.keep(effect.saved),
            Failed: self._fail,
            Left: self._left,
        }

    def carry_out(self, effects: list[ParticipantEffect]) -> None:
        for effect in effects:
            self._effects[type(effect)](effect)

    # --- in and out -----------------------------------------------------------------------------------------------

    def receive(self, messages: list[list[bytes]], now: float) -> None:
        """Hand a batch of messages to the session. Its tasks are queued; the runners are woken by whoever calls."""
        socket_number = self._socket_number
        tasks: list[Task] = []  # those that have come since the last other message
        for frames in messages:
            header = frames[0]
            try:
                if header[:PREFIX_BYTES] == _TASK_PREFIX:
                    tasks.append(decode_task(header, frames))
                    continue
                message: Message = codec.decode(frames)[1]  # type: ignore[assignment]
            except ProtocolError as error:
                logger.warning("the broker sent what is not allowed: %s", error)
                continue
            self._take_tasks(tasks, now)
            tasks = []
            self.carry_out(self.session.receive(message, now))
            if socket_number != self._socket_number:
                return  # messages of a closed socket no longer count
        self._take_tasks(tasks, now)

    def _take_tasks(self, tasks: list[Task], now: float) -> None:
        """Queue the tasks that the session starts."""
        out: list[ParticipantEffect] = []
        for task in self.session.receive_tasks(tasks, now, out) if tasks else ():
            handler = self._handlers.get(task.service)
            if handler is None or self._is_leaving:
                out += self.session.reply(task.id, task.attempt, (), status=Status.RETURNED, now=now)
                continue
            job = Job(task, handler, now + task.remaining_ms / 1000, now)
            self.jobs[task.id, task.attempt] = job
            self.runners[handler.is_async].add(job)
        self.carry_out(out)

    def send_results(self, now: float) -> None:
        """Hand what the handlers have made to the session."""
        results = self._outbox.results
        take = results.popleft
        is_ready = self.session.is_ready
        forget = self.jobs.pop
        answers: list[Answer] = []
        for _ in range(len(results)):
            result = take()
            job, status, body, part, is_final, work_us = result
            if job.parts_made and not is_ready:
                self._stalled.append(result)
                continue
            if is_final:
                forget((job.id, job.attempt), None)
            else:
                job.parts_sent += 1
                job.tell_room()
            wait_us = int((job.started_s - job.received_s) * 1e6) if job.started_s else UNKNOWN_US
            answers.append((job.id, job.attempt, body, status, part, is_final, wait_us, work_us))
        out: list[ParticipantEffect] = []
        replies = self.session.reply_all(answers, now, out)
        messages = [encode_taskreply(_HEADER, reply) for reply in replies]
        taken = self.dealer.send_all(messages) if messages else 0
        for reply in replies[taken:]:
            out += self.session.send_failed(reply, now)
        self.carry_out(out)

    def hear_failures(self) -> None:
        """Tell the session what the socket's monitor saw."""
        socket_number = self._socket_number
        for why in self.dealer.failures():
            self._link_failed(why)
            if socket_number != self._socket_number:
                return  # the rest is about a closed socket

    # --- requests -------------------------------------------------------------------------------------------------

    def leave(self, timeout_s: float) -> None:
        """Take nothing new and return what has not begun; `Left` follows when the rest is finished, or too late."""
        if self._is_leaving or self.is_over:
            return
        self._is_leaving = True
        self.carry_out(self.session.leave(time.monotonic(), timeout_s))
        for runner in self.runners:
            for job in runner.withdraw_all():
                self._outbox.give_back(job)

    def report_backlog(self, now: float) -> None:
        """Rule 20: the session asks for less while jobs wait here for long."""
        oldest_s = max(runner.oldest_wait_s(now) for runner in self.runners)
        self.carry_out(self.session.report_backlog(oldest_s, now))

    def close(self) -> None:
        """Let go of socket and runners. Handlers that still run are told that nobody wants their results."""
        self._socket_number += 1
        self.on_socket()
        self.dealer.close()
        for job in self.jobs.values():
            job.cancel()
        for runner in self.runners:
            runner.close()
        self._saved_config.wait()

    # --- effects --------------------------------------------------------------------------------------------------

    def _transmit(self, effect: Transmit) -> None:
        message = effect.message
        if self._is_leaving and type(message) is Disconnect:
            self._await_arrival()
        if self.dealer.is_open and not self.dealer.send(native.encode(_HEADER, message)):
            self.carry_out(self.session.send_failed(message, time.monotonic()))

    def _await_arrival(self) -> None:
        """Wait for the answer to a PING, which shows that every reply before it has arrived.

        The process may end right after DISCONNECT, and what ZeroMQ has not written by then is lost. That is harmless
        for DISCONNECT, and for a reply it would be a task whose outcome nobody knows.
        """
        if not self._is_taken or not self.dealer.is_open:
            return
        self.dealer.send(native.encode(_HEADER, Ping(int(time.time() * 1e6))))
        limit_s = time.monotonic() + FAREWELL_S
        while (left_s := limit_s - time.monotonic()) > 0 and self.dealer.socket.poll(int(left_s * 1000) + 1):
            if any(frames[0][:PREFIX_BYTES] == _PONG_PREFIX for frames in self.dealer.drain()):
                return

    def _abort(self, effect: Abort) -> None:
        job = self.jobs.get((effect.id, effect.attempt))
        if job is None:
            return
        job.cancel()
        runner = self.runners[job.handler.is_async]
        if runner.withdraw(job):
            self._outbox.finish(job, cancelled_body(), Status.FAILED)
        else:
            runner.abort(job)

    def _open(self, effect: Open) -> None:
        self._socket_number += 1
        self._is_taken = False
        try:
            self.dealer.open(effect.endpoint, effect.public_key)
        except UsageError as error:
            if not self._has_connected and effect.endpoint in self.session.link.settings.endpoints:
                raise  # what the user typed
            why = str(error)
            self._outbox.call(lambda: self._link_failed(why))
        self.on_socket()

    def _link_failed(self, why: str) -> None:
        self.carry_out(self.session.link_failed(why, time.monotonic()))

    def _connected(self, effect: Connected) -> None:
        self._has_connected = True
        self.dealer.takes_bundles = effect.takes_bundles
        own = self.session.link.settings.identity  # as listings name this worker
        logger.info("connected to the broker at %s; %s serves %s", effect.endpoint, own, _few(list(self._handlers)))

    def _ready(self, effect: Ready) -> None:
        self._is_taken = True
        self._outbox.results.extendleft(reversed(self._stalled))
        self._stalled.clear()
        self.on_ready()

    def _fail(self, effect: Failed) -> None:
        self.error = effect.error
        self.is_over = True

    def _left(self, effect: Left) -> None:
        self.was_cut_short = bool(self.jobs)
        self.is_over = True


def note(text: str, *, is_usual: bool = False) -> None:
    """Something for the log that is no error; a warning, unless nothing is wrong."""
    logger.log(logging.INFO if is_usual else logging.WARNING, "%s", text)


def _few(names: list[str]) -> str:
    """The first ones, and how many there are besides."""
    more = len(names) - NAMES_TOLD
    return ", ".join(names[:NAMES_TOLD]) + (f" and {more} more" if more > 0 else "")


def _ignore() -> None:
    return
