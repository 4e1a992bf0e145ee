"""Traces: a call and the handler that serves it become spans of one trace, if OpenTelemetry is there and switched on.

    from scale0 import tracing
    tracing.switch_on()                         # in the client's program and in the worker's, or SCALE0_TRACING=on

A TASK carries W3C's `traceparent`, and `tracestate` if there is one, in its options. Brokers pass options on unread, so
it comes through forwarding, retries and fail-over, and the broker's own record notes the trace's id. Baggage is not
carried: it is other people's data.

Spans are kept by the program's tracer provider. If it has none and OTEL_EXPORTER_OTLP_ENDPOINT is set, one is made that
sends there. While it is off, nothing of OpenTelemetry is imported, and a task pays for two looks at `tracer`.

A client's outcome comes under a lock under which nothing foreign may run, so a thread of this module ends the spans,
with the times that were noted.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import msgspec

from scale0 import __version__
from scale0.errors import UsageError
from scale0.protocol.ids import show_id
from scale0.protocol.messages import Body, Error, Status, TaskReply

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

SWITCH: Final = "SCALE0_TRACING"
ON: Final = ("1", "on", "true", "yes")
ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
UNENDED_MAX: Final = 100_000  # spans that wait to be ended; one more is let go
FLUSH_S: Final = 5.0
CARRIED: Final = ("traceparent", "tracestate")
CARRIED_BYTES_MAX: Final = 600  # a tracestate of 512 characters, and some room; a longer one stays behind
SYSTEM: Final = "scale0"

tracer: Tracer | None = None
"""While tracing is on. Clients and workers look here at each call."""


def switch_on(provider: TracerProvider | None = None) -> None:
    """Trace from now on, with spans of `provider`, or of the program's own. Raises `UsageError` without the extra."""
    global tracer
    try:
        from opentelemetry import trace
    except ImportError:
        raise UsageError('tracing needs OpenTelemetry: pip install "scale0[otel]"') from None
    tracer = Tracer(provider or _provider_for(trace))


def switch_off() -> None:
    """Trace no more; spans that have begun are ended when their tasks are."""
    global tracer
    tracer = None


def flush(timeout_s: float = FLUSH_S) -> bool:
    """Wait until the spans of all settled calls are ended and exported. False: that took too long."""
    end_s = time.monotonic() + timeout_s
    on = tracer
    if not _ender.flush(timeout_s):
        return False
    force = getattr(on.provider, "force_flush", None) if on is not None else None
    return force is None or bool(force(max(1, int((end_s - time.monotonic()) * 1000))))


class Record(Protocol):
    """What a client keeps of a task."""

    service: str
    span: Call | None


Sent = TypeVar("Sent", bound=Record)


class Tracer:
    """Makes spans: those of calls, and those of handlers."""

    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry import context, trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self.provider = provider
        self._trace = trace
        self._context = context
        self._tracer = provider.get_tracer(SYSTEM, __version__)
        self._propagator = TraceContextTextMapPropagator()

    def begin(self, sendings: Sequence[tuple[Sent, Body, bytes]]) -> list[tuple[Sent, Body, bytes]]:
        """The same tasks of a client, each with a span inside of the caller's, and with the trace in its options."""
        made = []
        kind, carried = self._trace.SpanKind.CLIENT, dict[str, str]()
        for record, body, options in sendings:
            attributes = {"rpc.system": SYSTEM, "rpc.method": record.service}
            span = self._tracer.start_span(f"call {record.service}", kind=kind, attributes=attributes)
            carried.clear()
            self._propagator.inject(carried, self._trace.set_span_in_context(span))
            record.span = Call(span)
            made.append((record, body, carrying(options, carried)))
        return made

    @contextlib.contextmanager
    def serve(self, service: str, options: bytes, **known: str | int) -> Iterator[None]:
        """A span around a handler, a child of the caller's; inside of it, it is the current one."""
        attributes: dict[str, str | int] = {"rpc.system": SYSTEM, "rpc.method": service}
        attributes |= {f"scale0.{name}": value for name, value in known.items()}
        parent = self._propagator.extract(carried_by(options), self._context.Context())
        kind = self._trace.SpanKind.SERVER
        span = self._tracer.start_span(f"serve {service}", context=parent, kind=kind, attributes=attributes)
        token = self._context.attach(self._trace.set_span_in_context(span))
        try:
            yield
        except BaseException as error:
            if not isinstance(error, GeneratorExit):  # nobody wants the rest of a stream: no mistake of its handler's
                _spoil(span, type(error).__name__)
            raise
        finally:
            with contextlib.suppress(ValueError):  # a stream that was let go ends in another context than it began in
                self._context.detach(token)
            span.end()


class Call:
    """The span of one task on its client's side. It ends once, by its outcome or when nobody waits for it any more."""

    __slots__ = ("_span",)

    def __init__(self, span: Span) -> None:
        self._span: Span | None = span

    def settle(self, task_id: bytes, outcome: object) -> None:
        """The outcome has come."""
        span, self._span = self._span, None
        if span is not None:
            _ender.put(span, time.time_ns(), task_id, _problem(outcome))

    def __del__(self) -> None:
        if self._span is not None:
            self.settle(b"", None)


def _problem(outcome: object) -> str:
    """What the task ended in, by a short name; empty: in a reply."""
    if isinstance(outcome, TaskReply):
        return "" if outcome.status == Status.OK else "RemoteError"
    if isinstance(outcome, Error):
        return str(outcome.code)
    return "abandoned" if outcome is None else type(outcome).__name__


# --- options --------------------------------------------------------------------------------------------------------

_MAP: Final = 0x80  # the first byte of a msgpack map of up to 15, with their number in its low half
_KEYS: Final = {name: msgspec.msgpack.encode(name) for name in CARRIED}


def carrying(options: bytes, carried: Mapping[str, str]) -> bytes:
    """Options of a TASK, a msgpack map, with the trace in it. What cannot be added to is left as it is."""
    made = options or b"\x80"
    for name, key in _KEYS.items():
        value = carried.get(name)
        if not value or len(value) > CARRIED_BYTES_MAX:
            continue
        if not _MAP <= made[0] < _MAP + 15:
            return options
        made = b"".join((bytes((made[0] + 1,)), made[1:], key, msgspec.msgpack.encode(value)))
    return made


class _Carried(msgspec.Struct):
    traceparent: str = ""
    tracestate: str = ""


_read: Final[Callable[[bytes], _Carried]] = msgspec.msgpack.Decoder(_Carried).decode


def carried_by(options: bytes) -> dict[str, str]:
    """The trace that a TASK's options carry; whoever sent it may have put anything there."""
    if b"traceparent" not in options:
        return {}
    try:
        read = _read(options)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return {}
    found = {"traceparent": read.traceparent, "tracestate": read.tracestate}
    return {name: value for name, value in found.items() if value and len(value) <= CARRIED_BYTES_MAX}


# --- ending spans ---------------------------------------------------------------------------------------------------


class _Ender:
    """Ends spans in a thread of its own, which begins with the first."""

    def __init__(self) -> None:
        self._ended: queue.SimpleQueue[tuple[Span, int, bytes, str] | threading.Event] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def put(self, span: Span, at_ns: int, task_id: bytes, problem: str) -> None:
        if self._ended.qsize() < UNENDED_MAX:
            self._ended.put((span, at_ns, task_id, problem))
        if self._thread is None:
            self._start()

    def flush(self, timeout_s: float) -> bool:
        if self._thread is None:
            return True
        is_done = threading.Event()
        self._ended.put(is_done)
        return is_done.wait(timeout_s)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="scale0-tracing", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            taken = self._ended.get()
            if isinstance(taken, threading.Event):
                taken.set()
                continue
            span, at_ns, task_id, problem = taken
            with contextlib.suppress(Exception):  # a span processor's mistake ends no thread of ours
                if task_id:
                    span.set_attribute("scale0.task", show_id(task_id))
                if problem:
                    _spoil(span, problem)
                span.end(at_ns)


def _spoil(span: Span, problem: str) -> None:
    """What went wrong, by its name: messages of exceptions may hold what is nobody else's business."""
    from opentelemetry.trace import StatusCode

    span.set_attribute("error.type", problem)
    span.set_status(StatusCode.ERROR, problem)


_ender = _Ender()


def _forget_thread() -> None:
    """In a forked child only the thread that forked lives on."""
    global _ender
    _ender = _Ender()


def _provider_for(trace: Any) -> TracerProvider:
    """The program's provider; a new one that exports where the environment says, if it has none."""
    found: TracerProvider = trace.get_tracer_provider()
    is_made = not isinstance(found, trace.ProxyTracerProvider)
    if is_made or not any(os.environ.get(name) for name in ENDPOINTS):
        return found
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider as Provider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    made = Provider()
    made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(made)
    return made


def _switch_on_by_environment() -> None:
    if os.environ.get(SWITCH, "").strip().lower() not in ON:
        return
    try:
        switch_on()
    except UsageError as error:  # a program runs without its traces, too
        logging.getLogger("scale0.tracing").warning("%s=%s: %s", SWITCH, os.environ[SWITCH], error)


os.register_at_fork(after_in_child=_forget_thread)
_switch_on_by_environment()
atexit.register(flush)
