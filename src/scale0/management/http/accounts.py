"""The users file, as the HTTP door uses it: `users` keeps it, `passwords` verifies, in threads of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

from scale0.management.http.door import Principal
from scale0.management.passwords import Authenticator
from scale0.management.users import Users


class FileAccounts:
    """Users of a file that may change at any time; no file is a file without users."""

    def __init__(self, path: str) -> None:
        self._users = Users(Path(path) if path else None)
        self._authenticator = Authenticator(self._users)

    def has_users(self) -> bool:
        return bool(self._users)

    @property
    def why(self) -> str:
        """Why the file lets nobody in, if it does not."""
        return self._users.why

    def look(self) -> None:
        self._users.look()

    def stamp(self, user: str) -> str:
        return self._users.stamp(user)

    async def authenticate(self, user: str, password: str, source: str) -> Principal:
        return await asyncio.wrap_future(self._authenticator.authenticate(user, password, source))

    def close(self) -> None:
        self._authenticator.close()
