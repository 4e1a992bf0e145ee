"""A thousand workers, a broker that restarts, and all of them served again."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator

import pytest
import zmq

from scale0.protocol import codec, dialects
from scale0.protocol.messages import (
    Config,
    ConfigAck,
    Connect,
    ForceNegotiate,
    Message,
    Ping,
    Ready,
    ReadyOk,
    ServiceOffer,
    Task,
    TaskReply,
)
from scale0.testing import broker
from tests.integration.wire import RawClient

WORKERS = 1_000
LIMIT_S = 90.0
BEAT_S = 1.0


class Crowd:
    """Many bare workers of one service, driven by one thread."""

    def __init__(self, endpoint: str) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.context.set(zmq.MAX_SOCKETS, WORKERS + 50)
        self.poller = zmq.Poller()
        self.connects: dict[zmq.Socket[bytes], Connect] = {}
        self.ready: set[zmq.Socket[bytes]] = set()
        self.replied: dict[zmq.Socket[bytes], int] = {}
        self.beat_s = time.monotonic()
        for number in range(WORKERS):
            socket = self.context.socket(zmq.DEALER)
            socket.linger = 0
            socket.connect(endpoint)
            self.poller.register(socket, zmq.POLLIN)
            connect = Connect(identity=f"worker-{number}", nonce=os.urandom(8), services=["echo"])
            self.connects[socket] = connect
            self.say(socket, connect)

    def say(self, socket: zmq.Socket[bytes], message: Message) -> None:
        socket.send_multipart(codec.encode(dialects.WORKER, message))

    def serve_until(self, is_done: object) -> None:
        assert callable(is_done)
        end_s = time.monotonic() + LIMIT_S
        while not is_done():
            assert time.monotonic() < end_s, f"{len(self.ready)} are ready, {len(self.replied)} have replied"
            for socket, _ in self.poller.poll(50):
                assert isinstance(socket, zmq.Socket)
                self.hear(socket)
            if time.monotonic() - self.beat_s > BEAT_S:
                self.beat_s = time.monotonic()
                for socket in self.connects:
                    self.say(socket, Ping(time_us=time.time_ns() // 1000))

    def hear(self, socket: zmq.Socket[bytes]) -> None:
        _, message = codec.decode(socket.recv_multipart())
        if isinstance(message, ForceNegotiate):
            self.ready.discard(socket)
            self.say(socket, self.connects[socket])
        elif isinstance(message, Config | ConfigAck):
            self.say(socket, Ready(services=[ServiceOffer("echo")]))
        elif isinstance(message, ReadyOk):
            self.ready.add(socket)
        elif isinstance(message, Task):
            self.replied[socket] = self.replied.get(socket, 0) + 1
            self.say(socket, TaskReply(message.id, message.body, message.attempt))

    def close(self) -> None:
        self.context.destroy(linger=0)


@pytest.fixture
def many_open_files() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 8 * WORKERS
    if limits[1] != resource.RLIM_INFINITY and limits[1] < needed:
        pytest.skip(f"{needed} open files are needed, {limits[1]} allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], needed), limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.slow
@pytest.mark.usefixtures("many_open_files")
def test_thousand_workers_are_served_again_after_a_restart() -> None:
    with broker(process=True) as running:
        crowd = Crowd(running.endpoint)
        try:
            crowd.serve_until(lambda: len(crowd.ready) == WORKERS)
            running.kill()
            crowd.ready.clear()
            running.start()
            crowd.serve_until(lambda: len(crowd.ready) == WORKERS)
            with RawClient(running.endpoint) as client:
                for _ in range(WORKERS):
                    client.submit("echo", b"x")
                crowd.serve_until(lambda: sum(crowd.replied.values()) == WORKERS)
                for _ in range(WORKERS):
                    client.hear_a(TaskReply)
        finally:
            crowd.close()
    # Each was ready with one slot, so the least recently used one was always another.
    assert set(crowd.replied.values()) == {1}
