"""Clients and workers with a REQ socket (rule 3): one message, one answer, in strict turns; nothing may be pushed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scale0.protocol import codec, dialects, ids
from scale0.protocol.dialects import Dialect
from scale0.protocol.messages import (
    NO_VERSION,
    Config,
    ConfigAck,
    Connect,
    Error,
    ForceNegotiate,
    Message,
    Ping,
    Ready,
    ServiceOffer,
    Status,
    Task,
    TaskReply,
)
from scale0.simulator.network import Socket
from scale0.simulator.process import Process, behaviour_of

if TYPE_CHECKING:
    from scale0.simulator.world import World


class ReqProcess(Process):
    """A REQ socket: sends in turns, and starts anew on a new one if no answer comes."""

    dialect: Dialect
    patience_s: float

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name, name)
        self.is_waiting = False
        self._turn = 0
        self._config_version = NO_VERSION

    def start(self) -> None:
        if self.socket is not None:
            self.socket.close()
        self.socket = self.world.network.open(self, self.world.endpoints_for(self.random, self.name)[0])
        self.is_waiting = False
        self.greet()

    def greet(self) -> None:
        """Who knows a config version names it, and is spared the config if that is current."""
        self.ask(Connect(identity=self.identity, nonce=self.nonce, config_version=self._config_version))

    def ask(self, message: Message) -> None:
        assert self.socket is not None
        assert not self.is_waiting, "a REQ socket sends only in its turn"
        self.is_waiting = True
        self._turn += 1
        self.socket.send(codec.encode(self.dialect, message))
        self.after(self.patience_s, self._lose_patience, self._turn)

    def deliver(self, socket: Socket, frames: list[bytes]) -> None:
        if socket is not self.socket:
            return
        if not self.is_waiting:
            self.world.violation("rule 3", f"{self.label} got a message out of turn")
        self.is_waiting = False
        _, message = codec.decode(frames)
        if isinstance(message, Config):
            self._config_version = message.config_version
        if isinstance(message, ForceNegotiate):
            self.greet()
        elif isinstance(message, Error) and message.fatal:
            self.crash()
        else:
            self.answered(message)

    def answered(self, message: codec.AnyMessage) -> None:
        raise AssertionError("each kind of process has its own")

    def _lose_patience(self, turn: int) -> None:
        if self.is_waiting and turn == self._turn:
            self.start()


class ReqClient(ReqProcess):
    dialect = dialects.REQ_CLIENT

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.patience_s = world.profile.timeout_max_s * 1.5
        self._sequence = 0
        self._token = b""

    def submit(self, service: str, behaviour: bytes, timeout_s: float) -> None:
        if self.is_waiting or self.socket is None:
            return
        self._sequence += 1
        self._token = self.world.new_token()
        id_ = ids.make_id(ids.id_prefix(self.identity, self.nonce), self._sequence)
        self.ask(Task(id_, service, (self._token, behaviour), int(timeout_s * 1000)))

    def answered(self, message: codec.AnyMessage) -> None:
        if isinstance(message, TaskReply):
            # Partial replies are joined: the frames of all parts, one after the other.
            if not message.body or message.body[0] != self._token:
                self.world.violation("I2", f"{self.label} asked {self._token!r} and got {message.body!r}")
            if not message.final:
                self.world.violation("rule 3", f"{self.label} uses a REQ socket and got a partial reply")
            self.world.promises.outcomes["req"] += 1
        elif isinstance(message, Error):
            self.world.promises.outcomes[f"req {message.code}"] += 1


class ReqWorker(ReqProcess):
    dialect = dialects.REQ_WORKER

    def __init__(self, world: World, name: str, service: str) -> None:
        super().__init__(world, name)
        self.service = service
        self.patience_s = world.profile.interval_s * 3

    def answered(self, message: codec.AnyMessage) -> None:
        if isinstance(message, Config | ConfigAck):
            known = next(known for known in self.world.profile.services if known.name == self.service)
            offer = ServiceOffer(known.name, known.idempotent, known.max_attempts)
            self.ask(Ready(services=[offer], capacity=1))
        elif isinstance(message, Task):
            self.world.promises.started(self.label, message.service, message.body[0])
            self.after(self.random.random() * 0.05, self._reply, self.socket, message)
        elif isinstance(message, Error):
            self.after(self.patience_s * 0.1, self._greet, self.socket)
        else:
            self.ask(Ping(int(self.wall_s * 1e6)))

    def _greet(self, socket: Socket) -> None:
        if socket is self.socket and not self.is_waiting:
            self.greet()

    def _reply(self, socket: Socket, task: Task) -> None:
        if socket is self.socket and not self.is_waiting:
            body = (task.body[0], self.label.encode(), b"%d" % task.attempt)
            status = Status.FAILED if behaviour_of(task.body) == b"fail" else Status.OK
            self.ask(TaskReply(task.id, body, task.attempt, status))
