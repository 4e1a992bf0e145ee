"""Finding a broker, losing it, and coming back: nothing hangs, and nothing is lost without a word."""

from __future__ import annotations

import re
import socket
import threading

import pytest

from scale0.errors import BrokerUnavailable, SessionRefused, Unreachable, UsageError
from scale0.protocol.messages import Connect, Error, Flag, Task
from tests.client.scripted import LIMIT_S, ScriptedBroker, echo, scripted
from tests.contract.conftest import Connect as Make
from tests.contract.subjects import Subject

REFUSED_S = 1.0  # within this even a busy machine is told that nothing listens on a port of its own


def free_endpoint() -> str:
    """An address of this machine on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


def test_no_broker_says_where_why_and_what_to_do(make: Make) -> None:
    endpoint = free_endpoint()
    client = make(endpoint, connect_timeout=REFUSED_S)
    with pytest.raises(Unreachable) as caught:
        client.connect()
    first, *others = str(caught.value).splitlines()
    assert re.fullmatch(rf"no broker at {endpoint} after \d+(\.\d+)? s", first), first
    assert others == [f"  {endpoint}: nothing listens on that port", "  start one: scale0 broker"]


def test_start_that_is_tried_for_ever_ends_for_who_waits_and_says_why(make: Make) -> None:
    endpoint = free_endpoint()
    client = make(endpoint, connect_timeout=0.1, retry_forever=True)
    with pytest.raises(Unreachable) as caught:
        client.connect()
    assert caught.value.tried == {endpoint: "nothing listens on that port"}


def test_call_without_connecting_first_says_the_same(make: Make) -> None:
    with pytest.raises(Unreachable, match="nothing listens on that port"):
        make(free_endpoint(), connect_timeout=REFUSED_S).call("echo", 1)


def test_deadline_before_the_connection_names_the_broker(make: Make) -> None:
    endpoint = free_endpoint()
    with pytest.raises(BrokerUnavailable, match=f"{endpoint}: nothing listens on that port"):
        make(endpoint, retry_forever=True).call("echo", 1, timeout=REFUSED_S)


def test_client_that_failed_works_as_soon_as_there_is_a_broker(make: Make) -> None:
    endpoint = free_endpoint()
    client = make(endpoint, connect_timeout=0.2)
    with pytest.raises(Unreachable):
        client.call("echo", 1)
    with scripted(endpoint=endpoint):
        assert client.call("echo", 2) == 2


def test_broker_that_comes_up_meanwhile_is_taken(make: Make) -> None:
    endpoint = free_endpoint()
    handle = make(endpoint, connect_timeout=LIMIT_S).submit("echo", 3)
    with scripted(endpoint=endpoint):
        assert handle.result(LIMIT_S) == 3


def test_next_address_is_asked_when_the_first_is_dead(make: Make, broker: ScriptedBroker) -> None:
    client = make(free_endpoint(), broker.endpoint)
    assert client.call("echo", 4) == 4


def test_refused_session_says_so(make: Make, broker: ScriptedBroker) -> None:
    broker.refusal = Error(code=401, text="who are you?", fatal=True)
    with pytest.raises(SessionRefused, match="401 who are you"):
        make(broker.endpoint).connect()


def test_broker_that_forgot_us_gets_connect_and_the_task_again(client: Subject, broker: ScriptedBroker) -> None:
    assert client.call("echo", 1) == 1
    broker.knows_nobody = True
    assert client.call("echo", 2) == 2
    assert broker.count(Connect) == 2


def test_open_tasks_survive_a_restart_flagged_as_resent(make: Make) -> None:
    with scripted() as first:
        client = make(first.endpoint)
        handle = client.submit("hold", "kept")
        first.wait_for(lambda b: bool(b.held))
    with scripted(echo, first.endpoint) as second:
        assert handle.result(LIMIT_S) == "kept"
        resent = next(message for message in second.heard if isinstance(message, Task))
    assert resent.id == first.held[0][1].id
    assert resent.flags & Flag.RESENT


def test_calls_from_many_threads_each_get_their_own(make: Make, broker: ScriptedBroker) -> None:
    client = make(broker.endpoint)
    wrong: list[object] = []

    def run(number: int) -> None:
        for turn in range(30):
            result = client.call("echo", [number, turn])
            if result != [number, turn]:
                wrong.append(result)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert not any(thread.is_alive() for thread in threads)
    assert not wrong


@pytest.mark.parametrize("address", ["", "localhost", "tcp://127.0.0.1", "http://127.0.0.1:80", 5555])
def test_mistyped_address_is_refused_at_once(make: Make, address: str) -> None:
    with pytest.raises(UsageError, match="is not an address such as"):
        make(address)
