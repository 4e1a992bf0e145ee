"""A child process that runs handlers for a worker with `processes=True`; `processes.py` starts it.

Parent and child talk over a socket pair, in msgpack with a length ahead. A request names the handler as module and
name, so the child imports the same code and finds the same function: nothing is pickled. One request is answered by any
number of parts and one end. A thread reads the socket, so that the child notices its parent's end even while a handler
runs, and ends with it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import msgspec

from scale0 import tracing
from scale0.errors import UsageError
from scale0.protocol.messages import Body, Status, Task, TaskId
from scale0.worker.failure import failure_body
from scale0.worker.handlers import Handler, perform
from scale0.worker.job import Job
from scale0.worker.outbox import Outbox, Result

LENGTH_BYTES: Final = 4
MAIN_NAME: Final = "__scale0_main__"
"""The name under which a child imports its parent's script: `if __name__ == "__main__":` keeps it from serving."""


class Request(msgspec.Struct, array_like=True):
    """One job for the child."""

    module: str  # where the handler is: a module's name, or a script's path
    function: str
    service: str
    id: bytes
    attempt: int
    body: Body
    options: bytes
    remaining_s: float


class Answer(msgspec.Struct, array_like=True):
    """A part, or the end, of what a handler gave."""

    status: int
    body: Body
    is_final: bool


def write(channel: socket.socket, message: Request | Answer) -> None:
    data = msgspec.msgpack.encode(message)
    channel.sendall(len(data).to_bytes(LENGTH_BYTES, "big") + data)


def read(channel: socket.socket) -> bytes:
    """The next message's bytes; EOFError when the other side is gone."""
    return _read_exactly(channel, int.from_bytes(_read_exactly(channel, LENGTH_BYTES), "big"))


def _read_exactly(channel: socket.socket, count: int) -> bytes:
    chunks: list[bytes] = []
    while count:
        chunk = channel.recv(min(count, 1 << 20))
        if not chunk:
            raise EOFError
        chunks.append(chunk)
        count -= len(chunk)
    return b"".join(chunks)


class DirectOutbox(Outbox):
    """An outbox that writes each result to the parent at once; the socket pair's buffer is the back-pressure."""

    def __init__(self, channel: socket.socket) -> None:
        super().__init__()
        self._channel = channel

    def announce(self) -> None:
        while self.results:
            self._write(self.results.popleft())

    def _write(self, result: Result) -> None:
        job, status, body, _, is_final, _ = result
        write(self._channel, Answer(status, body, is_final))
        if not is_final:
            job.parts_sent += 1

    def write_failure(self, error: BaseException) -> None:
        """The end of a job that could not begin."""
        write(self._channel, Answer(int(Status.FAILED), failure_body(error), True))


def main() -> None:
    """Serve the parent until it closes its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the parent drains, and then ends us
    channel = socket.socket(fileno=int(sys.argv[1]))
    requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(channel, requests), name="scale0-parent", daemon=True).start()
    outbox = DirectOutbox(channel)
    handlers: dict[tuple[str, str, str], Handler] = {}
    while True:
        _serve(requests.get(), handlers, outbox)


def _listen(channel: socket.socket, requests: queue.SimpleQueue[Request]) -> None:
    with contextlib.suppress(EOFError, OSError):
        while True:
            requests.put(msgspec.msgpack.decode(read(channel), type=Request))
    if tracing.tracer is not None:
        tracing.flush()
    os._exit(0)


def _serve(request: Request, handlers: dict[tuple[str, str, str], Handler], outbox: DirectOutbox) -> None:
    key = (request.module, request.function, request.service)
    now = time.monotonic()
    task = Task(TaskId(request.id), request.service, request.body, 0, request.attempt, options=request.options)
    try:
        handler = handlers.get(key)
        if handler is None:
            handler = handlers[key] = Handler(request.service, find_function(request.module, request.function))
    except BaseException as error:  # importing runs foreign code
        outbox.write_failure(error)
        return
    job = Job(task, handler, now + request.remaining_s, now)
    job.started_s = now
    perform(job, outbox)
    outbox.announce()


def find_function(module_name: str, name: str) -> Callable[..., Any]:
    """The function `name` (with dots for nested names) of a module or script."""
    found: Any = _load(module_name)
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise UsageError(f"{name!r} is not a function of {module_name}: a handler for processes must be importable")
    return found  # type: ignore[no-any-return]


def _load(module_name: str) -> ModuleType:
    if not module_name.endswith(".py"):
        return importlib.import_module(module_name)
    if MAIN_NAME not in sys.modules:
        spec = importlib.util.spec_from_file_location(MAIN_NAME, module_name)
        if spec is None or spec.loader is None:
            raise UsageError(f"{module_name} cannot be imported")
        module = importlib.util.module_from_spec(spec)
        sys.modules[MAIN_NAME] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[MAIN_NAME]
            raise
    return sys.modules[MAIN_NAME]
