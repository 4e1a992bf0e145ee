"""The page's process: beside the broker, so that no page ever shares its interpreter with the routing of tasks.

The broker starts it with one end of a socket pair as its standard input, and says Hello with everything that it must
know: nothing secret is in its arguments or its environment. It answers with the address that it listens on, or with why
it does not. It ends when the channel does, so it never outlives its broker. What an operator must know it writes to its
standard error, which is the broker's.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from scale0.errors import PortTaken, SettingsError
from scale0.management.channel import Failed, Hello, Listening, PageChannel, Used
from scale0.management.http.accounts import FileAccounts
from scale0.management.http.app import make_app
from scale0.management.http.server import Server, address_of, check_safe, listening
from scale0.management.http.site import About, Site
from scale0.management.http.visitors import Visitors

NICENESS: Final = 5  # serving tasks goes before showing them
SCRAPE_TOKEN_BYTES_MAX: Final = 1_024
SCRAPE_TOKEN_CHARACTERS_MIN: Final = 16
COLLECTED_EVERY: Final = (50_000, 20, 100)
"""New objects between two looks for cycles, and looks between two at older ones. A listing of thousands of rows is made
and freed as a whole each second; with Python's own thresholds a third of the time that it takes is spent looking."""
FAILED: Final = 3  # the exit code when it would fail again

log = logging.getLogger("scale0.page")


class PageSettings(msgspec.Struct, frozen=True):
    """Those of the broker's settings that concern this process."""

    http: str
    allowed_hosts: list[str] = []
    trusted_proxies: list[str] = []
    tls_cert: str = ""
    tls_key: str = ""
    scrape_token_file: str = ""
    colour: str = ""
    data: str = ""

    @property
    def tls(self) -> tuple[str, str] | None:
        return (self.tls_cert, self.tls_key or self.tls_cert) if self.tls_cert else None


def settings_of(told: dict[str, Any]) -> PageSettings:
    """Keys that this process does not know are for others."""
    known = {key: value for key, value in told.items() if key in PageSettings.__struct_fields__ and value is not None}
    try:
        return msgspec.convert(known, PageSettings)
    except msgspec.ValidationError as error:
        raise SettingsError(f"management: {error}") from None


class Page:
    """Everything of the process but its end: made from the broker's Hello, and ready to serve."""

    def __init__(self, channel: PageChannel, hello: Hello) -> None:
        settings = settings_of(hello.settings)
        host, port = address_of(settings.http)
        self.accounts = FileAccounts(hello.users_path)
        try:
            if self.accounts.why:
                raise SettingsError(self.accounts.why)
            check_safe(host, has_tls=settings.tls is not None, has_users=self.accounts.has_users())
            visitors = Visitors(
                self.accounts,
                channel,
                tokens=hello.tokens,
                scrape_token=read_scrape_token(settings.scrape_token_file),
                on_used=lambda token: channel.say(Used(token)),
            )
            about = About(hello.identity, hello.network, hello.version, settings.colour, settings.data)
            self.site = Site(channel, visitors, about)
            app = make_app(self.site, hosts=[host, *settings.allowed_hosts], proxies=settings.trusted_proxies)
            self.server = Server(app, listening(host, port), settings.tls)
        except BaseException:
            self.accounts.close()
            raise
        channel.on_push = self.site.push

    async def serve(self) -> None:
        try:
            await self.server.serve()
        finally:
            self.accounts.close()


def read_scrape_token(path: str) -> str:
    """The token for Prometheus, from a file that others cannot read. Raises with what is wrong."""
    if not path:
        return ""
    try:
        with Path(path).open("rb") as file:
            mode, data = os.fstat(file.fileno()).st_mode, file.read(SCRAPE_TOKEN_BYTES_MAX)
        token = data.decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"management.scrape_token_file: {path} cannot be read: {error}") from None
    if mode & 0o077:
        raise SettingsError(f"management.scrape_token_file: others can read it; chmod 600 {path}")
    if len(token) < SCRAPE_TOKEN_CHARACTERS_MIN:
        least = f"at least {SCRAPE_TOKEN_CHARACTERS_MIN} characters"
        raise SettingsError(f"management.scrape_token_file: a token has {least}; openssl rand -hex 32 makes one")
    return token


async def run(connection: socket.socket) -> int:
    """Until the broker ends, or a signal says to. Returns the exit code."""
    try:
        channel = await PageChannel.open(connection)
    except ConnectionError:
        return 0  # the broker ended before it said anything
    try:
        page = Page(channel, channel.hello)
    except (SettingsError, PortTaken) as error:
        channel.say(Failed(str(error)))
        return FAILED
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, page.server.stop)
    serving = asyncio.create_task(page.serve())
    closing = asyncio.create_task(channel.closed())
    channel.say(Listening(page.server.url))
    await asyncio.wait({serving, closing}, return_when=asyncio.FIRST_COMPLETED)
    page.server.stop()
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    closing.cancel()
    return 0


def main() -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="page: %(levelname)s %(message)s")
    os.nice(NICENESS)
    gc.freeze()
    gc.set_threshold(*COLLECTED_EVERY)
    sys.exit(asyncio.run(run(socket.socket(fileno=0))))
