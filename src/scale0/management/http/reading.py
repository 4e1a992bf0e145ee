"""Routes that only look: the visitor himself, listings, the event stream, and how the broker is."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp

from scale0.management import filters
from scale0.management.http.routing import Answer, Call, Open, Parameter, Path, as_json, raw_json
from scale0.management.http.shapes import (
    LIMIT_DEFAULT,
    LIMIT_MAX,
    Known,
    Listing,
    Me,
    Overview,
    Ready,
    Refused,
)
from scale0.management.http.snapshots import View
from scale0.management.http.streams import OVERVIEW, EventAnswer, Stream
from scale0.management.vocabulary import COMMANDS, LISTINGS, Role

READY_STATES: Final = frozenset({"active"})
OFFSET_MAX: Final = 1_000_000

_TEXT: Final = {"type": "string", "maxLength": filters.FILTER_CHARACTERS_MAX}
FILTER: Final = Parameter("filter", _TEXT, "words such as `state:full svc:render* hb>3s`; all must be met")
SORT: Final = Parameter("sort", _TEXT, "keys such as `-queued,name`, or `problems`")
LIMIT: Final = Parameter(
    "limit", {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT}, "rows at most"
)
OFFSET: Final = Parameter(
    "offset", {"type": "integer", "minimum": 0, "maximum": OFFSET_MAX, "default": 0}, "rows to pass over"
)
TOPIC: Final = Parameter("topic", {"type": "string", "enum": list(LISTINGS), "default": OVERVIEW}, "what to look at")


def paths() -> list[Path]:
    return [
        Path(
            method="GET",
            path="/healthz",
            name="healthz",
            tag="health",
            summary="200 while this process lives",
            handler=healthz,
            needs=Open.TO_ALL,
            answers=(Answer(200, "it lives", media="text/plain"),),
        ),
        Path(
            method="GET",
            path="/readyz",
            name="readyz",
            tag="health",
            summary="200 while the broker accepts tasks",
            handler=readyz,
            needs=Open.TO_ALL,
            answers=(Answer(200, "it accepts tasks", Ready), Answer(503, "it does not, or does not answer", Ready)),
        ),
        Path(
            method="GET",
            path="/api/v1/me",
            name="me",
            tag="login",
            summary="who I am, and what I may do",
            handler=me,
            needs=Role.VIEW,
            answers=(Answer(200, "the visitor, and every command with what it takes", Me),),
        ),
        *(_listing(name) for name in LISTINGS),
        Path(
            method="GET",
            path="/api/v1/stream",
            name="stream",
            summary="server-sent events: snapshot (once a second), alarms, event, bye",
            handler=stream,
            needs=Role.VIEW,
            takes=(TOPIC, FILTER, SORT, LIMIT),
            answers=(Answer(200, "events until either side ends it", media="text/event-stream"),),
        ),
    ]


def _listing(name: str) -> Path:
    async def show(call: Call) -> ASGIApp:
        view = view_of(call)
        return raw_json((await call.site.snapshots.get(name)).shown(view))

    listing = LISTINGS[name]
    is_overview = name == OVERVIEW
    return Path(
        method="GET",
        path=f"/api/v1/{name}",
        name=name,
        tag="listings",
        summary=listing.summary,
        handler=show,
        needs=listing.role,
        takes=() if is_overview else (FILTER, SORT, LIMIT, OFFSET),
        answers=(Answer(200, listing.summary, Overview if is_overview else Listing),),
    )


async def healthz(call: Call) -> ASGIApp:
    return PlainTextResponse("ok\n")


async def readyz(call: Call) -> ASGIApp:
    await call.site.is_answered()
    state = call.site.streams.state
    is_ready = state in READY_STATES
    return as_json(Ready(is_ready, state or "no answer"), 200 if is_ready else 503)


async def me(call: Call) -> ASGIApp:
    who, about = call.who.principal, call.site.about
    known = [
        Known(
            command.name,
            command.role.text,
            command.tier,
            command.summary,
            command.target,
            SCHEMAS[command.name],
            who.role >= command.role,
        )
        for command in COMMANDS.values()
    ]
    return as_json(
        Me(who.user, who.role.text, who.services, about.network, about.identity, about.version, about.colour, known)
    )


async def stream(call: Call) -> ASGIApp:
    topic = call.request.query_params.get("topic") or OVERVIEW
    listing = LISTINGS.get(topic)
    if listing is None:
        raise Refused(400, f"no topic {topic[:80]!r}", f"there are {', '.join(LISTINGS)}")
    if call.who.principal.role < listing.role:
        call.site.door.denied(call.who.principal.user, call.request.state.source, f"stream of {topic}", 403)
        raise Refused(403, f"{topic} needs the role {listing.role.text}")
    if call.request.method == "HEAD":
        return Response(media_type="text/event-stream")
    visitor, visitors = call.who, call.site.visitors
    opened = Stream(topic, view_of(call), lambda: visitors.holds(visitor))
    await call.site.streams.add(opened)
    return EventAnswer(call.site.streams, opened, call.site.abort)


def view_of(call: Call) -> View:
    """What of a listing the query asks for. Raises where it asks for what cannot be."""
    query = call.request.query_params
    view = View(
        query.get("filter", "").strip(),
        query.get("sort", ""),
        number(call, LIMIT, LIMIT_DEFAULT),
        number(call, OFFSET, 0),
    )
    filters.Filter(view.filter)
    filters.arranged([], view.sort)
    return view


def number(call: Call, parameter: Parameter, default: int) -> int:
    """A whole number of the query, within its bounds."""
    text = call.request.query_params.get(parameter.name)
    if text is None:
        return default
    least, most = parameter.schema["minimum"], parameter.schema["maximum"]
    is_number = text.isascii() and text.isdigit() and len(text) <= 9
    if not is_number or not least <= int(text) <= most:
        raise Refused(400, f"{parameter.name}: {text[:40]!r} is no number from {least:,} to {most:,}")
    return int(text)


def _schema(arguments: Any) -> dict[str, Any]:
    """The JSON Schema of a command's arguments, with nothing to look up elsewhere."""
    _, parts = msgspec.json.schema_components([arguments])
    schema: dict[str, Any] = parts[arguments.__name__]
    return schema


SCHEMAS: Final = {command.name: _schema(command.arguments) for command in COMMANDS.values()}
