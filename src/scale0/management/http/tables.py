"""What was recorded: trends from the gold tables, and why a task ended as it did. Both are read without Spark.

The pipeline is an extra, and its tables exist only where a broker records and somebody runs it. So its modules are
imported when the first visitor asks; what is missing is a 404 that names the next command. One question is read at a
time, in a thread, and an answer has a bounded number of rows.
"""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from starlette.responses import Response
from starlette.types import ASGIApp

from scale0.errors import Scale0Error
from scale0.management.http import heat_maps
from scale0.management.http.routing import Answer, Call, Parameter, Path, as_json
from scale0.management.http.shapes import Heat, Refused, Trend
from scale0.management.http.site import Site
from scale0.management.vocabulary import Role

ROWS_MAX: Final = 20_000
READ_WITHIN_S: Final = 30.0
NEEDED: Final = ("pyarrow", "deltalake")
PERIODS_US: Final = {"minute_us": 3 * 3_600_000_000, "hour_us": 7 * 86_400_000_000}
"""How far back a table is read by default; others are read whole."""
CHOSEN_BY: Final = ("service", "worker", "broker")
NAME_CHARACTERS_MAX: Final = 128
TASK_CHARACTERS_MAX: Final = 256

_NAME: Final = {"type": "string", "maxLength": NAME_CHARACTERS_MAX}
_MOMENT: Final = {"type": "string", "maxLength": 40}
TABLE: Final = Parameter("table", {"type": "string", "default": "service_1m"}, "a gold table, such as service_1m")
WHEN: Final = (
    Parameter("from", _MOMENT, "a moment: ISO 8601 or µs since 1970; by default as far back as suits the table"),
    Parameter("to", _MOMENT, "a moment; by default now"),
)
OF_SERVICE: Final = Parameter("service", _NAME, "only tasks of this service")
THEME: Final = Parameter("theme", {"type": "string", "enum": ["dark", "light"]}, "the colours; by default dark")
SVG: Final = "image/svg+xml"
T = TypeVar("T")


def paths() -> list[Path]:
    chosen = tuple(Parameter(name, _NAME, f"only rows of this {name}") for name in CHOSEN_BY)
    return [
        Path(
            method="GET",
            path="/api/v1/trends",
            name="trends",
            tag="record",
            summary="rows of a gold table, as columns",
            handler=trends,
            needs=Role.VIEW,
            takes=(TABLE, *chosen, *WHEN),
            answers=(Answer(200, "columns, oldest first", Trend),),
        ),
        Path(
            method="GET",
            path="/api/v1/heat",
            name="heat",
            tag="record",
            summary="latency of every task over time, as counts",
            handler=heat,
            needs=Role.VIEW,
            takes=(OF_SERVICE, *WHEN),
            answers=(Answer(200, "cells, oldest first", Heat),),
        ),
        Path(
            method="GET",
            path="/api/v1/heat.svg",
            name="heat map",
            tag="record",
            summary="the same as a picture",
            handler=heat_map,
            needs=Role.VIEW,
            takes=(OF_SERVICE, *WHEN, THEME),
            answers=(Answer(200, "time goes right, latency up", media=SVG),),
        ),
        Path(
            method="GET",
            path="/api/v1/why/{task}",
            name="why",
            tag="record",
            summary="why a task ended as it did",
            handler=why,
            needs=Role.VIEW,
            takes=(Parameter("task", {"type": "string", "minLength": 1}, "its id, or how it begins", "path", True),),
            answers=(Answer(200, "its life", dict[str, Any]),),
        ),
    ]


async def trends(call: Call) -> ASGIApp:
    query = call.request.query_params
    where = {name: query[name] for name in CHOSEN_BY if query.get(name)}
    if any(len(value) > NAME_CHARACTERS_MAX for value in where.values()):
        raise Refused(400, f"a name has at most {NAME_CHARACTERS_MAX} characters")
    table, since, until = query.get("table") or "service_1m", moment(query, "from"), moment(query, "to")
    place = place_of(call)
    return as_json(await _read(call.site, lambda: read_trend(place, table, where, since, until)))


async def heat(call: Call) -> ASGIApp:
    return as_json(await _heat(call))


async def heat_map(call: Call) -> ASGIApp:
    is_light = call.request.query_params.get("theme") == "light"
    return Response(heat_maps.picture(await _heat(call), is_light=is_light), media_type=SVG)


async def _heat(call: Call) -> Heat:
    query = call.request.query_params
    service, since, until = query.get("service", ""), moment(query, "from"), moment(query, "to")
    if len(service) > NAME_CHARACTERS_MAX:
        raise Refused(400, f"a name has at most {NAME_CHARACTERS_MAX} characters")
    place = place_of(call)
    return await _read(call.site, lambda: heat_maps.read(place, service, since, until))


async def why(call: Call) -> ASGIApp:
    task = call.request.path_params["task"]
    if len(task) > TASK_CHARACTERS_MAX or not task.isprintable():
        raise Refused(400, f"a task's id is printable, and has at most {TASK_CHARACTERS_MAX} characters")
    place = place_of(call)
    return as_json(await _read(call.site, lambda: read_life(place, task)))


def moment(query: Any, name: str) -> int | None:
    """A moment of the query in µs; a digit string is that already, a time without a zone is UTC."""
    text = query.get(name, "").strip()
    if not text:
        return None
    try:
        if text.isascii() and text.isdigit() and len(text) <= 17:
            return int(text)
        at = datetime.fromisoformat(text)
        return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1e6)
    except (ValueError, OverflowError):
        raise Refused(400, f"{name}: {text[:40]!r} is no moment", "write 2026-03-01T12:00:00Z") from None


def place_of(call: Call) -> str:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        text = f"what was recorded cannot be read here: {', '.join(missing)} missing"
        raise Refused(404, text, "add it: pip install 'scale0[pipeline]'")
    if not call.site.about.data:
        raise Refused(404, "this broker records nothing", "start it with --telemetry: scale0 broker --telemetry")
    return call.site.about.data


async def _read(site: Site, read: Callable[[], T]) -> T:
    """One reader at a time, and nobody waits for ever: what takes longer is finished, and thrown away."""
    from scale0_pipeline.errors import PipelineError
    from scale0_pipeline.why import AmbiguousTask

    try:
        async with asyncio.timeout(READ_WITHIN_S):
            async with site.reading:
                return await asyncio.to_thread(read)
    except TimeoutError:
        raise Refused(503, "the tables are busy or slow", "ask for a shorter period", {"Retry-After": "5"}) from None
    except AmbiguousTask as error:
        raise Refused(409, error.text, error.cure) from None
    except PipelineError as error:
        raise Refused(404, error.text, error.cure) from None
    except (OSError, Scale0Error) as error:
        raise Refused(503, f"the tables cannot be read: {type(error).__name__}", "the broker's log has more") from error


def read_life(place: str, task: str) -> dict[str, Any]:
    from scale0_pipeline import why as lives

    return lives.to_dict(lives.explain(place, task))


def read_trend(place: str, name: str, where: dict[str, str], since: int | None, until: int | None) -> Trend:
    """The rows of one table and period. Too many are refused rather than cut: what is drawn must be whole."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from scale0_pipeline import schema
    from scale0_pipeline.gold import TIMES, Gold, schema_of

    table = f"gold/{name}"
    if table not in schema.TABLES:
        known = ", ".join(one.removeprefix("gold/") for one in schema.TABLES if one.startswith("gold/"))
        raise Refused(400, f"no table {name[:80]!r}", f"there are {known}")
    wanted = schema_of(table)
    lacking = [column for column in where if column not in wanted.names]
    if lacking:
        raise Refused(400, f"{name} has no column {lacking[0]}", f"it has {', '.join(wanted.names)}")
    gold = Gold(place)
    gold.check()
    time_column = next((column for column in TIMES if column in wanted.names), None)
    if since is None and time_column in PERIODS_US:
        end = until if until is not None else (gold.extent() or (0, round(time.time() * 1e6)))[1]
        since = end - PERIODS_US[time_column]
    chosen: Any = None
    for column, value in where.items():
        term = pc.field(column) == value
        chosen = term if chosen is None else chosen & term
    batches, count = [], 0
    for batch in gold.batches(table, since, until, where=chosen):
        batches.append(batch)
        count += batch.num_rows
        if count > ROWS_MAX:
            cure = "name a service, a shorter period or a coarser table"
            raise Refused(413, f"over {ROWS_MAX:,} rows in this period", cure)
    rows = pa.Table.from_batches(batches, wanted)
    order = [(column, "ascending") for column in (time_column or "day",) if column in wanted.names]
    rows = rows.sort_by(order) if order else rows
    complete = gold.completeness(since, until)
    columns = {column: rows[column].to_pylist() for column in rows.column_names}
    return Trend("scale0.trends/1", name, since, until, rows.num_rows, complete.share, complete.lost, columns)
