"""What Python itself costs: a broker's loop on Scale0's frames, and no rule at all.

It drains its ROUTER as Scale0's loop does, checks every frame, finds the dialect and the command, gives each task to
the next free slot, and passes its reply back. There is no deadline, no session, no retry, no limit; nobody is missed
when it dies. So it is the least that a broker in this interpreter can cost, where `zmq.proxy` is the least in any.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

import zmq

from scale0.protocol import codec
from scale0.protocol.bundles import bundle, is_bundle, runs, unbundle
from scale0.protocol.dialects import CLIENT, WORKER, Dialect
from scale0.protocol.messages import NO_VERSION, Command, Config, Connect, Message, Ping, Pong, Ready, ReadyOk
from scale0.transport.sockets import EVENTS, MORE_NOBLOCK, NOBLOCK, POLLIN, make_context, open_port

_BATCH = 200
_BURST = 64
_TASK = CLIENT.header + bytes((Command.TASK,))
_REPLY = WORKER.header + bytes((Command.TASKREPLY,))
_TO_WORKER, _TO_CLIENT = WORKER.header, CLIENT.header
_TASK_ID_AT, _REPLY_ID_AT, _ID_LENGTH_AT = 54, 55, 10


class Bare:
    """Free slots in the order in which they were freed, tasks that wait for one, and who asked for what."""

    def __init__(self, port: Any) -> None:
        self._receive, self._send, self._get = port.receive, port.send, port.get
        self._free: deque[bytes] = deque()
        self._waiting: deque[bytes] = deque()
        self._clients: dict[bytes, bytes] = {}
        self._takers: set[bytes] = set()  # of bundles

    def drain(self) -> None:
        """One batch in, and what comes of it out."""
        out: dict[bytes, list[list[bytes]]] = defaultdict(list)
        receive = self._receive
        count = 0
        try:
            while count < _BATCH:
                route = receive(NOBLOCK)
                frame = receive(NOBLOCK, False)
                if frame.more:
                    raise SystemExit("this loop knows messages of one frame only: keep bodies small")
                headers = unbundle(frame.bytes) if is_bundle(frame.bytes) else [frame.bytes]
                count += len(headers)
                self._take(route, headers, out)
                if count >= _BURST:
                    self._send_all(out)
        except zmq.Again:
            pass
        self._send_all(out)

    def _take(self, route: bytes, headers: list[bytes], out: dict[bytes, list[list[bytes]]]) -> None:
        free, waiting, clients = self._free, self._waiting, self._clients
        for header in headers:
            prefix = header[:7]
            if prefix == _TASK:
                clients[_id_of(header, _TASK_ID_AT)] = route
                if free:
                    out[free.popleft()].append([_TO_WORKER + header[6:]])
                else:
                    waiting.append(header)
            elif prefix == _REPLY:
                out[clients.pop(_id_of(header, _REPLY_ID_AT))].append([_TO_CLIENT + header[6:]])
                if waiting:
                    out[route].append([_TO_WORKER + waiting.popleft()[6:]])
                else:
                    free.append(route)
            else:
                out[route] += self._hear(route, *codec.decode((header,)))

    def _send_all(self, out: dict[bytes, list[list[bytes]]]) -> None:
        send = self._send
        for route, messages in out.items():
            for run in runs(messages) if route in self._takers else ([message] for message in messages):
                send(route, MORE_NOBLOCK)
                send(bundle([frames[0] for frames in run]) if len(run) > 1 else run[0][0], NOBLOCK)
        out.clear()

    def _hear(self, route: bytes, dialect: Dialect, message: Any) -> list[list[bytes]]:
        """What the load generator says before and beside its tasks."""
        answer: Message
        if isinstance(message, Connect):
            self._takers.update([route] * message.bundles)
            answer = Config(config_type="JSON", config_version=NO_VERSION, config=b"{}", bundles=message.bundles)
        elif isinstance(message, Ready):
            self._free.extend([route] * message.capacity)
            answer = ReadyOk(
                heartbeat_interval_ms=message.heartbeat_interval_ms, time_us=message.time_us, capacity=message.capacity
            )
        elif isinstance(message, Ping):
            answer = Pong(message.time_us, message.time_us)
        else:
            return []
        return [codec.encode(dialect, answer)]


def _id_of(header: bytes, at: int) -> bytes:
    return header[at : at + header[_ID_LENGTH_AT]]


def main() -> None:
    port = open_port(make_context(), "tcp://127.0.0.1:0", 0)
    print(f"ready {port.endpoint} {port.endpoint}", flush=True)
    bare = Bare(port)
    while True:
        port.socket.poll()
        while port.get(EVENTS) & POLLIN:
            bare.drain()


if __name__ == "__main__":
    main()
