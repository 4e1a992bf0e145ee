"""Every task ends in one outcome: a value, a stream, or an error that says what happened."""

from __future__ import annotations

from concurrent.futures import CancelledError
from typing import Any

import msgspec
import pytest

from scale0.errors import (
    DeadlineExceeded,
    EncodingError,
    Overloaded,
    RemoteError,
    ServiceNotFound,
    TaskCancelled,
    TaskError,
    UsageError,
    WorkerLost,
)
from scale0.protocol.messages import Cancel, Disconnect, Task, TaskReply
from tests.client.scripted import LIMIT_S, ScriptedBroker
from tests.contract.subjects import Subject


@pytest.mark.parametrize("value", ["Ada", 1, None, [1, [2]], {"a": b"b"}, b"raw \x00 bytes", b""])
def test_call_returns_the_value(client: Subject, value: Any) -> None:
    assert client.call("echo", value, timeout=LIMIT_S) == value


def test_result_takes_the_type_asked_for(client: Subject) -> None:
    class Point(msgspec.Struct):
        x: int

    assert client.call("echo", {"x": 1}, returns=Point) == Point(1)
    with pytest.raises(EncodingError, match="Expected `int`, got `str`"):
        client.call("echo", {"x": "1"}, returns=Point)


@pytest.mark.parametrize(
    ("service", "kind", "code"),
    [
        ("missing", ServiceNotFound, 404),
        ("late", DeadlineExceeded, 504),
        ("lost", WorkerLost, 502),
        ("busy", Overloaded, 429),
        ("failing", RemoteError, 500),
    ],
)
def test_error_says_what_happened(client: Subject, service: str, kind: type[TaskError], code: int) -> None:
    with pytest.raises(kind) as caught:
        client.call(service)
    assert (caught.value.code, caught.value.service) == (code, service)
    assert caught.value.task_id.endswith(".1")


def test_unknown_service_comes_with_near_names(client: Subject) -> None:
    with pytest.raises(ServiceNotFound) as caught:
        client.call("missing")
    assert caught.value.near == ("mission",)


def test_remote_error_carries_the_workers_words(client: Subject) -> None:
    with pytest.raises(RemoteError) as caught:
        client.call("failing")
    error = caught.value
    assert (error.remote_type, error.text, error.remote_traceback) == ("ValueError", "bad value", "Traceback: …")


def test_deadline_and_priority_travel_with_the_task(client: Subject, broker: ScriptedBroker) -> None:
    client.call("echo", 1, timeout=LIMIT_S, priority=3)
    task = next(message for message in broker.heard if isinstance(message, Task))
    assert 0 < task.remaining_ms <= LIMIT_S * 1000
    assert (task.priority, task.flags) == (3, 0)


def test_silence_ends_in_an_error_by_deadline_and_grace(client: Subject) -> None:
    with pytest.raises(DeadlineExceeded):
        client.call("hold", timeout=0.1)


def test_what_cannot_be_right_is_refused_at_once(client: Subject) -> None:
    for wrong in (
        lambda: client.call("echo", object()),
        lambda: client.call("echo", timeout=0),
        lambda: client.call("echo", timeout=float("inf")),
        lambda: client.call("", 1),
        lambda: client.call("echo", 1, priority=9),
        lambda: client.map("echo", [], in_flight=0),
    ):
        with pytest.raises(UsageError):
            wrong()


def test_submitted_task_is_awaited_later(client: Subject) -> None:
    handles = [client.submit("echo", number) for number in range(50)]
    assert [handle.result(LIMIT_S) for handle in reversed(handles)] == list(reversed(range(50)))
    assert all(handle.done() for handle in handles)


def test_submitted_task_keeps_its_error(client: Subject) -> None:
    handle = client.submit("missing")
    for _ in range(2):
        with pytest.raises(ServiceNotFound):
            handle.result(LIMIT_S)


def test_cancelling_tells_the_broker(client: Subject, broker: ScriptedBroker) -> None:
    handle = client.submit("hold")
    broker.wait_for(lambda b: bool(b.held))
    assert handle.cancel()
    with pytest.raises(CancelledError):
        handle.result(LIMIT_S)
    broker.wait_for(lambda b: b.count(Cancel) == 1)
    assert handle.cancelled()
    task = broker.held[0][1]
    assert [message.id for message in broker.heard if isinstance(message, Cancel)] == [task.id]


def test_waiting_no_longer_is_not_cancelling(client: Subject, broker: ScriptedBroker) -> None:
    handle = client.submit("hold")
    with pytest.raises(TimeoutError):
        handle.result(0.05)
    broker.wait_for(lambda b: bool(b.held))
    route, task = broker.held[0]
    broker.do(lambda: broker.send(route, TaskReply(task.id, (b"\x07",))))
    assert handle.result(LIMIT_S) == 7


def test_map_keeps_the_order_and_the_bound(client: Subject, broker: ScriptedBroker) -> None:
    read = 0

    def numbers() -> Any:
        nonlocal read
        for number in range(300):
            read = number + 1
            yield number

    results = client.map("echo", numbers(), in_flight=20)
    assert read == 0, "nothing is read before the first result is asked for"
    assert next(results) == 0
    assert read <= 21
    assert list(results) == list(range(1, 300))


def test_map_ends_with_the_first_error_in_its_place(client: Subject) -> None:
    results = client.map("echo", [1, object(), 3])
    assert next(results) == 1
    with pytest.raises(EncodingError):
        next(results)


def test_map_can_keep_errors_in_their_places(client: Subject) -> None:
    first, second, third = client.map("echo", [1, object(), 3], return_exceptions=True)
    assert (first, third) == (1, 3)
    assert isinstance(second, EncodingError)


def test_map_that_is_left_early_cancels_the_rest(client: Subject, broker: ScriptedBroker) -> None:
    results = client.map("first only", range(5), in_flight=5, timeout=LIMIT_S)
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    broker.wait_for(lambda b: b.count(Cancel) == 4)


def test_stream_yields_parts_as_they_come(client: Subject) -> None:
    assert list(client.stream("count", 5)) == [0, 1, 2, 3, 4]
    assert list(client.stream("count", 0)) == []


def test_stream_of_a_service_that_does_not_stream_has_one_part(client: Subject) -> None:
    assert list(client.stream("echo", "Ada")) == ["Ada"]


def test_call_of_a_service_that_streams_returns_the_list(client: Subject) -> None:
    assert client.call("count", 3) == [0, 1, 2]


def test_stream_raises_the_error_that_ended_it(client: Subject) -> None:
    with pytest.raises(RemoteError):
        list(client.stream("failing"))


def test_stream_that_is_left_early_cancels_the_task(client: Subject, broker: ScriptedBroker) -> None:
    parts = client.stream("endless")
    assert [next(parts), next(parts)] == [0, 1]
    parts.close()  # type: ignore[attr-defined]
    broker.wait_for(lambda b: b.count(Cancel) == 1)


def test_closing_settles_what_is_open_and_says_goodbye(client: Subject, broker: ScriptedBroker) -> None:
    handle = client.submit("hold")
    broker.wait_for(lambda b: bool(b.held))
    client.close()
    broker.wait_for(lambda b: b.count(Disconnect) == 1)
    with pytest.raises(TaskCancelled):
        handle.result(LIMIT_S)
    with pytest.raises(UsageError, match="closed"):
        client.call("echo", 1)
