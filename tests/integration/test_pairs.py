"""A broker and its fallback, one of which is killed or stopped under load: the other goes on where it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from scale0 import Client
from scale0.protocol.messages import Error, NeedBroker
from tests.integration.load import PAY, echo_worker
from tests.integration.mixed_load import COUNT, ONCE, SHIP
from tests.integration.networks import BrokerProcess, until
from tests.integration.pairs import (
    CALM,
    INTERVAL_S,
    PRIMARY,
    PairNetwork,
    epoch_of,
    is_followed,
    kept_epoch,
    pair,
    pair_under_load,
)
from tests.integration.test_full_disk import limit_files
from tests.integration.test_full_disk import pytestmark as where_files_can_be_limited
from tests.integration.wire import Wire


def await_takeover(brokers: PairNetwork, by: BrokerProcess) -> None:
    """Until this one serves. Its epoch was on disk before anybody could see that it does."""
    until(lambda: by.own()["state"] == "active", f"{by.identity} serves")
    epoch = epoch_of(by)
    assert epoch % 2 == (1 if by is brokers[PRIMARY] else 0), "a primary's epochs are odd, a fallback's even"
    assert kept_epoch(by) == (epoch, True)
    until(lambda: by.alarms("took_over"), "and says so")


@pytest.mark.slow
def test_whoever_serves_is_killed_five_times_and_no_task_is_lost_or_doubled(tmp_path: Path) -> None:
    with pair_under_load(tmp_path) as (brokers, load):
        epochs = [epoch_of(brokers[PRIMARY])]
        for _ in range(5):
            victim = brokers.serving()
            heir = brokers.other(victim)
            victim.kill()
            await_takeover(brokers, by=heir)
            epochs.append(epoch_of(heir))
            load.await_replies()
            victim.start()
            brokers.await_whole()
        assert epochs == sorted(set(epochs)), "each reign has a higher epoch than the last"
        load.check(COUNT)


def test_broker_that_stood_still_while_the_other_took_over_steps_down_and_nobody_obeys_it(tmp_path: Path) -> None:
    with pair_under_load(tmp_path) as (brokers, load):
        old, new = brokers.pair
        old.freeze()
        await_takeover(brokers, by=new)
        load.await_replies()
        old.thaw()
        until(lambda: old.alarms("stepped_down"), "it steps down")
        assert old.alarms("in_doubt"), "it asks before it dispatches anything"
        assert brokers.await_whole() is new
        assert old.own()["workers"] == old.own()["clients"] == 0
        load.await_replies()
        load.check(COUNT, PAY, SHIP)  # what was under way when it stood still: nobody knows of all of it whether it ran


def test_broker_that_stood_still_for_less_than_takeover_timeout_goes_on(tmp_path: Path) -> None:
    with pair_under_load(tmp_path, takeover_timeout=60.0, liveness=50) as (brokers, load):
        active, standby = brokers.pair
        epoch = epoch_of(active)
        active.freeze()
        until(lambda: standby.sees()[PRIMARY]["heard_us"] > 5 * INTERVAL_S * 1e6, "the standby hears nothing")
        with Wire(standby.endpoint) as asker:
            asker.say(NeedBroker(identity="lost"))
            assert asker.hear_a(Error).code == 503
        active.thaw()
        load.await_replies()
        assert brokers.await_whole() is active
        assert epoch_of(active) == epoch
        load.check()


def test_fallback_may_be_killed_or_stand_still_and_serving_goes_on(tmp_path: Path) -> None:
    with pair_under_load(tmp_path) as (brokers, load):
        active, standby = brokers.pair
        epoch = epoch_of(active)
        standby.kill()
        until(lambda: not is_followed(active), "it is missed")
        load.await_replies()
        standby.start()
        brokers.await_whole(at=active)

        standby.freeze()
        until(lambda: not is_followed(active), "it is missed")
        load.await_replies()
        standby.thaw()
        brokers.await_whole(at=active)
        assert epoch_of(active) == epoch
        load.check()


def test_of_two_that_are_killed_at_once_the_one_that_served_last_serves_again(tmp_path: Path) -> None:
    with pair_under_load(tmp_path, **CALM) as (brokers, load):
        primary, fallback = brokers.pair
        primary.manage("handover")
        brokers.await_whole(at=fallback)
        epoch = epoch_of(fallback)
        for broker in brokers.pair:
            broker.kill()
        for broker in brokers.pair:
            broker.start()
        brokers.await_whole(at=fallback)
        assert epoch_of(fallback) > epoch
        load.await_replies()
        load.check(*ONCE)


@where_files_can_be_limited
def test_fallback_with_a_full_disk_takes_over_and_says_that_it_cannot_keep_its_epoch(tmp_path: Path) -> None:
    with pair(tmp_path) as brokers:
        victim, heir = brokers.pair
        with echo_worker(victim.endpoint, "w", "echo"), Client(*brokers.addresses) as client:
            assert client.call("echo") == "w"
            brokers.await_whole()
            before = kept_epoch(heir)
            limit_files(heir, 0)
            victim.kill()
            assert client.call("echo") == "w"
            assert heir.own()["state"] == "active"
            assert heir.alarms("state_not_kept")
            assert kept_epoch(heir) == before, "the last good one stays"
