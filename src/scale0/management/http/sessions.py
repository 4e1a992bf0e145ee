"""Who is logged in: sessions of the page, kept in memory, and what ends them.

A session's id is 256 random bits in a cookie; here only its hash is kept, so that nothing that is read out of this
process can be used. A session ends 12 hours after its login, after an hour without use, by logging out, and when its
user is changed or removed: each carries the stamp that the users file had for him.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from typing import Final

import msgspec

from scale0.management.http.door import Principal

LIFETIME_S: Final = 12 * 3600.0
IDLE_S: Final = 3600.0
SESSIONS_MAX: Final = 1_000
SESSIONS_PER_USER_MAX: Final = 50
TOKEN_BYTES: Final = 32


class Session(msgspec.Struct):
    """One login. `stamp` is what the users file said of the user then; `None` for a one-time token."""

    principal: Principal
    stamp: str | None
    begun_s: float
    used_s: float


class Sessions:
    """All sessions, the oldest first. Time is an argument, for tests and for one clock a request."""

    def __init__(self, stamp_of: Callable[[str], str]) -> None:
        self._stamp_of = stamp_of
        self._by_hash: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._by_hash)

    def open(self, principal: Principal, stamp: str | None, now: float) -> tuple[str, list[Session]]:
        """A new session's id, for the cookie; and those that were ended to make room, the ones used longest ago."""
        own = [key for key, session in self._by_hash.items() if session.principal.user == principal.user]
        ended = []
        if len(own) >= SESSIONS_PER_USER_MAX:
            ended.append(self._end_least_used(own))
        if len(self._by_hash) >= SESSIONS_MAX:
            ended.append(self._end_least_used(list(self._by_hash)))
        name = secrets.token_urlsafe(TOKEN_BYTES)
        self._by_hash[hashed(name)] = Session(principal, stamp, now, now)
        return name, ended

    def use(self, name: str, now: float) -> tuple[str, Session] | None:
        """The session of this id with its key, if it still holds; it counts as used."""
        key = hashed(name)
        if not self.holds(key, now):
            return None
        session = self._by_hash[key]
        session.used_s = now
        return key, session

    def holds(self, key: str, now: float, *, is_used: bool = False) -> bool:
        """Whether the session has not ended; an open event stream that somebody looks at counts as use."""
        session = self._by_hash.get(key)
        if session is None:
            return False
        is_old = now - session.begun_s >= LIFETIME_S or now - session.used_s >= IDLE_S
        is_revoked = session.stamp is not None and self._stamp_of(session.principal.user) != session.stamp
        if is_old or is_revoked:
            del self._by_hash[key]
            return False
        if is_used:
            session.used_s = now
        return True

    def close(self, key: str) -> None:
        self._by_hash.pop(key, None)

    def sweep(self, now: float) -> None:
        """Ends what has expired or was revoked."""
        for key in list(self._by_hash):
            self.holds(key, now)

    def _end_least_used(self, keys: list[str]) -> Session:
        return self._by_hash.pop(min(keys, key=lambda key: self._by_hash[key].used_s))


def hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
