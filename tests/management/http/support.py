"""The app on a real socket, in a loop of its own, with a fake door behind it; and clients that talk to it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import httpx
import msgspec

from scale0.management.channel import Token
from scale0.management.http.app import all_paths, make_app
from scale0.management.http.routing import Path
from scale0.management.http.server import Server, listening
from scale0.management.http.sessions import hashed
from scale0.management.http.site import About, Site
from scale0.management.http.visitors import Visitors
from tests.management.http.fake_accounts import FakeAccounts
from tests.management.http.fake_door import FakeDoor

T = TypeVar("T")
LIMIT_S = 30.0  # only a hang reaches it
SCRAPE_TOKEN = "scrape-me-if-you-can"
USERS = {"viewer": "viewerviewer", "operator": "operatoroperator", "admin": "adminadmin"}
PATHS = all_paths()


class Running:
    """A server that runs. `do` runs something in its loop."""

    def __init__(self, site: Site, door: FakeDoor, accounts: FakeAccounts, server: Server, loop: Any) -> None:
        self.site, self.door, self.accounts, self.server, self.loop = site, door, accounts, server, loop
        self.url = server.url
        self.used: list[str] = []

    def client(self, user: str = "", **options: Any) -> httpx.Client:
        """A client with Basic credentials, or with none."""
        auth = httpx.BasicAuth(user, USERS[user]) if user else None
        options.setdefault("verify", False)  # it saves reading the system's certificates each time
        return httpx.Client(base_url=self.url, auth=auth, timeout=LIMIT_S, trust_env=False, **options)

    def get(self, path: str, user: str = "admin", **options: Any) -> httpx.Response:
        with self.client(user) as client:
            return client.get(path, **options)

    def post(self, path: str, body: Any = None, user: str = "admin", **options: Any) -> httpx.Response:
        with self.client(user) as client:
            return client.post(path, json={} if body is None else body, **options)

    def logged_in(self, user: str) -> httpx.Client:
        """A client with a session."""
        with self.client() as client:
            answer = client.post("/api/v1/login", json={"user": user, "password": USERS[user]})
        assert answer.status_code == 204, answer.text
        return self.client(cookies=answer.cookies)

    def do(self, work: Callable[[], T]) -> T:
        async def run() -> T:
            return work()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(LIMIT_S)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(LIMIT_S)


@contextlib.contextmanager
def running(
    door: FakeDoor | None = None,
    *,
    tokens: dict[str, str] | None = None,
    data: str = "",
    hosts: tuple[str, ...] = (),
    proxies: tuple[str, ...] = (),
    paths: list[Path] | None = None,
    tls: tuple[str, str] | None = None,
) -> Iterator[Running]:
    """`tokens`: one-time tokens and their roles."""
    known = door or FakeDoor()
    accounts = FakeAccounts()
    started: list[Running] = []
    ready = threading.Event()

    async def serve() -> None:
        used: list[str] = []
        given = [Token(hashed(token), role, time.time() + 300) for token, role in (tokens or {}).items()]
        visitors = Visitors(accounts, known, tokens=given, scrape_token=SCRAPE_TOKEN, on_used=used.append)
        site = Site(known, visitors, About("eu-1", "prod", "0.1.0", "#7a3cff", data))
        known.on_push = site.push
        app = make_app(site, hosts=hosts, proxies=proxies, paths=PATHS if paths is None else paths)
        server = Server(app, listening("127.0.0.1", 0), tls)
        one = Running(site, known, accounts, server, asyncio.get_running_loop())
        one.used = used
        started.append(one)
        ready.set()
        await server.serve()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(LIMIT_S)
    try:
        yield started[0]
    finally:
        known.opened.set()
        started[0].server.stop()
        thread.join(LIMIT_S)
        assert not thread.is_alive()


class Event(msgspec.Struct, frozen=True):
    """A server-sent event."""

    name: str
    data: Any


def events(response: httpx.Response) -> Iterator[Event]:
    name = ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield Event(name, msgspec.json.decode(line.removeprefix("data: ")))


def until(is_so: Callable[[], bool], within_s: float = LIMIT_S) -> None:
    """Waits for something that another thread brings about."""
    end_s = time.monotonic() + within_s
    pause = threading.Event()
    while not is_so():
        assert time.monotonic() < end_s, "it did not come about"
        pause.wait(0.01)
