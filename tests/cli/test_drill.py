"""Drills on a real network: brokers, workers and the drill itself are processes, and every task is accounted for."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from scale0.cli import main
from scale0.cli.failures import Exit
from tests.cli.processes import LIMIT_S, running, scale0
from tests.integration.networks import OPERATOR, PASSWORD, BrokerNetwork, BrokerProcess, network, until

QUICK = ("--before", "500ms", "--after", "500ms", "--rate", "50/s", "--work", "100ms")


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerNetwork]:
    with network(tmp_path_factory.mktemp("drill"), "eu-1", "eu-2", "eu-3", group="eu") as made:
        yield made


def drill(brokers: BrokerNetwork, *words: str) -> tuple[int, dict[str, Any]]:
    """Run a drill at the first broker; its exit code and its report."""
    address = brokers["eu-1"].endpoint
    done = scale0(
        "drill", *words, "--json", *QUICK, broker=address, SCALE0_AUTH_ID=OPERATOR, SCALE0_AUTH_PASSWORD=PASSWORD
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def check_books(report: dict[str, Any], *, in_flight: str) -> None:
    """Nothing was lost, something was in flight, and some of it ended like this."""
    assert report["lost"] == report["wrong"] == 0, report
    assert report["tasks"]["before"].keys() <= {"replied", "rerouted"}, report
    assert report["tasks"]["in flight"].get(in_flight), report
    assert report["timeline"]["recovered_s"] is not None, report
    assert report["timeline"]["first_success_s"] is not None, report


@contextlib.contextmanager
def greeters(brokers: BrokerNetwork) -> Iterator[None]:
    """Two workers of the examples, as an operator would start them."""
    address = brokers["eu-1"].endpoint
    with (
        running("worker", "examples.greet:worker", "--no-save", broker=address),
        running("worker", "examples.greet:worker", "--no-save", broker=address),
    ):
        until(lambda: len(serving(brokers, "greet")) == 2, "both workers serve")
        yield


def serving(brokers: BrokerNetwork, service: str) -> list[dict[str, Any]]:
    rows = brokers["eu-1"].rows("network_workers")
    return [row for row in rows if service in row["services"] and row["state"] in ("ready", "full")]


def is_up(broker: BrokerProcess) -> bool:
    return bool(broker.own()["state"] == "active")


def test_tasks_of_a_killed_worker_are_retried(brokers: BrokerNetwork) -> None:
    code, report = drill(brokers, "kill-worker")
    assert code == Exit.GOOD, report
    check_books(report, in_flight="retried")
    assert report["timeline"]["noticed_s"] is not None
    assert report["victim"].startswith("drill-")
    until(lambda: not serving(brokers, "drill"), "the drill's own workers have left")


def test_worker_of_the_operators_own_service_is_found_by_its_process(brokers: BrokerNetwork) -> None:
    with greeters(brokers):
        code, report = drill(brokers, "kill-worker", "--service", "greet", "--body", '"Ada"', "--yes")
        assert code == Exit.GOOD, report
        assert report["lost"] == report["wrong"] == 0, report
        until(lambda: len(serving(brokers, "greet")) == 1, "one of them is gone")
        assert [row["identity"] for row in serving(brokers, "greet")] != [report["victim"]]


def test_brokers_that_hear_nothing_of_one_another_raise_the_alarm_and_heal(brokers: BrokerNetwork) -> None:
    code, report = drill(brokers, "partition", "eu-1", "eu-2", "--for", "2s", "--yes")
    assert code == Exit.GOOD, report
    assert report["lost"] == report["wrong"] == 0, report
    assert 0 < report["timeline"]["noticed_s"] < report["timeline"]["mended_s"], report
    for name in ("eu-1", "eu-2"):
        assert len(brokers[name].alarms("drill")) == 1
    brokers.await_complete()


def test_condition_aborts_the_drill_and_the_broker_goes_on(brokers: BrokerNetwork) -> None:
    code, report = drill(
        brokers, "kill-broker", "eu-3", "--signal", "STOP", "--for", "50s", "--yes", "--abort-if", "recovery>600ms"
    )
    assert code == Exit.ABORTED
    assert report["aborted_by"] == "recovery>600ms"
    assert report["lost"] == 0, report
    assert report["timeline"]["mended_s"] is not None
    until(lambda: is_up(brokers["eu-3"]), "it goes on")
    brokers.await_complete()


def test_interrupted_drill_lets_the_broker_go_on(brokers: BrokerNetwork) -> None:
    words = ("drill", "kill-broker", "eu-3", "--signal", "STOP", "--for", "50s", "--yes", "--timeout", "3s", *QUICK)
    with running(*words, broker=brokers["eu-1"].endpoint) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if "after the fault" in line:
                break
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=LIMIT_S)
        assert child.returncode == Exit.INTERRUPTED, (out, err)
        assert "aborted: interrupted" in out
    until(lambda: is_up(brokers["eu-3"]), "it goes on")
    brokers.await_complete()


def test_nothing_is_struck_unless_somebody_says_so(brokers: BrokerNetwork, capsys: pytest.CaptureFixture[str]) -> None:
    address = brokers["eu-1"].endpoint
    assert main.main(["drill", "kill-broker", "eu-2", "--broker", address]) == Exit.USAGE
    assert "say --yes" in capsys.readouterr().err
    assert main.main(["drill", "kill-broker", "--broker", address, "--dry-run"]) == Exit.GOOD
    assert "can stand in for it" in capsys.readouterr().out
    assert main.main(["drill", "kill-broker", "--broker", address, "--dry-run", "--json"]) == Exit.GOOD
    assert json.loads(capsys.readouterr().out)["kind"] == "kill-broker"
    assert all(is_up(broker) for broker in brokers.running)
    assert len(brokers.running) == 3


def test_tasks_of_a_killed_broker_find_another(brokers: BrokerNetwork) -> None:
    """Comes last: the broker does not come back."""
    code, report = drill(brokers, "kill-broker", "eu-2", "--yes")
    assert code == Exit.GOOD, report
    check_books(report, in_flight="rerouted")
    assert report["timeline"]["noticed_s"] is not None
    assert not brokers["eu-2"].is_running
