"""A broker that does only what a test tells it: it takes the session, answers PING, and shows all else to the test."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec
import zmq

from scale0.encoding import decode_failure, encode_arguments
from scale0.errors import RemoteError
from scale0.protocol import codec
from scale0.protocol.dialects import WORKER
from scale0.protocol.ids import id_prefix, make_id
from scale0.protocol.messages import (
    NO_VERSION,
    Cancel,
    ChangeBroker,
    Config,
    ConfigAck,
    Connect,
    Error,
    Message,
    NeedBroker,
    Ping,
    Pong,
    Ready,
    ReadyOk,
    Task,
    TaskId,
    TaskReply,
)

LIMIT_S = 60.0
LIVENESS = 3
PATIENCE = 10_000  # `liveness` for short intervals: on a busy machine this broker, too, may be late by some of them
Kind = TypeVar("Kind", bound=Message)


class ScriptedBroker:
    """A ROUTER in a thread. It knows one worker at a time: the one that spoke last."""

    def __init__(self, *, interval_ms: int = 2500, liveness: int = LIVENESS) -> None:
        self.interval_ms = interval_ms
        self.liveness = liveness
        self.answers_ready = True
        self.received: list[Message] = []
        self._replies: list[TaskReply] = []  # asked for others than these
        self._heard: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._orders: queue.SimpleQueue[list[bytes] | None] = queue.SimpleQueue()
        self.refusal: Error | None = None  # answers CONNECT, if there is one
        self.config: Config | None = None  # answers CONNECT, if there is one
        self._sequence = itertools.count(1)
        self._prefix = id_prefix("test", b"12345678")
        self._context = zmq.Context()
        self._router = self._context.socket(zmq.ROUTER)
        self._router.linger = 0
        port = self._router.bind_to_random_port("tcp://127.0.0.1")
        self.endpoint = f"tcp://127.0.0.1:{port}"
        self._wakes, self._waker = self._context.socket(zmq.PAIR), self._context.socket(zmq.PAIR)
        self._wakes.bind("inproc://orders")
        self._waker.connect("inproc://orders")
        self._route = b""
        self._thread = threading.Thread(target=self._main, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._order(None)
        self._thread.join(LIMIT_S)
        for socket in (self._router, self._wakes, self._waker):
            socket.close(0)
        self._context.term()

    # --- for tests ------------------------------------------------------------------------------------------------

    def send(self, message: Message) -> None:
        self._order(codec.encode(WORKER, message))

    def send_raw(self, frames: list[bytes]) -> None:
        self._order(frames)

    def submit(self, service: str, *args: Any, timeout_s: float = 30.0, attempt: int = 1, **kwargs: Any) -> TaskId:
        """Send a TASK with these arguments."""
        body, options = encode_arguments(args, kwargs)
        task_id = make_id(self._prefix, next(self._sequence))
        self.send(Task(task_id, service, body, int(timeout_s * 1000), attempt, options=options))
        return task_id

    def ready_ok_later(self, ready: Ready) -> None:
        """Answer a READY that was left unanswered."""
        self.send(self._ready_ok(ready))

    def cancel(self, task_id: TaskId) -> None:
        self.send(Cancel(id=task_id))

    def reply(self, task_id: TaskId) -> TaskReply:
        """The next reply for this task; those of others are kept for whoever asks."""
        for index, reply in enumerate(self._replies):
            if reply.id == task_id:
                return self._replies.pop(index)
        while (reply := self.next(TaskReply)).id != task_id:
            self._replies.append(reply)
        return reply

    def value(self, task_id: TaskId) -> Any:
        """The value of a task's reply, or what its handler raised."""
        reply = self.reply(task_id)
        if reply.status:
            raise decode_failure(reply.body)
        return msgspec.msgpack.decode(reply.body[0])

    def failure(self, task_id: TaskId) -> RemoteError:
        reply = self.reply(task_id)
        assert reply.status == 1, reply
        return decode_failure(reply.body)

    def next(self, kind: type[Kind], fits: Callable[[Kind], bool] = lambda _: True) -> Kind:
        """The next message of this kind that fits; others are passed over."""
        limit_s = time.monotonic() + LIMIT_S
        while True:
            try:
                message = self._heard.get(timeout=max(0.0, limit_s - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no {kind.__name__} within {LIMIT_S} s; heard {self.received[-5:]}") from None
            if isinstance(message, kind) and fits(message):
                return message

    # --- in the thread --------------------------------------------------------------------------------------------

    def _order(self, frames: list[bytes] | None) -> None:
        self._orders.put(frames)
        self._waker.send(b"")

    def _main(self) -> None:
        poller = zmq.Poller()
        poller.register(self._router, zmq.POLLIN)
        poller.register(self._wakes, zmq.POLLIN)
        while True:
            ready = dict(poller.poll())
            if self._router in ready:
                route, *frames = self._router.recv_multipart()
                self._answer(route, frames)
            if self._wakes in ready:
                self._wakes.recv()
                ordered = self._orders.get()
                if ordered is None:
                    return
                self._router.send_multipart([self._route, *ordered])

    def _answer(self, route: bytes, frames: list[bytes]) -> None:
        self._route = route
        _, message = codec.decode(frames)
        assert not isinstance(message, tuple)
        if isinstance(message, Connect) and self.refusal is not None:
            self._say(self.refusal)
        elif isinstance(message, Connect) and self.config is not None:
            self._say(self.config)
        elif isinstance(message, NeedBroker):
            self._say(ChangeBroker(identity="scripted", endpoints=[self.endpoint]))
        elif isinstance(message, Connect):
            interval_ms, liveness = self.interval_ms, self.liveness
            self._say(ConfigAck(NO_VERSION, epoch=1, heartbeat_interval_ms=interval_ms, liveness=liveness))
        elif isinstance(message, Ready) and self.answers_ready:
            self._say(self._ready_ok(message))
        elif isinstance(message, Ping):
            self._say(Pong(message.time_us, message.time_us, epoch=1))
        self.received.append(message)  # type: ignore[arg-type]
        self._heard.put(message)  # type: ignore[arg-type]

    def _ready_ok(self, ready: Ready) -> ReadyOk:
        return ReadyOk(heartbeat_interval_ms=self.interval_ms, time_us=ready.time_us, capacity=ready.capacity, epoch=1)

    def _say(self, message: Message) -> None:
        self._router.send_multipart([self._route, *codec.encode(WORKER, message)])
