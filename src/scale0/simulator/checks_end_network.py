"""What must hold in a network after the trouble: it is whole again, agrees on its config, and serves at every broker.

I6: all reachable brokers and participants converge within two heartbeats of healing. Healing takes its own time here:
silence must be noticed and links dialed anew. So the two heartbeats are counted from the moment that every two brokers
are linked, or from the last change if that is later. Of a broker and its fallback exactly one serves, and the other has
a complete copy.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from scale0.core.groups import BALANCE_INTERVALS
from scale0.core.network import Peer
from scale0.simulator.changes import Changes
from scale0.simulator.checks_end import LIVE_WITHIN_S, PROBE_TIMEOUT_S, EndChecks
from scale0.simulator.checks_star import is_standby
from scale0.simulator.host import BrokerHost
from scale0.simulator.native_actors import ClientProcess, WorkerProcess

if TYPE_CHECKING:
    from scale0.simulator.world import World

HEARTBEATS = 2
FETCH_MARGIN_S = 1.0  # a snapshot that was asked of a broker that had just gone is asked again after so long
LATENCIES = 10  # messages one after the other, from the sequencer to the last participant
QUIET_INTERVALS = 5  # moves for balance are two intervals apart: who is not moved for longer has come to rest
SHARE_SLACK = 0.2


class NetworkEndChecks(EndChecks):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._changes = Changes(world, world.random_for("end"))

    def settle(self) -> None:
        """After every task has its outcome, and before the probes."""
        self._make_whole()
        self._agree()
        self._list_newcomers()
        if self.world.profile.kind == "shares":
            self._come_to_rest()
            self._shares_are_fair()
        for place, host in enumerate(self.world.hosts):
            if not is_standby(host):
                self.world.spawn(f"probe{place}")

    def finish(self) -> None:
        """After the probes."""
        self._come_to_rest()
        self._agree()
        self.world.versions.losers_are_remembered()
        for host in self.world.hosts:
            host.checks.peers.look_into()
            self.world.stars.ended(host)

    # --- whole ----------------------------------------------------------------------------------------------------

    def _make_whole(self) -> None:
        limit_s = self.world.schedule.now + LIVE_WITHIN_S
        self._until(
            self._is_whole, limit_s, "brokers are not active, or not linked with one another", self._why_not_whole
        )

    def _is_whole(self) -> bool:
        return not self._why_not_whole()

    def _why_not_whole(self) -> str:
        for host in self.world.hosts:
            if host.is_running and host.broker.state.mode == "disabled":
                host.manage("enable", {})  # the config had it disabled
        for host in self.world.hosts:
            if not host.is_running:
                return f"{host.name} is down"
            is_waiting = self._waits_for_its_entry(host) or is_standby(host)
            if host.broker.state.mode != "active" and not is_waiting:
                return f"{host.name} is {host.broker.state.mode}"
        why = self.world.stars.why_not_whole()
        if why:
            return why
        members = [host for host in self._serving() if not self._waits_for_its_entry(host)]
        for one, other in itertools.combinations(members, 2):
            if not _are_linked(one, other):
                return f"{one.name} and {other.name} are not linked"
        return ""

    def _serving(self) -> list[BrokerHost]:
        """All but the standbys, which are linked with their partners only."""
        return [host for host in self.world.hosts if not is_standby(host)]

    def _waits_for_its_entry(self, host: BrokerHost) -> bool:
        """It asks to join, and brokers must be listed by an operator."""
        assert self.world.shape is not None, "only a network is joined"
        return self.world.shape.join == "listed" and host.broker.state.network.is_joining

    def _list_newcomers(self) -> None:
        """The operator lists those that wait for it; one who is refused tries again."""
        assert self.world.shape is not None, "only a network is joined"
        end_s = self.world.schedule.now + LIVE_WITHIN_S
        while waiting := [host.name for host in self.world.hosts if self._waits_for_its_entry(host)]:
            if self.world.schedule.now > end_s:
                self.world.violation("I14", f"{', '.join(waiting)} cannot join")
            for broker in self.world.shape.brokers:
                if broker.name in waiting:
                    self._changes.enter(self._serving()[0], broker)
            self._pass(1.0)
        self._make_whole()
        self._agree()

    # --- one config -----------------------------------------------------------------------------------------------

    def _agree(self) -> None:
        profile = self.world.profile
        started_s = max(self.world.schedule.now, self.world.versions.newest_s)
        margin_s = FETCH_MARGIN_S + LATENCIES * (profile.network.latency_s + profile.network.jitter_s)
        limit_s = started_s + HEARTBEATS * profile.interval_s + margin_s
        self._until(
            lambda: not self._why_not_agreed(), limit_s, "not all have the same config", self._why_not_agreed, "I6"
        )

    def _why_not_agreed(self) -> str:
        versions = {
            host.name: host.broker.state.config.packed_version
            for host in self.world.hosts
            if not self._waits_for_its_entry(host)
        }
        newest = max(versions.values())
        behind = [name for name, version in versions.items() if version != newest]
        if behind:
            return f"{', '.join(behind)} behind"
        for process in self.world.of(ClientProcess, WorkerProcess):
            link = process.session.link
            if link.phase.value == "up" and link.config_version != newest:
                return f"{process.label} behind"
        return ""

    # --- rest and shares ------------------------------------------------------------------------------------------

    def _come_to_rest(self) -> None:
        interval_s = self.world.profile.interval_s
        limit_s = self.world.schedule.now + (BALANCE_INTERVALS + 4 * QUIET_INTERVALS) * interval_s
        moves, versions = self.world.moves, self.world.versions
        self._until(
            lambda: self.world.schedule.now - max(moves.last_s, versions.newest_s) > QUIET_INTERVALS * interval_s,
            limit_s,
            "participants are told to move again and again",
            rule="I8",
        )

    def _shares_are_fair(self) -> None:
        """After a join the workers are shared equally among equal brokers."""
        counts = {host.name: host.broker.state.sessions.workers for host in self._serving()}
        fair = sum(counts.values()) / len(counts)
        if any(abs(number - fair) > max(1.0, SHARE_SLACK * fair) for number in counts.values()):
            self.world.violation("shares", f"of {sum(counts.values())} workers the brokers have {counts}")

    # --- probes ---------------------------------------------------------------------------------------------------

    def _is_round_served(self) -> bool:
        """Each service answers via every broker."""
        world = self.world
        for probe in self._probes():
            for service in world.profile.services:
                served = world.promises.outcomes["OK"]
                probe.submit(service.name, b"ok", PROBE_TIMEOUT_S)
                self._until(lambda: not world.promises.open, world.schedule.now + 10.0, "a probe has no outcome")
                if world.promises.outcomes["OK"] == served:
                    self.why_unserved = f": {service.name} via {probe.label}"
                    return False
        return len(self._probes()) == len(self._serving()) and super()._is_round_served()

    def _probes(self) -> list[ClientProcess]:
        """One client at each broker."""
        homes = {f"probe{place}": host.endpoint for place, host in enumerate(self.world.hosts)}
        clients = self.world.of(ClientProcess)
        return [one for one in clients if one.socket is not None and one.socket.endpoint == homes.get(one.name)]


def _are_linked(one: BrokerHost, other: BrokerHost) -> bool:
    """By one link, and the same for both: one has dialed it and the other has accepted it."""
    mine, theirs = _peer(one, other), _peer(other, one)
    if mine is None or theirs is None or not mine.is_linked or not theirs.is_linked:
        return False
    return (_dialed(one, mine) and _accepted(other, theirs, one)) or (
        _dialed(other, theirs) and _accepted(one, mine, other)
    )


def _peer(host: BrokerHost, other: BrokerHost) -> Peer | None:
    peer = host.broker.state.network.peers.get(other.name)
    return peer if peer is not None and peer.session is not None and not peer.session.is_absent else None


def _dialed(host: BrokerHost, peer: Peer) -> bool:
    assert peer.session is not None, "it is linked"
    return peer.session.route in host.links.by_route


def _accepted(host: BrokerHost, peer: Peer, other: BrokerHost) -> bool:
    assert peer.session is not None, "it is linked"
    connection = host.routes.get(peer.session.route)
    has_dialed_too = any(link.leads_to == other.name for link in host.links.by_route.values())
    return connection is not None and not connection.is_dead and connection.peer == other.name and not has_dialed_too
