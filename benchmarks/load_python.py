"""The load generator in Python: the same arguments and the same work as `load.c`, but dearer.

It presses a broker as clients and workers in Python do, and stands in for `load.c` where there is no compiler. Like the
library it asks for bundles, and what it has for one connection when it has read all that came leaves as one.

Usage: load_python.py PAGE RECORDS FRONTEND BACKEND native|plain
                      WORKERS SERVING IN_FLIGHT BODY_BYTES PING_MS RATE EVENLY
"""

from __future__ import annotations

import struct
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import zmq

from measure import (
    COMPLETED,
    CONFIGACKS,
    CONFIGS,
    ERRORS,
    NEWEST,
    PONGS,
    REACHED,
    REACHED_US,
    READY,
    STOP,
    Page,
)
from scale0.protocol.bundles import bundle, is_bundle, runs, unbundle

_TASK, _CLIENT_CONNECT, _CLIENT_PING, _READY, _READY_OTHER, _WORKER_PING, _WORKER_CONNECT = range(7)
_CONFIG, _CONFIGACK, _READYOK, _PONG, _TASK_COMMAND, _TASKREPLY, _FORCENEGOTIATE, _ERROR = 2, 3, 5, 7, 8, 9, 13, 17
_AHEAD = 256
_NOBLOCK = 1
_VERSION_KEY = b"config_version\xc4\x10"  # in a msgpack map: the key, and that 16 bytes follow
_NO_VERSION = bytes(16)
_BUNDLES_TRUE = b"\xa7bundles\xc3"


class Generator:
    """One client and its workers over one poller."""

    def __init__(self, arguments: list[str]) -> None:
        page, records, self.frontend, self.backend, mode = arguments[:5]
        self.page = Page(Path(page))
        self.records = _read(Path(records).read_bytes())
        self.is_native = mode == "native"
        self.worker_count, self.serving, self.in_flight, _, ping_ms, self.rate, self.is_even = map(int, arguments[5:])
        self.ping_s = ping_ms / 1000
        self.context = zmq.Context()
        self.context.set(zmq.MAX_SOCKETS, self.worker_count + 64)
        self.poller = zmq.Poller()
        self.index: dict[zmq.Socket[bytes], int] = {}
        self.workers: list[zmq.Socket[bytes]] = []
        self.client: zmq.Socket[bytes] | None = None
        self.outstanding = 0
        self.has_started = self.takes_bundles = False
        self.ready = self.completed = self.errors = self.pongs = 0
        self.sequence = self.oldest = 1
        self.answered: set[int] = set()
        self.pings: deque[tuple[float, int]] = deque()  # when each ready worker's next PING is due, in order
        self.sent_us: dict[int, int] = {}  # sequence → when it was sent, if latencies are noted
        self.connecting: set[int] = set()  # workers whose CONNECT is not answered
        self.versions = [_NO_VERSION] * self.worker_count
        self.newest = _NO_VERSION

    def run(self) -> None:
        started_at = 0.0
        while not self.page.read(STOP):
            self._open_workers()
            if self.ready == self.worker_count:
                started_at = started_at or time.monotonic()
                if self.in_flight and self.client is None:
                    self._open_client()
            self._ping()
            self._send_due(started_at)
            for socket, _ in self.poller.poll(5):
                self._read_socket(socket)
            for slot, value in ((READY, self.ready), (COMPLETED, self.completed), (ERRORS, self.errors)):
                self.page.write(slot, value)
            self.page.write(PONGS, self.pongs)

    def _open_workers(self) -> None:
        for _ in range(50):
            if len(self.workers) == self.worker_count or len(self.workers) - self.ready >= _AHEAD:
                return
            socket = self._open(self.backend)
            index = self.index[socket] = len(self.workers)
            self.workers.append(socket)
            if self.is_native:
                self._connect(index)
            else:
                self.ready += 1

    def _open_client(self) -> None:
        self.client = self._open(self.frontend)
        if self.is_native:
            self.client.send(self.records[_CLIENT_CONNECT])
        else:
            self.has_started = True

    def _open(self, endpoint: str) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = self.context.socket(zmq.DEALER)
        socket.set(zmq.LINGER, 0)
        socket.set_hwm(0)
        socket.connect(endpoint)
        self.poller.register(socket, zmq.POLLIN)
        return socket

    def _read_socket(self, socket: zmq.Socket[bytes]) -> None:
        replies: list[bytes] = []
        try:
            while True:
                frames = socket.recv_multipart(_NOBLOCK)
                if not self.is_native and socket is not self.client:
                    socket.send_multipart(frames)
                    continue
                header = frames[0]
                for message in unbundle(header) if self.is_native and is_bundle(header) else (header,):
                    if socket is self.client:
                        self._client_got(message)
                    else:
                        self._worker_got(socket, message, replies)
        except zmq.Again:
            self._send_all(socket, replies)

    def _send_all(self, socket: zmq.Socket[bytes], messages: Sequence[bytes]) -> None:
        """In bundles, to a broker that takes them."""
        frames = [(message,) for message in messages]
        for run in runs(frames) if self.takes_bundles else ([each] for each in frames):
            socket.send(bundle([message for (message,) in run]) if len(run) > 1 else run[0][0])

    def _client_got(self, header: bytes) -> None:
        command = header[6] if self.is_native else _TASKREPLY
        if command == _TASKREPLY:
            self.completed += 1
            number = _sequence(header) if self.is_native else self.oldest
            self.answered.add(number)
            if number in self.sent_us:
                now_us = time.monotonic_ns() // 1000
                self.page.add_sample(now_us, now_us - self.sent_us.pop(number))
            while self.oldest in self.answered:
                self.answered.remove(self.oldest)
                self.oldest += 1
            self.outstanding -= 1
        elif command == _ERROR:
            self.errors += 1
            self.outstanding -= 1
        elif command in (_CONFIG, _CONFIGACK):
            self.has_started = True
            self.takes_bundles = _BUNDLES_TRUE in header

    def _worker_got(self, socket: zmq.Socket[bytes], header: bytes, replies: list[bytes]) -> None:
        index = self.index[socket]
        command = header[6]
        if command == _TASK_COMMAND:
            id_length = header[10]
            reply = bytes((_TASKREPLY, header[7], 0, 0x81, id_length)) + bytes(44) + header[54 : 54 + id_length]
            body_at = 54 + id_length + header[11] + int.from_bytes(header[12:14], "big")
            replies.append(header[:6] + reply + header[body_at:])
        elif command in (_CONFIG, _CONFIGACK):
            self._take_config(index, command, header)
        elif command == _READYOK:
            self.ready += 1
            # Evenly: each has its own place in the interval. They become ready in about this order.
            phase = index / self.worker_count if self.is_even else 1.0
            self.pings.append((time.monotonic() + self.ping_s * phase, index))
        elif command == _PONG:
            self.pongs += 1
        elif command == _FORCENEGOTIATE:
            self._connect(index)
        elif command == _ERROR:
            self.errors += 1

    def _connect(self, index: int) -> None:
        self.connecting.add(index)
        self.workers[index].send(self.records[_WORKER_CONNECT + index])

    def _take_config(self, index: int, command: int, header: bytes) -> None:
        """The answer to CONNECT, after which READY is said, or a push, which is counted."""
        at = header.index(_VERSION_KEY) + len(_VERSION_KEY)
        version = header[at : at + 16]
        self.takes_bundles = _BUNDLES_TRUE in header
        if index in self.connecting:
            self.connecting.remove(index)
            self.workers[index].send(self.records[_READY if index < self.serving else _READY_OTHER])
        else:
            slot = CONFIGS if command == _CONFIG else CONFIGACKS
            self.page.write(slot, self.page.read(slot) + 1)
        if version > self.newest:
            self.newest = version
            self.page.write(REACHED, 0)
            self.page.write(NEWEST, int.from_bytes(version[:8], "big"))
        if version != self.versions[index] and version == self.newest:
            self.page.write(REACHED_US, time.monotonic_ns() // 1000)
            self.page.write(REACHED, self.page.read(REACHED) + 1)
        self.versions[index] = version

    def _send_due(self, started_at: float) -> None:
        if not self.has_started or self.client is None:
            return
        count = self.in_flight - self.outstanding
        if self.rate:
            count = min(count, int((time.monotonic() - started_at) * self.rate) - self.sequence)
        template = self.records[_TASK]
        sequence_at = 54 + template[10] - 8
        tasks = []
        for _ in range(count):
            behind = (self.sequence - self.oldest).to_bytes(4, "big")
            number = self.sequence.to_bytes(8, "big")
            if self.rate:
                self.sent_us[self.sequence] = time.monotonic_ns() // 1000
            self.sequence += 1
            tasks.append(template[:18] + behind + template[22:sequence_at] + number + template[sequence_at + 8 :])
            self.outstanding += 1
        self._send_all(self.client, tasks)

    def _ping(self) -> None:
        """A worker pings from the moment that it is ready, also while others still connect."""
        now = time.monotonic()
        while self.pings and self.pings[0][0] <= now and self.ping_s:
            _, index = self.pings.popleft()
            ping = self.records[_WORKER_PING]
            now_us = (time.time_ns() // 1000).to_bytes(8, "big")
            self.workers[index].send(ping[:7] + now_us + ping[15:36] + self.versions[index])
            self.pings.append((now + self.ping_s, index))


def _sequence(header: bytes) -> int:
    """The client's own number of the task that a TASKREPLY answers: the end of its id."""
    end = 55 + header[10]
    return int.from_bytes(header[end - 8 : end], "big")


def _read(data: bytes) -> list[bytes]:
    records, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("=I", data, at)
        records.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    return records


if __name__ == "__main__":
    Generator(sys.argv[1:]).run()
