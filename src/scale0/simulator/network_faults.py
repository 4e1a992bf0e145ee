"""What goes wrong between brokers, and what operators do to a network.

Parts of it are cut off from one another, in both directions or in one; links break; brokers crash between two effects,
drain one after the other, and join while all this goes on; the config is changed here and there, also on both sides of
a cut, by force, or wrongly. A calm network knows only what operators do in good order.
"""

from __future__ import annotations

import itertools
from random import Random
from typing import TYPE_CHECKING, TypeVar

from scale0.core.management import LISTINGS
from scale0.simulator.changes import Changes
from scale0.simulator.host import BrokerHost
from scale0.simulator.network import Connection
from scale0.simulator.process import Process

if TYPE_CHECKING:
    from scale0.simulator.world import World

T = TypeVar("T")
ROLL_S = 3.0  # from one broker to the next in a rolling restart

JOINS = {"broker joins": 2}
ORDERLY = {
    "config is changed": 3,
    "shares are balanced": 1,
    "sessions fail back": 1,
    "brokers drain in turn": 2,
    "operator looks": 1,
}
ROUGH = {
    "broker crashes midway": 3,
    "origin crashes": 6,
    "network is parted": 3,
    "one way is cut": 3,
    "participant is parted": 2,
    "link breaks": 5,
    "link blackens": 2,
    "config is changed at many": 2,
    "config is forced": 1,
    "config is spoiled": 1,
    "config rolls back": 1,
    "config is read again": 1,
    "broker is switched by config": 1,
    "broker is forgotten": 1,
}
"""Each kind of fault and how often it is chosen; a method of `NetworkFaults` has its name."""


class NetworkFaults:
    def __init__(self, world: World, random: Random) -> None:
        self.world = world
        self._random = random
        self.changes = Changes(world, random)

    def chosen(self) -> dict[str, int]:
        """What happens in this kind of world, and how often."""
        kind = self.world.profile.kind
        return JOINS if kind == "shares" else JOINS | ORDERLY if kind == "calm" else JOINS | ORDERLY | ROUGH

    # --- orderly --------------------------------------------------------------------------------------------------

    def broker_joins(self) -> None:
        assert self.world.shape is not None, "only a network grows"
        present = {host.name for host in self.world.hosts}
        late = [broker for broker in self.world.shape.brokers if broker.name not in present]
        if late:
            if self.world.shape.join == "listed":
                self.changes.enter(self._any(), late[0])
            self.world.add_broker(late[0])

    def config_is_changed(self) -> None:
        is_based = self.world.profile.kind == "calm" or self._random.random() < 0.7
        self.changes.make(self._any(), is_based=is_based)

    def shares_are_balanced(self) -> None:
        self._any().manage("balance", {})

    def sessions_fail_back(self) -> None:
        self._any().manage("failback", {})

    def brokers_drain_in_turn(self) -> None:
        """One after the other, as in a rolling restart; in a rough world nobody looks whether it can be spared."""
        if self.world.profile.kind == "rough":
            self._roll([host.name for host in self.world.hosts])
        else:
            spare = [host for host in self.world.hosts if self._can_be_spared(host)]
            for host in self._one(spare):
                host.manage("drain", {})

    def operator_looks(self) -> None:
        self._any().manage("list", {"what": self._random.choice(list(LISTINGS))})

    # --- brokers and links ----------------------------------------------------------------------------------------

    def broker_crashes_midway(self) -> None:
        for host in self._one([host for host in self.world.hosts if host.is_running]):
            host.crash_after(self._random.randint(1, 12))
            self.world.schedule.after(self._some_intervals_s(4), host.start)

    def origin_crashes(self) -> None:
        """With tasks in the hands of others: their clients may come there and ask for them."""
        for host in self._one([host for host in self.world.hosts if host.is_running and _has_forwarded(host)]):
            host.crash()
            self.world.schedule.after(self._some_intervals_s(10), host.start)

    def network_is_parted(self) -> None:
        """Into two sides; each participant finds itself on one of them, or sees both."""
        hosts = [host.name for host in self.world.hosts]
        if len(hosts) < 2:
            return
        here = self._random.sample(hosts, self._random.randint(1, len(hosts) - 1))
        there = [name for name in hosts if name not in here]
        for process in self.world.of(Process):
            self._random.choice((here, there, [])).append(process.name)
        self.world.trace.event(self.world.schedule.now, "network", f"is parted: {', '.join(here)} apart")
        seconds = self._some_intervals_s(8)
        for one, other in itertools.product(here, there):
            if one in hosts or other in hosts:
                self.world.network.cuts.part(one, other, seconds)

    def one_way_is_cut(self) -> None:
        """What one broker says does not reach another; the other direction is well."""
        if len(self.world.hosts) > 1:
            one, other = self._random.sample(self.world.hosts, 2)
            self.world.trace.event(self.world.schedule.now, one.name, f"does not reach {other.name}")
            self.world.network.cuts.cut(one.name, other.name, self._some_intervals_s(8))

    def participant_is_parted(self) -> None:
        """From one broker only."""
        host = self._random.choice(self.world.hosts)
        for process in self._one(self.world.of(Process)):
            self.world.trace.event(self.world.schedule.now, process.label, f"does not reach {host.name}")
            self.world.network.cuts.part(process.name, host.name, self._some_intervals_s(8))

    def link_breaks(self) -> None:
        for connection in self._one(self._links()):
            self.world.trace.event(
                self.world.schedule.now, connection.host.name, f"loses its link with {connection.process.name}"
            )
            self.world.network.break_(connection)

    def link_blackens(self) -> None:
        for connection in self._one(self._links()):
            self.world.network.blacken(connection, self._some_intervals_s(5))

    # --- the config -----------------------------------------------------------------------------------------------

    def config_is_changed_at_many(self) -> None:
        """At once, at several brokers: also on both sides of a cut."""
        for host in self._random.sample(self.world.hosts, self._random.randint(1, len(self.world.hosts))):
            self.changes.make(host)

    def config_is_forced(self) -> None:
        self.changes.make(self._any(), is_forced=True, is_based=False)

    def config_is_spoiled(self) -> None:
        self.changes.spoil(self._any())

    def config_rolls_back(self) -> None:
        self.changes.roll_back(self._any())

    def config_is_read_again(self) -> None:
        self.changes.read_again(self._any())

    def broker_is_switched_by_config(self) -> None:
        self.changes.switch(self._any())

    def broker_is_forgotten(self) -> None:
        self.changes.forget(self._any())

    # --- details --------------------------------------------------------------------------------------------------

    def _any(self) -> BrokerHost:
        return self._random.choice(self.world.hosts)

    def _one(self, candidates: list[T]) -> list[T]:
        return [self._random.choice(candidates)] if candidates else []

    def _links(self) -> list[Connection]:
        return [connection for connection in self.world.network.connections() if connection.peer]

    def _some_intervals_s(self, most: float) -> float:
        return (0.1 + self._random.random()) * most * self.world.profile.interval_s

    def _roll(self, names: list[str]) -> None:
        """Drain the first; the next has its turn a little later, whether or not this one is back."""
        if not names or self.world.is_healed:
            return
        for host in self.world.hosts:
            if host.name == names[0]:
                host.manage("drain", {})
        self.world.schedule.after(ROLL_S, self._roll, names[1:])

    def _can_be_spared(self, host: BrokerHost) -> bool:
        """All brokers are well, and another one takes those who are here."""
        if not all(other.is_running and other.broker.state.mode == "active" for other in self.world.hosts):
            return False
        entry, document = host.broker.state.config.entry, host.broker.state.config.document
        groups = [entry.group, *document.fallback_groups(entry)]
        return any(
            other.group in groups and (other.services == "all" or other.services == entry.services)
            for other in document.brokers
            if other.identity != host.name
        )


def _has_forwarded(host: BrokerHost) -> bool:
    peers = host.broker.state.network.peers.values()
    return any(worker.slots for peer in peers for worker in peer.workers.values())
