"""Brokers of a group that are killed or stopped under load: the others stand in, and every task has its outcome."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.load import DOUBLE, NAMES, PAY, WORKERS_EACH, Load, check_books, network_under_load
from tests.integration.networks import BrokerNetwork, BrokerProcess, network, until, until_each

WORKERS = WORKERS_EACH * len(NAMES)


def have_come(brokers: BrokerNetwork, *, workers: int, clients: int) -> bool:
    rows = [broker.own() for broker in brokers.running]
    return (sum(row["workers"] for row in rows), sum(row["clients"] for row in rows)) == (workers, clients)


def go_back_to(broker: BrokerProcess, brokers: BrokerNetwork) -> None:
    """Failback by hand: whose home it is comes back. Who is between two brokers just then is asked for again."""

    def are_back() -> bool:
        for other in brokers.running:
            if other is not broker:
                other.manage("failback", broker=broker.identity)
        return bool(broker.own()["workers"] >= 2 and broker.own()["clients"] >= 1)

    until(are_back, f"all are back at {broker.identity}")


@pytest.mark.parametrize("victims", [["b1"], pytest.param(["b2", "b3", "b1"], marks=pytest.mark.slow)])
def test_any_broker_may_be_killed_under_load_and_is_linked_again_when_it_is_back(
    tmp_path: Path, victims: list[str]
) -> None:
    with network_under_load(tmp_path) as (brokers, load):
        for victim in victims:
            brokers[victim].kill()
            until(lambda: have_come(brokers, workers=WORKERS, clients=3), "everybody is at another broker")
            load.await_replies()
            brokers[victim].start()
            brokers.await_complete()
            go_back_to(brokers[victim], brokers)
            load.await_replies()
        check_books(load)


def test_broker_that_stood_still_for_longer_than_silence_may_last_comes_back(tmp_path: Path) -> None:
    with network_under_load(tmp_path) as (brokers, load):
        frozen, *others = (brokers[name] for name in ("b2", "b1", "b3"))
        frozen.freeze()
        until_each(others, lambda other: other.sees()["b2"]["state"] == "gone", "misses b2")
        load.await_replies()
        frozen.thaw()
        brokers.await_complete()
        load.await_replies()
        check_books(load)


def test_whose_home_is_back_is_sent_there_again_when_failback_is_automatic(tmp_path: Path) -> None:
    with network(tmp_path, "b1", "b2", group="eu", failback="automatic", failback_after=0.3) as brokers:
        load = Load([brokers["b2"].endpoint])
        with load.workers([brokers["b2"].endpoint], each=1), load:
            brokers.await_services(DOUBLE, PAY)
            home = brokers["b2"]
            until(lambda: home.own()["clients"] == 1, "the client is at home")
            home.kill()
            until(lambda: have_come(brokers, workers=1, clients=1), "both are at b1")
            load.await_replies(20)
            home.start()
            until(lambda: (home.own()["workers"], home.own()["clients"]) == (1, 1), "both are at home again")
            check_books(load)
