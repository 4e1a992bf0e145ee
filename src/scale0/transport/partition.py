"""A drill between brokers: for a while, nothing passes between this one and a peer.

What is dropped is dropped here, between the sockets and the core, and without a word to either: connections stay up,
as on a network that swallows packets, and the core finds out by its own heartbeats, as it would in earnest. Both
brokers of a pair are told, and each drops its share, so the cut holds whoever dials, and one way alone can be cut.

A link belongs to a peer by the core's own tables; one that is new, by the CONNECT that opens it; one that was only
dialed by an address to join by, by the broker that the config has at that address. Participants are never touched.

Every cut ends by itself, by this broker's own clock: who asked for it may be gone by then. Without one the loop has no
sieve and pays nothing.
"""

from __future__ import annotations

from typing import Final

import msgspec
from structlog.typing import FilteringBoundLogger

from scale0.core.broker import Broker
from scale0.core.effects import Cut, Effect, Heal, Route, Send
from scale0.protocol.codec import AnyMessage
from scale0.protocol.dialects import PEER, Dialect
from scale0.protocol.messages import Connect
from scale0.transport.clock import SYSTEM_CLOCK, Clock
from scale0.transport.loop import Loop

STRANGERS_MAX: Final = 256  # connections that are known by their CONNECT alone, which was dropped; then the oldest goes


class _Drill(msgspec.Struct):
    """One cut, and what it has cost."""

    cut: Cut
    until_s: float
    dropped: int = 0


class Partition:
    """The cuts of one broker. It is the loop's sieve while there are any."""

    def __init__(self, broker: Broker, loop: Loop, log: FilteringBoundLogger, clock: Clock = SYSTEM_CLOCK) -> None:
        self._broker = broker
        self._loop = loop
        self._log = log
        self._monotonic = clock.monotonic
        self._drills: dict[str, _Drill] = {}  # by peer; the core lets no one in but peers that it knows
        self._strangers: dict[Route, str] = {}

    # --- what an operator asks for --------------------------------------------------------------------------------

    def cut(self, effect: Cut) -> None:
        """Drop what the effect says from now on; a second cut with the same peer replaces the first."""
        self._drills[effect.peer] = _Drill(effect, self._monotonic() + effect.for_s)
        self._loop.sieve = self

    def heal(self, effect: Heal) -> None:
        """End one cut, or all."""
        for peer in [effect.peer] if effect.peer else list(self._drills):
            self._end(peer, "healed by command")

    def look(self, now: float) -> None:
        """End what is over."""
        for peer, drill in list(self._drills.items()):
            if now >= drill.until_s:
                self._end(peer, "its time is over")

    def _end(self, peer: str, why: str) -> None:
        drill = self._drills.pop(peer, None)
        if drill is not None:
            self._log.warning("a drill is over", peer=peer, why=why, dropped=drill.dropped)
        if not self._drills:
            self._strangers.clear()
            self._loop.sieve = None

    # --- the loop's sieve -----------------------------------------------------------------------------------------

    def receive(self, route: Route, dialect: Dialect, message: AnyMessage, now: float) -> list[Effect]:
        """The core's `receive`, for what passes."""
        if dialect is PEER:
            if isinstance(message, Connect):
                self._remember(route, message.identity)
            drill = self._drill_of(self._peer_at(route), now)
            if drill is not None and drill.cut.is_inbound:
                drill.dropped += 1
                return []
        return self._broker.receive(route, dialect, message, now)

    def sift(self, effects: list[Effect]) -> list[Effect]:
        """The effects without what a cut keeps from being sent."""
        now = self._monotonic()
        return [effect for effect in effects if type(effect) is not Send or self._passes(effect, now)]

    def hears(self, identity: str) -> bool:
        """Whether what this publisher says arrives here."""
        drill = self._drill_of(identity, self._monotonic())
        return drill is None or not drill.cut.is_inbound

    def _passes(self, send: Send, now: float) -> bool:
        if send.dialect is not PEER:
            return True
        drill = self._drill_of(self._peer_at(send.route), now)
        if drill is None or not drill.cut.is_outbound:
            return True
        drill.dropped += 1
        return False

    def _drill_of(self, peer: str, now: float) -> _Drill | None:
        drill = self._drills.get(peer)
        return drill if drill is not None and now < drill.until_s else None

    # --- whose link it is -----------------------------------------------------------------------------------------

    def _peer_at(self, route: Route) -> str:
        network = self._broker.state.network
        peer = network.by_route(route)
        if peer is not None:
            return peer.identity
        if route in self._strangers:
            return self._strangers[route]
        dialed = next((seed.dialed for seed in network.seeds.values() if seed.route == route), "")
        document = self._broker.state.config.document
        return next((entry.identity for entry in document.brokers if dialed and dialed in entry.endpoints), "")

    def _remember(self, route: Route, identity: str) -> None:
        if identity in self._drills:
            self._strangers[route] = identity
            if len(self._strangers) > STRANGERS_MAX:
                del self._strangers[next(iter(self._strangers))]
