"""Unchanged Majordomo clients and workers, as RFC 7, 8 and 18 describe them, frame by frame and with nobody's codec."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import zmq

from scale0.testing import TestBroker, broker
from tests.integration.wire import LIMIT_S, RawClient, RawWorker, Wire


@pytest.fixture
def any_broker() -> Iterator[TestBroker]:
    with broker(default_heartbeat_interval_s=1.0) as running:
        yield running


class Worker01(Wire):
    """Majordomo 0.1: an empty frame ahead."""

    def __init__(self, endpoint: str, service: bytes) -> None:
        super().__init__(endpoint)
        self.put(b"", b"MDPW01", b"\x01", service)

    def take(self) -> tuple[bytes, list[bytes]]:
        while True:
            frames = self.get()
            assert frames[:2] == [b"", b"MDPW01"], frames
            if frames[2] == b"\x02":
                assert frames[4] == b"", frames
                return frames[3], frames[5:]
            assert frames[2:] == [b"\x04"], frames

    def reply(self, address: bytes, *body: bytes) -> None:
        self.put(b"", b"MDPW01", b"\x03", address, b"", *body)

    def beat(self) -> None:
        self.put(b"", b"MDPW01", b"\x04")


class Worker02(Wire):
    """Majordomo 0.2: no envelope, PARTIAL and FINAL."""

    def __init__(self, endpoint: str, service: bytes) -> None:
        super().__init__(endpoint)
        self.put(b"MDPW02", b"\x01", service)

    def take(self) -> tuple[bytes, list[bytes]]:
        while True:
            frames = self.get()
            assert frames[0] == b"MDPW02", frames
            if frames[1] == b"\x02":
                assert frames[3] == b"", frames
                return frames[2], frames[4:]
            assert frames[1:] == [b"\x05"], frames

    def partial(self, address: bytes, *body: bytes) -> None:
        self.put(b"MDPW02", b"\x03", address, b"", *body)

    def final(self, address: bytes, *body: bytes) -> None:
        self.put(b"MDPW02", b"\x04", address, b"", *body)

    def beat(self) -> None:
        self.put(b"MDPW02", b"\x05")


def test_client_with_req_socket_is_served_by_01_worker(any_broker: TestBroker) -> None:
    with Wire(any_broker.endpoint, kind=zmq.REQ) as client, Worker01(any_broker.endpoint, b"echo") as worker:
        for number in (b"1", b"2", b"3"):
            client.put(b"MDPC01", b"echo", b"hello", number)
            address, body = worker.take()
            assert body == [b"hello", number]
            worker.reply(address, *body, b"there")
            assert client.get() == [b"MDPC01", b"echo", b"hello", number, b"there"]


def test_client_with_dealer_socket_gets_replies_of_01_worker_in_turn(any_broker: TestBroker) -> None:
    with Wire(any_broker.endpoint) as client, Worker01(any_broker.endpoint, b"echo") as worker:
        client.put(b"", b"MDPC01", b"echo", b"1")
        client.put(b"", b"MDPC01", b"echo", b"2")
        for number in (b"1", b"2"):
            address, body = worker.take()
            assert body == [number]
            worker.reply(address, number)
            assert client.get() == [b"", b"MDPC01", b"echo", number]


def test_02_client_gets_partials_and_then_final(any_broker: TestBroker) -> None:
    with Wire(any_broker.endpoint) as client, Worker02(any_broker.endpoint, b"count") as worker:
        client.put(b"MDPC02", b"\x01", b"count", b"2")
        address, body = worker.take()
        assert body == [b"2"]
        worker.partial(address, b"one")
        worker.partial(address, b"two")
        worker.final(address, b"end")
        assert client.get() == [b"MDPC02", b"\x02", b"count", b"one"]
        assert client.get() == [b"MDPC02", b"\x02", b"count", b"two"]
        assert client.get() == [b"MDPC02", b"\x03", b"count", b"end"]


def test_01_client_gets_partials_of_02_worker_joined(any_broker: TestBroker) -> None:
    with Wire(any_broker.endpoint, kind=zmq.REQ) as client, Worker02(any_broker.endpoint, b"count") as worker:
        client.put(b"MDPC01", b"count", b"2")
        address, _ = worker.take()
        worker.partial(address, b"one")
        worker.final(address, b"end")
        assert client.get() == [b"MDPC01", b"count", b"one", b"end"]


def test_request_waits_for_a_worker_that_comes_later(any_broker: TestBroker) -> None:
    with Wire(any_broker.endpoint, kind=zmq.REQ) as client:
        client.put(b"MDPC01", b"later", b"x")
        with Worker01(any_broker.endpoint, b"later") as worker:
            address, body = worker.take()
            worker.reply(address, *body)
            assert client.get() == [b"MDPC01", b"later", b"x"]


def test_mmi_tells_which_services_have_workers(any_broker: TestBroker) -> None:
    with Wire(any_broker.endpoint, kind=zmq.REQ) as client, Worker01(any_broker.endpoint, b"echo") as worker:
        client.put(b"MDPC01", b"echo", b"is it there?")
        address, _ = worker.take()
        worker.reply(address, b"yes")
        client.get()
        for asked, code in ((b"echo", b"200"), (b"nobody", b"404")):
            client.put(b"MDPC01", b"mmi.service", asked)
            assert client.get() == [b"MDPC01", b"mmi.service", code]
        client.put(b"MDPC01", b"mmi.unheard-of", b"x")
        assert client.get() == [b"MDPC01", b"mmi.unheard-of", b"501"]
    with Wire(any_broker.endpoint) as client:
        client.put(b"MDPC02", b"\x01", b"mmi.service", b"nobody")
        assert client.get() == [b"MDPC02", b"\x03", b"mmi.service", b"404"]


@pytest.mark.parametrize("service", [b"mmi.service", b"mmi.mine", b"scale0.services"])
def test_worker_that_registers_a_reserved_name_is_disconnected(any_broker: TestBroker, service: bytes) -> None:
    with Worker01(any_broker.endpoint, service) as worker:
        assert Wire.get(worker) == [b"", b"MDPW01", b"\x05"]
    with Worker02(any_broker.endpoint, service) as worker:
        assert Wire.get(worker) == [b"MDPW02", b"\x06"]


def test_second_ready_is_answered_by_disconnect(any_broker: TestBroker) -> None:
    with Worker01(any_broker.endpoint, b"echo") as worker:
        worker.put(b"", b"MDPW01", b"\x01", b"echo")
        assert worker.get() == [b"", b"MDPW01", b"\x05"]


def test_worker_that_the_broker_does_not_know_is_told_to_register_again(any_broker: TestBroker) -> None:
    with Wire(any_broker.endpoint) as worker:
        worker.put(b"", b"MDPW01", b"\x04")
        assert worker.get() == [b"", b"MDPW01", b"\x05"]


def test_heartbeats_come_from_the_broker_too(any_broker: TestBroker) -> None:
    with Worker01(any_broker.endpoint, b"echo") as first, Worker02(any_broker.endpoint, b"echo") as second:
        assert first.get(LIMIT_S) == [b"", b"MDPW01", b"\x04"]
        assert second.get(LIMIT_S) == [b"MDPW02", b"\x05"]


def test_majordomo_and_native_participants_serve_one_another(any_broker: TestBroker) -> None:
    with (
        Wire(any_broker.endpoint, kind=zmq.REQ) as old_client,
        RawClient(any_broker.endpoint) as new_client,
        Worker01(any_broker.endpoint, b"old") as old_worker,
        RawWorker(any_broker.endpoint, "new", "new") as new_worker,
    ):
        old_client.put(b"MDPC01", b"new", b"from", b"old")
        task = new_worker.take()
        assert task.body == (b"from", b"old")
        new_worker.reply(task, b"from new")
        assert old_client.get() == [b"MDPC01", b"new", b"from new"]
        task_id = new_client.submit("old", b"from new")
        address, body = old_worker.take()
        assert body == [b"from new"]
        old_worker.reply(address, b"from", b"old")
        reply = new_client.hear()
        assert (reply.id, reply.body, reply.wait_us, reply.work_us) == (task_id, (b"from", b"old"), -1, -1)


def test_native_and_majordomo_workers_of_one_service_take_turns(any_broker: TestBroker) -> None:
    with (
        RawClient(any_broker.endpoint) as client,
        RawWorker(any_broker.endpoint, "new", "echo") as new_worker,
        Worker01(any_broker.endpoint, b"echo") as old_worker,
    ):
        for _ in range(3):
            # Both are free at each step, and the least recently used one is asked.
            first, second = client.submit("echo", b"a"), client.submit("echo", b"b")
            task = new_worker.take()
            address, body = old_worker.take()
            new_worker.reply(task, *task.body)
            old_worker.reply(address, *body)
            assert {client.hear().id, client.hear().id} == {first, second}
