"""A handler: the function behind a service, what it takes and gives, and how it is called.

Four kinds of function serve: plain and async ones give one reply, generators and async generators a stream of parts
and then an empty final. Each call ends in exactly one final result, whatever the function does: that is the promise
that the functions below keep. Nothing here knows threads or sockets; runners call `perform` or `begin_async`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from typing import Any

from scale0 import tracing
from scale0.encoding import Signature
from scale0.errors import UsageError
from scale0.protocol import limits
from scale0.protocol.messages import Body, ServiceOffer, Status
from scale0.worker.failure import failure, failure_body, note_failure
from scale0.worker.job import Job, job_var
from scale0.worker.outbox import Outbox
from scale0.worker.traced import traced

UNKNOWN_S = 0.0  # how long a handler takes, before its first call has ended
RESERVED = ("scale0.", "mmi.")
_FAILED = int(Status.FAILED)


class Handler:
    """A service's function, made ready to be called with bodies."""

    __slots__ = (
        "function",
        "has_failed",
        "idempotent",
        "is_async",
        "is_stream",
        "max_attempts",
        "name",
        "signature",
        "typical_s",
    )

    def __init__(
        self, name: str, function: Callable[..., Any], *, idempotent: bool = False, max_attempts: int = 3
    ) -> None:
        _check_name(name)
        if not callable(function):
            raise UsageError(f"the handler of {name!r} is not a function, but {function!r}")
        if not 1 <= max_attempts <= limits.ATTEMPTS_MAX:
            raise UsageError(f"max_attempts of {name!r} is {max_attempts}; 1 to {limits.ATTEMPTS_MAX} are allowed")
        self.name = name
        self.function = function
        self.idempotent = idempotent
        self.max_attempts = max_attempts
        self.typical_s = UNKNOWN_S
        self.has_failed = False
        self.signature = Signature(function, name)
        asked: Any = function
        while isinstance(asked, functools.partial):
            asked = asked.func
        if not inspect.isroutine(asked):  # an object with __call__
            asked = type(asked).__call__
        is_async_stream = inspect.isasyncgenfunction(asked)
        self.is_stream = is_async_stream or inspect.isgeneratorfunction(asked)
        self.is_async = is_async_stream or inspect.iscoroutinefunction(asked)

    @property
    def offer(self) -> ServiceOffer:
        return ServiceOffer(self.name, self.idempotent, self.max_attempts)


def _check_name(name: str) -> None:
    if not isinstance(name, str):
        raise UsageError(f"a service's name is text, not {name!r}")
    if not name or len(name.encode()) > limits.SERVICE_BYTES_MAX:
        raise UsageError(f"a service's name has 1 to {limits.SERVICE_BYTES_MAX} bytes: {name!r}")
    if name.startswith(RESERVED):
        raise UsageError(f"{name!r}: names that begin with scale0. or mmi. belong to the broker")


def cancelled_body() -> Body:
    """A `failed` reply after a cancellation: the broker makes it 499."""
    return failure("TaskCancelled", "the task was cancelled")


# --- a call, from its arguments to its final result -----------------------------------------------------------------


def perform(job: Job, outbox: Outbox) -> None:
    """Run a sync handler in the calling thread, to its final result."""
    job_var.set(job)
    arguments = read_arguments(job, outbox)
    if arguments is None:
        return
    args, kwargs = arguments
    handler = job.handler
    try:
        value = (handler.function if tracing.tracer is None else traced(job, tracing.tracer))(*args, **kwargs)
        if handler.is_stream:
            value = _stream(job, value, outbox)
        finish(job, value, outbox)
    except BaseException as error:  # SystemExit too: a handler cannot end the worker
        fail(job, error, outbox)


def begin_async(job: Job, outbox: Outbox) -> Awaitable[Any] | None:
    """What to await for an async handler's value; None: the job has its final result already.

    `finish` follows with the value, or `fail` with what was raised. The three are apart, and not one coroutine around
    the handler's own, because awaiting through one more costs as much as the rest of a small task.
    """
    arguments = read_arguments(job, outbox)
    if arguments is None:
        return None
    args, kwargs = arguments
    handler = job.handler
    call = (handler.function if tracing.tracer is None else traced(job, tracing.tracer))(*args, **kwargs)
    return _stream_async(job, call, outbox) if handler.is_stream else call


def read_arguments(job: Job, outbox: Outbox) -> tuple[Sequence[Any], dict[str, Any]] | None:
    """The handler's arguments. None: the job must not begin, and has its final result."""
    if is_unwanted(job, outbox):
        return None
    try:
        return job.handler.signature.decode_arguments(job.body, job.options)
    except Exception as error:  # the text names the parameter; where it was found out helps nobody
        outbox.finish(job, failure_body(error, has_traceback=False), _FAILED)
        return None


def is_unwanted(job: Job, outbox: Outbox) -> bool:
    """Whether the job was cancelled, or its deadline passed, before it began; then it has its final result."""
    if job.is_cancelled:
        outbox.finish(job, cancelled_body(), _FAILED)
        return True
    if job.started_s > job.deadline_s:
        outbox.give_back(job)
        return True
    return False


def finish(job: Job, value: Any, outbox: Outbox) -> None:
    """The handler has returned."""
    if not job.handler.is_stream:
        outbox.finish(job, job.handler.signature.encode_result(value, job.options))
    elif value is _STOPPED:
        outbox.finish(job, cancelled_body(), _FAILED)
    else:
        outbox.finish(job, ())


def fail(job: Job, error: BaseException, outbox: Outbox) -> None:
    """The handler has raised, or its value cannot be encoded."""
    is_stopped = job.is_cancelled and isinstance(error, asyncio.CancelledError)
    if not is_stopped:
        note_failure(job.handler.name, error, is_first=not job.handler.has_failed)
        job.handler.has_failed = True
    outbox.finish(job, cancelled_body() if is_stopped else failure_body(error), _FAILED)


# --- streams --------------------------------------------------------------------------------------------------------

_STOPPED = object()  # the task was cancelled in mid-stream, and the generator closed


def _stream(job: Job, values: Generator[Any, None, Any], outbox: Outbox) -> object:
    """Send each value as a part."""
    encode = job.handler.signature.encode_result
    with contextlib.closing(values):
        for value in values:
            if job.is_cancelled:
                return _STOPPED
            outbox.add_part(job, encode(value, job.options))
            if not job.has_room:
                wait_for_room(job)
    return None


def wait_for_room(job: Job) -> None:
    """Block until parts of this job have left, or it was cancelled."""
    room = threading.Event()
    job.on_room = room.set
    while not job.has_room:  # asked after on_room is set: room made from now on is told
        room.wait()
        room.clear()
    job.on_room = None


async def _stream_async(job: Job, values: AsyncGenerator[Any, None], outbox: Outbox) -> object:
    """Send each value as a part."""
    encode = job.handler.signature.encode_result
    async with contextlib.aclosing(values):
        async for value in values:
            if job.is_cancelled:
                return _STOPPED
            outbox.add_part(job, encode(value, job.options))
            if not job.has_room:
                await _wait_for_room_async(job)
    return None


async def _wait_for_room_async(job: Job) -> None:
    loop = asyncio.get_running_loop()
    room = asyncio.Event()
    job.on_room = lambda: loop.call_soon_threadsafe(room.set)
    try:
        while not job.has_room:
            await room.wait()
            room.clear()
    finally:
        job.on_room = None
