"""A broker at a desk: the test says who says what, and reads what the broker sends to whom.

Every verb is followed by `Broker.check`, so that each test also checks the invariants.
"""

from __future__ import annotations

from typing import Any

from scale0.core.broker import Broker
from scale0.core.effects import Answered, Asked, Effect, Route, Send
from scale0.core.settings import BrokerSettings
from scale0.errors import ProtocolError
from scale0.protocol.codec import AnyMessage
from scale0.protocol.dialects import CLIENT, WORKER, Dialect
from scale0.protocol.ids import id_prefix, make_id
from scale0.protocol.messages import (
    Cancel,
    Connect,
    Ping,
    Ready,
    ServiceOffer,
    Status,
    Task,
    TaskId,
    TaskReply,
)
from scale0.simulator.gatekeeper import Gatekeeper

NONCE = b"12345678"
Sent = list[tuple[str, AnyMessage]]


class Desk:
    """One broker; `sent` holds what the last verb sent, `others` its other effects.

    `users` are those whom its gate lets in, with their passwords.
    """

    def __init__(
        self,
        *,
        is_settled: bool = True,
        state: str = "active",
        seeds: list[str] | None = None,
        boot: str = "",
        users: dict[str, str] | None = None,
        **settings: Any,
    ) -> None:
        self.now = 1000.0
        self.wall_s = 1_700_000_000.0
        self.broker = Broker(
            BrokerSettings(**settings), now=self.now, wall_s=self.wall_s, state=state, seeds=seeds, boot=boot
        )
        self.gatekeeper = Gatekeeper(self.broker, users or {})
        self.sends: list[Send] = []
        self.others: list[Effect] = []
        if is_settled:
            self.pass_time(8.0)

    def say(self, name: str, dialect: Dialect, message: AnyMessage) -> Sent:
        """Whoever speaks on the connection `name` says `message`."""
        return self._look(self.broker.receive(route_of(name), dialect, message, self.now))

    def garble(self, name: str, dialect: Dialect | None, error: ProtocolError) -> Sent:
        return self._look(self.broker.malformed(route_of(name), dialect, error, self.now))

    def fail(self, send: Send, reason: str) -> Sent:
        return self._look(self.broker.send_failed(send, reason, self.now))

    def pass_time(self, seconds: float, *, steps: int = 1, wall_jump_s: float = 0.0) -> Sent:
        """Let time pass in equal steps; what is sent in all of them."""
        sent: Sent = []
        self.wall_s += wall_jump_s
        for _ in range(steps):
            self.now += seconds / steps
            self.wall_s += seconds / steps
            sent += self._look(self.broker.tick(self.now, self.wall_s))
        return sent

    def manage(self, command: str, **arguments: Any) -> Any:
        result, effects = self.broker.manage(command, arguments, self.now)
        self._look(effects)
        return result

    def answer(self, key: int, result: Any) -> Sent:
        """The shell's answer to something that it was asked."""
        return self._look(self.broker.answer(key, result, self.now))

    def client(self, name: str, **connect: Any) -> Client:
        return Client(self, name, **connect)

    def worker(self, name: str, *services: str, **ready: Any) -> Worker:
        return Worker(self, name, *services, **ready)

    @property
    def sent(self) -> Sent:
        return [(send.route[1:].decode(), send.message) for send in self.sends]

    @property
    def counters(self) -> dict[str, int]:
        return self.broker.state.counters

    def _look(self, effects: list[Effect]) -> Sent:
        self.broker.check()
        for effect in effects:
            if isinstance(effect, Asked):
                effects = [*effects, *self.gatekeeper.decide(effect, self.now)]
            elif isinstance(effect, Answered):
                effects = [*effects, *(self.gatekeeper.answered(effect, self.now) or ())]
        self.sends = [effect for effect in effects if isinstance(effect, Send)]
        self.others = [effect for effect in effects if not isinstance(effect, Send | Asked)]
        return self.sent


class Client:
    """A native client, connected."""

    def __init__(
        self, desk: Desk, name: str, *, nonce: bytes = NONCE, dialect: Dialect = CLIENT, route: str = ""
    ) -> None:
        self.desk = desk
        self.name = route or name
        self.identity = name
        self.nonce = nonce
        self.dialect = dialect
        self.sequence = 0
        self.connect()

    def connect(self, route: str = "", **more: Any) -> Sent:
        self.name = route or self.name
        return self.desk.say(self.name, self.dialect, Connect(identity=self.identity, nonce=self.nonce, **more))

    def id(self, sequence: int) -> TaskId:
        return make_id(id_prefix(self.identity, self.nonce), sequence)

    def task(self, service: str, body: bytes = b"body", timeout_s: float = 10.0, **more: Any) -> Task:
        """The next TASK, not yet said."""
        self.sequence += 1
        return Task(self.id(self.sequence), service, (body,), round(timeout_s * 1000), **more)

    def submit(self, service: str, body: bytes = b"body", timeout_s: float = 10.0, **more: Any) -> Sent:
        return self.say(self.task(service, body, timeout_s, **more))

    def cancel(self, sequence: int) -> Sent:
        return self.say(Cancel(id=self.id(sequence)))

    def ping(self, **more: Any) -> Sent:
        return self.say(Ping(round(self.desk.wall_s * 1e6) + more.get("offset_us", 0), **more))

    def say(self, message: AnyMessage) -> Sent:
        return self.desk.say(self.name, self.dialect, message)


class Worker:
    """A native worker, connected and ready."""

    def __init__(
        self,
        desk: Desk,
        name: str,
        *services: str,
        nonce: bytes = NONCE,
        dialect: Dialect = WORKER,
        idempotent: bool = False,
        max_attempts: int = 3,
        **ready: Any,
    ) -> None:
        self.desk = desk
        self.name = name
        self.identity = name
        self.nonce = nonce
        self.dialect = dialect
        self.offers = [ServiceOffer(service, idempotent, max_attempts) for service in services]
        self.connect()
        self.ready(**ready)

    def connect(self, route: str = "", **more: Any) -> Sent:
        self.name = route or self.name
        names = [offer.name for offer in self.offers]
        connect = Connect(identity=self.identity, nonce=self.nonce, services=names, **more)
        return self.desk.say(self.name, self.dialect, connect)

    def ready(self, **more: Any) -> Sent:
        return self.say(Ready(services=self.offers, **more))

    def reply(self, task: Task, body: bytes = b"done", **more: Any) -> Sent:
        return self.say(TaskReply(task.id, (body,), task.attempt, **more))

    def give_back(self, task: Task) -> Sent:
        return self.reply(task, b"", status=Status.RETURNED)

    def ping(self, **more: Any) -> Sent:
        return self.say(Ping(round(self.desk.wall_s * 1e6) + more.get("offset_us", 0), **more))

    def say(self, message: AnyMessage) -> Sent:
        return self.desk.say(self.name, self.dialect, message)

    @property
    def state(self) -> str:
        session = self.desk.broker.state.sessions.by_identity.get(self.identity)
        return session.worker.state if session is not None and session.worker is not None else "gone"


def route_of(name: str) -> Route:
    return Route(b"\x00" + name.encode())


def only(sent: Sent, to: str) -> AnyMessage:
    """The one message that was sent, which went to `to`."""
    assert [name for name, _ in sent] == [to], sent
    return sent[0][1]


def only_task(sent: Sent, to: str) -> Task:
    """The one TASK that was sent, which went to `to`."""
    tasks = [(name, message) for name, message in sent if isinstance(message, Task)]
    assert [name for name, _ in tasks] == [to], sent
    task = tasks[0][1]
    assert isinstance(task, Task)
    return task


def tasks_to(sent: Sent) -> list[str]:
    return [name for name, message in sent if isinstance(message, Task)]


def codes(sent: Sent) -> list[tuple[str, int]]:
    """Who was told which error."""
    return [(name, message.code) for name, message in sent if hasattr(message, "code")]


def bodies(sent: Sent) -> list[tuple[str, bytes]]:
    """Who got which reply."""
    return [(name, b"".join(message.body)) for name, message in sent if isinstance(message, TaskReply)]
