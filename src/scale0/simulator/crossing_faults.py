"""Words of a pair that cross: one has said what it is, and is something else before the other has heard it (rule 31).

What one of the two says of itself is under way for a few milliseconds. Here something happens to it within them: two
that meet, one of which is switched off and on before it hears the other; one that serves in the place of the other, and
cannot say so; one that is told to give way, and one to take over, in epochs that the other has not heard of. Only some
worlds have them, as with `moment_faults`.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from scale0.core.effects import Route
from scale0.core.star import Star
from scale0.simulator.host import BrokerHost
from scale0.simulator.moment_faults import LOOK_S, LOOKS_MAX, MomentFaults
from scale0.simulator.native_actors import ClientProcess, WorkerProcess

if TYPE_CHECKING:
    from scale0.simulator.world import World

CROSSINGS = {
    "meeting meets a switch": 6,
    "successor cannot say that it serves": 6,
    "orders meet a claimed epoch": 4,
}
"""What happens, and how often; a method of `CrossingFaults` has its name."""
PLACE = 3  # of `EVERY` seeds, the one that leaves so much
ANEW_S = 0.02  # a process is back so soon
LEAP_MAX = 9  # by so much a participant claims to have seen a higher epoch

Links = dict[str, Route | None]  # by broker: that with its partner


class CrossingFaults(MomentFaults):
    kinds = CROSSINGS
    place = PLACE

    def __init__(self, world: World, random: Random) -> None:
        super().__init__(world, random)
        self._parted_until_s = 0.0  # a pair that is parted again and again never meets

    def meeting_meets_a_switch(self) -> None:
        """Both have served, and one may have started anew since. Whoever is dialed says first what it is."""
        for host in self._active():
            other, seconds, now = self._partner(host), 2.5 * self._takeover_s(), self.world.schedule.now
            if other is not None and now >= self._parted_until_s:
                self._parted_until_s = now + seconds + LOOKS_MAX * LOOK_S
                self._tell(host, "is cut off")
                links = {one.name: self._link(one) for one in (host, other)}
                self._part_from_participants(host, seconds)
                self.world.network.cuts.part(host.name, other.name, seconds)
                self._sever(host, other)
                if self._random.random() < 0.5:
                    self.world.schedule.after(seconds * 0.95, self._start_anew, other)
                self.world.schedule.after(seconds, self._watch_meeting, host, other, links, LOOKS_MAX)

    def successor_cannot_say_that_it_serves(self) -> None:
        """When it is heard again it has been switched off and on, or doubts."""
        for host in self._active():
            other = self._partner(host)
            if other is not None:
                host.manage("handover", {})
                self._watch_successor(host, other, LOOKS_MAX)

    def orders_meet_a_claimed_epoch(self) -> None:
        """A participant says that it has seen a higher epoch, so that its broker opens another one."""
        for host in self._active():
            other = self._partner(host)
            if other is not None:
                self._watch_epoch(host, other, self._claim_epoch(host), LOOKS_MAX)

    # --- details --------------------------------------------------------------------------------------------------

    def _watch_meeting(self, host: BrokerHost, other: BrokerHost, links: Links, looks: int) -> None:
        if not looks or self.world.is_healed:
            return
        for one in (host, other):
            if one.is_running and self._link(one) not in (None, links[one.name]):
                one.manage("disable", {})
                one.manage("enable", {})
                return
        self.world.schedule.after(LOOK_S, self._watch_meeting, host, other, links, looks - 1)

    def _watch_successor(self, host: BrokerHost, other: BrokerHost, looks: int) -> None:
        if not looks or self.world.is_healed:
            return
        star, theirs = self._star(host), self._star(other)
        if star is Star.YIELDING and theirs is Star.ACTIVE:
            self._sever(host, other)
            if self._random.random() < 0.5:
                self._switch(other)
            else:
                self._claim_epoch(other)
            return
        if star is Star.YIELDING and not self.world.network.cuts.is_cut(other.name, host.name):
            self._tell(other, f"does not reach {host.name}")
            self.world.network.cuts.cut(other.name, host.name, 0.2 * self._takeover_s(), breaks=False)
        self.world.schedule.after(LOOK_S, self._watch_successor, host, other, looks - 1)

    def _watch_epoch(self, host: BrokerHost, other: BrokerHost, claimed: int, looks: int) -> None:
        if not looks or self.world.is_healed:
            return
        if self._star(host) is Star.ACTIVE and host.broker.state.epoch > claimed:
            host.manage("handover", {})
            other.manage("takeover", {})
        else:
            self.world.schedule.after(LOOK_S, self._watch_epoch, host, other, claimed, looks - 1)

    def _claim_epoch(self, host: BrokerHost) -> int:
        """A participant comes and says that it has seen this epoch, which is higher than the broker's.

        It is not lower than what it has seen itself: a participant forgets nothing as long as it lives.
        """
        state, participants = host.broker.state, [*self.world.of(ClientProcess), *self.world.of(WorkerProcess)]
        claimed = state.epoch + self._random.randint(2, LEAP_MAX)
        if state.pair is not None and participants:
            liar = self._random.choice(participants)
            claimed = max(claimed, liar.session.link.epochs.get(state.pair.name, 0))
            liar.session.link.epochs[state.pair.name] = claimed
            self.world.trace.event(liar.now, liar.label, f"claims to have seen epoch {claimed} of {state.pair.name}")
            for connection in self.world.network.connections():
                if connection.process is liar:
                    self.world.network.break_(connection)
        return claimed

    def _star(self, host: BrokerHost) -> Star | None:
        pair = host.broker.state.pair if host.is_running else None
        return pair.star if pair is not None else None

    def _link(self, host: BrokerHost) -> Route | None:
        """The connection with its partner, if there is one."""
        state = host.broker.state
        peer = state.network.peers.get(state.pair.partner) if state.pair is not None else None
        return peer.session.route if peer is not None and peer.is_linked and peer.session is not None else None

    def _sever(self, host: BrokerHost, other: BrokerHost) -> None:
        """What is under way between them is lost."""
        for connection in self.world.network.connections():
            if set(connection.ends(True)) == {host.name, other.name}:
                self.world.network.break_(connection)

    def _start_anew(self, host: BrokerHost) -> None:
        if host.is_running and not self.world.is_healed:
            host.crash()
            self.world.schedule.after(ANEW_S, host.start)
