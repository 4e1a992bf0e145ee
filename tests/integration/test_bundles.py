"""Several messages in one, through a real broker: there and back, and beside participants that know nothing of it."""

from __future__ import annotations

import time
from typing import Any

from scale0.protocol import codec, dialects
from scale0.protocol.bundles import bundle, is_bundle, unbundle
from scale0.protocol.ids import id_prefix, make_id
from scale0.protocol.messages import Connect, Message, Ready, ReadyOk, ServiceOffer, Task, TaskReply
from scale0.testing import broker
from tests.integration.wire import CALM_MS, LIMIT_S, RawClient, RawWorker, Wire

NONCE = b"nonce-00"


class BundlingClient(RawClient):
    """A bare client that takes bundles, and says so."""

    def connect(self) -> Message:
        self.opened: list[bytes] = []
        self.say(Connect(identity=self.identity, nonce=self.nonce, bundles=True))
        answer = self.hear()
        assert answer.bundles, "the broker takes them too"
        self.has_session = True
        return answer  # type: ignore[no-any-return]

    def hear(self, limit_s: float = LIMIT_S) -> Any:
        """The next message, whether it came alone or in a bundle."""
        if not self.opened:
            frame, *rest = self.get(limit_s)
            assert not rest, "each message here is of one frame"
            self.opened = unbundle(frame) if is_bundle(frame) else [frame]
        return codec.decode([self.opened.pop(0)])[1]

    def task(self, service: str, body: bytes) -> bytes:
        self.sequence += 1
        task_id = make_id(id_prefix(self.identity, self.nonce), self.sequence)
        (frame,) = codec.encode(self.dialect, Task(task_id, service, (body,), round(LIMIT_S * 1000)))
        return frame


def opened(wire: Wire) -> list[object]:
    """The messages of the bundle that comes next; a PONG may come before it."""
    frame = b""
    while not is_bundle(frame):
        frame, *_ = wire.get()
    return [codec.decode([message])[1] for message in unbundle(frame)]


def test_tasks_and_replies_cross_a_broker_in_bundles() -> None:
    with (
        broker() as running,
        BundlingClient(running.endpoint) as client,
        Wire(running.endpoint, dialects.WORKER) as worker,
    ):
        worker.say(Connect(identity="worker", nonce=NONCE, bundles=True))
        assert worker.hear().bundles
        worker.say(Ready(services=[ServiceOffer("echo")], capacity=3, heartbeat_interval_ms=CALM_MS))
        worker.hear_a(ReadyOk)
        client.put(bundle([client.task("echo", body) for body in (b"a", b"b", b"c")]))
        tasks = [task for task in opened(worker) if isinstance(task, Task)]
        assert [task.body for task in tasks] == [(b"a",), (b"b",), (b"c",)]
        replies = [TaskReply(task.id, task.body, task.attempt, time_us=time.time_ns() // 1000) for task in tasks]
        worker.put(bundle([codec.encode(dialects.WORKER, reply)[0] for reply in replies]))
        assert [reply.body for reply in opened(client) if isinstance(reply, TaskReply)] == [(b"a",), (b"b",), (b"c",)]


def test_participants_without_bundles_serve_and_are_served_beside_those_with() -> None:
    with (
        broker() as running,
        BundlingClient(running.endpoint, "bundling") as client,
        RawClient(running.endpoint, "plain") as plain,
        RawWorker(running.endpoint, "worker", "echo", capacity=4) as worker,
    ):
        client.put(bundle([client.task("echo", b"a"), client.task("echo", b"b")]))
        plain.submit("echo", b"c")
        for _ in range(3):
            task = worker.take()
            worker.reply(task, *task.body)
        assert plain.hear_a(TaskReply).body == (b"c",)
        assert {client.hear_a(TaskReply).body for _ in range(2)} == {(b"a",), (b"b",)}
