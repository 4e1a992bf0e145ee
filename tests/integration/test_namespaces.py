"""A host whose cable is cut: packets are lost without a word, both sides go on, and all is well when it is back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.load import DOUBLE, PAY, Load
from tests.integration.namespaces import network_of_hosts
from tests.integration.networks import BrokerProcess, until_each

NAMES = ("b1", "b2", "b3")


def states(broker: BrokerProcess) -> dict[str, str]:
    """What became of each version of the config."""
    return {row["version"]: row["state"] for row in broker.rows("config_history")}


@pytest.mark.parametrize("alone", [pytest.param("b1", marks=pytest.mark.slow), "b3"])
def test_any_host_may_be_cut_off_under_load_and_conflicting_changes_have_one_winner(tmp_path: Path, alone: str) -> None:
    service = [{"name": DOUBLE, "idempotent": True}]
    with network_of_hosts(tmp_path, *NAMES, group="eu", service=service) as (brokers, hosts):

        def misses_the_other_side(broker: BrokerProcess) -> bool:
            far = {name for name in NAMES if (name == alone) != (broker.identity == alone)}
            return far == {name for name, row in broker.sees().items() if row["state"] == "gone"}

        doors = [broker.door for broker in brokers.running]
        load = Load(doors)
        with load.workers(doors, each=1):
            brokers.await_services(DOUBLE, PAY)
            with load:
                load.await_replies()
                hosts.unplug(alone)
                until_each(brokers.running, misses_the_other_side, "misses the other side")
                load.await_replies()
                keys = {name: value for name, value in brokers.keys.items() if name != "group"}
                versions = [
                    brokers[name].apply({**keys, "default_timeout": timeout_s})
                    for name, timeout_s in ((alone, 33), ("b2", 44))
                ]
                hosts.plug_in(alone)
                brokers.await_complete()
                load.await_replies()
                load.finish()
        won, lost = max(versions), min(versions)
        assert {broker.version() for broker in brokers.running} == {won}
        until_each(brokers.running, lambda broker: states(broker).get(lost) == "lost", f"knows that {lost} lost")
    load.books[DOUBLE].check("reply")
    load.books[PAY].check("reply", "502")
    assert max(load.books[PAY].runs.values()) == 1
