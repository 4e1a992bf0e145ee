"""What stands before every request, whatever its route: Host, Origin, size, and headers on each answer.

A page that somebody else wrote can make a browser send requests here. So the Host must be a name that this server goes
by (421), which defeats names that are pointed at it; and what changes something must come from its own pages (403),
which defeats forms and scripts elsewhere. Both hold for routes that do not exist, too. Nothing that fails inside
reaches the visitor but a number; the log has the rest.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scale0.management.http.shapes import BODY_BYTES_MAX, Refused, status_of

SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
CSP: Final = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
HEADERS: Final = {  # the server puts them on every answer, on its own ones too
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
CURES: Final = {404: "GET /openapi.json lists every route", 405: "GET looks, POST changes"}
HSTS: Final = "max-age=31536000"

log = logging.getLogger("scale0.page")


class Guard:
    """The outermost layer of the app. It finds out who is really asking, and leaves that in the request's state."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Iterable[str] = (),
        proxies: Iterable[str] = (),
    ) -> None:
        self._app = app
        self._hosts = LOCAL_NAMES | {host_name(host) for host in hosts if host}
        self._proxies = [ipaddress.ip_network(proxy, strict=False) for proxy in proxies]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        is_begun = False
        is_proxied = self._is_proxy((scope.get("client") or ("", 0))[0])
        is_secure = scope["scheme"] == "https" or (is_proxied and headers.get("x-forwarded-proto", "") == "https")
        scope["app"] = self  # so that the router raises what it refuses
        cookie = cookie_name(_host(headers, is_proxied), is_secure)
        scope.setdefault("state", {}).update(is_secure=is_secure, source=self._source(scope, headers), cookie=cookie)

        async def answer(message: Message) -> None:
            nonlocal is_begun
            if message["type"] == "http.response.start":
                is_begun = True
                _harden(MutableHeaders(raw=message["headers"]), scope["path"], is_secure)
            await send(message)

        try:
            self._check(scope, headers, is_proxied, is_secure)
            await self._app(scope, receive, answer)
        except Refused as refused:
            await failure_answer(refused)(scope, receive, answer)
        except HTTPException as error:  # the router's: no such route, or not with this method
            cure, more = CURES.get(error.status_code, ""), dict(error.headers or {})
            told = Refused(error.status_code, str(error.detail), cure, more)
            await failure_answer(told)(scope, receive, answer)
        except Exception:
            if is_begun:
                raise  # the server breaks the connection off: the visitor sees that something is missing
            log.exception("%s %s failed", scope["method"], scope["path"])
            await failure_answer(Refused(500, "this request failed", "the broker's log has more"))(
                scope, receive, answer
            )

    def _check(self, scope: Scope, headers: Headers, is_proxied: bool, is_secure: bool) -> None:
        host = _host(headers, is_proxied)
        if not self._is_ours(host_name(host), scope) or len(headers.getlist("host")) != 1:
            text = f"this server does not go by the name {host_name(host)[:80]!r}"
            raise Refused(421, text, "add it to allowed_hosts in the broker's [management] settings")
        if scope["method"] not in SAFE_METHODS and not _is_same_site(headers, host, is_secure):
            raise Refused(403, "a page of another site asked for this", "open the broker's own page")
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit() and len(length) <= 12):
            raise Refused(400, "Content-Length is no number")
        if int(length) > BODY_BYTES_MAX:
            raise Refused(413, f"the body has {int(length):,} bytes; at most {BODY_BYTES_MAX:,} are taken")

    def _is_ours(self, name: str, scope: Scope) -> bool:
        """A name that is configured, or the very address that the connection came to: that is no name to point."""
        own = (scope.get("server") or ("", 0))[0]
        return name in self._hosts or (bool(name) and name == own and _is_address(own))

    def _is_proxy(self, address: str) -> bool:
        if not self._proxies or not _is_address(address):
            return False
        return any(ipaddress.ip_address(address) in network for network in self._proxies)

    def _source(self, scope: Scope, headers: Headers) -> str:
        """Where the request comes from: behind proxies that are trusted, the last address that is none of them."""
        source: str = (scope.get("client") or ("", 0))[0]
        hops = [hop.strip() for hop in ",".join(headers.getlist("x-forwarded-for")).split(",")]
        while hops and self._is_proxy(source):
            hop = hops.pop()
            if not _is_address(hop):
                break
            source = hop
        return source


def failure_answer(refused: Refused) -> Response:
    """The failure as JSON, as everywhere."""
    body = msgspec.json.encode(refused.failure)
    return Response(body, status_of(refused.failure.code), refused.headers, "application/json")


def cookie_name(host: str, is_secure: bool) -> str:
    """The session's cookie, named by the port, for browsers send cookies to every port of a host.

    So the pages of two brokers on one host do not log each other out. With TLS no other host can set it (`__Host-`).
    """
    _, _, port = host[host.rfind("]") + 1 :].rpartition(":")
    name = f"scale0-{port if port.isascii() and port.isdigit() and len(port) <= 5 else 443 if is_secure else 80}"
    return f"__Host-{name}" if is_secure else name


def host_name(host: str) -> str:
    """The name in a Host header or an address, without its port."""
    name = host.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name if name.count(":") > 1 else name.partition(":")[0]


def _harden(headers: MutableHeaders, path: str, is_secure: bool) -> None:
    if is_secure:
        headers["Strict-Transport-Security"] = HSTS
    headers.setdefault("Cache-Control", "no-cache" if path.startswith("/static/") else "no-store")
    if "server" in headers:
        del headers["server"]


def _host(headers: Headers, is_proxied: bool) -> str:
    """What the visitor's program thinks that it talks to."""
    host = headers.get("host", "")
    return headers.get("x-forwarded-host") or host if is_proxied else host


def _is_same_site(headers: Headers, host: str, is_secure: bool) -> bool:
    """Browsers name the site that asks; programs name none."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    if origin is None:
        return True
    try:
        parts = urlsplit(origin)
        scheme, asking = parts.scheme, (parts.hostname or "", parts.port)
        asked = (host_name(host), urlsplit(f"//{host}").port)
    except ValueError:
        return False
    default = 443 if is_secure else 80
    if scheme != ("https" if is_secure else "http"):
        return False
    return (asking[0], asking[1] or default) == (asked[0], asked[1] or default)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
