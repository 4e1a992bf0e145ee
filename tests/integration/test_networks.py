"""Networks of two to five brokers: who joins takes part, and everybody reaches everybody."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from scale0 import Client, ServiceNotFound
from scale0.protocol.messages import Connect, Error
from tests.integration.load import echo_worker
from tests.integration.networks import PATIENCE, network, until
from tests.integration.wire import Wire

NAMES = ["b1", "b2", "b3", "b4", "b5"]


@pytest.mark.parametrize("count", [2, 3, *(pytest.param(count, marks=pytest.mark.slow) for count in (4, 5))])
def test_client_at_any_broker_reaches_the_workers_of_every_other(tmp_path: Path, count: int) -> None:
    with network(tmp_path, *NAMES[:count], group="eu", liveness=PATIENCE) as brokers, contextlib.ExitStack() as ends:
        for broker in brokers.running:
            ends.enter_context(echo_worker(broker.endpoint, f"at-{broker.identity}", f"only-{broker.identity}"))
        brokers.await_services(*(f"only-{name}" for name in NAMES[:count]))
        for broker in brokers.running:
            with Client(broker.endpoint) as client:
                for other in brokers.running:
                    assert client.call(f"only-{other.identity}") == f"at-{other.identity}"
                with pytest.raises(ServiceNotFound):
                    client.call("never-announced")
        forwarded = [row["forwarded"] for row in brokers["b1"].sees().values()]
        assert sum(forwarded) == count - 1


def test_broker_that_finds_nobody_is_joining_and_refuses_tasks_until_somebody_answers(tmp_path: Path) -> None:
    with network(tmp_path, "b1", group="eu") as brokers:
        brokers["b1"].kill()
        (joiner,) = brokers.add("b2", seeds=[brokers["b1"].endpoint])
        assert joiner.own()["state"] == "joining"
        with Wire(joiner.endpoint) as wire:
            wire.say(Connect(identity="too early", nonce=os.urandom(8)))
            refused = wire.hear_a(Error)
            assert (refused.code, refused.text[:22]) == (503, "this broker is joining")
        brokers["b1"].seeds = []  # it is the one that is joined
        brokers["b1"].start()
        brokers.await_complete()
        with echo_worker(brokers["b1"].endpoint, "w", "echo"), Client(joiner.endpoint) as client:
            brokers.await_services("echo")
            assert client.call("echo") == "w"


def test_broker_joins_while_the_one_that_sequences_changes_is_down(tmp_path: Path) -> None:
    with network(tmp_path, "b1", "b2", group="eu") as brokers:
        brokers["b1"].kill()
        brokers.add("b3")
        brokers.await_complete()
        brokers["b1"].start()
        brokers.await_complete()
        assert set(brokers["b1"].sees()) == {"b1", "b2", "b3"}
        assert not any(broker.alarms("config_lost") for broker in brokers.running)


def test_broker_that_joins_takes_its_share_of_the_workers(tmp_path: Path) -> None:
    with network(tmp_path, "b1", group="eu", liveness=PATIENCE) as brokers, contextlib.ExitStack() as ends:
        for number in range(12):
            ends.enter_context(echo_worker(brokers["b1"].endpoint, f"w{number}", "echo"))
        assert brokers.workers() == {"b1": 12}
        for joiner, share in (("b2", 6), ("b3", 4)):
            brokers.add(joiner)
            brokers.await_complete()
            until(lambda share=share: set(brokers.workers().values()) == {share}, f"{joiner} has its share")  # type: ignore[misc]
        with Client(brokers["b3"].endpoint) as client:
            answers = {client.call("echo") for _ in range(200)}
        assert answers <= {f"w{number}" for number in range(12)}


def test_service_that_one_broker_manages_is_reached_from_all_and_its_workers_are_sent_there(tmp_path: Path) -> None:
    with network(tmp_path, "b1", group="eu", liveness=PATIENCE) as brokers:
        brokers.add("b2", keys={"services": ["ocr"]})
        brokers.await_complete()
        # b2 takes no worker of `render`: it is told 301, and comes to b1.
        with (
            echo_worker(brokers["b2"].endpoint, "renders", "render"),
            echo_worker(brokers["b2"].endpoint, "reads", "ocr"),
            Client(brokers["b2"].endpoint) as at_b2,
            Client(brokers["b1"].endpoint) as at_b1,
        ):
            brokers.await_services("render", "ocr")
            assert brokers["b1"].own()["services"] == {"render": 1}
            assert brokers["b2"].own()["services"] == {"ocr": 1}
            for client in (at_b1, at_b2):
                assert client.call("render") == "renders"
                assert client.call("ocr") == "reads"
                with pytest.raises(ServiceNotFound):
                    client.call("paint")


def test_task_goes_to_the_fallback_group_when_the_own_group_has_no_worker(tmp_path: Path) -> None:
    groups = [{"name": "eu", "fallback_groups": ["us"]}, {"name": "us"}, {"name": "asia"}]
    with network(tmp_path, "eu-1", group="eu", groups=groups, liveness=PATIENCE) as brokers:
        brokers.add("eu-2")
        brokers.add("us-1", keys={"group": "us"})
        brokers.add("as-1", keys={"group": "asia"})
        brokers.await_complete()
        with (
            echo_worker(brokers["us-1"].endpoint, "american", "echo"),
            echo_worker(brokers["as-1"].endpoint, "asian", "echo"),
            Client(brokers["eu-1"].endpoint) as client,
            Client(brokers["us-1"].endpoint) as american,
        ):
            seen = brokers["eu-1"].sees
            until(lambda: "echo" in seen()["us-1"]["services"], "eu-1 knows of the american worker")
            brokers.await_services("echo")
            assert [client.call("echo") for _ in range(20)] == ["american"] * 20
            # A worker of the own group comes first, even at another broker.
            with echo_worker(brokers["eu-2"].endpoint, "european", "echo"):
                until(lambda: client.call("echo") == "european", "the own group serves")
                assert [client.call("echo") for _ in range(20)] == ["european"] * 20
                # Nobody falls back to eu, and nobody to asia.
                assert [american.call("echo") for _ in range(20)] == ["american"] * 20
            until(lambda: client.call("echo") == "american", "the fallback group serves again")
