from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scale0.errors import SettingsError
from scale0.protocol.messages import TaskReply
from scale0.testing import TestBroker, TestNetwork, broker, running_network
from tests.integration.networks import LIMIT_S, until
from tests.integration.wire import RawClient, RawWorker

# What is new is soon told, and who is late on a busy machine is not missed.
QUICK: dict[str, Any] = {"default_heartbeat_interval_s": 0.2, "liveness": 15}
BOTH = pytest.mark.parametrize("process", [False, True])


@BOTH
def test_broker_serves_and_ends_with_the_block(process: bool) -> None:
    with broker(process=process) as running:
        with RawClient(running.endpoint) as client, RawWorker(running.endpoint) as worker:
            task_id = client.submit("echo", b"x")
            worker.reply(worker.take(), b"y")
            assert client.hear().id == task_id
        assert running.is_running
    assert not running.is_running


@BOTH
def test_restarted_broker_has_the_same_address(process: bool) -> None:
    with broker(process=process) as running:
        endpoint = running.endpoint
        for kill in (False, True):
            running.restart(kill=kill)
            assert running.endpoint == endpoint
            with RawClient(endpoint):
                pass


@BOTH
def test_stopped_broker_may_be_stopped_again_and_started(process: bool) -> None:
    with broker(process=process) as running:
        running.kill()
        running.kill()
        running.stop()
        running.start()
        with RawClient(running.endpoint):
            pass


@BOTH
def test_backend_may_be_parted(process: bool) -> None:
    with broker(process=process, backend="tcp://127.0.0.1:0") as running:
        assert running.endpoint != running.backend
        with RawClient(running.endpoint) as client, RawWorker(running.backend) as worker:
            client.submit("echo", b"x")
            worker.reply(worker.take(), b"y")
            assert client.hear().body == (b"y",)


def test_keywords_are_settings_and_wrong_ones_are_named() -> None:
    with broker(identity="mine", service={"pay": {"idempotent": True}}) as running:
        assert running.manage("list", what="brokers")["broker"]["identity"] == "mine"
    with pytest.raises(SettingsError, match="did you mean liveness"), broker(livenes=3):
        pass


def test_taken_port_is_told_by_the_process_too() -> None:
    with (
        broker() as running,
        pytest.raises(RuntimeError, match="the port is taken"),
        broker(process=True, bind=running.endpoint),
    ):
        pass


def test_broker_process_does_not_outlive_the_one_that_started_it() -> None:
    script = (
        "import os, scale0.testing as t\nwith t.broker(process=True) as b:\n print(b.pid, flush=True)\n os._exit(0)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, timeout=LIMIT_S, check=True
    )
    status = Path(f"/proc/{ended.stdout.strip()}/status")
    until(lambda: not status.exists() or "State:\tZ" in status.read_text(), "it has ended")


def test_unexpected_exception_in_the_broker_fails_the_test_that_uses_it() -> None:
    with pytest.raises(RuntimeError, match="the broker failed while it served") as caught, broker() as running:
        running.server.loop.call(lambda: [1 // 0])  # type: ignore[list-item]
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_fixture_is_there_without_an_import(scale0_broker: TestBroker) -> None:
    with RawClient(scale0_broker.endpoint):
        pass


def test_importing_needs_neither_pytest_nor_zeromq() -> None:
    script = "import sys, scale0.testing; sys.exit(bool({'pytest', 'zmq', 'msgspec'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], timeout=LIMIT_S, check=False).returncode == 0


@BOTH
def test_brokers_of_a_network_have_found_one_another_when_the_block_begins(process: bool) -> None:
    with running_network(3, group="eu", process=process, **QUICK) as network:
        assert len(set(network.endpoints)) == 3
        for asked in network.brokers:
            rows = asked.listing("network")["rows"]
            assert {row["identity"] for row in rows} == {"broker-1", "broker-2", "broker-3"}
            assert {row["group"] for row in rows} == {"eu"}
        with RawWorker(network.endpoints[0]) as worker, RawClient(network.endpoints[1]) as client:
            listing = network.brokers[1].listing
            until(lambda: any("echo" in row["services"] for row in listing("network")["rows"]), "it knows the worker")
            task_id = client.submit("echo", b"over")
            worker.reply(worker.take(), b"there")
            assert client.hear_a(TaskReply).id == task_id


@BOTH
def test_killed_broker_of_a_network_comes_back_into_it(process: bool, tmp_path: Path) -> None:
    for state_dir in (None, tmp_path):
        with running_network(2, state_dir=state_dir, process=process, **QUICK) as network:
            first, second = network.brokers
            first.kill()
            network.wait()  # for those that run
            first.start()
            network.wait()
            assert first.listing("config")["rows"][0]["version"] == second.listing("config")["rows"][0]["version"]
            assert (state_dir is None) or (tmp_path / "broker-1" / "config.json").exists()


def test_network_that_does_not_come_together_says_who_is_missing() -> None:
    with (
        broker(identity="one") as one,
        broker(identity="two") as two,
        pytest.raises(RuntimeError, match="two is unknown"),
    ):
        TestNetwork([one, two]).wait(0.1)
