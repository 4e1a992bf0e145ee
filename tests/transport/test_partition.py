"""A cut between two brokers: what is dropped, what passes, and that it ends by itself."""

from __future__ import annotations

from typing import Any

import pytest

from scale0 import Client, Worker
from scale0.core.broker import Broker
from scale0.core.effects import Alarm, Cut, Effect, Heal, Route, Send
from scale0.core.settings import BrokerSettings
from scale0.protocol.dialects import CLIENT, PEER
from scale0.protocol.messages import Connect, Ping, TableReq
from scale0.testing import TestNetwork, running_network
from scale0.transport.logs import make_log
from scale0.transport.partition import STRANGERS_MAX, Partition
from tests.integration.networks import until

OTHER = Route(b"\0other")


class Clock:
    """Shows what the test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now


class FakeLoop:
    sieve: Any = None


class Bench:
    """A core with one linked peer, and its partition."""

    def __init__(self) -> None:
        self.clock, self.loop = Clock(), FakeLoop()
        self.broker = Broker(BrokerSettings(identity="eu-1"), now=100.0, wall_s=1e9)
        self.partition = Partition(self.broker, self.loop, make_log(is_quiet=True), self.clock)  # type: ignore[arg-type]
        self.connect("eu-2", OTHER)
        assert self.broker.state.network.peers["eu-2"].is_linked

    def connect(self, identity: str, route: Route) -> list[Effect]:
        message = Connect(identity=identity, nonce=bytes(8), is_joining=True)
        receive = self.loop.sieve.receive if self.loop.sieve is not None else self.broker.receive
        effects: list[Effect] = receive(route, PEER, message, self.clock.now)
        return effects

    def hears(self) -> bool:
        """Whether a word of the peer reaches the core: it is heard at that moment."""
        self.clock.now += 0.001
        session = self.broker.state.network.peers["eu-2"].session
        assert session is not None
        self.partition.receive(OTHER, PEER, TableReq(), self.clock.now)
        return session.last_seen_s == self.clock.now

    def sends(self) -> bool:
        return bool(self.partition.sift([Send(OTHER, PEER, Ping(1))]))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_without_a_cut_the_loop_has_no_sieve(bench: Bench) -> None:
    assert bench.loop.sieve is None
    bench.partition.heal(Heal())
    assert bench.loop.sieve is None


@pytest.mark.parametrize(
    ("is_outbound", "is_inbound"), [(True, True), (True, False), (False, True)], ids=["both", "sent", "received"]
)
def test_cut_drops_what_it_says_and_nothing_else(bench: Bench, is_outbound: bool, is_inbound: bool) -> None:
    bench.partition.cut(Cut("eu-2", 5.0, is_outbound, is_inbound))
    assert bench.loop.sieve is bench.partition
    assert bench.sends() is not is_outbound
    assert bench.hears() is not is_inbound
    assert bench.partition.hears("eu-2") is not is_inbound
    assert bench.partition.hears("eu-3")


def test_participants_and_other_effects_pass(bench: Bench) -> None:
    bench.partition.cut(Cut("eu-2", 5.0))
    passing: list[Effect] = [Send(OTHER, CLIENT, Ping(1)), Send(Route(b"\0third"), PEER, Ping(1)), Alarm("a", "text")]
    assert bench.partition.sift(passing) == passing
    effects = bench.partition.receive(Route(b"\0c"), CLIENT, Connect(identity="c", nonce=bytes(8)), bench.clock.now)
    assert effects, "the client's CONNECT was answered"


def test_cut_ends_by_itself(bench: Bench) -> None:
    bench.partition.cut(Cut("eu-2", 5.0))
    bench.clock.now += 5.0
    assert bench.sends(), "even before anybody looks"
    assert bench.hears()
    bench.partition.look(bench.clock.now)
    assert bench.loop.sieve is None


def test_cut_ends_by_command(bench: Bench) -> None:
    bench.partition.cut(Cut("eu-2", 5.0))
    bench.partition.cut(Cut("eu-3", 5.0))
    bench.partition.heal(Heal("eu-2"))
    assert bench.sends()
    assert bench.loop.sieve is bench.partition, "the other one is still on"
    bench.partition.heal(Heal())
    assert bench.loop.sieve is None


def test_new_link_of_a_peer_that_is_cut_is_known_by_its_connect(bench: Bench) -> None:
    bench.partition.cut(Cut("eu-3", 5.0))
    third = Route(b"\0third")
    assert bench.connect("eu-3", third) == []
    assert "eu-3" not in bench.broker.state.network.peers
    assert bench.partition.receive(third, PEER, TableReq(), bench.clock.now) == []
    assert bench.partition.sift([Send(third, PEER, Ping(1))]) == []


def test_links_that_are_known_by_their_connect_are_limited(bench: Bench) -> None:
    bench.partition.cut(Cut("eu-3", 5.0))
    for number in range(STRANGERS_MAX + 10):
        bench.connect("eu-3", Route(b"\0" + number.to_bytes(2, "big")))
    assert len(bench.partition._strangers) == STRANGERS_MAX


# --- real brokers ---------------------------------------------------------------------------------------------------


def sees(network: TestNetwork, at: int, identity: str) -> str:
    rows = network.brokers[at].listing("network")["rows"]
    return str(next(row["link"] for row in rows if row["identity"] == identity))


def test_brokers_that_are_cut_lose_one_another_and_find_back_by_themselves() -> None:
    with running_network(2, default_heartbeat_interval_s=0.1, group="eu") as network:
        one, other = network.brokers
        one.manage("partition", peer="broker-2", for_s=1.5)
        other.manage("partition", peer="broker-1", for_s=1.5)
        until(lambda: sees(network, 0, "broker-2") != "up", "the first has noticed")
        until(lambda: sees(network, 1, "broker-1") != "up", "the second has noticed")
        assert one.listing("brokers")["rows"][0]["counters"]["alarm_drill"] == 1
        network.wait()
        assert one.server.loop.sieve is None


def test_task_passes_again_when_a_drill_was_healed() -> None:
    with running_network(2, default_heartbeat_interval_s=0.1, group="eu") as network:
        one, other = network.brokers
        worker = Worker(other.endpoint)
        worker.add_service("greet", lambda: "hello")
        with worker.start(), Client(one.endpoint) as client:
            until(lambda: client.call("greet", timeout=5.0) == "hello", "a task crosses")
            one.manage("partition", peer="broker-2", for_s=60)
            until(lambda: sees(network, 0, "broker-2") != "up", "the first has noticed")
            one.manage("heal", peer="broker-2")
            network.wait()
            until(lambda: client.call("greet", timeout=5.0) == "hello", "a task crosses again")
