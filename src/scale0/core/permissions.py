"""What the holder of a key may do, as the operator wrote it: one entry of `allowed.json` for each key.

A key may be a worker's, a client's, a broker's, or that of a program which is both worker and client (`any`); never of
a broker and something else. Names of services and identities are matched as file names are: `*`, `?`, `[abc]`. A list
that is left out means all of them, an empty one none.

Two keys with one name have one owner: so a key is replaced by another while both are good for a while.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Final, Literal

import msgspec

from scale0.core.effects import DIALED, Route
from scale0.protocol.dialects import Role

EVERYTHING: Final = "*"
REMEMBERED_MAX: Final = 1_024  # names of services whose answer is kept, for each key; then all are forgotten

_DIALED: Final = bytes((DIALED,))

Kind = Literal["worker", "client", "peer", "any"]


def _everything() -> list[str]:
    return [EVERYTHING]


class Permission(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One key, and what it is good for."""

    key: str
    name: str = ""
    kind: Kind = "any"
    serve: list[str] = msgspec.field(default_factory=_everything)
    call: list[str] = msgspec.field(default_factory=_everything)
    identities: list[str] = msgspec.field(default_factory=_everything)
    manage: bool = False  # it may send MANAGEMENTREQ; who it is and what it may do there, its password says
    until: str = ""  # UTC, as 2026-12-31T12:00:00Z; empty: until it is revoked

    @property
    def owner(self) -> str:
        """Whose key it is."""
        return self.name or self.key

    def fits(self, role: Role) -> bool:
        """Whether its holder may have a session of this role."""
        return self.kind == role.value or (self.kind == "any" and role is not Role.PEER)

    def may_be(self, identity: str) -> bool:
        return _matches(identity, self.identities)

    def has_ended(self, wall_s: float) -> bool:
        """Whether its time is over."""
        return bool(self.until) and wall_s >= read_time(self.until)


class Grant:
    """A permission in force. What it says of a service is asked at each task, and looked up after the first time."""

    __slots__ = ("_calls", "permission")

    def __init__(self, permission: Permission) -> None:
        self.permission = permission
        self._calls: dict[str, bool] = {}

    def may_call(self, service: str) -> bool:
        known = self._calls.get(service)
        if known is None:
            if len(self._calls) >= REMEMBERED_MAX:
                self._calls.clear()
            known = self._calls[service] = _matches(service, self.permission.call)
        return known

    def may_serve(self, service: str) -> bool:
        return _matches(service, self.permission.serve)


class Access:
    """Keys: those that are allowed, those of the network's brokers, and which connection has which."""

    def __init__(self, own_key: str) -> None:
        self.own_key = own_key
        self.next_key = ""  # what the own key will be after the next restart, if it is being rotated
        self.grants: dict[str, Grant] = {}
        self.brokers: dict[str, str] = {}  # by the document: key → identity
        self.keys: OrderedDict[Route, str] = OrderedDict()  # of connections that others made
        self.dialed: dict[Route, str] = {}  # of links that this broker dialed: whose handshake has proven it
        self.told: frozenset[str] | None = None  # what the shell was last told to admit

    def key_of(self, route: Route) -> str:
        return (self.dialed if route[:1] == _DIALED else self.keys).get(route, "")

    def owner_of(self, key: str) -> str:
        grant = self.grants.get(key)
        return grant.permission.owner if grant is not None else key

    def admitted(self) -> frozenset[str]:
        """The keys whose handshake may succeed."""
        return frozenset((*self.grants, *self.brokers))


def _matches(name: str, globs: list[str]) -> bool:
    return any(glob == EVERYTHING or fnmatchcase(name, glob) for glob in globs)


def read_time(text: str) -> float:
    """UTC in seconds. Raises `ValueError` for what is no time; one without a zone is UTC."""
    told = datetime.fromisoformat(text)
    return (told if told.tzinfo is not None else told.replace(tzinfo=UTC)).timestamp()


def write_time(wall_s: float) -> str:
    return datetime.fromtimestamp(int(wall_s), UTC).isoformat().replace("+00:00", "Z")
