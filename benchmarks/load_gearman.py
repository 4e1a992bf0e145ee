"""Load on gearmand: one client and its workers over plain sockets, batched, as cheap as can be.

Usage: load_gearman.py PAGE PORT WORKERS IN_FLIGHT BODY_BYTES CAPACITY

Gearman's protocol lets a worker ask for one job at a time; here it asks for as many at once as it has slots, which is
the best that gearmand can be given.
"""

from __future__ import annotations

import selectors
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path

from measure import COMPLETED, READY, STOP, Page

_CAN_DO, _PRE_SLEEP, _NOOP, _SUBMIT_JOB, _GRAB_JOB, _NO_JOB, _JOB_ASSIGN, _WORK_COMPLETE = 1, 4, 6, 7, 9, 10, 11, 13
_HEADER = struct.Struct(">4sII")


def packet(kind: int, data: bytes = b"") -> bytes:
    return _HEADER.pack(b"\0REQ", kind, len(data)) + data


class Connection:
    """A plain socket that hands over whole packets."""

    def __init__(self, port: int, take: Callable[[Connection, list[tuple[int, bytes]]], None]) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.unread = b""
        self.asked = 0
        self.take = take

    def read(self) -> None:
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionError("gearmand closed the connection")
        unread = self.unread + data
        packets, at = [], 0
        while len(unread) - at >= 12:
            _, kind, size = _HEADER.unpack_from(unread, at)
            if len(unread) - at - 12 < size:
                break
            packets.append((kind, unread[at + 12 : at + 12 + size]))
            at += 12 + size
        self.unread = unread[at:]
        self.take(self, packets)


class Generator:
    def __init__(self, page: Page, port: int, workers: int, in_flight: int, body_bytes: int, capacity: int) -> None:
        self.page = page
        self.in_flight = in_flight
        self.capacity = capacity
        self.completed = 0
        self.job = packet(_SUBMIT_JOB, b"echo\0\0" + b"x" * body_bytes)
        self.selector = selectors.DefaultSelector()
        for _ in range(workers):
            worker = Connection(port, self._serve)
            worker.socket.sendall(packet(_CAN_DO, b"echo") + packet(_PRE_SLEEP))
            self.selector.register(worker.socket, selectors.EVENT_READ, worker)
        self.client = Connection(port, self._collect)
        self.selector.register(self.client.socket, selectors.EVENT_READ, self.client)
        page.write(READY, workers)

    def run(self) -> None:
        self.client.socket.sendall(self.job * self.in_flight)
        while not self.page.read(STOP):
            for key, _ in self.selector.select(0.05):
                key.data.read()
            self.page.write(COMPLETED, self.completed)

    def _serve(self, worker: Connection, packets: list[tuple[int, bytes]]) -> None:
        out, was_woken, has_run_dry = [], False, False
        for kind, data in packets:
            if kind == _JOB_ASSIGN:
                handle, _, body = data.split(b"\0", 2)
                out.append(packet(_WORK_COMPLETE, handle + b"\0" + body) + packet(_GRAB_JOB))
            elif kind == _NO_JOB:
                worker.asked -= 1
                has_run_dry = worker.asked == 0
            elif kind == _NOOP:
                was_woken = True
        if was_woken and worker.asked == 0:
            worker.asked = self.capacity
            out.append(packet(_GRAB_JOB) * self.capacity)
        elif has_run_dry:
            out.append(packet(_PRE_SLEEP))
        if out:
            worker.socket.sendall(b"".join(out))

    def _collect(self, client: Connection, packets: list[tuple[int, bytes]]) -> None:
        count = sum(kind == _WORK_COMPLETE for kind, _ in packets)
        self.completed += count
        if count:
            client.socket.sendall(self.job * count)


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[2:]]
    Generator(Page(Path(sys.argv[1])), *numbers).run()
