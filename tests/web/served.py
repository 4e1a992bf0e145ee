"""The real HTTP app with a fake door behind it, in a thread: what the page's tests look at.

Everything of the door and the site belongs to the server's event loop, so tests reach it through
`do`, which runs there.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from scale0.management.channel import Token
from scale0.management.http.app import make_app
from scale0.management.http.server import Server, listening
from scale0.management.http.sessions import hashed
from scale0.management.http.site import About, Site
from scale0.management.http.visitors import Visitors
from tests.management.http.fake_accounts import FakeAccounts
from tests.management.http.fake_door import FakeDoor

T = TypeVar("T")
WITHIN_S = 30.0


class Served:
    """One page's process, but for the process: `url`, and the door behind it."""

    def __init__(self, workers: int = 51, services: int = 8) -> None:
        self.token = secrets.token_urlsafe(32)
        self.url = ""
        self.accounts = FakeAccounts()
        self.door: FakeDoor
        self.site: Site
        self._size = {"workers": workers, "services": services}
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def __enter__(self) -> Served:
        self._thread.start()
        assert self._is_up.wait(WITHIN_S), "the server did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self.do(self.door.opened.set)
        self.do(self._server.stop)
        self._thread.join(WITHIN_S)

    def do(self, work: Callable[[], T]) -> T:
        """Runs `work` on the server's loop, and waits for it."""

        async def run() -> T:
            return work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(WITHIN_S)

    def asked(self, command: str) -> list[dict[str, Any]]:
        """The arguments of each such command that came to the door."""
        return self.do(lambda: [one.arguments for one in self.door.asked if one.command == command])

    def brokers_asked(self, command: str) -> list[Any]:
        return self.do(lambda: [one.brokers for one in self.door.asked if one.command == command])

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.door = FakeDoor(**self._size)
        token = Token(hashed(self.token), "admin", time.time() + 600)
        visitors = Visitors(self.accounts, self.door, tokens=[token])
        self.site = Site(self.door, visitors, About("eu-1", "prod", "0.1.0", "#7a3cff"))
        self.door.on_push = self.site.push
        self._server = Server(make_app(self.site), listening("127.0.0.1", 0))
        self.site.abort = self._server.abort
        self.url = self._server.url
        self._is_up.set()
        await self._server.serve()
