"""Workers that are killed or stopped in mid-task, as real processes."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from scale0.protocol.messages import Error, TaskReply
from scale0.testing import TestBroker, broker
from tests.integration.networks import until
from tests.integration.processes import worker_process
from tests.integration.wire import RawClient


@pytest.fixture
def quick_broker() -> Iterator[TestBroker]:
    with broker(default_heartbeat_interval_s=1.0) as running:
        yield running


def counters(running: TestBroker) -> dict[str, int]:
    found: dict[str, int] = running.manage("list", what="brokers")["rows"][0]["counters"]
    return found


def test_killed_workers_task_goes_to_another_when_the_service_is_idempotent(quick_broker: TestBroker) -> None:
    with (
        RawClient(quick_broker.endpoint) as client,
        worker_process(quick_broker.endpoint, "first", "render", "idempotent", "hold") as first,
    ):
        task_id = client.submit("render", b"scene")
        first.expect("took")
        with worker_process(quick_broker.endpoint, "second", "render", "idempotent", "echo") as second:
            first.send_signal(signal.SIGKILL)
            second.expect("took")
            reply = client.hear_a(TaskReply)
            assert (reply.id, reply.attempt, reply.body) == (task_id, 2, (b"scene", b"second"))


def test_killed_workers_task_ends_in_502_when_it_may_not_be_repeated(quick_broker: TestBroker) -> None:
    with (
        RawClient(quick_broker.endpoint) as client,
        worker_process(quick_broker.endpoint, "first", "pay", "hold") as first,
    ):
        task_id = client.submit("pay", b"once")
        first.expect("took")
        with worker_process(quick_broker.endpoint, "second", "pay", "echo"):
            first.send_signal(signal.SIGKILL)
            error = client.hear_a(Error)
            assert (error.id, error.code) == (task_id, 502)


def test_stopped_worker_is_replaced_and_its_late_reply_is_discarded(quick_broker: TestBroker) -> None:
    with (
        RawClient(quick_broker.endpoint) as client,
        worker_process(quick_broker.endpoint, "first", "render", "idempotent", "hold") as first,
    ):
        task_id = client.submit("render", b"scene")
        first.expect("took")
        first.send_signal(signal.SIGSTOP)
        with worker_process(quick_broker.endpoint, "second", "render", "idempotent", "echo"):
            reply = client.hear_a(TaskReply)
            assert (reply.id, reply.attempt, reply.body) == (task_id, 2, (b"scene", b"second"))
        first.send_signal(signal.SIGCONT)
        first.expect("negotiate")
        first.expect("ready")
        first.release()
        first.expect("replied")
        until(lambda: counters(quick_broker).get("late_replies"), "the late reply comes")
        # The broker answers in order: a reply that it had passed on would come before this one.
        listing_id = client.submit("scale0.brokers", b"")
        assert client.hear_a(TaskReply).id == listing_id
        assert counters(quick_broker)["late_replies"] == 1
