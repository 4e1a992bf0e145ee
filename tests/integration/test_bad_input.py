"""Whatever is thrown at a broker, good clients are served, and nobody gets another's reply."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator

import pytest

from scale0.protocol import codec, dialects, limits
from scale0.protocol.ids import id_prefix, make_id
from scale0.protocol.messages import Connect, Error, Ping, Ready, ServiceOffer, Task, TaskReply
from scale0.testing import TestBroker, broker
from tests.integration.processes import worker_process
from tests.integration.wire import RawClient, Wire

MESSAGES = 10_000
PER_CONNECTION = 250
SEED = 20_240_601


@pytest.fixture
def served() -> Iterator[TestBroker]:
    with broker() as running, worker_process(running.endpoint, "good-worker", "echo"):
        yield running


def bad_messages(chance: random.Random) -> Iterator[list[bytes]]:
    """Endless malformed messages of every kind."""
    task_id = make_id(id_prefix("someone", bytes(8)), 1)
    valid = [
        codec.encode(dialects.CLIENT, Task(task_id, "echo", (b"body",), 1000)),
        codec.encode(dialects.CLIENT, Task(task_id, "echo", (b"two", b"frames"), 1000)),
        codec.encode(dialects.WORKER, TaskReply(task_id, (b"body",))),
        codec.encode(dialects.WORKER, TaskReply(task_id, (b"two", b"frames"))),
        codec.encode(dialects.WORKER, Ready(services=[ServiceOffer("echo")], capacity=3)),
        codec.encode(dialects.CLIENT, Connect(identity="someone", nonce=bytes(8))),
        codec.encode(dialects.CLIENT, Ping(time_us=1)),
        [b"", b"MDPW01", b"\x03", b"address", b"", b"body"],
        [b"MDPC02", b"\x01", b"echo", b"body"],
    ]
    kinds = [
        lambda: [chance.randbytes(chance.randrange(60)) for _ in range(chance.randrange(1, 5))],
        lambda: _truncated(chance, chance.choice(valid)),
        lambda: [*chance.choice(valid)[:1], *[b"x"] * chance.choice((limits.FRAMES_MAX, 100, 1000))],
        lambda: [valid[0][0].replace(b"echo", b"\xff\xfe\xfd\xfc")],
        lambda: [valid[0][0] + bytes(chance.randrange(limits.INLINE_BYTES_MAX, 100_000))],
        lambda: [*valid[0], b"a second body"],
        lambda: [b"SC0C01\x08\x01\x01\x00\xff\xff\xff\xff" + bytes(chance.randrange(600)), b"body"],
        lambda: [b"SC0C01\x01" + b"\x81\xa8identity" + b"\x91" * chance.choice((10, 5000)) + b"\x01"],
        lambda: [b"SC0W01" + bytes((chance.randrange(256),)) + chance.randbytes(chance.randrange(40))],
        lambda: [b""] * chance.randrange(1, 4),
        lambda: [b"MDPW0" + bytes((chance.randrange(256),)), chance.randbytes(3), b"", b"x"],
    ]
    while True:
        yield chance.choice(kinds)()


def _truncated(chance: random.Random, frames: list[bytes]) -> list[bytes]:
    header = frames[0] or frames[1]
    return [
        *frames[: frames.index(header)],
        header[: chance.randrange(len(header))],
        *frames[1:][: chance.randrange(3)],
    ]


def test_ten_thousand_malformed_messages_do_not_disturb_good_clients(served: TestBroker) -> None:
    messages = bad_messages(random.Random(SEED))
    with RawClient(served.endpoint, "good-client") as good:
        for connection in range(MESSAGES // PER_CONNECTION):
            with Wire(served.endpoint) as bad:
                for number in range(PER_CONNECTION):
                    bad.put(*next(messages))
                    if number % 50 == 0:
                        body = f"{connection}.{number}".encode()
                        assert good.call("echo", body).body == (body, b"good-worker")
                # What answers a bad message, if anything does, is an error or a farewell, never somebody's reply.
                while (frames := bad.get_within(0)) is not None:
                    assert not any(b"good-worker" in frame for frame in frames)
        assert served.manage("list", what="brokers")["rows"][0]["counters"]["malformed"] > 0
    assert served.server.loop.counters.bugs == 0


def test_raw_tcp_garbage_does_not_disturb_good_clients(served: TestBroker) -> None:
    host, port = served.endpoint.removeprefix("tcp://").split(":")
    chance = random.Random(SEED)
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(48)
    openings = [b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", greeting[:20], greeting, b"\x16\x03\x01\x02\x00\x01"]
    connections = []
    with RawClient(served.endpoint, "good-client") as good:
        for number in range(200):
            connection = socket.create_connection((host, int(port)), timeout=10)
            connections.append(connection)
            try:
                connection.sendall(chance.choice(openings) + chance.randbytes(chance.randrange(2000)))
            except OSError:
                continue  # it was cut off at once, which is as good
            if number % 20 == 0:
                assert good.call("echo", b"still here").body == (b"still here", b"good-worker")
        for connection in connections:
            connection.close()
        assert good.call("echo", b"and after").body == (b"and after", b"good-worker")


def test_message_over_the_limit_of_bytes_gets_413_and_of_frames_400(served: TestBroker) -> None:
    with RawClient(served.endpoint) as client:
        head = codec.encode(dialects.CLIENT, Task(make_id(b"x" * 20, 1), "echo", (), 1000))
        client.put(*head, *[bytes(limits.FRAME_BYTES_MAX - 1000)] * 3)
        assert client.hear_a(Error).code == 413
        client.put(*head, *[b"x"] * (limits.FRAMES_MAX + 1))
        assert client.hear_a(Error).code == 400
        assert client.call("echo", b"fine").body == (b"fine", b"good-worker")


def test_frame_over_the_limit_ends_the_connection_and_nothing_else(served: TestBroker) -> None:
    with RawClient(served.endpoint, "good-client") as good:
        with Wire(served.endpoint) as bad:
            bad.put(b"SC0C01\x08", bytes(limits.FRAME_BYTES_MAX + 1))
            assert good.call("echo", b"x").body == (b"x", b"good-worker")
        assert good.call("echo", b"y").body == (b"y", b"good-worker")


def test_task_under_anothers_id_is_refused_and_the_owner_gets_its_own_reply(served: TestBroker) -> None:
    with RawClient(served.endpoint, "owner") as owner, RawClient(served.endpoint, "thief") as thief:
        stolen = make_id(id_prefix(owner.identity, owner.nonce), 1)
        thief.say(Task(stolen, "echo", (b"thief",), 1000))
        assert thief.hear_a(Error).code == 400
        reply = owner.call("echo", b"owner")
        assert (reply.id, reply.body) == (stolen, (b"owner", b"good-worker"))
