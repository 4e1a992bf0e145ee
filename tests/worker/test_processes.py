"""Handlers in processes: the same promises, and a child's death costs one task."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scale0.errors import UsageError
from scale0.protocol.messages import Disconnect, Status
from scale0.worker import Worker
from scale0.worker.handlers import Handler
from scale0.worker.processes import locate
from tests.worker import process_handlers
from tests.worker.scripted import LIMIT_S, ScriptedBroker


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as scripted:
        yield scripted


def test_handlers_run_in_other_processes_and_answer_as_always(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint, processes=True, capacity=2)
    worker.add_service("pid", process_handlers.pid_of)
    worker.add_service("greet", process_handlers.greet)
    worker.add_service("fail", process_handlers.fail)
    worker.add_service("count", process_handlers.count)
    with worker.start():
        pid = broker.value(broker.submit("pid", 0))
        assert pid != os.getpid()
        assert broker.value(broker.submit("greet", "Ada", attempt=2)) == "hello Ada from attempt 2 of greet"
        error = broker.failure(broker.submit("fail"))
        assert (error.remote_type, error.text) == ("LookupError", "not in this process")
        assert "in fail" in error.remote_traceback
        assert broker.failure(broker.submit("greet", 3)).remote_type == "EncodingError"
        task_id = broker.submit("count", 50)
        assert [broker.reply(task_id).part for _ in range(51)] == list(range(51))
    broker.next(Disconnect)
    _wait_until_gone(pid)


def test_a_child_that_dies_costs_one_task(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint, processes=True)
    worker.add_service("die", process_handlers.die)
    worker.add_service("exit", process_handlers.exit_code)
    worker.add_service("greet", process_handlers.greet)
    with worker.start():
        error = broker.failure(broker.submit("die"))
        assert error.remote_type == "ProcessLost"
        assert error.text == "the handler's process was ended by SIGKILL"
        assert broker.failure(broker.submit("exit", 7)).text == "the handler's process ended with exit code 7"
        assert broker.reply(broker.submit("greet", "Ada")).status == Status.OK


def test_cancelling_ends_the_process(broker: ScriptedBroker, tmp_path: Path) -> None:
    worker = Worker(broker.endpoint, processes=True)
    worker.add_service("wait", process_handlers.announce_and_wait)
    worker.add_service("greet", process_handlers.greet)
    place = tmp_path / "pid"
    with worker.start():
        task_id = broker.submit("wait", str(place))
        pid = _read_pid(place)
        broker.cancel(task_id)
        assert broker.failure(task_id).remote_type == "TaskCancelled"
        _wait_until_gone(pid)
        assert broker.reply(broker.submit("greet", "Ada")).status == Status.OK


def test_async_handlers_stay_in_the_loop(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint, processes=True)

    @worker.service("pid")
    async def pid() -> int:
        return os.getpid()

    with worker.start():
        assert broker.value(broker.submit("pid")) == os.getpid()


def test_a_handler_that_no_child_could_import_is_refused() -> None:
    worker = Worker(processes=True)
    with pytest.raises(UsageError, match="at the top of a module"):
        worker.add_service("local", lambda: None)


def test_a_handler_is_found_by_module_and_name() -> None:
    assert locate(Handler("greet", process_handlers.greet)) == ("tests.worker.process_handlers", "greet")


def _read_pid(place: Path) -> int:
    limit_s = time.monotonic() + LIMIT_S
    while not (place.exists() and place.read_text()):
        assert time.monotonic() < limit_s, "the handler did not begin"
        threading.Event().wait(0.01)
    return int(place.read_text())


def _wait_until_gone(pid: int) -> None:
    limit_s = time.monotonic() + LIMIT_S
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < limit_s, f"process {pid} is still there"
        threading.Event().wait(0.01)
