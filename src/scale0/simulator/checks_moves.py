"""Redirects: where participants are sent, and that they come to rest (rule 27, I8).

NEEDBROKER is answered with a broker that was not tried; who is sent away is not sent back to where it is.

A *hop* is a connection that a participant opens to where a broker told it to go (CHANGEBROKER, 301), and to be taken
there: who asks for a broker instead (NEEDBROKER) obeys no longer, even if it asks where it was told to go. In a row,
without an interval of peace and without a try of its own between them, there are at most `HOPS_MAX`. A pair may be
told to hand over more often than that: who was taken in a higher epoch than it had seen of the pair has followed a
switch, and the row begins anew. After the trouble is over nobody moves more than a few times: one who is moved for
balance, sent home and moved again would show here.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from scale0.core.link_settings import Phase
from scale0.core.rounds import HOPS_MAX
from scale0.protocol.codes import Code
from scale0.protocol.messages import ChangeBroker, Config, ConfigAck, Error, Message, NeedBroker

if TYPE_CHECKING:
    from scale0.simulator.host import BrokerHost
    from scale0.simulator.process import SessionProcess
    from scale0.simulator.world import World

MOVES_AFTER_HEALING_MAX = 6  # in all: back from a fallback group, home, and to an equal share, each with a repetition


class MoveChecks:
    """All redirects of all participants of a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.last_s = 0.0  # when somebody last moved because a broker said so
        self._told: dict[SessionProcess, list[str]] = {}  # where to go, since it last opened a connection
        self._hops: Counter[SessionProcess] = Counter()  # in a row
        self._epochs: dict[tuple[SessionProcess, str], int] = {}  # the highest that it was told of each pair
        self._last_hop_s: dict[SessionProcess, float] = {}
        self._after_healing: Counter[SessionProcess] = Counter()
        self._tried: dict[bytes, list[str]] = {}  # by route, for the answer that follows in the same step

    # --- what brokers say -----------------------------------------------------------------------------------------

    def asked(self, route: bytes, message: NeedBroker) -> None:
        self._tried[route] = message.tried

    def named(self, host: BrokerHost, route: bytes, message: ChangeBroker) -> None:
        """CHANGEBROKER: the answer to NEEDBROKER, or pushed."""
        tried = self._tried.pop(route, None)
        again = [endpoint for endpoint in message.endpoints if endpoint in (tried or ())]
        if again:
            self.world.violation("rule 27", f"{host.name} named {again[0]} to one who had tried it")
        if tried is None and host.endpoint in message.endpoints:
            self.world.violation("rule 27", f"{host.name} sends somebody away to itself: {message.reason}")

    def stepped(self) -> None:
        """Who got no answer, as a disabled broker gives none, or 503: what is pushed to it later answers nothing."""
        if self._tried:
            self._tried.clear()

    # --- what participants do -------------------------------------------------------------------------------------

    def heard(self, process: SessionProcess, message: Message) -> None:
        if isinstance(message, Config | ConfigAck) and message.pair:
            self._taken(process, message.pair, message.epoch)
        if isinstance(message, ChangeBroker):
            # Who asks there already opens no connection for it: the next one is a try of its own.
            is_there = process.session.link.endpoint in message.endpoints
            self._told[process] = [] if is_there else message.endpoints
        elif isinstance(message, Error) and message.code == Code.MOVED and not message.id:
            self._told[process] = message.detail.get("endpoints", [])
        else:
            return
        self.world.count("rule", "told to move")

    def _taken(self, process: SessionProcess, pair: str, epoch: int) -> None:
        known = self._epochs.get((process, pair), 0)
        self._epochs[process, pair] = max(known, epoch)
        if 0 < known < epoch:
            self._hops[process] = 0

    def opened(self, process: SessionProcess, endpoint: str, phase: Phase) -> None:
        """It opens a connection, to connect or to ask; if it was told to connect there, that is a hop."""
        was_told = endpoint in self._told.pop(process, ()) and phase is Phase.CONNECTING
        had_peace = process.now - self._last_hop_s.get(process, 0.0) > self.world.profile.interval_s
        self._hops[process] = self._hops[process] + 1 if was_told and not had_peace else int(was_told)
        if was_told:
            self._last_hop_s[process] = self.last_s = process.now
            self._after_healing[process] += self.world.is_healed
        if self._after_healing[process] > MOVES_AFTER_HEALING_MAX:
            number = self._after_healing[process]
            self.world.violation("I8", f"{process.label} was sent elsewhere {number} times, and nothing had failed")
        if self._hops[process] > HOPS_MAX:
            self.world.violation("I8", f"{process.label} was sent on {self._hops[process]} times in a row")
