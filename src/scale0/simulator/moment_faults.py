"""Moments of a pair that chance alone seldom makes: two things go wrong with it, one right after the other (rule 31).

Most transitions of the binary star follow from one fault. A few need a second one before the first is over: the one
that should take over is switched off and on while the other gives way, both stand still at once, or both serve and then
stand still. Only some worlds have them, so that the seeds of all others make the worlds that they always made.
"""

from __future__ import annotations

from scale0.core.star import Star
from scale0.simulator.host import BrokerHost
from scale0.simulator.star_faults import StarFaults

MOMENTS = {
    "active one is switched off and on": 4,
    "both of a pair pause": 4,
    "handover meets a switch": 6,
    "both serve and pause": 4,
}
"""What happens, and how often; a method of `MomentFaults` has its name."""
EVERY, PLACE = 12, 7  # of so many seeds, the one that leaves so much
LOOK_S, LOOKS_MAX = 0.002, 700  # how closely a handover is watched, and for how long


class MomentFaults(StarFaults):
    kinds = MOMENTS
    place = PLACE

    def chosen(self) -> dict[str, int]:
        """What happens in this world: by its seed, or because it was asked for."""
        wanted = self.world.profile.faults
        if wanted is not None:
            return {kind: weight for kind, weight in self.kinds.items() if kind in wanted}
        is_one = self.world.seed % EVERY == self.place and self.world.profile.kind == "rough"
        return self.kinds if is_one and super().chosen() else {}

    def active_one_is_switched_off_and_on(self) -> None:
        for host in self._active():
            self._switch(host)

    def both_of_a_pair_pause(self) -> None:
        for host in self._active():
            self._pause_both(host)

    def handover_meets_a_switch(self) -> None:
        """The one that should serve forgets all that it knew before it hears that it should."""
        for host in self._active():
            host.manage("handover", {})
            self._watch(host, LOOKS_MAX)

    def both_serve_and_pause(self) -> None:
        """Cut off from its partner and most participants, which make the partner serve; then both stand still."""
        for host in self._active():
            other, seconds = self._partner(host), 2.0 * self._takeover_s()
            if other is not None:
                self._tell(host, "is cut off")
                self._part_from_participants(host, seconds)
                self.world.network.cuts.part(host.name, other.name, seconds)
                self.world.schedule.after(seconds * 0.95, self._pause_both, host)

    # --- details --------------------------------------------------------------------------------------------------

    def _watch(self, host: BrokerHost, looks: int) -> None:
        pair = host.broker.state.pair
        if not looks or pair is None or not host.is_running or self.world.is_healed:
            return
        other = self._partner(host)
        if pair.star is Star.YIELDING and other is not None:
            self._switch(other)
        else:
            self.world.schedule.after(LOOK_S, self._watch, host, looks - 1)

    def _switch(self, host: BrokerHost) -> None:
        host.manage("disable", {})
        soon_s = self._random.random() * 0.3 * self.world.profile.interval_s
        self.world.schedule.after(soon_s, host.manage, "enable", {})

    def _pause_both(self, host: BrokerHost) -> None:
        other = self._partner(host) if host.is_running and not self.world.is_healed else None
        for one in (host, other) if other is not None else ():
            self._tell(one, "pauses")
            one.pause()
            self.world.schedule.after((1.1 + 0.4 * self._random.random()) * self._takeover_s(), one.resume)

    def _takeover_s(self) -> float:
        shape = self.world.shape
        told_s = shape.takeover_timeout_s if shape is not None else None
        return told_s or 3 * self.world.profile.interval_s
