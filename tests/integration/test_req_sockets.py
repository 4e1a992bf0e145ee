"""Native clients and workers on REQ sockets: one answer to each request, and nothing pushed (rule 3)."""

from __future__ import annotations

import zmq

from scale0.protocol import dialects
from scale0.protocol.messages import Error, ForceNegotiate, Ping, Pong, Ready, ServiceOffer, Task, TaskReply
from scale0.testing import broker
from tests.integration.wire import RawClient, RawWorker, Wire


def test_req_client_is_served_by_a_dealer_worker_with_its_parts_joined() -> None:
    with (
        broker() as running,
        RawClient(running.endpoint, kind=zmq.REQ) as client,
        RawWorker(running.endpoint, "worker", "count") as worker,
    ):
        task_id = client.submit("count", b"3")
        task = worker.take()
        worker.reply(task, b"1", part=0, final=False)
        worker.reply(task, b"2", part=1, final=False)
        worker.reply(task, b"3", part=2)
        reply = client.hear()
        assert (reply.id, reply.body, reply.final) == (task_id, (b"1", b"2", b"3"), True)
        client.say(Ping(time_us=0))
        assert isinstance(client.hear(), Pong)


def test_req_client_hears_an_error_once_and_may_ask_again() -> None:
    with (
        broker() as running,
        RawWorker(running.endpoint, "worker", "echo") as worker,
        RawClient(running.endpoint, kind=zmq.REQ) as client,
    ):
        client.submit("echo", b"x", timeout_s=0.2)
        task = worker.take()
        assert client.hear_a(Error).code == 504
        worker.reply(task, b"late")
        again = client.submit("echo", b"y")
        worker.reply(worker.take(), b"y")
        reply = client.hear()
        assert (reply.id, reply.body) == (again, (b"y",))


def test_stranger_on_a_req_socket_is_asked_to_negotiate_each_time() -> None:
    with broker() as running, Wire(running.endpoint, dialects.REQ_CLIENT, zmq.REQ) as client:
        for _ in range(3):
            client.say(Ping(time_us=0))
            assert isinstance(client.hear(), ForceNegotiate)


def test_req_worker_has_one_slot_and_hears_pong_when_nothing_waits() -> None:
    with (
        broker(default_heartbeat_interval_s=0.5, liveness=60) as running,
        RawWorker(running.endpoint, "req", "echo", kind=zmq.REQ) as worker,
        RawClient(running.endpoint) as client,
    ):
        worker.say(Ready(services=[ServiceOffer("echo")], capacity=5))
        assert isinstance(worker.hear(), Pong)
        first, second = client.submit("echo", b"1"), client.submit("echo", b"2")
        worker.say(Ping(time_us=0))
        while not isinstance(task := worker.hear(), Task):  # the interval was over before the tasks had come
            assert isinstance(task, Pong)
            worker.say(Ping(time_us=0))
        assert task.id == first
        worker.reply(task, b"one")
        task = worker.hear()
        assert task.id == second
        worker.reply(task, b"two")
        assert [client.hear_a(TaskReply).body, client.hear_a(TaskReply).body] == [(b"one",), (b"two",)]
        assert isinstance(worker.hear(), Pong)
