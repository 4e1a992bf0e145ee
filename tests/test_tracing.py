"""Traces through real brokers: a call's span and its handler's belong together, whatever happens on the way."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import CancelledError
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from scale0 import AsyncClient, Client, RemoteError, ServiceNotFound, Worker, tracing
from scale0.client.repeatable import RepeatableClient
from scale0.encoding import ENCODED, RAW
from scale0.testing import TestBroker, broker, running_network
from scale0.tracing import carried_by, carrying
from tests.management.receivers import receiver
from tests.tracing_service import half

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
LIMIT_S = 60.0


class Spans:
    """What was traced, once all of it is."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def of(self, name: str) -> list[ReadableSpan]:
        assert tracing.flush(LIMIT_S)
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (found,) = self.of(name)
        return found

    def pair(self, service: str) -> tuple[ReadableSpan, ReadableSpan]:
        """The one call of a service and its handler's span, which is its child."""
        called, served = self.one(f"call {service}"), self.one(f"serve {service}")
        assert called.context is not None
        assert served.context is not None
        assert served.parent is not None
        assert served.context.trace_id == called.context.trace_id
        assert served.parent.span_id == called.context.span_id
        return called, served


@pytest.fixture
def spans() -> Iterator[Spans]:
    made = Spans()
    tracing.switch_on(made.provider)
    yield made
    tracing.switch_off()
    made.provider.shutdown()


@pytest.fixture
def serving() -> Iterator[TestBroker]:
    """A broker, with a worker of many kinds."""
    with broker() as running:
        worker = Worker(running.endpoint, identity="w-1", capacity=4)
        worker.add_service("double", lambda number: 2 * number)
        worker.add_service("shout", shout)
        worker.add_service("fail", fail)
        worker.add_service("count", count)
        worker.add_service("count_async", count_async)
        worker.add_service("quadruple", quadruple)
        worker.add_service("traced", lambda: trace.get_current_span().get_span_context().trace_id.to_bytes(16, "big"))
        with worker:
            yield running


def shout(data: bytes) -> bytes:
    return data.upper()


def fail(secret: str) -> None:
    raise ValueError(secret)


def count(to: int) -> Iterator[int]:
    yield from range(to)


async def count_async(to: int) -> AsyncIterator[int]:
    for number in range(to):
        await asyncio.sleep(0)
        yield number


async def quadruple(number: int) -> int:
    await asyncio.sleep(0)
    return 4 * number


# --- calls and handlers ---------------------------------------------------------------------------------------------


def test_a_handlers_span_is_the_child_of_its_calls(serving: TestBroker, spans: Spans) -> None:
    with Client(serving.endpoint, identity="c-1") as client:
        assert client.call("double", 21) == 42
    called, served = spans.pair("double")
    assert (called.kind, served.kind) == (SpanKind.CLIENT, SpanKind.SERVER)
    assert called.attributes is not None
    assert served.attributes is not None
    assert called.attributes["rpc.method"] == served.attributes["rpc.method"] == "double"
    assert called.attributes["scale0.task"] == served.attributes["scale0.task"]
    assert served.attributes["scale0.attempt"] == 1
    assert called.status.status_code is served.status.status_code is StatusCode.UNSET
    assert called.start_time is not None
    assert called.end_time is not None
    assert called.end_time > called.start_time


def test_a_call_is_the_child_of_what_its_caller_is_in(serving: TestBroker, spans: Spans) -> None:
    tracer = spans.provider.get_tracer("test")
    with tracer.start_as_current_span("request") as request, Client(serving.endpoint) as client:
        client.call("double", 1)
    called, _ = spans.pair("double")
    assert called.parent is not None
    assert called.parent.span_id == request.get_span_context().span_id


@pytest.mark.parametrize(("service", "expected"), [("quadruple", 8), ("double", 4)])
def test_the_asyncio_client_traces_too(serving: TestBroker, spans: Spans, service: str, expected: int) -> None:
    async def ask() -> Any:
        async with AsyncClient(serving.endpoint) as client:
            return await client.call(service, 2)

    assert asyncio.run(ask()) == expected
    spans.pair(service)


@pytest.mark.parametrize("service", ["count", "count_async"])
def test_a_stream_is_one_span_from_its_first_part_to_its_last(serving: TestBroker, spans: Spans, service: str) -> None:
    with Client(serving.endpoint) as client:
        assert list(client.stream(service, 3)) == [0, 1, 2]
    spans.pair(service)


def test_each_item_of_a_map_has_its_span(serving: TestBroker, spans: Spans) -> None:
    with Client(serving.endpoint) as client:
        assert list(client.map("double", range(20))) == [2 * number for number in range(20)]
    parents = {span.parent.span_id for span in spans.of("serve double") if span.parent is not None}
    assert parents == {span.context.span_id for span in spans.of("call double") if span.context is not None}
    assert len(parents) == 20


def test_a_future_is_traced_to_its_outcome(serving: TestBroker, spans: Spans) -> None:
    with Client(serving.endpoint) as client:
        assert client.submit("double", 4).result(LIMIT_S) == 8
    spans.pair("double")


def test_bytes_arrive_untouched_beside_a_trace(serving: TestBroker, spans: Spans) -> None:
    with Client(serving.endpoint) as client:
        assert client.call("shout", b"\x92raw") == b"\x92RAW"
    spans.pair("shout")


def test_the_handlers_own_code_sees_the_trace(serving: TestBroker, spans: Spans) -> None:
    with Client(serving.endpoint) as client:
        seen = client.call("traced", returns=bytes)
    called = spans.one("call traced")
    assert called.context is not None
    assert int.from_bytes(seen, "big") == called.context.trace_id


def test_a_worker_with_processes_traces_in_them(spans: Spans) -> None:
    """The child has no provider here: what it is told is that nothing fails, and that the call is traced."""
    with broker() as running:
        worker = Worker(running.endpoint, processes=True)
        worker.add_service("half", half)
        with worker, Client(running.endpoint) as client:
            assert client.call("half", 3) == 1.5
    assert len(spans.of("call half")) == 1


# --- what goes wrong ------------------------------------------------------------------------------------------------


def test_a_handler_that_fails_marks_both_spans_and_tells_no_secret(serving: TestBroker, spans: Spans) -> None:
    with Client(serving.endpoint) as client, pytest.raises(RemoteError):
        client.call("fail", "S3CRET")
    called, served = spans.pair("fail")
    assert called.status.status_code is served.status.status_code is StatusCode.ERROR
    assert called.attributes is not None
    assert served.attributes is not None
    assert (called.attributes["error.type"], served.attributes["error.type"]) == ("RemoteError", "ValueError")
    assert "S3CRET" not in called.to_json() + served.to_json()


def test_an_error_of_the_broker_is_told_by_its_code(spans: Spans) -> None:
    """Soon after its start a broker lets an unknown service wait; then it says 404."""
    quick = broker(liveness=1, default_heartbeat_interval_s=0.05)
    with quick as running, Client(running.endpoint) as client, pytest.raises(ServiceNotFound):
        client.call("nothing", timeout=LIMIT_S)
    called = spans.one("call nothing")
    assert called.attributes is not None
    assert called.attributes["error.type"] == "404"


def test_a_cancelled_call_ends_its_span(serving: TestBroker, spans: Spans) -> None:
    with Client(serving.endpoint) as client:
        future = client.submit("nobody-serves-this", timeout=LIMIT_S)
        if future.cancel():
            with pytest.raises(CancelledError):
                future.result()
    called = spans.one("call nobody-serves-this")
    assert called.status.status_code is StatusCode.ERROR


def test_an_awaited_call_that_is_given_up_ends_its_span(serving: TestBroker, spans: Spans) -> None:
    async def give_up() -> None:
        async with AsyncClient(serving.endpoint) as client:
            asking = asyncio.ensure_future(client.call("count_async", 10**9, timeout=LIMIT_S))
            await asyncio.sleep(0)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking

    asyncio.run(give_up())
    called = spans.one("call count_async")
    assert called.attributes is not None
    assert called.attributes["error.type"] == "abandoned"


def test_a_retried_task_keeps_its_trace(spans: Spans) -> None:
    with broker() as running:
        lost = Worker(running.endpoint, identity="lost")

        def vanish(number: int) -> int:
            lost.stop_now()
            return 0

        lost.add_service("treble", vanish, idempotent=True)
        with Client(running.endpoint) as client:
            lost.start()
            future = client.submit("treble", 5)
            lost._background.join(LIMIT_S)  # type: ignore[union-attr]
            saved = Worker(running.endpoint, identity="saved")
            saved.add_service("treble", lambda number: 3 * number, idempotent=True)
            with saved:
                assert future.result(LIMIT_S) == 15
    called = spans.one("call treble")
    assert called.context is not None
    served = [span for span in spans.of("serve treble") if span.context is not None]
    assert {span.context.trace_id for span in served if span.context} == {called.context.trace_id}
    assert sorted(span.attributes["scale0.attempt"] for span in served if span.attributes) == [1, 2]  # type: ignore[type-var]


def test_a_task_that_crosses_to_another_broker_keeps_its_trace(spans: Spans) -> None:
    with running_network(2) as network:
        worker = Worker(network.brokers[1].endpoint)
        worker.add_service("double", lambda number: 2 * number)
        with worker, Client(network.brokers[0].endpoint) as client:
            assert client.call("double", 2, timeout=LIMIT_S) == 4
    spans.pair("double")


def test_a_repeatable_question_is_the_same_whether_traced_or_not(serving: TestBroker, spans: Spans) -> None:
    with RepeatableClient(serving.endpoint, identity="spark", work="stage-1") as client:
        assert list(client.map_rows("double", [(1,), (2,)])) == [2, 4]
    assert spans.of("call double") == []


def test_what_is_not_sampled_is_carried_as_such(serving: TestBroker) -> None:
    tracing.switch_on(TracerProvider(sampler=ALWAYS_OFF))
    try:
        with Client(serving.endpoint) as client:
            assert client.call("double", 2) == 4
    finally:
        tracing.switch_off()


# --- options --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [ENCODED, RAW, b""])
def test_a_trace_stands_beside_what_the_options_say(options: bytes) -> None:
    made = carrying(options, {"traceparent": PARENT, "tracestate": "a=1"})
    said = msgspec.msgpack.decode(options) if options else {}
    assert msgspec.msgpack.decode(made) == {**said, "traceparent": PARENT, "tracestate": "a=1"}
    assert carried_by(made) == {"traceparent": PARENT, "tracestate": "a=1"}


def test_options_that_are_no_map_are_left_alone() -> None:
    assert carrying(b"\x93abc", {"traceparent": PARENT}) == b"\x93abc"


def test_a_tracestate_without_end_stays_behind() -> None:
    assert carried_by(carrying(ENCODED, {"traceparent": PARENT, "tracestate": "x" * 5_000})) == {"traceparent": PARENT}


@given(st.binary(max_size=200))
def test_whatever_stands_in_options_a_worker_reads_a_trace_or_none(noise: bytes) -> None:
    for options in (noise, b"\x81\xabtraceparent" + noise):
        assert all(isinstance(value, str) for value in carried_by(options).values())


# --- switching ------------------------------------------------------------------------------------------------------

PROGRAM = """
import sys
from scale0 import Client, Worker
from scale0.testing import broker
from tests.tracing_service import half
with broker() as running:
    worker = Worker(running.endpoint, processes=bool(sys.argv[1:]))
    worker.add_service("half", half)
    with worker, Client(running.endpoint) as client:
        assert client.call("half", 2) == 1
print(sorted(name for name in sys.modules if name == "opentelemetry"))
"""


def run(*arguments: str, **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "SCALE0_"))}
    command = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(command, env={**clean, **environment}, stdout=subprocess.PIPE, timeout=LIMIT_S, check=True)
    return done.stdout.decode()


def test_a_program_that_does_not_trace_does_not_load_opentelemetry() -> None:
    assert run().strip() == "[]"


@pytest.mark.parametrize("arguments", [(), ("processes",)])
def test_the_environment_alone_switches_it_on_and_says_where_spans_go(arguments: tuple[str, ...]) -> None:
    """Handlers in processes of their own have the same environment, and send their spans before they end."""
    with receiver() as collector:
        run(*arguments, SCALE0_TRACING="on", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_SERVICE_NAME="shop")
        names: set[str] = set()
        while not {"call half", "serve half"} <= names:
            request = collector.next()
            if request.path != "/v1/traces":  # the broker's metrics, which go to the same place
                continue
            sent = ExportTraceServiceRequest.FromString(request.body)
            for resource in sent.resource_spans:
                said = {each.key: each.value.string_value for each in resource.resource.attributes}
                assert said["service.name"] == "shop"
                names |= {span.name for scope in resource.scope_spans for span in scope.spans}


def test_without_the_extra_the_switch_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(Exception, match=r"pip install \"scale0\[otel\]\""):
        tracing.switch_on()
