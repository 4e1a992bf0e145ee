"""READY as a worker says it: what it offers, repeated until READYOK answers, and what the broker is known to know.

Messages on one link arrive in order. So the READYOK to the last READY also shows that everything that was sent before
it has arrived: that is how a worker knows, before it goes, that nothing more will come and that no reply is lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from scale0.core.link import Link
from scale0.errors import UsageError
from scale0.protocol import limits
from scale0.protocol.messages import Ready, ServiceOffer

DEFAULT_INTERVAL_S: Final = 2.5  # a longer one is asked for; a shorter one would be raised by the broker
NOT_CONFIRMED: Final = -1


class Announcement:
    """What one worker offers, and how far its broker has confirmed it on this link."""

    def __init__(self, offers: Iterable[ServiceOffer], has_heartbeat: bool) -> None:
        self.offers = {offer.name: offer for offer in offers}
        self.again_at_s = math.inf  # READY is said again then
        self.confirmed_capacity = NOT_CONFIRMED  # what the last answer on this link said
        self._has_heartbeat = has_heartbeat
        self._unanswered = 0  # READYs on this link

    @property
    def is_answered(self) -> bool:
        """The broker's word on the last READY has come."""
        return self._unanswered == 0

    def offer(self, offer: ServiceOffer) -> None:
        if offer.name not in self.offers and len(self.offers) >= limits.SERVICES_PER_WORKER_MAX:
            raise UsageError(f"a worker offers at most {limits.SERVICES_PER_WORKER_MAX} services")
        self.offers[offer.name] = offer

    def say(self, link: Link, capacity: int, in_flight: list[bytes], now: float) -> Ready:
        """The READY that leaves now."""
        asked_s = link.settings.heartbeat_interval_s
        self._unanswered += 1
        self.again_at_s = now + link.heartbeat.interval_s
        return Ready(
            services=list(self.offers.values()),
            capacity=capacity,
            heartbeat=self._has_heartbeat,
            heartbeat_interval_ms=round(asked_s * 1000) if asked_s > DEFAULT_INTERVAL_S else 0,
            time_us=link.heartbeat.clock.wall_us(now),
            config_version=link.config_version,
            in_flight=in_flight,
        )

    def answered(self, capacity: int) -> None:
        """READYOK, or 301, which takes nothing of what was offered."""
        self._unanswered = max(0, self._unanswered - 1)
        if not self._unanswered:
            self.again_at_s = math.inf
        self.confirmed_capacity = capacity

    def not_sent(self, again_at_s: float) -> None:
        """It met a full pipe."""
        self._unanswered = max(0, self._unanswered - 1)
        self.again_at_s = again_at_s

    def give_up(self) -> None:
        """No answer came in time; whatever became of the former READY, the next one stands for it."""
        self._unanswered = 0

    def reset(self) -> None:
        """The link is over, and nothing that was agreed holds."""
        self._unanswered = 0
        self.confirmed_capacity = NOT_CONFIRMED
        self.again_at_s = math.inf
