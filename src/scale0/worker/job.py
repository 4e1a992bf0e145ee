"""One task inside a worker, and `current_task()`, the view of it that a handler gets.

A job is touched by two threads: the link's (which owns socket and session) and the one that runs the handler. Each
field has one writer, so that no lock is needed: the handler's side writes `started_s`, `driver`, `parts_made` and
`on_room`, the link's side everything else. Cancellation is a flag that only ever goes from clear to set; the event
behind `wait()` is made only when a handler asks for it, for it costs more than a whole small task.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING

from scale0.errors import UsageError
from scale0.protocol.ids import show_id
from scale0.protocol.messages import Task

if TYPE_CHECKING:
    from scale0.worker.handlers import Handler

PARTS_UNSENT_MAX = 16
"""A streaming handler waits while so many of its parts have not left: a slow network slows it, and fills no memory."""


class Job:
    """A task from its arrival to its final reply."""

    __slots__ = (
        "attempt",
        "body",
        "cancel_event",
        "deadline_s",
        "driver",
        "handler",
        "id",
        "is_cancelled",
        "on_room",
        "options",
        "parts_made",
        "parts_sent",
        "received_s",
        "started_s",
    )

    def __init__(self, task: Task, handler: Handler, deadline_s: float, received_s: float) -> None:
        self.id = task.id
        self.attempt = task.attempt
        self.body = task.body
        self.options = task.options
        self.handler = handler
        self.deadline_s = deadline_s  # on the monotonic clock
        self.received_s = received_s
        self.started_s = 0.0
        self.is_cancelled = False
        self.cancel_event: threading.Event | None = None
        self.on_room: Callable[[], object] | None = None  # wakes a handler that waits for its parts to leave
        self.driver: asyncio.Task[None] | None = None  # the asyncio task that runs it now
        self.parts_made = 0
        self.parts_sent = 0

    def cancel(self) -> None:
        """Tell the handler that nobody wants its result. Its runner does what else can be done to stop it."""
        self.is_cancelled = True
        event = self.cancel_event
        if event is not None:
            event.set()
        self.tell_room()

    def tell_room(self) -> None:
        """Wake the handler if it waits for its parts to leave."""
        tell = self.on_room
        if tell is not None:
            tell()

    @property
    def has_room(self) -> bool:
        """Whether another part may be made. A cancelled job has room: its handler must get to its end."""
        return self.parts_made - self.parts_sent < PARTS_UNSENT_MAX or self.is_cancelled


_event_lock = threading.Lock()


class Cancellation:
    """Set once nobody wants the task's result any more; like a `threading.Event` that is only read. True when set."""

    __slots__ = ("_job",)

    def __init__(self, job: Job) -> None:
        self._job = job

    def is_set(self) -> bool:
        return self._job.is_cancelled

    __bool__ = is_set

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep until the task is cancelled or `timeout` seconds pass; the better `time.sleep` of a sync handler."""
        job = self._job
        with _event_lock:
            event = job.cancel_event
            if event is None:
                event = job.cancel_event = threading.Event()
        if job.is_cancelled:  # it may have been cancelled before the event was there to be set
            event.set()
        return event.wait(timeout)


class CurrentTask:
    """What a handler may know of the task that it works on."""

    __slots__ = ("_job",)

    def __init__(self, job: Job) -> None:
        self._job = job

    @property
    def id(self) -> str:
        """The id as listings show it: identity.nonce.sequence of the client."""
        return show_id(self._job.id)

    @property
    def service(self) -> str:
        return self._job.handler.name

    @property
    def attempt(self) -> int:
        """1 at first; more when an earlier worker was lost and the service is idempotent."""
        return self._job.attempt

    @property
    def deadline_s(self) -> float:
        """The seconds that remain until the client is told that it took too long; negative when it was."""
        return self._job.deadline_s - time.monotonic()

    @property
    def cancelled(self) -> Cancellation:
        """Set when the client cancelled, or the deadline passed: a long sync handler looks at it now and then."""
        return Cancellation(self._job)


job_var: ContextVar[Job] = ContextVar("scale0_job")


def current_task() -> CurrentTask:
    """The task that the calling handler works on. Raises `UsageError` outside of one."""
    job = job_var.get(None)
    if job is None:
        raise UsageError("current_task() is only known inside a service's handler")
    return CurrentTask(job)
