"""One tree of errors: each carries its data, and says cause and cure."""

from __future__ import annotations

import inspect
import re

import pytest

from scale0 import errors
from scale0.errors import (
    BrokerUnavailable,
    DeadlineExceeded,
    Overloaded,
    PayloadTooLarge,
    PortTaken,
    ProtocolError,
    RemoteError,
    Scale0Error,
    ServiceNotFound,
    SessionRefused,
    TaskCancelled,
    TaskError,
    TaskRefused,
    Unreachable,
    WorkerLost,
    task_error,
)

CLASSES = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, Exception) and kind.__module__ == errors.__name__
]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (404, ServiceNotFound),
        (408, DeadlineExceeded),
        (429, Overloaded),
        (499, TaskCancelled),
        (502, WorkerLost),
        (503, BrokerUnavailable),
        (504, DeadlineExceeded),
        (400, TaskRefused),
        (401, TaskRefused),
        (403, TaskRefused),
        (413, TaskRefused),
        (501, TaskRefused),
    ],
)
def test_each_code_has_its_exception(code: int, kind: type[TaskError]) -> None:
    error = task_error(code, "why", "greet", "c-1.00.7")
    assert type(error) is kind
    assert (error.code, error.text, error.service, error.task_id) == (code, "why", "greet", "c-1.00.7")
    assert str(error) == f"{code} why"


def test_unknown_service_carries_near_names() -> None:
    error = task_error(404, "no such service", "gret", near=("greet",))
    assert isinstance(error, ServiceNotFound)
    assert error.near == ("greet",)


def test_remote_error_speaks_the_workers_words() -> None:
    error = RemoteError("ZeroDivisionError", "division by zero", "Traceback …", "div", "c-1.00.7")
    assert str(error) == "ZeroDivisionError: division by zero"
    assert error.remote_traceback == "Traceback …"
    assert isinstance(error, TaskError)


def test_unreachable_names_each_endpoint_why_and_what_to_do() -> None:
    error = Unreachable({"tcp://127.0.0.1:5555": "nothing listens on that port"}, 3.0)
    assert str(error).splitlines() == [
        "no broker at tcp://127.0.0.1:5555 after 3 s",
        "  tcp://127.0.0.1:5555: nothing listens on that port",
        "  start one: scale0 broker",
    ]


def test_refused_session_names_broker_and_code() -> None:
    error = SessionRefused("tcp://127.0.0.1:5555", 409, "identity in use")
    assert str(error) == "the broker at tcp://127.0.0.1:5555 refused this session: 409 identity in use"
    assert isinstance(error, Unreachable)


def test_payload_too_large_says_both_sizes() -> None:
    assert str(PayloadTooLarge(2000, 1000)) == "the body has 2,000 bytes; at most 1,000 are allowed"


def test_port_taken_names_the_address() -> None:
    assert str(PortTaken("tcp://*:5555", "in use by 'python' (pid 7)")).startswith("cannot listen on tcp://*:5555: ")


def test_protocol_error_carries_the_code_that_answers_it() -> None:
    error = ProtocolError(400, "too short")
    assert (error.code, error.text, str(error)) == (400, "too short", "400 too short")


def test_every_error_is_in_the_tree_and_in_its_drawing() -> None:
    drawn = set(re.findall(r"[A-Z]\w+(?= )", errors.__doc__ or "")) | {"Scale0Error"}
    assert CLASSES
    for kind in CLASSES:
        assert issubclass(kind, Scale0Error)
        assert kind.__name__ in drawn
        assert kind.__doc__
