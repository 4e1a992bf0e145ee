"""The app: the table of all routes, each behind its guard, in an ASGI application that a server or a test can run."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path as FilePath
from typing import Any

from starlette.routing import Route, Router

from scale0.management.http import changing, document, metrics, reading, tables
from scale0.management.http.files import WEB, Files
from scale0.management.http.guards import Guard
from scale0.management.http.routing import Guarded, Path
from scale0.management.http.site import Site


class App(Guard):
    """The app of one site; whoever serves it breaks connections off for it, and says when it stops."""

    def __init__(self, site: Site, router: Router, *, hosts: Iterable[str], proxies: Iterable[str]) -> None:
        super().__init__(router, hosts=hosts, proxies=proxies)
        self.site = site


def all_paths(web: FilePath = WEB) -> list[Path]:
    """Every route that there is, in the order in which they are tried."""
    known = [*reading.paths(), *changing.paths(), *metrics.paths(), *tables.paths(), *Files(web).paths()]
    return [*known, *document.paths(known)]


def make_app(
    site: Site,
    *,
    hosts: Iterable[str] = (),
    proxies: Iterable[str] = (),
    paths: list[Path] | None = None,
) -> App:
    """The door of one broker. `hosts` are the names it goes by, `proxies` those whose word is taken for who asks."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        async with site.running():
            yield

    routes = [
        Route(path.path, Guarded(site, path), methods=[path.method], name=path.name)
        for path in (all_paths() if paths is None else paths)
    ]
    return App(site, Router(routes, redirect_slashes=False, lifespan=lifespan), hosts=hosts, proxies=proxies)
