"""A group that is restarted broker by broker under load, three times over: nobody notices, and the books balance."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.load import DOUBLE, NAMES, PAY, network_under_load
from tests.integration.networks import PATIENCE, BrokerNetwork


def restart_all(brokers: BrokerNetwork) -> None:
    """Drain each by SIGTERM, and start it again when it has ended."""
    for name in NAMES:
        assert brokers[name].stop() == 0
        assert brokers[name].has_said("drained")
        brokers[name].start()
        brokers.await_complete()


@pytest.mark.parametrize("rounds", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_rolling_restart_loses_no_task_and_no_reply(tmp_path: Path, rounds: int) -> None:
    with network_under_load(tmp_path, liveness=PATIENCE) as (brokers, load):
        for _ in range(rounds):
            restart_all(brokers)
            load.await_replies()
            assert not any(brokers[name].has_said("with tasks in hand") for name in NAMES)
        load.finish()
    # A drain finishes what is in flight: not even a task that must not be repeated ends in an error.
    load.books[DOUBLE].check("reply")
    load.books[PAY].check("reply")
    assert max(load.books[PAY].runs.values()) == 1
