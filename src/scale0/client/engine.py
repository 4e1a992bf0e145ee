"""Carries out what a client's session asks for: the part that the blocking and the asyncio client share.

It owns the session, the socket and the records of open tasks, and knows neither threads nor event loops: its verbs
return at once. The shells decide when to call them and how to wait. A send may swallow the signal of a message that
came meanwhile (see `transport.dealer`): then `is_unsettled`, and a shell calls `settle_input` before it sleeps.

A session that could not start, or that a broker refused, is over; the next submitted task starts a new one, so a client
that was made before its broker works as soon as there is one.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Sequence
from typing import Final

from scale0 import tracing
from scale0.client.options import ClientOptions
from scale0.client.record import Outcome, Record, too_many_parts
from scale0.core.client_session import ClientSession
from scale0.core.link import Phase
from scale0.core.participant import Connected, Failed, Keep, Note, Open, Part, ParticipantEffect, Settled, Transmit
from scale0.core.repeatable_session import RepeatableSession
from scale0.errors import ProtocolError, Scale0Error, Unreachable, UsageError
from scale0.protocol import native
from scale0.protocol.dialects import CLIENT
from scale0.protocol.messages import Body, Command, Error, Message, TaskId, TaskReply
from scale0.protocol.native import decode_taskreply, encode_task
from scale0.transport.dealer import DRAIN_MAX, Dealer
from scale0.transport.saved_config import SavedConfigFile

Sending = tuple[Record, Body, bytes]
"""A record, and the body and options of its TASK."""

BATCHES_MAX: Final = 16  # taken in one go, before timers and other threads have their turn

_HEADER: Final = CLIENT.header
_TASKREPLY: Final = _HEADER + bytes((Command.TASKREPLY,))
_CONNECTED: Final = TaskReply(TaskId(b""), ())
_log = logging.getLogger("scale0.client")


class Engine:
    """One client's session over one socket. Not thread-safe."""

    def __init__(self, options: ClientOptions) -> None:
        self.options = options
        self.dealer = Dealer(options.pair)
        self.saved_config = SavedConfigFile(options.save_config, _note)
        self.session = self._new_session()
        self.records: dict[TaskId, Record] = {}
        self.generation = 0  # counts sockets: whoever polls must look for the new one when it changes
        self.is_closed = False
        self.error: Scale0Error | None = None  # why there is no session now
        self.malformed = 0  # messages that could not be read
        self.is_unsettled = False  # there may be input that no signal will tell
        self._is_started = False
        self._connecting: list[Record] = []  # who wants to know when a broker has taken the session

    @property
    def is_connected(self) -> bool:
        """A broker has taken the session, and has not been lost since."""
        return self.session.link.phase is Phase.UP

    # --- verbs ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to connect; does nothing while a session is under way."""
        if self.is_closed:
            raise UsageError("the client is closed")
        if self._is_started and self.error is None:
            return
        if self.error is not None:
            self.session = self._new_session()
            self.error = None
        self._is_started = True
        self.perform(self.session.start(time.monotonic(), time.time()))

    def submit(self, record: Record, body: Body, options: bytes, timeout_s: float, priority: int) -> None:
        """Send a task; its outcome comes to `record`."""
        self.submit_all(((record, body, options),), timeout_s, priority)

    def traced(self, sendings: Sequence[Sending]) -> Sequence[Sending]:
        """The tasks as they are to be submitted: with their spans, if tracing is on. Runs foreign code then.

        A question that another process may ask again is not traced, for its options are a part of it.
        """
        tracer = tracing.tracer
        return sendings if tracer is None or self.options.repeats is not None else tracer.begin(sendings)

    def submit_all(self, sendings: Sequence[Sending], timeout_s: float, priority: int) -> None:
        """Send tasks of one service; their outcomes come to their records. If one cannot be taken, none is."""
        if self.is_closed or self.error is not None or not self._is_started:
            self.start()
        now = time.monotonic()
        requests = [(body, options) for _, body, options in sendings]
        ids, tasks = self.session.submit_all(sendings[0][0].service, requests, timeout_s, now, priority)
        records = self.records
        for (record, _, _), task_id in zip(sendings, ids, strict=True):
            record.id = task_id
            records[task_id] = record
        if tasks:
            self.is_unsettled = True
            messages = [encode_task(_HEADER, task) for task in tasks]
            taken = self.dealer.send_all(messages) if self.dealer.is_open else 0
            for task in tasks[taken:]:
                self.perform(self.session.send_failed(task, now))

    def cancel(self, record: Record) -> None:
        """Nobody wants this task's outcome any more: the broker is told, and whatever comes is dropped."""
        if self.records.pop(record.id, None) is not None:
            self.perform(self.session.cancel(record.id, time.monotonic()))

    def tell_when_connected(self, record: Record) -> None:
        """Settle `record` when a broker has taken the session, or when none will."""
        if self.is_connected:
            record.settle(_CONNECTED)
        else:
            self._connecting.append(record)

    def take_input(self) -> None:
        """Take what has come; with very much of it, some, and the rest is left unsettled."""
        if len(self.records) == 1:
            # Most likely the one reply that somebody waits for: looking for more costs as much as taking it did.
            self._take_batch(1)
            self.is_unsettled = True
            if not self.records:
                return
        for _ in range(BATCHES_MAX):
            self.is_unsettled = False
            if not self._take_batch():
                break
        else:
            self.is_unsettled = True
        self.settle_input()

    def settle_input(self) -> None:
        """Take what a send may have hidden."""
        if self.is_unsettled and not (self.dealer.is_open and self.dealer.is_readable):
            self.is_unsettled = False
        for _ in range(BATCHES_MAX):
            if not self.is_unsettled:
                break
            self.is_unsettled = False
            self.is_unsettled = self._take_batch() or self.is_unsettled

    def _take_batch(self, limit: int = DRAIN_MAX) -> bool:
        """Take what has come, at most one batch. True: there may be more."""
        if not self.dealer.is_open:
            return False
        messages = self.dealer.drain(limit)
        now = time.monotonic()
        generation = self.generation
        replies: list[TaskReply] = []  # those that have come since the last other message
        for frames in messages:
            header = frames[0]
            try:
                if header[:7] == _TASKREPLY:
                    replies.append(decode_taskreply(header, frames))
                    continue
                message = _decode(frames)
            except ProtocolError:
                self.malformed += 1
                continue
            self._take_replies(replies, now)
            replies = []
            self.perform(self.session.receive(message, now))
            if generation != self.generation:
                return False  # the rest came over a connection that no longer counts
        self._take_replies(replies, now)
        return len(messages) >= limit

    def _take_replies(self, replies: list[TaskReply], now: float) -> None:
        if not replies:
            return
        out: list[ParticipantEffect] = []
        final = self.session.receive_replies(replies, now, out)
        if out:
            self.perform(out)  # parts come before the end of what they are parts of
        take = self.records.pop
        for reply in final:
            record = take(reply.id, None)
            if record is not None:
                record.settle(reply)

    def tick(self) -> None:
        self.perform(self.session.tick(time.monotonic(), time.time()))

    def look_at_link(self) -> None:
        """Pass on what the socket's monitor has seen."""
        for reason in self.dealer.failures() if self.dealer.is_open else ():
            self.perform(self.session.link_failed(reason, time.monotonic()))

    def close(self) -> None:
        """Say DISCONNECT, settle what is open, and close the socket. May be called again."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._is_started and self.error is None:
            self.perform(self.session.close(time.monotonic()))
        self._settle_rest(UsageError("the client was closed"))
        self.dealer.close()

    def _new_session(self) -> ClientSession:
        settings, repeats = self.options.link_settings(self.saved_config.read()), self.options.repeats
        if repeats is not None:
            return RepeatableSession(settings, random.SystemRandom(), is_later=repeats.is_later)
        return ClientSession(settings, random.SystemRandom())

    # --- what shells ask ------------------------------------------------------------------------------------------

    @property
    def connect_limit_s(self) -> float:
        """The longest that this start-up may take."""
        return self.options.connect_limit_s(len(self.session.link.endpoints.known))

    def next_deadline(self) -> float:
        return self.session.next_deadline()

    def unreachable(self, waited_s: float) -> Unreachable:
        """What a start-up ends with that took too long."""
        return Unreachable(self.session.link.troubles(), waited_s)

    def whereabouts(self) -> str:
        """What a wait that ended without an outcome was waiting for."""
        endpoint = self.session.link.endpoint or ", ".join(self.options.endpoints)
        state = "connected" if self.is_connected else "not connected"
        return f"the broker at {endpoint} ({state})"

    # --- effects --------------------------------------------------------------------------------------------------

    def perform(self, effects: list[ParticipantEffect]) -> None:
        """Carry out effects in their order."""
        for effect in effects:
            match effect:
                case Transmit(message):
                    self._transmit(message, time.monotonic())
                case Settled(task_id, outcome):
                    self._settle(task_id, outcome)
                case Part(reply):
                    self._part(reply)
                case Open(endpoint, public_key):
                    self._open(endpoint, public_key)
                case Connected(endpoint, _, takes_bundles):
                    self.dealer.takes_bundles = takes_bundles
                    _log.debug("connected to %s", endpoint)
                    self._tell_connected(_CONNECTED)
                case Note(text):
                    _note(text)
                case Keep(saved):
                    self.saved_config.keep(saved)
                case Failed(error):
                    self._fail(error)
                case _:
                    raise AssertionError(f"not an effect of a client's session: {effect!r}")

    def _transmit(self, message: Message, now: float) -> None:
        self.is_unsettled = True
        if not (self.dealer.is_open and self.dealer.send(native.encode(_HEADER, message))):
            self.perform(self.session.send_failed(message, now))

    def _settle(self, task_id: TaskId, outcome: TaskReply | Error) -> None:
        record = self.records.pop(task_id, None)
        if record is not None:
            # A session that is over says so to each task as 503; the error itself says more.
            record.settle(self.session.link.error or outcome if isinstance(outcome, Error) else outcome)

    def _part(self, reply: TaskReply) -> None:
        record = self.records.get(reply.id)
        if record is not None and not record.add_part(reply):
            self.cancel(record)
            record.settle(too_many_parts(record))

    def _open(self, endpoint: str, public_key: str) -> None:
        self.generation += 1
        try:
            self.dealer.open(endpoint, public_key)
        except UsageError as error:  # an address that a broker named, or a mistyped one of our own
            self.perform(self.session.link_failed(str(error), time.monotonic()))

    def _fail(self, error: Scale0Error) -> None:
        self.error = error
        self.generation += 1
        self.dealer.close()
        self._settle_rest(error)

    def _settle_rest(self, error: Scale0Error) -> None:
        records, self.records = self.records, {}
        for record in records.values():
            record.settle(error)
        self._tell_connected(error)

    def _tell_connected(self, outcome: Outcome) -> None:
        connecting, self._connecting = self._connecting, []
        for record in connecting:
            record.settle(outcome)


def _note(text: str) -> None:
    _log.info("%s", text)


def _decode(frames: list[bytes]) -> Message:
    if frames[0][:6] != _HEADER:
        raise ProtocolError(400, "not a message for a client")
    return native.decode(frames)
