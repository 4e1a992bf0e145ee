from __future__ import annotations

import contextlib
import io
import socket
import time
from collections.abc import Callable, Iterator

import pytest
import zmq

from scale0.transport.logs import make_log
from scale0.transport.monitor import LINES_MAX, Monitor
from scale0.transport.sockets import Port, make_context, open_port

LIMIT_S = 60.0


class Watched:
    def __init__(self) -> None:
        self.context = make_context()
        self.port: Port = open_port(self.context, "tcp://127.0.0.1:0", 0)
        self.lines = io.StringIO()
        self.monitor = Monitor(self.context, self.port, make_log(to=self.lines))

    def drain_until(self, is_done: Callable[[], object]) -> None:
        end_s = time.monotonic() + LIMIT_S
        while not is_done():
            assert time.monotonic() < end_s, "it never happened"
            self.port.socket.poll(20)  # ZeroMQ tells the monitor in its own thread
            self.monitor.drain()


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched()
    yield made
    made.monitor.close()
    made.port.close(0)
    made.context.term()


def cut_off(port: Port, opening: bytes) -> None:
    """A connection that says `opening`, and waits until the broker has closed it."""
    host, number = port.endpoint.removeprefix("tcp://").split(":")
    with socket.create_connection((host, int(number)), timeout=LIMIT_S) as stranger, contextlib.suppress(OSError):
        stranger.sendall(opening)
        stranger.shutdown(socket.SHUT_WR)
        while stranger.recv(1000):
            pass


def test_connections_are_counted_as_they_come_and_go(watched: Watched) -> None:
    dealer: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    dealer.connect(watched.port.endpoint)
    watched.drain_until(lambda: watched.monitor.counters.handshakes == 1)
    assert watched.monitor.counters.open == 1
    dealer.close(0)
    watched.drain_until(lambda: watched.monitor.counters.disconnected == 1)
    assert (watched.monitor.counters.accepted, watched.monitor.counters.open) == (1, 0)


def test_failed_handshakes_are_all_counted_and_some_logged(watched: Watched) -> None:
    many = LINES_MAX * 4
    for _ in range(many):
        cut_off(watched.port, b"")
    watched.monitor.drain()
    assert watched.monitor.counters.failed_handshakes == many
    lines = watched.lines.getvalue().splitlines()
    assert len(lines) == LINES_MAX + 1
    assert f"more={many - LINES_MAX}" in lines[-1]


def test_strangers_that_are_cut_off_do_not_hide_the_ones_that_stay(watched: Watched) -> None:
    dealer: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    dealer.connect(watched.port.endpoint)
    try:
        watched.drain_until(lambda: watched.monitor.counters.handshakes == 1)
        for _ in range(3):
            cut_off(watched.port, b"GET / HTTP/1.1\r\n\r\n" + bytes(100))
        watched.drain_until(lambda: watched.monitor.counters.disconnected == 3)
        assert watched.monitor.counters.open == 1
    finally:
        dealer.close(0)
