"""The real app with a fake door behind it, for whoever develops the page: `python -m tests.management.http.fake_page`.

It prints its address, the users with their passwords, and a one-time token in the address's fragment.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import time

from scale0.management.channel import Token
from scale0.management.http.app import make_app
from scale0.management.http.server import Server, listening
from scale0.management.http.sessions import hashed
from scale0.management.http.site import About, Site
from scale0.management.http.visitors import Visitors
from tests.management.http.fake_accounts import FakeAccounts
from tests.management.http.fake_door import FakeDoor


def make_site(door: FakeDoor, *, tokens: list[Token] | None = None, data: str = "") -> Site:
    visitors = Visitors(FakeAccounts(), door, tokens=tokens or [], scrape_token="scrape-me")
    site = Site(door, visitors, About("eu-1", "prod", "0.1.0", "#7a3cff", data))
    door.on_push = site.push
    return site


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8480)
    parser.add_argument("--workers", type=int, default=51)
    parser.add_argument("--services", type=int, default=8)
    parser.add_argument("--data", default="", help="a data place with gold tables, for trends and why")
    options = parser.parse_args()
    token = secrets.token_urlsafe(32)
    door = FakeDoor(workers=options.workers, services=options.services)
    site = make_site(door, tokens=[Token(hashed(token), "admin", time.time() + 3600)], data=options.data)
    server = Server(make_app(site), listening("127.0.0.1", options.port))
    print(f"{server.url}/#token={token}", flush=True)
    print("users (password is the name, twice): viewer operator admin, e.g. admin:adminadmin", flush=True)
    await server.serve()


if __name__ == "__main__":
    asyncio.run(main())
