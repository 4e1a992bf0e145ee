"""A broker that an operator takes out of service: the others stand in, and it comes back only when it is told to."""

from __future__ import annotations

from pathlib import Path

import pytest

from scale0 import Client
from tests.integration.load import DOUBLE, PAY, Load, check_books
from tests.integration.networks import PATIENCE, BrokerNetwork, network, until


def await_state(brokers: BrokerNetwork, state: str) -> None:
    until(lambda: brokers["b1"].sees()["b2"]["state"] == state, f"to b1, b2 is {state}")


@pytest.mark.slow
def test_disabled_broker_stays_so_over_a_restart_and_serves_again_when_it_is_enabled(tmp_path: Path) -> None:
    with network(tmp_path, "b1", "b2", group="eu", service=[{"name": DOUBLE, "idempotent": True}]) as brokers:
        load = Load(brokers.endpoints)
        with load.workers(brokers.endpoints, each=1):
            brokers.await_services(DOUBLE, PAY)
            with load:
                load.await_replies()
                brokers["b2"].manage("disable")
                await_state(brokers, "disabled")
                until(lambda: brokers["b1"].own()["workers"] == 2, "both workers are at b1")
                load.await_replies()
                brokers["b2"].kill()
                await_state(brokers, "gone")
                brokers["b2"].start()
                await_state(brokers, "disabled")
                load.await_replies()
                brokers["b2"].manage("enable")
                brokers.await_complete()
                load.finish()
        # What it held was forwarded or finished; its clients took its silence for loss.
        check_books(load)


def test_document_that_disables_a_broker_and_enables_it_again_is_obeyed(tmp_path: Path) -> None:
    with network(tmp_path, "b1", "b2", group="eu") as brokers:
        enabled = brokers["b1"].rows("config")[0]["document"]
        first, second = enabled["brokers"]
        brokers["b1"].apply({**enabled, "brokers": [first, {**second, "state": "disabled"}]})
        await_state(brokers, "disabled")
        brokers["b1"].apply(enabled)
        brokers.await_complete()


def test_draining_broker_moves_everybody_away_newcomers_too_and_goes_on_telling_its_peers(tmp_path: Path) -> None:
    with network(tmp_path, "b1", "b2", group="eu", liveness=PATIENCE) as brokers:
        load = Load([brokers["b2"].endpoint])
        with load.workers([brokers["b2"].endpoint], each=2), load:
            brokers.await_services(DOUBLE, PAY)
            load.await_replies(20)
            brokers["b2"].manage("drain")
            await_state(brokers, "draining")
            until(lambda: brokers["b1"].own()["workers"] == 2 and brokers["b1"].own()["clients"] == 1, "all are at b1")
            load.await_replies(20)
            with Client(brokers["b2"].endpoint) as newcomer:  # it knows no other address
                assert newcomer.call(DOUBLE, 21, timeout=10) == 42
            load.finish()
            until(lambda: not brokers["b2"].own()["workers"] and not brokers["b2"].own()["clients"], "nobody is at b2")
    load.books[DOUBLE].check("reply")
    load.books[PAY].check("reply")
