"""Users without a file: three of them, one of each role, whose password is their name twice."""

from __future__ import annotations

from scale0.errors import ProtocolError
from scale0.management.http.door import Principal
from scale0.management.vocabulary import Role

USERS = {"viewer": Role.VIEW, "operator": Role.OPERATE, "admin": Role.ADMIN}


class FakeAccounts:
    def __init__(self) -> None:
        self.users = dict(USERS)
        self.verified = 0

    def has_users(self) -> bool:
        return bool(self.users)

    def look(self) -> None:
        pass

    def stamp(self, user: str) -> str:
        return self.users[user].text if user in self.users else ""

    async def authenticate(self, user: str, password: str, source: str) -> Principal:
        self.verified += 1
        if user not in self.users or password != user * 2:
            raise ProtocolError(401, "user and password do not match")
        return Principal(user, self.users[user], "http", source)
