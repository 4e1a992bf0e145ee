"""What operators do with a pair while it works: hand over, fail back, take over, drain, end and disable."""

from __future__ import annotations

from pathlib import Path

import pytest

from scale0 import Client
from scale0.errors import TaskError
from tests.integration.load import echo_worker
from tests.integration.networks import until
from tests.integration.pairs import CALM, FALLBACK, PRIMARY, epoch_of, pair, pair_under_load


def test_handover_and_failback_by_command_cost_nobody_an_error(tmp_path: Path) -> None:
    with pair_under_load(tmp_path, **CALM) as (brokers, load):
        primary, fallback = brokers.pair
        assert primary.manage("handover")["to"] == FALLBACK
        brokers.await_whole(at=fallback)
        load.await_replies()
        assert fallback.manage("failback")["to"] == PRIMARY
        brokers.await_whole(at=primary)
        load.await_replies()
        with pytest.raises(TaskError, match=r"503 .*a serves"):
            fallback.manage("takeover")
        with pytest.raises(TaskError, match=r"503 .*ask a"):
            fallback.manage("failback")
        load.check()
        assert not any(broker.alarms("took_over") + broker.alarms("stepped_down") for broker in brokers.pair)


def test_active_broker_that_is_ended_by_a_signal_hands_over_first_and_nothing_is_lost(tmp_path: Path) -> None:
    with pair_under_load(tmp_path, **CALM) as (brokers, load):
        for leaving, heir in (brokers.pair, brokers.pair[::-1]):
            assert leaving.stop() == 0
            assert leaving.has_said("drained")
            load.await_replies()
            leaving.start()
            brokers.await_whole(at=heir)
        load.check()


def test_active_broker_that_is_drained_hands_over_and_follows_when_it_is_enabled(tmp_path: Path) -> None:
    with pair_under_load(tmp_path, **CALM) as (brokers, load):
        leaving, heir = brokers.pair
        leaving.manage("drain")
        until(lambda: leaving.has_said("drained"), "nothing is left to finish")
        assert leaving.own()["state"] == "draining"
        load.await_replies()
        leaving.manage("enable")
        brokers.await_whole(at=heir)
        load.check()


def test_fallback_does_not_serve_for_a_disabled_broker_until_it_is_told(tmp_path: Path) -> None:
    with pair(tmp_path) as brokers:
        primary, fallback = brokers.pair
        with (
            echo_worker(primary.endpoint, "w", "echo"),
            Client(*brokers.addresses, timeout=60, retry_forever=True) as client,
        ):
            assert client.call("echo") == "w"
            brokers.await_whole()
            primary.manage("disable")
            until(lambda: fallback.counters().get("refused_while_passive", 0) >= 6, "everybody asks the fallback")
            assert fallback.own()["state"] == "passive"
            future = client.submit("echo")
            assert fallback.manage("takeover")["state"] == "active"
            assert future.result(60) == "w"
            assert epoch_of(fallback) % 2 == 0
            # When it is enabled again it follows: going back is for an operator to say.
            primary.manage("enable")
            brokers.await_whole(at=fallback)
            assert client.call("echo") == "w"
