"""Whose handshake succeeds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import zmq

from scale0.transport import key_files, zap
from scale0.transport.zap import Doorkeeper

LIMIT_MS = 60_000
PASSED, REFUSED = int(zmq.EVENT_HANDSHAKE_SUCCEEDED), int(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
Context = zmq.Context[zmq.Socket[bytes]]


class House:
    """A bound socket that asks for keys."""

    def __init__(self) -> None:
        self.context: Context = zmq.Context()
        self.others: Context = zmq.Context()
        self.told: list[tuple[str, str]] = []
        self.keeper = Doorkeeper(self.context, lambda key, address: self.told.append((key, address)))
        self.pair = key_files.make_pair()
        self.socket = self.context.socket(zmq.ROUTER)
        zap.require(self.socket, self.pair.secret)
        self.endpoint = f"tcp://127.0.0.1:{self.socket.bind_to_random_port('tcp://127.0.0.1')}"

    def knock(self, pair: key_files.KeyPair) -> tuple[int, zmq.Socket[bytes]]:
        socket = self.others.socket(zmq.DEALER)
        key_files.use(socket, self.pair.public, pair)
        monitor = socket.get_monitor_socket(PASSED | REFUSED)
        socket.connect(self.endpoint)
        assert monitor.poll(LIMIT_MS)
        event = int.from_bytes(monitor.recv_multipart()[0][:2], "little")
        socket.disable_monitor()
        monitor.close(linger=0)
        return event, socket

    def close(self) -> None:
        self.others.destroy(linger=0)
        self.context.destroy(linger=0)


@pytest.fixture
def house() -> Iterator[House]:
    made = House()
    yield made
    made.close()


def test_an_admitted_key_passes_and_every_message_says_whose_it_is(house: House) -> None:
    pair = key_files.make_pair()
    house.keeper.admit(frozenset([pair.public]))
    event, socket = house.knock(pair)
    assert event == PASSED
    socket.send(b"hello")
    assert house.socket.poll(LIMIT_MS)
    _, frame = house.socket.recv_multipart(copy=False)
    assert frame.get("User-Id") == pair.public


def test_any_other_key_is_refused_and_told_of(house: House) -> None:
    house.keeper.admit(frozenset([key_files.make_pair().public]))
    stranger = key_files.make_pair()
    assert house.knock(stranger)[0] == REFUSED
    assert house.told == [(stranger.public, "127.0.0.1")]
    assert house.keeper.refused == 1


def test_who_was_admitted_before_is_not_after(house: House) -> None:
    pair = key_files.make_pair()
    house.keeper.admit(frozenset([pair.public]))
    assert house.knock(pair)[0] == PASSED
    house.keeper.admit(frozenset())
    assert house.knock(pair)[0] == REFUSED


def test_until_somebody_has_said_who_is_admitted_nobody_is(house: House) -> None:
    assert house.knock(key_files.make_pair())[0] == REFUSED, "the wait has an end"


@pytest.mark.parametrize(
    "request_frames",
    [
        [],
        [b"1.0"],
        [b"2.0", b"1", zap.DOMAIN, b"", b"", b"CURVE", bytes(32)],
        [b"1.0", b"1", b"another", b"", b"", b"CURVE", bytes(32)],
        [b"1.0", b"1", zap.DOMAIN, b"", b"", b"NULL"],
        [b"1.0", b"1", zap.DOMAIN, b"", b"", b"PLAIN", b"user", b"password"],
        [b"1.0", b"1", zap.DOMAIN, b"", b"", b"CURVE", bytes(31)],
    ],
)
def test_what_is_no_request_of_ours_is_refused(house: House, request_frames: list[bytes]) -> None:
    house.keeper.admit(frozenset([zmq.utils.z85.encode(bytes(32)).decode()]))
    assert house.keeper._answer(request_frames)[2] == b"400"


def test_its_thread_ends_with_the_context() -> None:
    made = House()
    made.close()
    made.keeper._thread.join(60.0)
    assert not made.keeper.is_alive
