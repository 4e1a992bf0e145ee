"""Load on a NATS server: one client and a queue group of workers over plain sockets, batched, as cheap as can be.

Usage: load_nats.py PAGE PORT WORKERS IN_FLIGHT BODY_BYTES

Each request has a reply subject of its own, as every NATS client library does it. NATS knows no slots: its server hands
a request to a random member of the group at once.
"""

from __future__ import annotations

import re
import selectors
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from measure import COMPLETED, READY, STOP, Page


class Connection:
    """A plain socket, its read buffer, and what to do with whole messages."""

    def __init__(self, port: int, hello: bytes, take: Callable[[Connection], None]) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.unread = b""
        self.take = take
        self.socket.sendall(b'CONNECT {"verbose":false,"pedantic":false}\r\n' + hello + b"PING\r\n")
        while b"PONG\r\n" not in self.unread:
            self.unread += self.socket.recv(65536)
        self.unread = self.unread.partition(b"PONG\r\n")[2]

    def read(self) -> None:
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the NATS server closed the connection")
        self.unread += data
        if b"PING\r\n" in self.unread:
            self.unread = self.unread.replace(b"PING\r\n", b"")
            self.socket.sendall(b"PONG\r\n")
        self.take(self)


class Generator:
    def __init__(self, page: Page, port: int, workers: int, in_flight: int, body_bytes: int) -> None:
        self.page = page
        self.in_flight = in_flight
        self.completed = self.sequence = 0
        self.payload = b"x" * body_bytes
        self.tail = b" %d\r\n%s\r\n" % (body_bytes, self.payload)
        # a worker's message: MSG echo 1 <reply subject> <bytes>\r\n<body>\r\n
        self.request = re.compile(rb"MSG echo 1 (\S+) %d\r\n.{%d}\r\n" % (body_bytes, body_bytes), re.DOTALL)
        self.reply = re.compile(rb"MSG \S+ 1 %d\r\n.{%d}\r\n" % (body_bytes, body_bytes), re.DOTALL)
        self.selector = selectors.DefaultSelector()
        for _ in range(workers):
            self._open(Connection(port, b"SUB echo group 1\r\n", self._serve))
        self.client = Connection(port, b"SUB _INBOX.bench.* 1\r\n", self._collect)
        self._open(self.client)
        page.write(READY, workers)

    def run(self) -> None:
        self._send(self.in_flight)
        while not self.page.read(STOP):
            for key, _ in self.selector.select(0.05):
                key.data.read()
            self.page.write(COMPLETED, self.completed)

    def _open(self, connection: Connection) -> None:
        self.selector.register(connection.socket, selectors.EVENT_READ, connection)

    def _serve(self, connection: Connection) -> None:
        out, end = [], 0
        for match in self.request.finditer(connection.unread):
            out.append(match[1])
            end = match.end()
        if out:
            connection.unread = connection.unread[end:]
            connection.socket.sendall(b"PUB " + (self.tail + b"PUB ").join(out) + self.tail)

    def _collect(self, connection: Connection) -> None:
        count, end = 0, 0
        for match in self.reply.finditer(connection.unread):
            count += 1
            end = match.end()
        connection.unread = connection.unread[end:]
        self.completed += count
        self._send(count)

    def _send(self, count: int) -> None:
        first, self.sequence = self.sequence, self.sequence + count
        tail = self.tail
        requests = [b"PUB echo _INBOX.bench.%d%s" % (number, tail) for number in range(first, self.sequence)]
        self.client.socket.sendall(b"".join(requests))


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[2:]]
    Generator(Page(Path(sys.argv[1])), *numbers).run()
