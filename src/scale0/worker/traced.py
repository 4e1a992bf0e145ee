"""Handlers inside of spans; `scale0.tracing` tells how, and when.

Each of the four kinds of function needs its own wrapping, so that the span is the current one wherever the handler's
code runs: what it calls in turn, with a client of its own or with any traced library, belongs to the same trace.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from scale0.protocol.ids import show_id
from scale0.tracing import Tracer
from scale0.worker.job import Job


def traced(job: Job, tracer: Tracer) -> Callable[..., Any]:
    """The function behind the job's service, to be called in its place."""
    handler = job.handler
    if handler.is_stream:
        return functools.partial(_stream_async if handler.is_async else _stream, job, tracer)
    return functools.partial(_call_async if handler.is_async else _call, job, tracer)


def _span(job: Job, tracer: Tracer) -> AbstractContextManager[None]:
    wait_us = int((job.started_s - job.received_s) * 1e6)
    return tracer.serve(
        job.handler.name, job.options, task=show_id(job.id), attempt=job.attempt, wait_us=max(0, wait_us)
    )


def _call(job: Job, tracer: Tracer, /, *args: Any, **kwargs: Any) -> Any:
    with _span(job, tracer):
        return job.handler.function(*args, **kwargs)


async def _call_async(job: Job, tracer: Tracer, /, *args: Any, **kwargs: Any) -> Any:
    with _span(job, tracer):
        return await job.handler.function(*args, **kwargs)


def _stream(job: Job, tracer: Tracer, /, *args: Any, **kwargs: Any) -> Iterator[Any]:
    with _span(job, tracer):
        yield from job.handler.function(*args, **kwargs)


async def _stream_async(job: Job, tracer: Tracer, /, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
    with _span(job, tracer):
        async with contextlib.aclosing(job.handler.function(*args, **kwargs)) as parts:
            async for part in parts:
                yield part
