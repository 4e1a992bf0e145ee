"""error_clients: who negotiates or speaks badly again and again is ignored for a while, longer each time.

Rule 32: repeated bad messages earn a growing penalty that decays; while it lasts the peer gets silence (444, never
sent). It is held against the connection, and where connections have keys against the key, so that a new connection is
no fresh start; never against a claimed identity: otherwise anyone could have another one ignored.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

import msgspec

from scale0.core.effects import Route

TOLERATED = 5  # bad messages, before the first penalty
FIRST_PENALTY_S = 1.0
PENALTY_MAX_S = 300.0
DECAY_S = 30.0  # one bad message is forgotten each time this passes


class Record(msgspec.Struct):
    """What one connection, or the holder of one key, has done."""

    bad: float
    last_s: float
    until_s: float = 0.0
    ignored: int = 0
    reason: str = ""


class ErrorClients:
    """Bad connections, the most recently bad last."""

    def __init__(self, count_max: int, keys: Mapping[Route, str] | None = None) -> None:
        self.count_max = count_max
        self._keys = keys
        self.records: OrderedDict[Route, Record] = OrderedDict()

    def blame(self, route: Route, reason: str, now: float) -> None:
        """One more bad message from this connection."""
        route = self.culprit(route)
        record = self.records.pop(route, None) or Record(0.0, now)
        record.bad = max(0.0, record.bad - (now - record.last_s) / DECAY_S) + 1.0
        record.last_s = now
        record.reason = reason
        if record.bad > TOLERATED:
            penalty_s = min(PENALTY_MAX_S, FIRST_PENALTY_S * 2.0 ** min(record.bad - TOLERATED - 1, 20))
            record.until_s = now + penalty_s
        self.records[route] = record
        if len(self.records) > self.count_max:
            self.records.popitem(last=False)

    def ignores(self, route: Route, now: float) -> bool:
        """Whether this connection's penalty still lasts. What it says then only counts as ignored."""
        record = self.records.get(self.culprit(route))
        if record is None or record.until_s <= now:
            return False
        record.ignored += 1
        return True

    def culprit(self, route: Route) -> Route:
        """Whom it is held against: the connection's key if it has one, else the connection."""
        key = self._keys.get(route) if self._keys is not None else None
        return Route(key.encode()) if key else route

    def clear(self, route: Route | None = None) -> int:
        """Forget one connection, or all; how many there were."""
        if route is not None:
            return 1 if self.records.pop(route, None) else 0
        cleared = len(self.records)
        self.records.clear()
        return cleared
