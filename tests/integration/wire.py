"""Participants made of bare sockets, for what the libraries would never do: be late, be silent, be wrong."""

from __future__ import annotations

import os
import time
from typing import Any, TypeVar

import zmq

from scale0.protocol import codec, dialects
from scale0.protocol.dialects import Dialect
from scale0.protocol.ids import id_prefix, make_id
from scale0.protocol.messages import (
    Config,
    ConfigAck,
    Connect,
    Message,
    Ping,
    Pong,
    Ready,
    ReadyOk,
    ServiceOffer,
    Task,
    TaskId,
    TaskReply,
)

LIMIT_S = 60.0  # far beyond what anything here takes; only a hang reaches it
CALM_MS = 60_000  # an interval of heartbeats that no test outlasts

M = TypeVar("M")
_context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()


class Wire:
    """A bare socket that speaks frames, and messages of one dialect."""

    def __init__(
        self, endpoint: str, dialect: Dialect = dialects.CLIENT, kind: int = zmq.DEALER, unread_max: int = 0
    ) -> None:
        self.dialect = dialect
        self.socket = _context.socket(kind)
        self.socket.linger = 0
        self.socket.sndhwm = 0
        self.socket.rcvhwm = unread_max
        self.socket.connect(endpoint)

    def __enter__(self: W) -> W:
        return self

    def __exit__(self, *failure: object) -> None:
        self.socket.close()

    def put(self, *frames: bytes) -> None:
        self.socket.send_multipart(frames)

    def get(self, limit_s: float = LIMIT_S) -> list[bytes]:
        frames = self.get_within(limit_s)
        assert frames is not None, f"nothing came within {limit_s:g} s"
        return frames

    def get_within(self, limit_s: float) -> list[bytes] | None:
        """The next message's frames, or None. A session's heartbeats go on meanwhile."""
        end_s = time.monotonic() + limit_s
        while not self.socket.poll(100):
            if time.monotonic() >= end_s:
                return None
            self.beat()
        return self.socket.recv_multipart()

    def beat(self) -> None:
        """What it says while it waits: nothing, unless it has a session."""

    def say(self, message: Any) -> None:
        frames = codec.encode(self.dialect, message)
        # A REQ socket puts the empty frame ahead by itself.
        self.put(*(frames[1:] if self.socket.type == zmq.REQ else frames))

    def hear(self, limit_s: float = LIMIT_S) -> Any:
        """The next message; the broker answers in the dialect that it is spoken to."""
        frames = self.get(limit_s)
        dialect, message = decode_answer([b"", *frames] if self.socket.type == zmq.REQ else frames)
        assert dialect is self.dialect, f"{dialect.name} came to a {self.dialect.name}"
        return message

    def hear_a(self, kind: type[M], limit_s: float = LIMIT_S) -> M:
        """The next message of this kind; others are passed over."""
        end_s = time.monotonic() + limit_s
        while True:
            message = self.hear(max(0.0, end_s - time.monotonic()))
            if isinstance(message, kind):
                return message


W = TypeVar("W", bound=Wire)


def decode_answer(frames: list[bytes]) -> tuple[Dialect, Any]:
    """What a broker said: native messages are the same both ways."""
    return codec.decode(frames)


class RawClient(Wire):
    """A native client with a session.

    It beats only while it waits for a message, and a test has other things to wait for, longer ones on a busy machine.
    So it asks for a long interval, and never counts as gone.
    """

    def __init__(
        self, endpoint: str, identity: str = "raw-client", kind: int = zmq.DEALER, unread_max: int = 0
    ) -> None:
        super().__init__(endpoint, dialects.REQ_CLIENT if kind == zmq.REQ else dialects.CLIENT, kind, unread_max)
        self.identity = identity
        self.nonce = os.urandom(8)
        self.sequence = 0
        self.has_session = False
        self.connect()
        self.say(Ping(time_us=time.time_ns() // 1000, heartbeat_interval_ms=CALM_MS))
        self.hear_a(Pong)

    def connect(self) -> Message:
        self.say(Connect(identity=self.identity, nonce=self.nonce))
        answer: Message = self.hear()
        assert isinstance(answer, Config | ConfigAck), answer
        self.has_session = True
        return answer

    def submit(self, service: str, *body: bytes, timeout_s: float = LIMIT_S, **extra: Any) -> TaskId:
        self.sequence += 1
        task_id = make_id(id_prefix(self.identity, self.nonce), self.sequence)
        self.say(Task(task_id, service, body, round(timeout_s * 1000), **extra))
        return task_id

    def beat(self) -> None:
        if self.has_session and self.socket.type == zmq.DEALER:
            self.say(Ping(time_us=time.time_ns() // 1000))

    def call(self, service: str, *body: bytes, timeout_s: float = LIMIT_S) -> Any:
        """Submit, and wait for whatever answers it."""
        task_id = self.submit(service, *body, timeout_s=timeout_s)
        while True:
            message = self.hear()
            if getattr(message, "id", None) == task_id and getattr(message, "final", True):
                return message


class RawWorker(Wire):
    """A native worker with a session, ready to take tasks; with an `interval_ms` of 0 it may be missed as any other."""

    def __init__(
        self,
        endpoint: str,
        identity: str = "raw-worker",
        *services: str,
        capacity: int = 1,
        idempotent: bool = False,
        kind: int = zmq.DEALER,
        interval_ms: int = CALM_MS,
    ) -> None:
        super().__init__(endpoint, dialects.REQ_WORKER if kind == zmq.REQ else dialects.WORKER, kind)
        self.identity = identity
        self.nonce = os.urandom(8)
        self.offers = [ServiceOffer(name, idempotent) for name in services or ("echo",)]
        self.capacity = capacity
        self.interval_ms = interval_ms
        self.has_session = False
        self.connect()
        self.has_session = True
        if kind != zmq.REQ:
            self.ready()

    def connect(self, in_flight: list[bytes] | None = None) -> None:
        names = [offer.name for offer in self.offers]
        self.say(Connect(identity=self.identity, nonce=self.nonce, services=names, in_flight=in_flight or []))
        answer = self.hear()
        while isinstance(answer, Pong):
            answer = self.hear()
        assert isinstance(answer, Config | ConfigAck), answer

    def ready(self, in_flight: list[bytes] | None = None) -> ReadyOk:
        ready = Ready(
            services=self.offers,
            capacity=self.capacity,
            heartbeat_interval_ms=self.interval_ms,
            in_flight=in_flight or [],
        )
        self.say(ready)
        return self.hear_a(ReadyOk)

    def beat(self) -> None:
        if self.has_session and self.socket.type == zmq.DEALER:
            self.say(Ping(time_us=time.time_ns() // 1000))

    def take(self, limit_s: float = LIMIT_S) -> Task:
        """The next task."""
        return self.hear_a(Task, limit_s)

    def reply(self, task: Task, *body: bytes, **extra: Any) -> None:
        self.say(TaskReply(task.id, body, task.attempt, **extra))
