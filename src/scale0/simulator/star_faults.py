"""What goes wrong with pairs of brokers, and what operators do to them (rule 31).

Either one is killed, stands still for shorter and longer than takeover_timeout, or crashes between two effects; the
link of the two is cut in both directions or in one, or stutters; participants lose the active one alone. Operators hand
over, take over by force, disable, drain, and make and dissolve pairs. A calm world knows only the handing over.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from scale0.core.star import Star
from scale0.simulator.changes import Changes
from scale0.simulator.host import BrokerHost
from scale0.simulator.network_profiles import document_of
from scale0.simulator.process import Process

if TYPE_CHECKING:
    from scale0.simulator.world import World

ORDERLY = {"pair hands over": 3}
ROUGH = {
    "active one crashes": 5,
    "active one crashes midway": 3,
    "passive one crashes": 3,
    "both of a pair crash": 2,
    "active one pauses": 5,
    "passive one pauses": 2,
    "pair is parted": 4,
    "one way of a pair is cut": 3,
    "link of a pair stutters": 2,
    "active one is out of reach": 4,
    "active one is cut off": 3,
    "active one is parted and dies": 5,
    "takeover is ordered": 2,
    "one of a pair is disabled": 1,
    "one of a pair drains": 2,
    "clock of a pair jumps": 1,
    "pair is made or dissolved": 1,
}
"""Each kind of fault and how often it is chosen; a method of `StarFaults` has its name."""

CUT_SHARE = 0.8  # of the participants that do not reach an active broker that is out of reach
STUTTERS_MAX = 8


class StarFaults:
    def __init__(self, world: World, random: Random) -> None:
        self.world = world
        self._random = random
        self.changes = Changes(world, random)

    def chosen(self) -> dict[str, int]:
        """What happens in this kind of world, and how often."""
        if not any(entry.fallback_broker for entry in document_of(self.world.profile).brokers):
            return {}
        kind = self.world.profile.kind
        return {} if kind == "shares" else ORDERLY if kind == "calm" else ORDERLY | ROUGH

    # --- operators ------------------------------------------------------------------------------------------------

    def pair_hands_over(self) -> None:
        for host in self._active():
            host.manage(self._random.choice(("handover", "failback")), {})

    def takeover_is_ordered(self) -> None:
        for host in self._one(*(star for star in Star if star is not Star.ACTIVE)):
            host.manage("takeover", {})

    def one_of_a_pair_is_disabled(self) -> None:
        for host in self._one():
            host.manage("disable", {})
            self.world.schedule.after(self._takeovers_s(2), host.manage, "enable", {})

    def one_of_a_pair_drains(self) -> None:
        for host in self._one():
            host.manage("drain", {})

    def pair_is_made_or_dissolved(self) -> None:
        for host in self._random.sample(self.world.hosts, 1):
            self.changes.pair(host)

    # --- processes ------------------------------------------------------------------------------------------------

    def active_one_crashes(self) -> None:
        for host in self._active():
            self._crash(host)

    def active_one_crashes_midway(self) -> None:
        for host in self._active():
            host.crash_after(self._random.randint(1, 20))
            self.world.schedule.after(self._takeovers_s(2), host.start)

    def passive_one_crashes(self) -> None:
        for host in self._one(Star.PASSIVE):
            self._crash(host)

    def both_of_a_pair_crash(self) -> None:
        """At once, or one after the other: the first may have come back by then."""
        for host in self._one():
            other = self._partner(host)
            self._crash(host)
            if other is not None:
                self.world.schedule.after(self._random.choice((0.0, self._takeovers_s(1.5))), self._crash, other)

    def active_one_pauses(self) -> None:
        for host in self._active():
            self._pause(host)

    def passive_one_pauses(self) -> None:
        for host in self._one(Star.PASSIVE):
            self._pause(host)

    def clock_of_a_pair_jumps(self) -> None:
        for host in self._one():
            host.clock_off_s = self._random.choice((-7200.0, -3.0, 0.0, 3.0, 7200.0))
            self._tell(host, f"has a clock {host.clock_off_s:+} s off")

    # --- links ----------------------------------------------------------------------------------------------------

    def pair_is_parted(self) -> None:
        for host in self._one():
            other = self._partner(host)
            if other is not None:
                self._tell(host, f"and {other.name} are parted")
                self.world.network.cuts.part(host.name, other.name, self._takeovers_s(4))

    def one_way_of_a_pair_is_cut(self) -> None:
        for host in self._one():
            other = self._partner(host)
            if other is not None:
                self._tell(host, f"does not reach {other.name}")
                self.world.network.cuts.cut(host.name, other.name, self._takeovers_s(3))

    def link_of_a_pair_stutters(self) -> None:
        """What one says to the other comes late, and all at once."""
        for host in self._one():
            other = self._partner(host)
            if other is not None:
                self._tell(host, f"and {other.name} hear one another late")
                self._stutter(host.name, other.name, self._random.randint(2, STUTTERS_MAX))

    def active_one_is_out_of_reach(self) -> None:
        """Of most participants; its partner hears it well."""
        for host in self._active():
            self._tell(host, "is out of reach of most participants")
            self._part_from_participants(host, self._takeovers_s(3))

    def active_one_is_cut_off(self) -> None:
        """From its partner and from most participants: the partner takes over, and some stay here."""
        for host in self._active():
            other, seconds = self._partner(host), self._takeovers_s(4)
            self._tell(host, "is cut off")
            self._part_from_participants(host, seconds)
            if other is not None:
                self.world.network.cuts.part(host.name, other.name, seconds)

    def active_one_is_parted_and_dies(self) -> None:
        """What happened at it since then its partner does not know; or knows, and could not say so."""
        for host in self._active():
            other, seconds = self._partner(host), self._takeovers_s(3)
            if other is not None:
                self._tell(host, f"loses {other.name}, and will die")
                ways = self._random.choice((((host, other),), ((other, host),), ((host, other), (other, host))))
                for sender, receiver in ways:
                    self.world.network.cuts.cut(sender.name, receiver.name, seconds)
                self.world.schedule.after(self._random.random() * seconds, self._crash, host)

    # --- details --------------------------------------------------------------------------------------------------

    def _one(self, *stars: Star) -> list[BrokerHost]:
        """Any running broker of a pair that is one of `stars`."""
        running = [(host, host.broker.state.pair) for host in self.world.hosts if host.is_running]
        found = [host for host, pair in running if pair is not None and pair.star in (stars or Star)]
        return [self._random.choice(found)] if found else []

    def _active(self) -> list[BrokerHost]:
        return self._one(Star.ACTIVE)

    def _partner(self, host: BrokerHost) -> BrokerHost | None:
        pair = host.broker.state.pair
        return self.world.host_named(pair.partner) if pair is not None else None

    def _takeovers_s(self, most: float) -> float:
        """A while, from next to nothing to `most` times takeover_timeout."""
        shape, interval_s = self.world.shape, self.world.profile.interval_s
        takeover_s = shape.takeover_timeout_s if shape is not None else None
        return (0.05 + self._random.random()) * most * (takeover_s or 3 * interval_s)

    def _crash(self, host: BrokerHost) -> None:
        if host.is_running and not self.world.is_healed:
            host.crash()
            self.world.schedule.after(
                self._random.choice((0.1, self._takeovers_s(1), self._takeovers_s(4))), host.start
            )

    def _pause(self, host: BrokerHost) -> None:
        self._tell(host, "pauses")
        host.pause()
        self.world.schedule.after(self._takeovers_s(2.5), host.resume)

    def _stutter(self, one: str, other: str, times: int) -> None:
        if times and not self.world.is_healed:
            seconds = self._random.random() * self.world.profile.interval_s
            self.world.network.cuts.part(one, other, seconds, breaks=False)
            self.world.schedule.after(seconds * 1.5, self._stutter, one, other, times - 1)

    def _part_from_participants(self, host: BrokerHost, seconds: float) -> None:
        for process in self.world.of(Process):
            if self._random.random() < CUT_SHARE:
                self.world.network.cuts.part(process.name, host.name, seconds)

    def _tell(self, host: BrokerHost, what: str) -> None:
        self.world.trace.event(self.world.schedule.now, host.name, what)
