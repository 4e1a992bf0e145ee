"""A pair and its surroundings: who is sent where, other brokers of the group, and a cut between the two themselves."""

from __future__ import annotations

from pathlib import Path

from scale0 import Client
from scale0.protocol.messages import ChangeBroker, Config, ConfigAck, NeedBroker, Pong
from tests.integration.load import echo_worker
from tests.integration.mixed_load import KINDS
from tests.integration.networks import BrokerProcess, until
from tests.integration.pairs import FALLBACK, PRIMARY, epoch_of, pair, pair_under_load
from tests.integration.wire import RawClient, Wire

THIRD = "c"


def told_epoch(broker: BrokerProcess, identity: str) -> tuple[str, int]:
    """The pair and the epoch that a participant hears when it connects, and with each heartbeat."""
    with RawClient(broker.endpoint, identity) as client:
        answer = client.connect()
        assert isinstance(answer, Config | ConfigAck)
        client.beat()
        assert client.hear_a(Pong).epoch == answer.epoch
        return answer.pair, answer.epoch


def named_by(broker: BrokerProcess, *tried: str) -> str:
    """Whom a broker names to somebody who needs one, and has tried it already."""
    with Wire(broker.endpoint) as wire:
        wire.say(NeedBroker(identity="lost", tried=list(tried)))
        return wire.hear_a(ChangeBroker).identity


def test_client_that_knows_only_the_fallback_is_sent_to_who_serves(tmp_path: Path) -> None:
    with pair(tmp_path) as brokers:
        serving, standby = brokers.pair
        with echo_worker(standby.endpoint, "w", "echo"), Client(standby.endpoint) as client:
            assert client.call("echo") == "w"
            assert client.broker == serving.endpoint
            assert serving.own()["workers"] == 1
            brokers.await_whole()
            serving.kill()
            assert client.call("echo") == "w"
            assert client.broker == standby.endpoint


def test_pair_in_a_group_forwards_and_is_named_before_and_after_a_takeover(tmp_path: Path) -> None:
    with pair(tmp_path, THIRD) as brokers:
        primary, fallback, third = brokers[PRIMARY], brokers[FALLBACK], brokers[THIRD]
        with echo_worker(third.endpoint, "w", "echo"), Client(primary.endpoint) as client:
            until(lambda: primary.sees()[THIRD]["services"].get("echo"), "it knows of the worker")
            assert client.call("echo") == "w"
            assert client.broker == primary.endpoint
            assert primary.sees()[THIRD]["forwarded"] == 1
            assert named_by(third, third.endpoint) == PRIMARY
            assert third.sees()[FALLBACK]["link"] != "up", "a standby is linked with its partner only"
            brokers.await_whole()

            primary.kill()
            assert client.call("echo") == "w"
            assert client.broker == fallback.endpoint
            assert fallback.sees()[THIRD]["forwarded"] >= 1
            until(lambda: third.sees()[FALLBACK]["state"] == "active", "the third knows who serves")
            assert named_by(third, third.endpoint, primary.endpoint) == FALLBACK

            primary.start()
            brokers.await_whole(at=fallback)
            assert named_by(third, third.endpoint) == FALLBACK
            assert client.call("echo") == "w"


def serves_when_asked(broker: BrokerProcess) -> bool:
    """Ask as a stranger does."""
    with Wire(broker.endpoint) as wire:
        wire.say(NeedBroker(identity="lost"))
        wire.hear()
    return bool(broker.own()["state"] == "active")


def test_two_that_are_cut_off_and_both_asked_serve_in_different_epochs_until_they_meet(tmp_path: Path) -> None:
    with pair_under_load(tmp_path) as (brokers, load):
        old, new = brokers.pair
        settled = {name: set(books.outcomes) for name, books in load.books.items()}
        brokers.part()
        waited = {name: set(range(books.submitted)) - settled[name] for name, books in load.books.items()}
        until(lambda: new.sees()[old.identity]["link"] != "up", "it misses the other")
        assert new.own()["state"] == "passive", "nobody has asked"
        load.await_replies()
        until(lambda: serves_when_asked(new), "somebody asks, and it serves")
        assert (old.own()["state"], new.own()["state"]) == ("active", "active")
        assert told_epoch(old, "one") == (PRIMARY, epoch_of(old))
        assert told_epoch(new, "two") == (PRIMARY, epoch_of(new))
        assert epoch_of(new) > epoch_of(old)
        load.await_replies()

        brokers.heal()
        until(lambda: old.alarms("stepped_down"), "the lower epoch steps down, loudly")
        brokers.await_whole(at=new)
        load.await_replies()
        load.finish()
        for name, kind in KINDS.items():
            books = load.books[name]
            books.check("reply", *([] if kind.is_idempotent else ["502"]))
            # What two cannot decide: what waited when they were cut off may have run on both sides, and nothing else.
            assert kind.is_idempotent or books.repeated() <= waited[name]
