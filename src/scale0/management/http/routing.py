"""A route of the API: what it needs, what it takes and what it answers, in one place.

From this one table come the routes themselves, the check of roles, the tests that try each route with each role, and
the OpenAPI document. A route that does not say who may use it is closed: it answers 403 to everybody.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from scale0.errors import ProtocolError
from scale0.management.http.shapes import BODY_BYTES_MAX, Refused, check_depth, refusal_of
from scale0.management.http.site import Site
from scale0.management.http.visitors import CHALLENGE, Visitor
from scale0.management.vocabulary import Role


class Open(enum.Enum):
    """Routes that need no login say so."""

    TO_ALL = "public"


class Call(msgspec.Struct, frozen=True):
    """A request that was let in."""

    site: Site
    request: Request
    visitor: Visitor | None

    @property
    def who(self) -> Visitor:
        assert self.visitor is not None, "the route needs no login, and asks who is there"
        return self.visitor


Handler = Callable[[Call], Awaitable[ASGIApp]]


class Parameter(msgspec.Struct, frozen=True):
    name: str
    schema: dict[str, Any]
    text: str
    place: str = "query"
    is_needed: bool = False


class Answer(msgspec.Struct, frozen=True):
    """One answer: its status, and the type of its body (or several that it may have), or its media type."""

    status: int
    text: str
    body: Any = None
    media: str = "application/json"


class Path(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path. `needs` has no default that lets anybody in."""

    method: str
    path: str
    name: str
    summary: str
    handler: Handler
    needs: Role | Open | None = None
    takes: tuple[Parameter, ...] = ()
    body: Any = None
    answers: tuple[Answer, ...] = ()
    tag: str = "api"


class Guarded:
    """The route as an ASGI app that lets in whom the route names."""

    def __init__(self, site: Site, path: Path) -> None:
        self._site, self._path = site, path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            visitor = await admitted(self._site, self._path, request)
            answer = await self._path.handler(Call(self._site, request, visitor))
        except ProtocolError as error:
            raise refusal_of(error) from None
        await answer(scope, receive, send)


async def admitted(site: Site, path: Path, request: Request) -> Visitor | None:
    """Whoever asks, if he may; raises 401 or 403, which the audit log hears of."""
    if path.needs is Open.TO_ALL:
        return None
    visitor = await site.visitors.who(request)
    source = request.state.source
    if visitor is None:
        raise Refused(401, "nobody is logged in", "log in at /, or send Basic credentials", CHALLENGE)
    who = visitor.principal
    if path.needs is None:
        site.door.denied(who.user, source, f"{path.method} {path.path}", 403)
        raise Refused(403, "this route is closed to everybody")
    if who.role < path.needs:
        site.door.denied(who.user, source, path.name, 403)
        text = f"{path.name} needs the role {path.needs.text}; {who.user} has {who.role.text}"
        raise Refused(403, text, f"an administrator can change that: scale0 user role {who.user} {path.needs.text}")
    return visitor


BODY_WITHIN_S: Final = 10.0
_JSON: Final = msgspec.json.Decoder()


async def body_of(request: Request, kind: type[msgspec.Struct]) -> Any:
    """The request's JSON body as what it should be. Bounded in size and depth, whatever its headers say."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    data = await _read(request)
    if media != "application/json":
        raise Refused(415, "the body must be JSON", "send it with Content-Type: application/json")
    try:
        value = _JSON.decode(data)
        check_depth(value)
        return msgspec.convert(value, kind)
    except RecursionError:
        raise Refused(400, "the body is nested too deeply", "send flat arguments") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Refused(400, f"the body is not as it should be: {error}", "/docs tells what it should be") from None


async def _read(request: Request) -> bytes:
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_WITHIN_S):
            async for piece in request.stream():
                data += piece
                if len(data) > BODY_BYTES_MAX:
                    raise Refused(413, f"the body is over {BODY_BYTES_MAX:,} bytes")
    except TimeoutError:
        raise Refused(
            408, f"the body did not come within {BODY_WITHIN_S:g} s", headers={"Connection": "close"}
        ) from None
    except ClientDisconnect:
        raise Refused(400, "the body ended before its end") from None
    return bytes(data)


def as_json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value, enc_hook=str), status, media_type="application/json")


def raw_json(data: bytes, status: int = 200) -> Response:
    return Response(data, status, media_type="application/json")
