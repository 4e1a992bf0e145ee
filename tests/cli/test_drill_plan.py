"""Whom a drill strikes, by listings that the tests make up; processes are this machine's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from scale0.cli import drill_plan
from scale0.cli.drill_plan import Survey
from scale0.cli.listings import Listing
from scale0.cli.views import BrokerInfo, Row
from scale0.errors import Scale0Error, UsageError
from scale0.transport.addresses import this_process

COMMAND = "scale0 drill kill-it"
HERE = this_process().rpartition(":")[0]


@pytest.fixture
def somebody() -> Iterator[str]:
    """A process of this machine that nobody needs."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        yield f"{HERE}:{child.pid}"
    finally:
        child.kill()
        child.communicate()


def row(identity: str, **more: Any) -> Row:
    link = "self" if identity == "eu-1" else "up"
    return {
        "identity": identity,
        "group": "eu",
        "state": "active",
        "link": link,
        "endpoints": [f"tcp://{identity}:5555"],
        "clients": 1,
        "workers": 1,
        **more,
    }


class FakeNetwork:
    """Brokers that answer `ask` with these rows."""

    def __init__(self, process: str, *rows: Row) -> None:
        self.rows = list(rows)
        self.processes = {str(row["identity"]): process for row in rows}
        self.workers: dict[str, list[Row]] = {}

    def ask(self, addresses: Sequence[str], name: str) -> Listing:
        asked = next((r["identity"] for r in self.rows if addresses[0] in r["endpoints"]), "eu-1")
        rows = {
            "network": self.rows,
            "brokers": [{"identity": asked, "process": self.processes[asked]}],
            "workers": self.workers.get(asked, []),
        }[name]
        return Listing(schema="", rows=rows, broker=BrokerInfo(identity=asked))

    def survey(self) -> Survey:
        return Survey(["tcp://127.0.0.1:5555"], self.ask)


def trio(process: str) -> FakeNetwork:
    return FakeNetwork(process, row("eu-1", is_sequencer=True, clients=0), row("eu-2", clients=9), row("eu-3"))


# --- brokers --------------------------------------------------------------------------------------------------------


def test_least_harmful_broker_is_the_quietest_that_is_no_sequencer(somebody: str) -> None:
    plan = drill_plan.kill_broker(trio(somebody).survey(), None, COMMAND)
    assert (plan.victim, plan.process) == ("eu-3", somebody)
    assert "eu-1, eu-2 can stand in for it" in plan.why
    assert plan.addresses[0] == "tcp://eu-3:5555", "the load's client is where it hurts"
    assert plan.watch.addresses == ["tcp://eu-1:5555", "tcp://eu-2:5555"]


def test_broker_that_cannot_be_reached_from_here_is_passed_over(somebody: str) -> None:
    network = trio(somebody)
    network.processes["eu-3"] = "elsewhere:4711"
    assert drill_plan.kill_broker(network.survey(), None, COMMAND).victim == "eu-2"
    network.processes |= {"eu-1": "elsewhere:1", "eu-2": ""}
    with pytest.raises(UsageError, match="no broker can be drilled from here"):
        drill_plan.kill_broker(network.survey(), None, COMMAND)


def test_broker_on_another_machine_is_refused_with_the_command_to_run_there(somebody: str) -> None:
    network = trio(somebody)
    network.processes["eu-2"] = "elsewhere:4711"
    with pytest.raises(UsageError, match=f"runs on elsewhere, and this is {HERE}\nrun there: {COMMAND} eu-2"):
        drill_plan.kill_broker(network.survey(), "eu-2", COMMAND)


def test_last_broker_is_killed_only_by_name(somebody: str) -> None:
    network = FakeNetwork(somebody, row("eu-1"), row("eu-2", state="gone"), row("us-1", group="us"))
    with pytest.raises(UsageError, match="name one to kill it anyway"):
        drill_plan.kill_broker(network.survey(), None, COMMAND)
    assert drill_plan.kill_broker(network.survey(), "eu-1", COMMAND).victim == "eu-1"


def test_fallback_broker_is_named_in_the_plan(somebody: str) -> None:
    first = row("eu-1", fallback_broker="eu-1b", is_sequencer=True)
    network = FakeNetwork(somebody, first, row("eu-1b", state="passive"))
    plan = drill_plan.kill_broker(network.survey(), None, COMMAND)
    assert plan.victim == "eu-1", "its standby stands in for it"
    assert plan.addresses == ["tcp://eu-1:5555", "tcp://eu-1b:5555"]
    assert any("eu-1b" in note for note in plan.notes)
    assert any("config" in note for note in plan.notes), "it is the sequencer, too"
    network = FakeNetwork(somebody, first, row("eu-1b", state="gone"), row("eu-2"))
    assert not any("eu-1b" in note for note in drill_plan.kill_broker(network.survey(), "eu-1", COMMAND).notes)


@pytest.mark.parametrize(("name", "why"), [("nobody", "no broker 'nobody'"), ("eu-9", "is gone")])
def test_broker_that_is_not_there_is_refused(somebody: str, name: str, why: str) -> None:
    network = FakeNetwork(somebody, row("eu-1"), row("eu-9", state="gone"))
    with pytest.raises(UsageError, match=why):
        drill_plan.kill_broker(network.survey(), name, COMMAND)


def test_broker_is_noticed_when_its_row_says_so(somebody: str) -> None:
    watch = drill_plan.kill_broker(trio(somebody).survey(), "eu-2", COMMAND).watch
    assert not watch.is_noticed([row("eu-2"), row("eu-3", state="gone")])
    assert watch.is_noticed([row("eu-2", state="gone")])
    assert watch.is_noticed([row("eu-2", link="down")])


def test_answer_of_another_broker_is_not_taken_for_its_own(somebody: str) -> None:
    network = FakeNetwork(somebody, row("eu-1"), row("eu-2", endpoints=["tcp://eu-1:5555"]))
    with pytest.raises(Scale0Error, match="eu-2 does not answer"):
        network.survey().at("eu-2", "brokers")


# --- workers --------------------------------------------------------------------------------------------------------


def worker(identity: str, broker: str, process: str, **more: Any) -> Row:
    return {
        "identity": identity,
        "broker": broker,
        "services": ["greet"],
        "state": "ready",
        "busy": 0,
        "process": process,
        **more,
    }


def test_least_harmful_worker_has_the_fewest_tasks_and_is_not_the_last(somebody: str) -> None:
    network = trio(somebody)
    network.workers = {
        "eu-1": [worker("w-1", "eu-1", somebody, busy=3)],
        "eu-2": [worker("w-2", "eu-2", somebody, busy=1), worker("w-3", "eu-2", somebody, services=["other"])],
    }
    plan = drill_plan.kill_worker(network.survey(), None, "greet", COMMAND)
    assert (plan.victim, plan.process) == ("w-2", somebody)
    assert plan.watch.addresses == ["tcp://eu-2:5555"]
    assert plan.watch.is_noticed([]) is True
    assert plan.watch.is_noticed([worker("w-2", "eu-2", somebody)]) is False
    with pytest.raises(UsageError, match="without the last one nobody serves it"):
        drill_plan.kill_worker(network.survey(), None, "other", COMMAND)
    assert drill_plan.kill_worker(network.survey(), "w-3", "", COMMAND).victim == "w-3", "by name it may be the last"


def test_worker_that_tells_no_process_is_refused(somebody: str) -> None:
    network = trio(somebody)
    network.workers = {"eu-1": [worker("old", "eu-1", ""), worker("far", "eu-1", "elsewhere:4711")]}
    with pytest.raises(UsageError, match="does not tell which process it is"):
        drill_plan.kill_worker(network.survey(), "old", "", COMMAND)
    with pytest.raises(UsageError, match="no worker can be drilled from here"):
        drill_plan.kill_worker(network.survey(), None, "greet", COMMAND)


def test_drills_own_worker_is_harmless_and_not_the_only_one(somebody: str) -> None:
    survey = trio(somebody).survey()
    plan = drill_plan.kill_own_worker(survey, 2)
    assert plan.is_harmless
    named = drill_plan.own_worker(plan, survey, "drill-1", "eu-2", somebody)
    assert (named.victim, named.process, named.watch.addresses) == ("drill-1", somebody, ["tcp://eu-2:5555"])
    with pytest.raises(UsageError, match="--workers 2"):
        drill_plan.kill_own_worker(survey, 1)


# --- pairs ----------------------------------------------------------------------------------------------------------


def test_partition_is_between_the_quietest_two_unless_they_are_named(somebody: str) -> None:
    survey = trio(somebody).survey()
    assert drill_plan.partition(survey, None, is_one_way=False).victim == "eu-1 | eu-3"
    plan = drill_plan.partition(survey, ("eu-1", "eu-2"), is_one_way=True)
    assert plan.victim == "eu-1 → eu-2"
    assert plan.what == "what eu-1 sends to eu-2 is lost"
    assert plan.watch.by == "eu-2", "who hears nothing notices"
    assert plan.watch.is_noticed([row("eu-1", link="down")])


def test_partition_needs_two_different_brokers(somebody: str) -> None:
    with pytest.raises(UsageError, match="named twice"):
        drill_plan.partition(trio(somebody).survey(), ("eu-1", "eu-1"), is_one_way=False)
    with pytest.raises(UsageError, match="needs two active brokers"):
        drill_plan.partition(FakeNetwork(somebody, row("eu-1")).survey(), None, is_one_way=False)


def test_addresses_tell_whose_they_are(somebody: str) -> None:
    names = trio(somebody).survey().names()
    assert names["tcp://eu-3:5555"] == "eu-3"
    assert names["tcp://127.0.0.1:5555"] == "eu-1", "the address that was given is that of the broker that answered"
