"""The HTTP server: uvicorn, with connections that cannot be held open for nothing, on an address that is safe.

A server beyond loopback needs TLS and users; without both it does not start, and says what is missing. A connection
that sends no whole request within ten seconds is closed, and one whose reader takes nothing is broken off: neither
holds a place for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import h11
import uvicorn
from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

from scale0.errors import PortTaken, SettingsError
from scale0.management.http.app import App
from scale0.management.http.guards import HEADERS

REQUEST_WITHIN_S: Final = 10.0
KEEP_ALIVE_S: Final = 30
STOP_WITHIN_S: Final = 3
CONNECTIONS_MAX: Final = 1_000
BACKLOG: Final = 256
HEAD_BYTES_MAX: Final = 32 * 1024

Address = tuple[str, int]


def address_of(text: str) -> Address:
    """`127.0.0.1:8480`, `[::1]:8480`. Raises with what is wrong."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise SettingsError(f"management.http: {text!r} is no address such as 127.0.0.1:8480")
    return host, int(port)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_safe(host: str, *, has_tls: bool, has_users: bool) -> None:
    """Raises if passwords would go over a network in the clear, or anybody could come in."""
    if is_loopback(host):
        return
    missing = []
    if not has_tls:
        missing.append("TLS: set tls_cert and tls_key in [management]")
    if not has_users:
        missing.append("users: scale0 user add NAME")
    if missing:
        text = f"the page does not listen on {host}, which others can reach, without\n  " + "\n  ".join(missing)
        raise SettingsError(f"{text}\nor listen on 127.0.0.1, and let a proxy with TLS stand before it")


def listening(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 lets the system choose. Raises `PortTaken`, with why."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        address = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)[0][4]
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # so named, asyncio sends at once
    except OSError as error:
        raise PortTaken(f"{host}:{port}", str(error)) from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise PortTaken(f"{host}:{port}", error.strerror or str(error)) from None
    return bound


class Connection(H11Protocol):
    """A connection with a limit on how long its next request may take to arrive."""

    of_clients: dict[Any, asyncio.Transport]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.of_clients[self.client] = transport
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self.of_clients.pop(self.client, None)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._await_request(KEEP_ALIVE_S)

    def send_400_response(self, msg: str) -> None:
        """To what is no HTTP; uvicorn's own answer would have no headers but its own."""
        body = msg.encode()
        told = [
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
        ]
        for event in (
            h11.Response(status_code=400, headers=[*HEADERS.items(), *told], reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _await_request(self, more_s: float = 0.0) -> None:
        cycle = self.cycle
        self.loop.call_later(REQUEST_WITHIN_S + more_s, self._check_request, cycle)

    def _check_request(self, cycle: Any) -> None:
        """Nothing whole has come since: the place is for others."""
        if self.cycle is cycle and not self.transport.is_closing():
            self.transport.abort()


class Server:
    """One app on one socket, with or without TLS."""

    def __init__(self, app: App, bound: socket.socket, tls: tuple[str, str] | None = None) -> None:
        self._bound, self._site = bound, app.site
        app.site.abort = self.abort
        self._transports: dict[Any, asyncio.Transport] = {}
        protocol = type("OwnConnection", (Connection,), {"of_clients": self._transports})
        config = uvicorn.Config(
            app,
            http=protocol,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            headers=list(HEADERS.items()),
            date_header=True,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=STOP_WITHIN_S,
            h11_max_incomplete_event_size=HEAD_BYTES_MAX,
            ssl_certfile=tls[0] if tls else None,
            ssl_keyfile=tls[1] if tls else None,
        )
        if tls:
            _check_files(*tls)
        try:
            config.load()
        except (ssl.SSLError, OSError) as error:
            raise SettingsError(f"management.tls_cert and tls_key do not make a TLS server: {error}") from None
        if config.ssl is not None:
            config.ssl.minimum_version = ssl.TLSVersion.TLSv1_2
        self._server = Quiet(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._scheme = "https" if tls else "http"

    @property
    def url(self) -> str:
        host, port = self._bound.getsockname()[:2]
        return f"{self._scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    def abort(self, scope: Scope) -> None:
        """Breaks off the connection of a request."""
        transport = self._transports.get(tuple(scope["client"]) if scope.get("client") else None)
        if transport is not None:
            transport.abort()

    async def serve(self) -> None:
        """Until `stop`."""
        self._loop = asyncio.get_running_loop()
        await self._server.serve([self._bound])

    def stop(self) -> None:
        """Soon: open pages are told, and have a moment to read it. From any thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._site.streams.end, "stopping")
        self._server.should_exit = True


class Quiet(uvicorn.Server):
    """It leaves signals to the process that it runs in."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _check_files(*paths: str) -> None:
    for path in paths:
        try:
            Path(path).open("rb").close()
        except OSError as error:
            raise SettingsError(f"management: {path} cannot be read: {error.strerror}") from None


logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
