"""A broker that does what a test says: a ROUTER in a thread, with a function that answers each TASK.

It answers CONNECT and PING by itself, counts what it hears, and can be told to be silent, to forget its sessions, or to
send whatever a test likes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import zmq

from scale0.encoding import ENCODED, encode_failure
from scale0.protocol import native
from scale0.protocol.dialects import CLIENT
from scale0.protocol.messages import (
    ChangeBroker,
    Config,
    ConfigAck,
    Connect,
    Error,
    ForceNegotiate,
    Message,
    NeedBroker,
    Ping,
    Pong,
    Status,
    Task,
    TaskReply,
)

LIMIT_S = 60.0

Answer = Callable[["ScriptedBroker", bytes, Task], None]


class ScriptedBroker:
    """What it heard is in `heard`; `answer` decides about tasks."""

    def __init__(self, answer: Answer, endpoint: str = "tcp://127.0.0.1:*") -> None:
        self.answer = answer
        self.heard: list[Message] = []
        self.is_silent = False
        self.interval_ms = 2500
        self.knows_nobody = False  # as after a restart: FORCENEGOTIATE until CONNECT comes
        self.refusal: Error | None = None  # what answers CONNECT
        self.config: Config | None = None  # what answers CONNECT, unless it names this version
        self.named: str | None = None  # what answers NEEDBROKER; None: this broker itself
        self.last_route = b""  # who spoke last
        self.held: list[tuple[bytes, Task]] = []
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.linger = 0
        self._socket.bind(endpoint)
        self.endpoint = bytes(self._socket.getsockopt(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode()
        self._change = threading.Condition()
        self._commands: list[Callable[[], None]] = []
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def send(self, route: bytes, message: Message) -> None:
        """From the broker's own thread only: in `answer`, or through `do`."""
        self.send_frames(route, native.encode(CLIENT.header, message))

    def send_frames(self, route: bytes, frames: list[bytes]) -> None:
        self._socket.send_multipart([route, *frames])

    def do(self, action: Callable[[], None]) -> None:
        """Run `action` in the broker's thread."""
        self._commands.append(action)

    def wait_for(self, is_true: Callable[[ScriptedBroker], bool]) -> None:
        """Until something that was heard makes it true."""
        with self._change:
            assert self._change.wait_for(lambda: is_true(self), LIMIT_S), f"heard only {self.heard[-5:]}"

    def count(self, kind: type[Any]) -> int:
        return sum(isinstance(message, kind) for message in self.heard)

    def stop(self) -> None:
        self._is_stopped = True
        self._thread.join(LIMIT_S)
        self._context.destroy(linger=0)

    def _run(self) -> None:
        while not self._is_stopped:
            while self._commands:
                self._commands.pop(0)()
            if self._socket.poll(5):
                route, *frames = self._socket.recv_multipart()
                self._hear(route, native.decode(frames))

    def _hear(self, route: bytes, message: Message) -> None:
        self.heard.append(message)  # before the answer: who has that may look here
        self.last_route = route
        if not self.is_silent:
            match message:
                case Connect() if self.refusal is not None:
                    self.send(route, self.refusal)
                case NeedBroker():
                    self.send(route, ChangeBroker(identity="scripted", endpoints=[self.named or self.endpoint]))
                case Connect(config_version=version) if self.config and version != self.config.config_version:
                    self.send(route, self.config)
                case Connect(config_version=version):
                    self.knows_nobody = False
                    self.send(
                        route,
                        ConfigAck(config_version=version, epoch=1, heartbeat_interval_ms=self.interval_ms, liveness=3),
                    )
                case _ if self.knows_nobody:
                    self.send(route, ForceNegotiate(reason="unknown session"))
                case Ping(time_us):
                    self.send(route, Pong(time_us, time_us, epoch=1))
                case Task():
                    self.answer(self, route, message)
        with self._change:
            self._change.notify_all()


def echo(broker: ScriptedBroker, route: bytes, task: Task) -> None:
    """The first argument, as it came; bytes as a worker sends them."""
    if task.options == ENCODED:
        body: tuple[bytes, ...] = (msgspec.msgpack.encode(msgspec.msgpack.decode(task.body[0])[0]),)
    else:
        body = (b"", task.body[0])
    broker.send(route, TaskReply(task.id, body))


def hold(broker: ScriptedBroker, route: bytes, task: Task) -> None:
    """Keep the task, for the test to answer."""
    broker.held.append((route, task))


def by_service(broker: ScriptedBroker, route: bytes, task: Task) -> None:
    """Each outcome under the name of a service."""
    match task.service:
        case "missing":
            broker.send(route, Error(code=404, text="nobody offers it", id=task.id, detail={"near": ["mission"]}))
        case "late":
            broker.send(route, Error(code=504, text="no reply by the deadline", id=task.id))
        case "lost":
            broker.send(route, Error(code=502, text="the worker was lost", id=task.id))
        case "busy":
            broker.send(route, Error(code=429, text="too many", id=task.id))
        case "failing":
            body = encode_failure("ValueError", "bad value", "Traceback: …")
            broker.send(route, TaskReply(task.id, body, status=int(Status.FAILED)))
        case "count":
            parts = msgspec.msgpack.decode(task.body[0])[0]
            for part in range(parts):
                broker.send(route, TaskReply(task.id, (msgspec.msgpack.encode(part),), part=part, final=False))
            broker.send(route, TaskReply(task.id, (), part=parts))
        case "endless":
            for part in range(2):
                broker.send(route, TaskReply(task.id, (msgspec.msgpack.encode(part),), part=part, final=False))
        case "first only":
            if msgspec.msgpack.decode(task.body[0]) == [0]:
                echo(broker, route, task)
        case "hold":
            hold(broker, route, task)
        case _:
            echo(broker, route, task)


@contextmanager
def scripted(answer: Answer = by_service, endpoint: str = "tcp://127.0.0.1:*") -> Iterator[ScriptedBroker]:
    broker = ScriptedBroker(answer, endpoint)
    try:
        yield broker
    finally:
        broker.stop()
