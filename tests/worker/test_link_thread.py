"""The link's thread: what it does when the broker goes, comes back, or talks nonsense."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from scale0.errors import SessionRefused
from scale0.protocol.messages import (
    ChangeBroker,
    Config,
    Connect,
    Disconnect,
    Error,
    ForceNegotiate,
    Ready,
    Status,
    TaskReply,
)
from scale0.worker import Worker
from scale0.worker.job import PARTS_UNSENT_MAX
from tests.core.sessions_kit import document, version
from tests.worker.scripted import LIMIT_S, PATIENCE, ScriptedBroker


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as scripted:
        yield scripted


def _negotiate_again(broker: ScriptedBroker) -> Ready:
    """As after a broker's restart: the worker connects anew, and its READY stays unanswered until the test says so."""
    broker.answers_ready = False
    broker.send(ForceNegotiate(reason="restarted"))
    broker.next(Connect)
    return broker.next(Ready)


def test_a_result_that_comes_while_the_broker_is_away_is_sent_later(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint, capacity=2)
    gate, began, ended = threading.Event(), threading.Event(), threading.Event()

    @worker.service("work")
    def work() -> str:
        began.set()
        gate.wait(LIMIT_S)
        return "kept"

    @worker.service("end")
    def end() -> None:
        ended.set()

    with worker.start():
        broker.next(Ready)
        task_id = broker.submit("work")
        assert began.wait(LIMIT_S)
        ready = _negotiate_again(broker)
        assert ready.in_flight == [task_id]
        gate.set()
        broker.submit("end")
        assert ended.wait(LIMIT_S)
        broker.answers_ready = True
        broker.ready_ok_later(ready)
        assert broker.value(task_id) == "kept"


def test_a_stream_goes_on_without_a_gap_after_the_broker_was_away(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint)
    gate = threading.Event()
    made: list[int] = []
    is_full = threading.Event()

    @worker.service("count")
    def count(n: int) -> Iterator[int]:
        for number in range(n):
            if number == 1:
                gate.wait(LIMIT_S)
            made.append(number)
            if len(made) == 1 + PARTS_UNSENT_MAX:
                is_full.set()
            yield number

    with worker.start():
        broker.next(Ready)
        task_id = broker.submit("count", 60)
        replies = [broker.reply(task_id)]
        ready = _negotiate_again(broker)
        gate.set()
        assert is_full.wait(LIMIT_S)  # the handler waits now: nothing leaves
        broker.answers_ready = True
        broker.ready_ok_later(ready)
        # The part that left just before comes again: nobody knows whether it had arrived.
        replies += [broker.reply(task_id) for _ in range(61)]
    assert [reply.part for reply in replies] == [0, *range(61)]
    assert replies[-1].final


def test_what_is_no_message_is_passed_over(broker: ScriptedBroker, caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker(broker.endpoint)
    worker.add_service("echo", _echo)
    with worker.start():
        broker.send_raw([b"\xff\xff"])
        broker.send_raw([b"SC0W01\x08short"])
        assert broker.reply(broker.submit("echo", b"x")).status == Status.OK
    assert "what is not allowed" in caplog.text


def _echo(body: bytes) -> bytes:
    return body


def test_a_refused_session_ends_the_worker_with_the_reason(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint)
    worker.add_service("echo", _echo)
    broker.refusal = Error(code=403, text="this identity may not serve echo", fatal=True)
    with pytest.raises(SessionRefused, match="may not serve echo"):
        worker.start()


def test_a_broker_that_ends_the_session_is_connected_again(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint)
    worker.add_service("echo", _echo)
    with worker.start():
        first = broker.next(Connect)
        broker.send(Disconnect(reason="maintenance"))
        second = broker.next(Connect)
        assert (first.identity, first.nonce) == (second.identity, second.nonce)
        broker.next(Ready)
        assert broker.reply(broker.submit("echo", b"x")).status == Status.OK


def test_a_task_with_no_time_left_is_returned(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint)
    worker.add_service("echo", _echo)
    with worker.start():
        assert broker.reply(broker.submit("echo", b"x", timeout_s=0)).status == Status.RETURNED


def test_an_overloaded_worker_asks_for_less() -> None:
    with ScriptedBroker(interval_ms=20, liveness=PATIENCE) as broker:
        worker = Worker(broker.endpoint, capacity=4, heartbeat_interval=0.02)
        gate = threading.Event()

        @worker.service("work")
        def work() -> None:
            gate.wait(LIMIT_S)

        with worker.start():
            worker._sync_runner.size = 1  # type: ignore[union-attr]
            broker.next(Ready, lambda ready: ready.capacity == 4)
            for _ in range(2):
                broker.submit("work")
            broker.next(Ready, lambda ready: ready.capacity == 2)
            gate.set()
            broker.next(Ready, lambda ready: ready.capacity == 4)


def test_a_pushed_config_changes_nothing_else(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint)
    worker.add_service("echo", _echo)
    with worker.start():
        version = (1).to_bytes(4, "big") * 4
        broker.send(Config(config_type="JSON", config_version=version, config=b"{}", epoch=1))
        reply = broker.next(TaskReply, lambda _: True) if broker.submit("echo", b"x") else None
    assert reply is not None
    assert reply.config_version == version


def test_a_move_to_another_broker_loses_no_reply(broker: ScriptedBroker) -> None:
    worker = Worker(broker.endpoint)
    gate, began = threading.Event(), threading.Event()

    @worker.service("work")
    def work(size: int) -> bytes:
        began.set()
        gate.wait(LIMIT_S)
        return bytes(size)

    with ScriptedBroker() as other, worker.start():
        broker.next(Ready)
        task_id = broker.submit("work", 4_000_000)
        assert began.wait(LIMIT_S)
        broker.send(ChangeBroker(identity="other", endpoints=[other.endpoint], reason="drain"))
        assert broker.next(Ready).capacity == 0
        gate.set()
        assert len(broker.reply(task_id).body[-1]) == 4_000_000
        assert broker.next(Ready).capacity == 0, "its answer shows that the reply has arrived"
        broker.next(Disconnect)
        assert other.next(Ready).capacity == 1
        assert len(other.reply(other.submit("work", 3)).body[-1]) == 3


def test_a_saved_config_leads_to_a_broker_though_the_given_one_is_down(tmp_path: Path) -> None:
    path = tmp_path / "saved.json"
    with ScriptedBroker() as other:
        with ScriptedBroker() as given:
            text = document({"given": given.endpoint, "other": other.endpoint}, preferred="given")
            given.config = Config(config_type="JSON", config_version=version(1), config=text, epoch=1)
            with Worker(given.endpoint, save_config=path).start():
                given.next(Ready)
        worker = Worker(given.endpoint, save_config=path)
        with worker.start():
            assert other.next(Connect).config_version == version(1)


def test_a_remembered_address_that_is_none_does_not_end_a_worker(tmp_path: Path, broker: ScriptedBroker) -> None:
    path = tmp_path / "saved.json"
    text = document({"bad": "nonsense", "good": broker.endpoint}).decode()
    path.write_text(
        msgspec.json.encode(
            {
                "schema": "scale0.saved_config/1",
                "config_version": version(1).hex(),
                "config_type": "JSON",
                "config": text,
            }
        ).decode()
    )
    with ScriptedBroker() as gone:
        endpoint = gone.endpoint
    with Worker(endpoint, save_config=path).start():
        broker.next(Ready)
