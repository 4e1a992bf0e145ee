"""A network that falls apart and heals: both sides go on, one config wins everywhere, and no task is forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from scale0.errors import TaskError
from tests.integration.load import DOUBLE, PAY, Load
from tests.integration.networks import BrokerProcess, Row, until, until_each
from tests.integration.proxies import ProxiedNetwork, proxied_network

NAMES = ("b1", "b2", "b3")


def await_parted(brokers: ProxiedNetwork, alone: str) -> None:
    """Until each side has missed the other."""

    def misses_the_other_side(broker: BrokerProcess) -> bool:
        seen = broker.sees()
        far = [name for name in NAMES if (name == alone) != (broker.identity == alone)]
        return all(seen[name]["state"] == "gone" for name in far)

    until_each(brokers.running, misses_the_other_side, "misses the other side")


def history(broker: BrokerProcess) -> dict[str, Row]:
    return {row["version"]: row for row in broker.rows("config_history")}


def timeout_at(broker: BrokerProcess) -> float:
    return float(broker.rows("config")[0]["document"].get("default_timeout", 60))


def test_of_conflicting_changes_on_both_sides_one_wins_everywhere_and_the_other_is_kept_as_lost(tmp_path: Path) -> None:
    with proxied_network(tmp_path, *NAMES) as brokers:
        alone = brokers.isolate()
        await_parted(brokers, alone)
        versions = {
            brokers["b1"].apply({**brokers.keys, "default_timeout": 33}): 33.0,
            brokers["b3"].apply({**brokers.keys, "default_timeout": 44}): 44.0,
        }
        assert len(versions) == 2
        brokers.mend()
        brokers.await_complete()
        # Both are number 2 of the same epoch: the hash decides, and all decide alike.
        won, lost = max(versions), min(versions)
        until_each(brokers.running, lambda broker: lost in history(broker), "has heard of the loser")
        until_each(brokers.running, lambda broker: broker.alarms("config_lost"), "raises the alarm")
        for broker in brokers.running:
            assert broker.version() == won
            assert timeout_at(broker) == versions[won]
            past = history(broker)
            assert (past[won]["state"], past[lost]["state"]) == ("current", "lost")
            assert past[lost]["document"]["default_timeout"] == versions[lost]
            assert lost in broker.alarms("config_lost")[0]


def test_without_a_config_broker_a_change_is_refused_and_force_opens_an_epoch_that_wins(tmp_path: Path) -> None:
    with proxied_network(tmp_path, *NAMES, config_brokers=["b1"]) as brokers:
        keys = brokers.keys
        alone = brokers.isolate()
        await_parted(brokers, alone)
        with pytest.raises(TaskError, match=r"503 .*b1.*--force"):
            brokers["b2"].apply({**keys, "default_timeout": 44})
        assert timeout_at(brokers["b2"]) == 60
        many = [brokers["b1"].apply({**keys, "default_timeout": 30 + number}) for number in range(3)]
        forced = brokers["b2"].apply({**keys, "default_timeout": 44}, force=True)
        assert forced.startswith("2.1.")
        until(lambda: brokers["b3"].version() == forced, "b3 has the forced config")
        brokers.mend()
        brokers.await_complete()
        until_each(brokers.running, lambda broker: set(many) <= set(history(broker)), "knows all losers")
        for broker in brokers.running:
            assert broker.version() == forced
            assert {history(broker)[version]["state"] for version in many} == {"lost"}
        # The next change is made by the config broker, in the new epoch.
        after = brokers["b3"].apply({**keys, "default_timeout": 50})
        assert after.startswith("2.2.")


@pytest.mark.parametrize("is_silent", [pytest.param(False, marks=pytest.mark.slow), True])
def test_both_sides_serve_on_and_every_task_has_its_outcome(tmp_path: Path, is_silent: bool) -> None:
    with proxied_network(tmp_path, *NAMES, service=[{"name": DOUBLE, "idempotent": True}]) as brokers:
        load = Load(brokers.endpoints)
        with load.workers(brokers.endpoints, each=1):
            brokers.await_services(DOUBLE, PAY)
            with load:
                load.await_replies()
                alone = brokers.isolate(is_silent=is_silent)
                await_parted(brokers, alone)
                load.await_replies()
                brokers.mend()
                brokers.await_complete()
                load.await_replies()
                load.finish()
        load.books[DOUBLE].check("reply")
        load.books[PAY].check("reply", "502")
        assert max(load.books[PAY].runs.values()) == 1
