"""Sync handlers in processes of their own, for work that holds the interpreter's lock (`Worker(processes=True)`).

A thread of the worker borrows a child for one job, passes the body's bytes, and waits for its answers; the child
imports the handler by its module and name (see `child.py`). A child that dies costs its one task, which fails with a
clear text, and another takes its place. Cancelling kills the child: it is the one sure way to stop a computation, and
what the handler had begun outside of its process stays as it is. Idle children are kept; all end with the worker.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Final

import msgspec

from scale0.errors import UsageError
from scale0.protocol.messages import Status
from scale0.worker.child import Answer, Request, read, write
from scale0.worker.failure import failure
from scale0.worker.handlers import Handler, cancelled_body, is_unwanted, wait_for_room
from scale0.worker.job import Job
from scale0.worker.outbox import Outbox
from scale0.worker.threads import ThreadRunner

_BOOT: Final = "import sys; sys.path[:] = sys.argv[2:]; from scale0.worker.child import main; main()"
_EXIT_S: Final = 5.0  # a child whose socket is closed has this long to be gone
_FAILED: Final = int(Status.FAILED)


def locate(handler: Handler) -> tuple[str, str]:
    """The module (or script) and the name by which a child finds the handler."""
    function = handler.function
    name = getattr(function, "__qualname__", "")
    module = getattr(function, "__module__", "")
    if not name or "<" in name or not module:
        raise UsageError(f"the handler of {handler.name!r} must be a function at the top of a module, for processes")
    if module == "__main__":
        main = sys.modules["__main__"]
        spec = getattr(main, "__spec__", None)
        module = spec.name if spec else os.path.abspath(getattr(main, "__file__", None) or "")
        if not spec and not module.endswith(".py"):
            raise UsageError(f"the handler of {handler.name!r} was typed in by hand: processes need it in a file")
    return module, name


class Child:
    """One child process, which runs one job at a time."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-c", _BOOT, str(theirs.fileno()), *sys.path]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)

    def begin(self, job: Job) -> None:
        module, name = locate(job.handler)
        remaining_s = job.deadline_s - time.monotonic()
        request = Request(module, name, job.handler.name, job.id, job.attempt, job.body, job.options, remaining_s)
        write(self._channel, request)

    def next_answer(self) -> Answer:
        """Raises EOFError or OSError when the child is gone."""
        return msgspec.msgpack.decode(read(self._channel), type=Answer)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> str:
        """See the child off; says how it ended."""
        self._channel.close()
        try:
            code = self._process.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"was ended by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"


class ProcessRunner(ThreadRunner):
    """Runs jobs in at most `size` child processes, each waited for by a thread."""

    def __init__(self, name: str, size: int, outbox: Outbox) -> None:
        super().__init__(name, size, self._perform_in_child, outbox)
        self._resting: list[Child] = []
        self._busy: dict[Job, Child] = {}

    def abort(self, job: Job) -> None:
        child = self._busy.get(job)
        if child is not None:
            child.kill()

    def close(self) -> None:
        super().close()
        for child in list(self._busy.values()):
            child.kill()
        while self._resting:
            self._resting.pop().end()

    def _perform_in_child(self, job: Job) -> None:
        if is_unwanted(job, self._outbox):
            return
        try:
            child = self._borrow()
        except OSError as error:
            self._outbox.finish(job, failure("ProcessLost", f"no process could be started: {error}"), _FAILED)
            return
        self._busy[job] = child
        if job.is_cancelled:  # between the look above and now, when `abort` did not find the child yet
            child.kill()
        try:
            self._relay(job, child)
        except (OSError, EOFError):
            del self._busy[job]
            how = child.end()
            body = cancelled_body() if job.is_cancelled else failure("ProcessLost", f"the handler's process {how}")
            self._outbox.finish(job, body, _FAILED)
        else:
            del self._busy[job]
            if self._is_closed:
                child.end()
            else:
                self._resting.append(child)

    def _borrow(self) -> Child:
        while True:
            try:
                child = self._resting.pop()
            except IndexError:
                return Child()
            if child.is_alive:
                return child
            child.end()

    def _relay(self, job: Job, child: Child) -> None:
        """Pass the job to the child and its answers on, to the final one."""
        child.begin(job)
        while True:
            answer = child.next_answer()
            if answer.is_final:
                self._outbox.finish(job, answer.body, answer.status)
                return
            self._outbox.add_part(job, answer.body)
            if not job.has_room:
                wait_for_room(job)
