"""A client and a worker at the mercy of a hostile broker: a conversation is what it says, and what their users do.

Each has known better days: it is up, tasks are open or held. Verbs other than `say` and `full` are its user's, or the
world's: submit, cancel, answer, leave, break. After each step: every effect can be carried out, tables keep to their
caps, and the session sleeps until its deadline. In the end every submitted task has had exactly one outcome, whatever
the broker said, and what users take of it is a value or one of Scale0's own errors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Final

from scale0.client.record import Record, StreamRecord
from scale0.core.client_session import ClientSession
from scale0.core.endpoints import KNOWN_MAX
from scale0.core.link import LinkSettings, Phase
from scale0.core.participant import (
    Abort,
    Failed,
    Keep,
    Left,
    Open,
    Part,
    ParticipantEffect,
    Run,
    Settled,
    Transmit,
)
from scale0.core.worker_session import WorkerSession
from scale0.encoding import Signature
from scale0.errors import EncodingError, ProtocolError, Scale0Error
from scale0.protocol import codec, limits
from scale0.protocol.dialects import CLIENT, WORKER, Dialect
from scale0.protocol.ids import id_prefix, make_id
from scale0.protocol.majordomo import MdpMessage
from scale0.protocol.messages import Message, ServiceOffer, Status, Task, TaskId
from scale0.transport import saved_config
from tests.core.sessions_kit import Dice, ack, ready_ok
from tests.fuzz.conversation import Conversation, Step, parse

EFFECTS_MAX: Final = 200  # of one step, in a world as small as this
TICKS_AT_ONCE_MAX: Final = 6
KEPT_MAX: Final = 4
OPEN_MAX: Final = 6
CAPACITY: Final = 3
IDENTITY: Final = "me"
NONCE: Final = b"noncenon"
ENDPOINTS: Final = ("tcp://home:5555", "tcp://spare:5555")


def link_settings(name: str) -> LinkSettings:
    """As the world's name says: with one broker or two, giving up or not."""
    endpoints = list(ENDPOINTS[:1] if name == "alone" else ENDPOINTS)
    return LinkSettings(
        endpoints=endpoints, identity=IDENTITY, nonce=NONCE, keeps_config=True, retry_forever=name == "patient"
    )


class ParticipantWorld:
    """What clients and workers have in common."""

    dialect: Dialect
    session: ClientSession | WorkerSession

    def __init__(self) -> None:
        self.now = 1000.0
        self.wall_s = 1_700_000_000.0
        self.is_pipe_full = False
        self.failures = 0

    def play(self, conversation: Conversation) -> None:
        for step in conversation.steps:
            self.act(step)
        self.end()

    def act(self, step: Step) -> None:
        if step.verb == "jump":
            self.wall_s += step.pause_s
        elif step.pause_s > 0:
            self.pass_time(step.pause_s)
        self.is_pipe_full = step.verb == "full"
        if step.verb in ("say", "full"):
            self.hear(step.frames)
        elif step.verb == "break":
            self.look(self.session.link_failed("the connection ended", self.now))
        else:
            self.use(step)
        self.pass_time(0.0)

    def use(self, step: Step) -> None:
        raise NotImplementedError

    def hear(self, frames: tuple[bytes, ...]) -> None:
        """As the shells do it: what cannot be read, or is not for this role, is dropped."""
        with contextlib.suppress(ProtocolError):
            dialect, message = codec.decode(frames)
            if dialect is self.dialect:
                assert not isinstance(message, MdpMessage)
                self.look(self.session.receive(message, self.now))

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.wall_s += seconds
        for _ in range(TICKS_AT_ONCE_MAX):
            self.look(self.session.tick(self.now, self.wall_s))
            if self.session.next_deadline() > self.now:
                return
        raise AssertionError("the session never sleeps")

    def end(self) -> None:
        """The broker falls silent and the user closes; whatever is open has its outcome."""
        self.is_pipe_full = False
        for seconds in (1.0, 30.0, 120.0):
            self.pass_time(seconds)
        self.look(self.session.close(self.now))

    # --- what must hold -------------------------------------------------------------------------------------------

    def look(self, effects: list[ParticipantEffect]) -> None:
        assert len(effects) <= EFFECTS_MAX, f"one step had {len(effects)} effects"
        for effect in effects:
            match effect:
                case Transmit(message):
                    self._transmit(message)
                case Open(endpoint, public_key):
                    assert (type(endpoint), type(public_key)) == (str, str)
                case Keep(saved):
                    with contextlib.suppress(UnicodeDecodeError):  # noted by the file, which is a hint only
                        assert saved_config.decode(saved_config.encode(saved)) == saved
                case Failed():
                    self.failures += 1
                    assert self.failures == 1, "it failed twice"
                case _:
                    self.look_at(effect)
        self._check_tables()

    def look_at(self, effect: ParticipantEffect) -> None:
        raise NotImplementedError

    def _transmit(self, message: Message) -> None:
        frames = codec.encode(self.dialect, message)
        assert codec.decode(frames) == (self.dialect, message), "it reads as something else"
        if self.is_pipe_full:
            self.look(self.session.send_failed(message, self.now))

    def _check_tables(self) -> None:
        endpoints = self.session.link.endpoints
        assert len(endpoints.known) <= KNOWN_MAX
        assert len(endpoints.tried) <= KNOWN_MAX + 1, "the one that was left, and those that are known"
        assert len(endpoints._public_keys) <= 2 * KNOWN_MAX
        assert len(endpoints._identities) <= 2 * KNOWN_MAX
        assert len(endpoints.worth_keeping) <= KNOWN_MAX
        assert len(self.session.link.epochs) <= limits.EPOCHS_MAX


class ClientWorld(ParticipantWorld):
    """A client that is up, and waits for two replies, one of them a stream."""

    dialect = CLIENT
    session: ClientSession

    def __init__(self, name: str = "", session: Callable[..., ClientSession] = ClientSession) -> None:
        super().__init__()
        self.records: dict[TaskId, Record] = {}
        self.session = session(link_settings(name), Dice(), open_max=OPEN_MAX)
        self.look(self.session.start(self.now, self.wall_s))
        if name != "new":
            self.look(self.session.receive(ack(), self.now))
        for service in ("echo", "stream"):
            self.use(Step("submit", service, 0.0, (b"\x91\x01",)))

    def use(self, step: Step) -> None:
        if step.verb == "submit" and self.session.link.phase is not Phase.OVER:
            self._submit(step)
        elif step.verb == "cancel" and self.records:
            number = int(step.who) if step.who.isascii() and step.who.isdigit() else 0
            self.look(self.session.cancel(list(self.records)[number % len(self.records)], self.now))
        elif step.verb == "close":
            self.look(self.session.close(self.now))

    def _submit(self, step: Step) -> None:
        record = StreamRecord("stream") if step.who == "stream" else Record(step.who)
        try:
            task_id, effects = self.session.submit(step.who, step.frames[:9] or (b"",), 5.0, self.now)
        except Scale0Error:
            return
        record.id = task_id
        self.records[task_id] = record
        self.look(effects)

    def look_at(self, effect: ParticipantEffect) -> None:
        match effect:
            case Settled(task_id, outcome):
                record = self.records[task_id]
                assert record.outcome is None, "a task was settled twice"
                record.settle(outcome)
                take(record)
            case Part(reply):
                record = self.records[reply.id]
                assert record.outcome is None, "a part came after the outcome"
                assert reply.part == len(record.parts or ()), "a part is missing, or came twice"
                record.add_part(reply)

    def end(self) -> None:
        super().end()
        assert self.session.open_count == 0
        assert all(record.outcome is not None for record in self.records.values()), "a task had no outcome"
        assert self.session.next_deadline() == float("inf")

    def _check_tables(self) -> None:
        super()._check_tables()
        session = self.session
        assert session.open_count <= OPEN_MAX
        assert set(session._unsent) <= set(session._open)
        assert set(session._awaited or ()) <= set(session._open)
        assert session._open_bytes == sum(task.size for task in session._open.values())


def take(record: Record) -> None:
    """What a user gets: a value, or an error of Scale0's own tree."""
    for returns in (Any, bytes, dict[str, int]):
        record.returns = returns
        with contextlib.suppress(Scale0Error):
            Record.take(record)


class WorkerWorld(ParticipantWorld):
    """A worker that is ready, and works on one task."""

    dialect = WORKER
    session: WorkerSession

    def __init__(self, name: str = "", session: Callable[..., WorkerSession] = WorkerSession) -> None:
        super().__init__()
        self.running: dict[tuple[TaskId, int], Task] = {}
        self.has_left = False
        self.session = session(
            link_settings(name),
            Dice(),
            capacity=CAPACITY,
            offers=[ServiceOffer("echo"), ServiceOffer("twice", True)],
            kept_max=KEPT_MAX,
            kept_bytes_max=4096,
        )
        self.look(self.session.start(self.now, self.wall_s))
        if name != "new":
            self.look(self.session.receive(ack(), self.now))
            self.look(self.session.receive(ready_ok(CAPACITY), self.now))
            held = Task(make_id(id_prefix("ann", NONCE), 1), "echo", (b"\x91\x01",), 5000)
            self.look(self.session.receive(held, self.now))

    def use(self, step: Step) -> None:
        session, now = self.session, self.now
        match step.verb:
            case "answer" | "part" | "return" if self.running:
                (task_id, attempt) = held = next(iter(self.running))
                is_final = step.verb != "part"
                status = Status.RETURNED if step.verb == "return" else Status.OK
                if is_final:
                    del self.running[held]
                self.look(session.reply(task_id, attempt, step.frames[:9], now=now, status=status, final=is_final))
            case "offer":
                self.look(session.offer(ServiceOffer(step.who[:100]), now))
            case "withdraw":
                self.look(session.withdraw(step.who, now))
            case "capacity":
                self.look(session.set_capacity(len(step.frames) % CAPACITY, now))
            case "backlog":
                self.look(session.report_backlog(float(len(step.frames)), now))
            case "leave":
                self.look(session.leave(now))
            case "close":
                self.look(session.close(now))

    def look_at(self, effect: ParticipantEffect) -> None:
        match effect:
            case Run(task, deadline_s):
                held = (task.id, task.attempt)
                assert held not in self.running, "a task was started twice"
                assert deadline_s > self.now
                self.running[held] = task
                for signature in _SIGNATURES:
                    with contextlib.suppress(EncodingError):
                        signature.decode_arguments(task.body, task.options)
            case Abort(task_id, attempt):
                assert (task_id, attempt) in self.running, "nothing runs that could be aborted"
            case Left():
                assert not self.has_left, "it left twice"
                self.has_left = True

    def _check_tables(self) -> None:
        super()._check_tables()
        assert len(self.running) <= CAPACITY, "more runs than there are slots"
        assert len(self.session._kept) <= KEPT_MAX
        assert self.session.held_count == len(self.running)


def _number(number: int, text: str = "") -> int:
    return number


def _raw(data: bytes) -> bytes:
    return data


_SIGNATURES: Final = (Signature(_number), Signature(_raw))


def run_client(data: bytes) -> None:
    """Fuzz target: what a hostile broker says to a client."""
    conversation = parse(data)
    ClientWorld(conversation.world).play(conversation)


def run_worker(data: bytes) -> None:
    """Fuzz target: what a hostile broker says to a worker."""
    conversation = parse(data)
    WorkerWorld(conversation.world).play(conversation)
