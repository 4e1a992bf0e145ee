"""Connections that are cut while a task is under way, and come back before anybody counts as gone: nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scale0 import Client, Worker
from tests.integration.networks import LIMIT_S, BrokerProcess, network, until
from tests.integration.proxies import Proxy, proxied_network, proxy

CALM_S = 2.0  # an interval of heartbeats that leaves a cut connection the time to come back


class Holder:
    """A worker that holds each task until it is told to answer; it counts how often it began."""

    def __init__(self, endpoint: str) -> None:
        self.begun = threading.Semaphore(0)
        self.released = threading.Event()
        self.runs = 0
        self._worker = Worker(endpoint, identity="holder")
        self._worker.add_service("pay", self._pay)

    def _pay(self, sum_due: int) -> int:
        self.runs += 1
        self.begun.release()
        assert self.released.wait(LIMIT_S)
        return sum_due

    @contextmanager
    def running(self) -> Iterator[Holder]:
        with self._worker.start():
            try:
                yield self
            finally:
                self.released.set()

    def await_task(self) -> None:
        assert self.begun.acquire(timeout=LIMIT_S), "no task came"


def break_for_a_moment(between: Proxy) -> None:
    between.cut()
    between.mend()


@pytest.mark.parametrize("whose", ["client", "worker"])
def test_reply_arrives_over_a_new_connection_of_client_or_worker(tmp_path: Path, whose: str) -> None:
    with (
        network(tmp_path, "b1", default_heartbeat_interval=CALM_S) as brokers,
        proxy(brokers["b1"].endpoint) as between,
    ):
        ends = {"client": brokers["b1"].endpoint, "worker": brokers["b1"].endpoint, whose: between.endpoint}
        with Holder(ends["worker"]).running() as holder, Client(ends["client"], timeout=LIMIT_S) as client:
            future = client.submit("pay", 7)
            holder.await_task()
            break_for_a_moment(between)
            until(lambda: brokers["b1"].counters().get("sessions_moved"), f"the {whose} is back")
            holder.released.set()
            assert future.result(LIMIT_S) == 7
            assert holder.runs == 1


def test_reply_of_a_forwarded_task_arrives_over_a_new_link(tmp_path: Path) -> None:
    with proxied_network(tmp_path, "b1", "b2", default_heartbeat_interval=CALM_S) as brokers:
        origin, other = brokers["b2"], brokers["b1"]
        with Holder(other.endpoint).running() as holder, Client(origin.endpoint, timeout=LIMIT_S) as client:
            brokers.await_services("pay")
            future = client.submit("pay", 7)
            holder.await_task()
            # b2 dialed b1: the link passes through b1's proxy.
            break_for_a_moment(brokers.proxies["b1"])
            until(lambda: links_up(origin) >= 2 and links_up(other) >= 2, "the link is up again")
            holder.released.set()
            assert future.result(LIMIT_S) == 7
            assert holder.runs == 1


def test_reply_of_a_forwarded_task_that_ended_while_the_link_was_cut_waits_for_the_new_one(tmp_path: Path) -> None:
    with proxied_network(tmp_path, "b1", "b2", default_heartbeat_interval=CALM_S) as brokers:
        origin, other = brokers["b2"], brokers["b1"]
        with Holder(other.endpoint).running() as holder, Client(origin.endpoint, timeout=LIMIT_S) as client:
            brokers.await_services("pay")
            future = client.submit("pay", 7)
            holder.await_task()
            brokers.proxies["b1"].cut()
            # What is sent before the cut is noticed goes down with the connection, as on any network.
            until(lambda: other.sees()["b2"]["link"] != "up", "it has noticed that the link is cut")
            holder.released.set()
            until(lambda: other.rows("workers")[0]["busy"] == 0, "it has replied to its broker")
            brokers.proxies["b1"].mend()
            assert future.result(LIMIT_S) == 7
            assert holder.runs == 1


def links_up(broker: BrokerProcess) -> int:
    return broker.counters().get("links_up", 0)
