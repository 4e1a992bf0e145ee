"""The one case that two brokers cannot decide, known by its signs; and what participants make of it.

If the link of a pair is cut and each of the two is reached by somebody, both serve, in different epochs. Then a task
that waited at both may be given out by both, and a client may be told by one that its task never ran while the other
runs it. That is excused, and counted, if both were active at one time within the life of the task, neither stood still
then, and the task was first given out after that had begun. Nothing else is.

One that stands still for so short a time that nobody has to notice is slow, and no more: if its words did not reach the
other before, that may serve meanwhile, and even die before it goes on. What the other served then it served beside it.

A side is an epoch, not a broker: when the two have met, the one with the lower epoch follows the other, whose copy does
not know what the follower gave out before. If that serves again, from the copy, it gives it out for the other side.

Participants sort it out by the epochs: none obeys a lower one than it has seen (I9).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scale0.core.link_settings import Phase
from scale0.core.star import Star
from scale0.protocol.messages import Config, ConfigAck, Message, Pong, ReadyOk

if TYPE_CHECKING:
    from scale0.simulator.host import BrokerHost
    from scale0.simulator.network import Socket
    from scale0.simulator.process import SessionProcess
    from scale0.simulator.world import World

CONFIGURES = (Config, ConfigAck)  # made once: a union of types in a check is built each time
ANSWERS = (Pong, ReadyOk)
SERVING = ("active", "holding", "draining")
ACTIVE = Star.ACTIVE  # looked up once: an enum takes its time for it, and this is asked after each step


class Splits:
    """When both brokers of a pair were active, over all pairs of a world; a pair is its primary and its fallback."""

    def __init__(self, world: World) -> None:
        self.world = world
        # by pair: from when to when, and who was in the lower epoch
        self._together: dict[tuple[str, str], list[tuple[float, float, str]]] = {}
        self._served: dict[str, list[tuple[float, float, int]]] = {}  # by broker: from when to when, in which epoch
        # by token: brokers of pairs and their epochs, and when they first did
        self._gave_out: dict[bytes, dict[tuple[str, int], float]] = {}
        self._born_s: dict[bytes, float] = {}  # by token
        self._told: dict[Socket, tuple[str, int]] = {}  # the pair and epoch that a connection has named
        self._seen: dict[SessionProcess, dict[str, int]] = {}  # the highest epoch of each pair

    # --- both active ------------------------------------------------------------------------------------------------

    def look_at(self, host: BrokerHost) -> None:
        """Whether both are active now; one that stands still does nothing."""
        pair = host.broker.state.pair
        assert pair is not None, "only one of a pair is looked at"
        is_active_now = is_active(host)
        self._note_served(host, is_active_now)
        both = (pair.name, pair.partner if pair.is_primary else host.name)
        times = self._together.setdefault(both, [])
        was_so = bool(times) and times[-1][1] == math.inf
        other = self.world.host_named(both[1] if host.name == both[0] else both[0])
        if other is not None and is_active_now and is_active(other):
            if was_so:
                return
            self.world.count("star moment", "both are active")
            self.world.trace.event(host.now, "star", f"{both[0]} and {both[1]} are both active")
            lower = min(host, other, key=lambda one: one.broker.state.epoch)
            times.append((host.now, math.inf, lower.name))
        elif was_so:
            times[-1] = (times[-1][0], host.now, times[-1][2])

    def _note_served(self, host: BrokerHost, is_active_now: bool) -> None:
        times, epoch = self._served.setdefault(host.name, []), host.broker.state.epoch
        is_open = bool(times) and times[-1][1] == math.inf
        if is_open and not (is_active_now and times[-1][2] == epoch):
            times[-1] = (times[-1][0], host.now, times[-1][2])
            is_open = False
        if is_active_now and not is_open:
            times.append((host.now, math.inf, epoch))

    def was_slow(self, host: BrokerHost, since_s: float) -> None:
        """It is active, has stood still since then, and need not notice: it was beside its partner, if that served."""
        pair = host.broker.state.pair
        assert pair is not None, "only one of a pair has a partner"
        both = (pair.name, pair.partner if pair.is_primary else host.name)
        for from_s, until_s, epoch in self._served.get(pair.partner, ()):
            if until_s > since_s:
                self.world.count("star moment", "slow one is active beside the other")
                lower = host.name if host.broker.state.epoch < epoch else pair.partner
                times = self._together.setdefault(both, [])
                times.insert(0, (max(from_s, since_s), min(until_s, host.now), lower))  # the last one may go on

    def born(self, token: bytes) -> None:
        """A task is about to be submitted."""
        if self.world.shape is not None:
            self._born_s[token] = self.world.schedule.now

    def given_out(self, host: BrokerHost, token: bytes) -> None:
        """A broker of a pair dispatches it, or forwards it."""
        self._gave_out.setdefault(token, {}).setdefault((host.name, host.broker.state.epoch), host.now)

    def taken_back(self, host: BrokerHost, token: bytes) -> None:
        """What it gave out was never started."""
        self._gave_out.get(token, {}).pop((host.name, host.broker.state.epoch), None)

    def excuse(self, token: bytes, *, by_both: bool = True) -> bool:
        """Whether both sides of a pair gave this task out, or one of them, but not before both were active.

        If one broker did so for both sides, it was in the lower epoch, and first did so while both were active.
        """
        gave_out, born_s = self._gave_out.get(token, {}), self._born_s.get(token, 0.0)
        for both, times in self._together.items():
            given = {side: given_s for side, given_s in gave_out.items() if side[0] in both}
            if len(given) < (2 if by_both else 1):
                continue
            names, first_s = {name for name, _ in given}, min(given.values())
            is_of_one = by_both and len(names) == 1
            if any(
                from_s <= first_s and ((first_s <= until_s and lower in names) if is_of_one else born_s <= until_s)
                for from_s, until_s, lower in times
            ):
                self.world.count("star moment", f"excused: {'run' if by_both else 'told'} by both")
                return True
        return False

    # --- participants -----------------------------------------------------------------------------------------------

    def obeyed(self, process: SessionProcess, socket: Socket, message: Message) -> None:
        """A participant has taken a message: if it is up after that, its broker's epoch is the highest it has seen."""
        if isinstance(message, CONFIGURES):
            self._told[socket] = (message.pair, message.epoch)
        elif isinstance(message, ANSWERS):
            self._told[socket] = (self._told.get(socket, ("", 0))[0], message.epoch)
        else:
            return
        pair, epoch = self._told[socket]
        if not pair or not epoch:
            return
        seen = self._seen.setdefault(process, {})
        highest = seen.get(pair, 0)
        if epoch < highest and process.socket is socket and process.session.link.phase is Phase.UP:
            self.world.violation("I9", f"{process.label} obeys epoch {epoch} of {pair}, and has seen {highest}")
        seen[pair] = max(epoch, highest)


def is_active(host: BrokerHost) -> bool:
    """Whether it serves, as one of a pair or because it has heard that there is none, and does not stand still.

    One that is to hand over serves until it has: it takes tasks in, says what is too late, and goes on with what waits
    if its partner is lost meanwhile.
    """
    state = host.broker.state
    may_serve = state.pair is None or state.pair.star is ACTIVE
    return host.is_running and not host.is_paused and may_serve and state.mode in SERVING
