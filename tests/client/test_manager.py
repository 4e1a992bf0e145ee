"""One management request against a ROUTER that answers as the test says."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import pytest
import zmq

from scale0.client.manager import manage
from scale0.errors import SessionRefused, TaskRefused, Unreachable
from scale0.protocol import codec
from scale0.protocol.dialects import CLIENT
from scale0.protocol.messages import (
    ConfigAck,
    Connect,
    Error,
    ForceNegotiate,
    ManagementRep,
    ManagementReq,
    Message,
    Pong,
)

LIMIT_S = 60.0
Answer = Callable[[object], list[Message]]


@contextlib.contextmanager
def broker(answer: Answer) -> Iterator[tuple[str, list[object]]]:
    """The address of a ROUTER in a thread, and what it hears."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.linger = 0
    router.bind("tcp://127.0.0.1:*")
    address = bytes(router.getsockopt(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode()
    heard: list[object] = []
    is_over = threading.Event()

    def serve() -> None:
        while not is_over.is_set():
            if not router.poll(20):
                continue
            route, *frames = router.recv_multipart()
            message = codec.decode(frames)[1]
            heard.append(message)
            for reply in answer(message):
                router.send_multipart([route, *codec.encode(CLIENT, reply)])

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield address, heard
    finally:
        is_over.set()
        thread.join(LIMIT_S)
        router.close()
        context.term()


def ask(address: str, timeout_s: float = LIMIT_S) -> object:
    return manage(address, "list", {"what": "workers"}, auth_id="ops", auth_password="secret", timeout_s=timeout_s)


def result_of(message: object) -> list[Message]:
    assert isinstance(message, ManagementReq)
    return [Pong(time_us=0, echo_us=0), ManagementRep(seq=message.seq + 1), ManagementRep(seq=message.seq, result=[1])]


def test_a_result_comes_back_by_its_sequence_number() -> None:
    with broker(result_of) as (address, heard):
        assert ask(address) == [1]
        [request] = heard
        assert isinstance(request, ManagementReq)
        assert (request.auth_id, request.command, request.arguments) == ("ops", "list", {"what": "workers"})


def test_a_broker_that_wants_to_know_who_speaks_is_told() -> None:
    known: list[Connect] = []

    def answer(message: object) -> list[Message]:
        if isinstance(message, Connect):
            known.append(message)
            return [ConfigAck(config_version=bytes(16))]
        return result_of(message) if known else [ForceNegotiate(reason="who are you?")]

    with broker(answer) as (address, heard):
        assert ask(address) == [1]
        assert [type(message) for message in heard] == [ManagementReq, Connect, ManagementReq]


@pytest.mark.parametrize(("code", "error"), [(401, SessionRefused), (403, SessionRefused), (501, TaskRefused)])
def test_a_refusal_is_raised_with_its_code(code: int, error: type[Exception]) -> None:
    def answer(message: object) -> list[Message]:
        assert isinstance(message, ManagementReq)
        return [Error(code=code, text="no", seq=message.seq)]

    with broker(answer) as (address, _heard), pytest.raises(error) as caught:
        ask(address)
    assert caught.value.code == code  # type: ignore[attr-defined]


def test_silence_ends_with_what_was_waited_for() -> None:
    with broker(lambda _message: []) as (address, _heard), pytest.raises(Unreachable, match="does not answer"):
        ask(address, timeout_s=0.2)


def test_a_port_without_a_listener_is_named() -> None:
    with pytest.raises(Unreachable, match="nothing listens"):
        ask("tcp://127.0.0.1:9", timeout_s=1.0)
