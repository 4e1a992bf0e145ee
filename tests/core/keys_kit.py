"""A broker that asks for keys, at a desk: the test says which keys are allowed, and who speaks by which."""

from __future__ import annotations

from typing import Any

from scale0.core.effects import Admit
from scale0.core.permissions import Access, Permission
from tests.core.desk import Desk, Sent, route_of


def key(name: str) -> str:
    """A public key for tests: forty characters that begin with its owner's name."""
    return f"{name:0<40}"


class Lobby(Desk):
    """A desk whose broker has the key `key("broker")`."""

    def __init__(self, *permissions: Permission, **settings: Any) -> None:
        super().__init__(public_key=key("broker"), **settings)
        self.allow(*permissions)

    @property
    def access(self) -> Access:
        access = self.broker.state.access
        assert access is not None
        return access

    def allow(self, *permissions: Permission, next_key: str = "") -> Sent:
        """These and no others."""
        return self._look(self.broker.allow(permissions, next_key, self.now))

    def introduce(self, name: str, owner: str) -> None:
        """The connection `name` has proven the key of `owner`."""
        self.broker.introduce(route_of(name), key(owner))

    def admitted(self) -> frozenset[str]:
        """What the last verb told the shell to admit."""
        return next(effect.keys for effect in self.others if isinstance(effect, Admit))


def permission(owner: str, **how: Any) -> Permission:
    return Permission(**{"key": key(owner), "name": owner, **how})
