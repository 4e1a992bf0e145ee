"""What only the blocking client does: threads that lead and follow, futures, finalizers, forks."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from scale0.client import Client
from scale0.client.record import Record
from scale0.encoding import ENCODED
from scale0.errors import ServiceNotFound, UsageError
from scale0.protocol.messages import Cancel, Disconnect, Ping, Task, TaskReply
from tests.client.scripted import LIMIT_S, ScriptedBroker, hold, scripted


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with scripted() as running:
        yield running


@pytest.fixture
def client(broker: ScriptedBroker) -> Iterator[Client]:
    with Client(broker.endpoint) as connected:
        yield connected


def answer_held(broker: ScriptedBroker, place: int) -> None:
    """Answer the task that is held at `place` with this number."""
    route, task = broker.held[place]
    broker.do(lambda: broker.send(route, TaskReply(task.id, (bytes((place,)),))))


def test_follower_wakes_as_soon_as_the_leader_has_its_outcome(broker: ScriptedBroker, client: Client) -> None:
    results: dict[int, int] = {}
    done = [threading.Event(), threading.Event()]

    def run(place: int) -> None:
        results[place] = client.call("hold", timeout=LIMIT_S)
        done[place].set()

    threads = []
    for place in (0, 1):
        threads.append(threading.Thread(target=run, args=(place,)))
        threads[place].start()
        broker.wait_for(lambda b, count=place + 1: len(b.held) == count)  # type: ignore[misc]
    answer_held(broker, 1)  # the one that follows
    assert done[1].wait(LIMIT_S)
    assert not done[0].is_set()
    answer_held(broker, 0)
    assert done[0].wait(LIMIT_S)
    assert results == {0: 0, 1: 1}


def test_lead_is_handed_over(broker: ScriptedBroker, client: Client) -> None:
    futures = [client.submit("hold", timeout=LIMIT_S) for _ in range(3)]
    broker.wait_for(lambda b: len(b.held) == 3)
    results: list[int] = []
    threads = [threading.Thread(target=lambda f=future: results.append(f.result())) for future in futures]
    for thread in threads:
        thread.start()
    for place in range(3):
        answer_held(broker, place)
        threads[place].join(LIMIT_S)
    assert results == [0, 1, 2]


def test_two_threads_may_wait_for_one_future(broker: ScriptedBroker, client: Client) -> None:
    future = client.submit("hold", timeout=LIMIT_S)
    broker.wait_for(lambda b: bool(b.held))
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(future.result, LIMIT_S) for _ in range(3)]
        answer_held(broker, 0)
        assert [each.result(LIMIT_S) for each in waiting] == [0, 0, 0]


def test_other_threads_send_while_one_waits(broker: ScriptedBroker, client: Client) -> None:
    waiting = threading.Thread(target=client.call, args=("hold",))
    waiting.start()
    broker.wait_for(lambda b: bool(b.held))
    assert [client.call("echo", number) for number in range(20)] == list(range(20))
    answer_held(broker, 0)
    waiting.join(LIMIT_S)


def test_thread_that_takes_its_own_outcome_does_not_sleep(client: Client) -> None:
    """Looking for input before following may bring the very outcome that is waited for."""
    driver = client._driver
    record = Record("echo")
    with driver.state:
        driver._leader = Record("somebody else leads, and sleeps")
        driver.engine.submit(record, (b"\x91\x01",), ENCODED, LIMIT_S, 1)
        assert driver.engine.dealer.socket.poll(int(LIMIT_S * 1000))
    driver.wait(record, LIMIT_S)
    assert record.take() == 1
    with driver.state:
        driver._leader = None


def test_leader_wakes_when_another_thread_takes_its_outcome(broker: ScriptedBroker, client: Client) -> None:
    """Whoever takes input takes the leader's signal with it, and must pass it on."""
    waiting = threading.Thread(target=client.call, args=("hold",))
    waiting.start()
    broker.wait_for(lambda b: bool(b.held))
    driver = client._driver
    waker = driver._caller_sleep.waker
    wake, woken = waker.wake, []
    waker.wake = lambda: (woken.append(True), wake())[1]  # type: ignore[method-assign, func-returns-value]
    with driver.state:  # the leader can take nothing before we have
        answer_held(broker, 0)
        assert driver.engine.dealer.socket.poll(int(LIMIT_S * 1000))
        driver.engine.take_input()
        driver._after_use()
        assert woken
    waiting.join(LIMIT_S)
    assert not waiting.is_alive()


def test_callback_runs_though_nobody_waits(client: Client) -> None:
    called = threading.Event()
    seen: list[object] = []

    def note(future: concurrent.futures.Future[object]) -> None:
        seen.append((future.result(), threading.current_thread() is threading.main_thread()))
        called.set()

    client.submit("echo", 5).add_done_callback(note)
    assert called.wait(LIMIT_S)
    assert seen[0] in ((5, False), (5, True))


def test_callback_may_use_the_client(client: Client) -> None:
    chained: concurrent.futures.Future[object] = concurrent.futures.Future()
    client.submit("echo", 1).add_done_callback(lambda done: chained.set_result(client.call("echo", done.result() + 1)))
    assert client.call("echo", "meanwhile") == "meanwhile"
    assert chained.result(LIMIT_S) == 2


def test_callback_added_late_runs_at_once(client: Client) -> None:
    future = client.submit("echo", 1)
    future.result()
    seen: list[object] = []
    future.add_done_callback(lambda done: seen.append(done.result()))
    assert seen == [1]


def test_futures_work_with_the_standard_library(client: Client) -> None:
    futures = [client.submit("echo", number) for number in range(20)]
    done = {future.result() for future in concurrent.futures.as_completed(futures, LIMIT_S)}
    assert done == set(range(20))
    failed = client.submit("missing")
    assert concurrent.futures.wait([failed], LIMIT_S).done == {failed}
    assert isinstance(failed.exception(), ServiceNotFound)

    async def wrapped() -> object:
        return await asyncio.wait_for(asyncio.wrap_future(client.submit("echo", "async")), LIMIT_S)

    assert asyncio.run(wrapped()) == "async"


def test_cancel_after_the_outcome_is_refused(client: Client, broker: ScriptedBroker) -> None:
    future = client.submit("echo", 1)
    assert future.result() == 1
    assert not future.cancel()
    assert broker.count(Cancel) == 0


def test_interrupted_call_cancels_its_task(broker: ScriptedBroker, client: Client) -> None:
    """Ctrl-C while waiting: the exception comes out, the broker is told, and the client goes on."""
    driver = client._driver
    sleep = driver._caller_sleep
    asleep = sleep.until

    def interrupt(seconds: float) -> list[tuple[int, int]]:
        sleep.until = asleep  # type: ignore[method-assign]
        raise KeyboardInterrupt

    sleep.until = interrupt  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        client.call("hold")
    broker.wait_for(lambda b: b.count(Cancel) == 1)
    assert client.call("echo", 1) == 1


def test_heartbeats_go_on_while_nobody_calls() -> None:
    with scripted() as broker:
        broker.interval_ms = 100
        with Client(broker.endpoint):
            broker.wait_for(lambda b: b.count(Ping) >= 3)


def test_forgotten_client_says_goodbye(broker: ScriptedBroker) -> None:
    client = Client(broker.endpoint)
    assert client.call("echo", 1) == 1
    del client
    gc.collect()
    broker.wait_for(lambda b: b.count(Disconnect) == 1)


def test_future_keeps_its_client_alive(broker: ScriptedBroker) -> None:
    future = Client(broker.endpoint).submit("echo", 1)
    gc.collect()
    assert future.result(LIMIT_S) == 1


def test_waiting_threads_wake_when_the_client_is_closed(broker: ScriptedBroker) -> None:
    client = Client(broker.endpoint)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            client.call("hold", timeout=LIMIT_S)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    broker.wait_for(lambda b: len(b.held) == 3)
    client.close()
    for thread in threads:
        thread.join(LIMIT_S)
    assert len(errors) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_child_gets_a_clear_error(client: Client) -> None:
    assert client.call("echo", 1) == 1
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            client.call("echo", 2)
        except UsageError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with open(reader, "rb") as answer:
        assert b"before the process was forked" in answer.read()
    assert client.call("echo", 3) == 3


def test_process_ends_although_a_client_was_left_open(broker: ScriptedBroker) -> None:
    script = f"from scale0 import Client; print(Client({broker.endpoint!r}).call('echo', 'bye'))"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert (ended.stdout, ended.stderr) == ("bye\n", "")
    broker.wait_for(lambda b: b.count(Disconnect) == 1)


def test_full_pipe_delays_and_loses_nothing() -> None:
    with scripted() as broker:
        client = Client(broker.endpoint)
        client._driver.engine.dealer._hwm = 10
        with client:
            assert list(client.map("echo", range(3000), in_flight=1000)) == list(range(3000))


def test_malformed_messages_are_counted_and_do_no_harm() -> None:
    with scripted(hold) as broker, Client(broker.endpoint) as client:
        future = client.submit("any", timeout=LIMIT_S)
        broker.wait_for(lambda b: bool(b.held))
        route = broker.held[0][0]
        for frames in ([b""], [b"SC0C01"], [b"SC0C01\xff"], [b"SC0W01\x07"], [b"SC0C01\x09short"], [b"x"] * 40):
            broker.do(lambda frames=frames: broker.send_frames(route, frames))  # type: ignore[misc]
        answer_held(broker, 0)
        assert future.result() == 0
        assert client._driver.engine.malformed == 6
        assert broker.count(Task) == 1


def test_client_knows_the_broker_that_has_its_session() -> None:
    with scripted() as broker:
        client = Client(broker.endpoint)
        assert client.broker == ""
        with client:
            assert client.broker == broker.endpoint
