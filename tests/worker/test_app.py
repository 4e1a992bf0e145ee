"""`Worker` against a scripted broker: what goes over the wire, and when."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from scale0.errors import Unreachable, UsageError
from scale0.protocol.messages import Connect, Disconnect, Ping, Ready, Status, TaskReply
from scale0.worker import Worker, current_task
from tests.worker.scripted import LIMIT_S, PATIENCE, ScriptedBroker


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as scripted:
        yield scripted


# --- calls --------------------------------------------------------------------------------------------------------


def test_a_sync_handler_answers_with_measured_times(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint)

    @worker.service("greet")
    def greet(name: str) -> str:
        return f"hello {name}"

    with worker.start():
        reply = broker.reply(broker.submit("greet", "Ada"))
    assert (reply.status, reply.final, reply.part) == (Status.OK, True, 0)
    assert reply.body == (b"\xa9hello Ada",)
    assert reply.wait_us >= 0
    assert reply.work_us >= 0


def test_an_async_handler_answers(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint)

    @worker.service("greet")
    async def greet(name: str, *, loud: bool = False) -> str:
        await asyncio.sleep(0)
        return f"hello {name}".upper() if loud else f"hello {name}"

    with worker.start():
        assert broker.value(broker.submit("greet", "Ada")) == "hello Ada"
        assert broker.value(broker.submit("greet", "Ada", loud=True)) == "HELLO ADA"


def test_a_service_without_parentheses_has_its_function_s_name() -> None:
    worker = Worker("tcp://127.0.0.1:1")

    @worker.service
    def greet(name: str) -> str:
        return f"hello {name}"

    assert worker.services == ["greet"]
    assert greet("Ada") == "hello Ada"


def test_a_service_s_name_is_text() -> None:
    with pytest.raises(UsageError, match="is text, not 5"):
        Worker("tcp://127.0.0.1:1").add_service(5, len)  # type: ignore[arg-type]


def test_bytes_pass_untouched(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint)
    worker.add_service("echo", _echo)
    with worker.start():
        assert broker.reply(broker.submit("echo", b"\x00\xff")).body == (b"", b"\x00\xff")


def _echo(body: bytes) -> bytes:
    return body


def test_the_log_says_who_it_is_and_what_it_serves(broker: ScriptedBroker, caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker(broker.endpoint, identity="w-1")
    for number in range(7):
        worker.add_service(f"s{number}", _echo)
    with caplog.at_level("INFO", "scale0.worker"), worker.start():
        pass
    told = f"connected to the broker at {broker.endpoint}; w-1 serves s0, s1, s2, s3, s4 and 2 more"
    assert told in [record.getMessage() for record in caplog.records]


def _boom() -> None:
    raise ValueError("no")


def test_a_service_that_fails_again_and_again_is_logged_once(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(broker.endpoint)
    worker.add_service("boom", _boom)
    with caplog.at_level("INFO", "scale0.worker"), worker.start():
        for _ in range(3):
            assert broker.failure(broker.submit("boom")).text == "no"
    told = [record.getMessage() for record in caplog.records if "failed" in record.getMessage()]
    assert len(told) == 1
    assert "boom failed" in told[0]


def test_what_a_handler_raises_is_told_with_its_traceback(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint)

    @worker.service("fail")
    def fail() -> None:
        raise KeyError("nothing there")

    with worker.start():
        error = broker.failure(broker.submit("fail"))
    assert (error.remote_type, error.text) == ("KeyError", "'nothing there'")
    assert "in fail" in error.remote_traceback
    assert "scale0" not in error.remote_traceback.replace(__file__, "")


@pytest.mark.parametrize("is_async", [False, True])
def test_a_wrong_argument_is_named(broker: ScriptedBroker, is_async: bool) -> None:
    worker = Worker(broker.endpoint)
    worker.add_service("add", _add_async if is_async else _add)
    with worker.start():
        error = broker.failure(broker.submit("add", 1, "two"))
    assert error.remote_type == "EncodingError"
    assert error.text == "parameter 'b' of add: Expected `int`, got `str`"


def _add(a: int, b: int) -> int:
    return a + b


async def _add_async(a: int, b: int) -> int:
    return a + b


def test_a_result_that_cannot_be_encoded_fails(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint)

    @worker.service("odd")
    def odd():  # type: ignore[no-untyped-def]
        return object()

    with worker.start():
        assert broker.failure(broker.submit("odd")).remote_type == "EncodingError"


def test_system_exit_in_a_handler_fails_its_task_alone(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint)

    @worker.service("quit")
    def leave() -> None:
        raise SystemExit(3)

    worker.add_service("echo", _echo)
    with worker.start():
        assert broker.failure(broker.submit("quit")).remote_type == "SystemExit"
        assert broker.reply(broker.submit("echo", b"still there")).status == Status.OK


# --- streams ------------------------------------------------------------------------------------------------------


def _count(n: int) -> Iterator[int]:
    yield from range(n)


async def _count_async(n: int) -> AsyncIterator[int]:
    for number in range(n):
        yield number


@pytest.mark.parametrize("function", [_count, _count_async])
def test_generators_stream_numbered_parts_and_an_empty_final(broker: ScriptedBroker, function: object) -> None:
    worker = Worker(broker.endpoint)
    worker.add_service("count", function)  # type: ignore[arg-type]
    with worker.start():
        task_id = broker.submit("count", 100)  # more than may be unsent: the handler waits in between
        replies = [broker.reply(task_id) for _ in range(101)]
    assert [reply.part for reply in replies] == list(range(101))
    assert [reply.final for reply in replies] == [False] * 100 + [True]
    assert [reply.body[0][0] for reply in replies[:3]] == [0, 1, 2]
    assert replies[-1].body == ()


def test_a_generator_that_raises_ends_in_a_failure(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint)

    @worker.service("half")
    def half() -> Iterator[int]:
        yield 1
        raise ValueError("no more")

    with worker.start():
        task_id = broker.submit("half")
        assert not broker.reply(task_id).final
        last = broker.reply(task_id)
    assert (last.final, last.status, last.part) == (True, Status.FAILED, 1)


# --- cancellation -------------------------------------------------------------------------------------------------


def test_cancellation_reaches_a_sync_handler(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint)
    began = threading.Event()

    @worker.service("wait")
    def wait() -> str:
        began.set()
        return "cancelled" if current_task().cancelled.wait(LIMIT_S) else "forgotten"

    with worker.start():
        task_id = broker.submit("wait")
        assert began.wait(LIMIT_S)
        broker.cancel(task_id)
        assert broker.value(task_id) == "cancelled"


def test_cancellation_raises_in_an_async_handler(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint)
    began, met = threading.Event(), threading.Event()

    @worker.service("wait")
    async def wait() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            met.set()
            raise

    with worker.start():
        task_id = broker.submit("wait")
        assert began.wait(LIMIT_S)
        broker.cancel(task_id)
        assert broker.failure(task_id).remote_type == "TaskCancelled"
        assert met.is_set()
        assert broker.submit("wait")  # the loop goes on
        worker.stop_now()


def test_cancellation_closes_a_generator(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint)
    is_closed = threading.Event()

    @worker.service("forever")
    def forever() -> Iterator[int]:
        number = 0
        try:
            while True:
                yield number
                number += 1
        finally:
            is_closed.set()

    with worker.start():
        task_id = broker.submit("forever")
        broker.reply(task_id)
        broker.cancel(task_id)
        assert is_closed.wait(LIMIT_S)
        last = broker.next(TaskReply, lambda reply: reply.final)
    assert last.status == Status.FAILED


def test_a_task_that_has_not_begun_is_cancelled_without_running(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint, capacity=2)
    gate, ran = threading.Event(), []

    @worker.service("work")
    def work(number: int) -> int:
        ran.append(number)
        gate.wait(LIMIT_S)
        return number

    with worker.start():
        worker._sync_runner.size = 1  # type: ignore[union-attr]  # so that the second one waits in the worker
        first = broker.submit("work", 1)
        second = broker.submit("work", 2)
        broker.cancel(second)
        assert broker.failure(second).remote_type == "TaskCancelled"
        gate.set()
        assert broker.value(first) == 1
    assert ran == [1]


# --- current_task -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
def test_a_handler_knows_its_task(broker: ScriptedBroker, is_async: bool) -> None:
    worker = Worker(broker.endpoint)

    def look() -> list[object]:
        task = current_task()
        return [task.id, task.service, task.attempt, 0 < task.deadline_s <= 20, bool(task.cancelled)]

    async def look_async() -> list[object]:
        return look()

    worker.add_service("look", look_async if is_async else look)
    with worker.start():
        seen = broker.value(broker.submit("look", timeout_s=20, attempt=2))
    assert seen == ["test.3132333435363738.1", "look", 2, True, False]


def test_outside_of_a_handler_there_is_no_task() -> None:
    with pytest.raises(UsageError, match="inside a service's handler"):
        current_task()


# --- life ---------------------------------------------------------------------------------------------------------


def test_ready_says_what_is_offered(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint, capacity=7, identity="w-1")
    worker.add_service("echo", _echo, idempotent=True, max_attempts=5)
    with worker.start():
        connect, ready = broker.next(Connect), broker.next(Ready)
    assert (connect.identity, connect.services) == ("w-1", ["echo"])
    assert ready.capacity == 7
    assert [(offer.name, offer.idempotent, offer.max_attempts) for offer in ready.services] == [("echo", True, 5)]


def test_services_and_capacity_change_at_run_time(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint)
    worker.add_service("echo", _echo)
    with worker.start():
        worker.add_service("count", _count)
        broker.next(Ready, lambda ready: [offer.name for offer in ready.services] == ["echo", "count"])
        assert broker.reply(broker.submit("count", 1)).part == 0
        worker.remove_service("echo")
        broker.next(Ready, lambda ready: [offer.name for offer in ready.services] == ["count"])
        worker.set_capacity(9)
        assert broker.next(Ready).capacity == 9
        assert broker.reply(broker.submit("echo", b"")).status == Status.RETURNED


def test_a_handler_that_blocks_the_loop_does_not_stop_the_heartbeat() -> None:
    with ScriptedBroker(interval_ms=50, liveness=PATIENCE) as broker:
        worker = Worker(broker.endpoint)
        gate, began = threading.Event(), threading.Event()

        @worker.service("block")
        async def block() -> str:
            began.set()
            gate.wait(LIMIT_S)  # a mistake that people make
            return "done"

        with worker.start():
            task_id = broker.submit("block")
            assert began.wait(LIMIT_S)
            for _ in range(5):
                broker.next(Ping)
            gate.set()
            assert broker.value(task_id) == "done"


def test_a_usually_quick_handler_that_blocks_does_not_stop_the_heartbeat() -> None:
    with ScriptedBroker(interval_ms=50, liveness=PATIENCE) as broker:
        worker = Worker(broker.endpoint, capacity=4)
        gate, began = threading.Event(), threading.Event()

        @worker.service("work")
        def work(is_blocking: bool) -> str:
            if is_blocking:
                began.set()
                gate.wait(LIMIT_S)
            return "done"

        with worker.start():
            for _ in range(3):
                for _ in range(20):
                    assert broker.value(broker.submit("work", False)) == "done"
                blocked = [broker.submit("work", True) for _ in range(2)]
                assert began.wait(LIMIT_S)
                for _ in range(3):
                    broker.next(Ping)
                assert broker.value(broker.submit("work", False)) == "done"
                gate.set()
                assert [broker.value(each) for each in blocked] == ["done", "done"]
                gate.clear()
                began.clear()


def test_leaving_finishes_what_has_begun_and_returns_the_rest() -> None:
    with ScriptedBroker() as broker:
        worker = Worker(broker.endpoint, capacity=3)
        gate, began = threading.Event(), threading.Event()

        @worker.service("work")
        def work() -> str:
            began.set()
            gate.wait(LIMIT_S)
            return "finished"

        worker.add_service("add", _add_async)
        worker.start()
        worker._sync_runner.size = 1  # type: ignore[union-attr]
        first, second = broker.submit("work"), broker.submit("work")
        assert broker.value(broker.submit("add", 1, 2)) == 3  # so the two before it have come, too
        assert began.wait(LIMIT_S)
        worker.leave()
        assert broker.next(Ready, lambda ready: ready.capacity == 0).in_flight == [first, second]
        assert broker.reply(second).status == Status.RETURNED
        gate.set()
        assert broker.value(first) == "finished"
        broker.next(Disconnect)
        worker.stop()


def test_a_leaving_worker_makes_sure_that_its_replies_have_arrived(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint)
    worker.add_service("echo", _echo)
    with worker.start():
        broker.next(Ready)
    broker.next(Disconnect)
    assert [type(message) for message in broker.received[-3:]] == [Ready, Ping, Disconnect]


def test_a_drain_has_a_limit(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint, drain_timeout=0.05)
    gate, began = threading.Event(), threading.Event()

    @worker.service("work")
    def work() -> None:
        began.set()
        gate.wait(LIMIT_S)

    async def main() -> int:
        serving = asyncio.create_task(worker.serve())
        await asyncio.to_thread(broker.next, Ready)
        broker.submit("work")
        await asyncio.to_thread(began.wait, LIMIT_S)
        worker.leave()
        return await serving

    assert asyncio.run(main()) == 1
    gate.set()


def test_serve_shares_the_loop_and_leaves_when_cancelled(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint)
    loops = []

    @worker.service("look")
    async def look() -> None:
        loops.append(asyncio.get_running_loop())

    async def main() -> None:
        serving = asyncio.create_task(worker.serve())
        await asyncio.to_thread(broker.next, Ready)
        await asyncio.to_thread(broker.value, broker.submit("look"))
        assert loops == [asyncio.get_running_loop()]
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving

    asyncio.run(main())
    broker.next(Disconnect)


def test_a_worker_can_be_started_again(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint)
    worker.add_service("echo", _echo)
    nonces = []
    for _ in range(2):
        with worker.start():
            nonces.append(broker.next(Connect).nonce)
            assert broker.reply(broker.submit("echo", b"x")).status == Status.OK
        broker.next(Disconnect)
    assert nonces[0] != nonces[1]


def test_no_broker_is_said_so_at_the_start() -> None:
    worker = Worker("tcp://127.0.0.1:9", connect_timeout=0.05)  # the discard port: nobody listens there
    worker.add_service("echo", _echo)
    with pytest.raises(Unreachable, match="no broker at"):
        worker.start()
    with pytest.raises(Unreachable):
        worker.run()


def test_a_made_identity_names_the_process(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint)
    worker.add_service("echo", _echo)
    with worker.start():
        assert f"-{os.getpid()}-" in broker.next(Connect).identity


# --- mistakes -----------------------------------------------------------------------------------------------------


def test_mistakes_in_setting_up_are_named() -> None:
    worker = Worker()
    worker.add_service("echo", _echo)
    with pytest.raises(UsageError, match="has a service 'echo' already"):
        worker.add_service("echo", _echo)
    with pytest.raises(UsageError, match="belong to the broker"):
        worker.add_service("scale0.echo", _echo)
    with pytest.raises(UsageError, match="has no service 'other'"):
        worker.remove_service("other")
    with pytest.raises(UsageError, match="no service: put"):
        Worker().run()
    with pytest.raises(UsageError, match="capacity is a whole number from 1"):
        Worker(capacity=0)
    with pytest.raises(UsageError, match="not an address"):
        Worker("localhost")
