"""The API's own description: an OpenAPI 3.1 document made from the table of routes, and a page that shows it.

Requests and answers are msgspec types, and commands are those of the vocabulary, so that what is described is what is
checked. The page is made here, too, without a script: it works where nothing can be fetched from elsewhere.
"""

from __future__ import annotations

import html
import re
from typing import Any, Final

import msgspec
from starlette.types import ASGIApp

from scale0 import __version__
from scale0.management.http.files import file_answer, file_of
from scale0.management.http.routing import Answer, Call, Open, Parameter, Path
from scale0.management.http.shapes import Failure
from scale0.management.vocabulary import Role

REF: Final = "#/components/schemas/{name}"
ANSWERS_OF_ALL: Final = {
    400: "something about the request is wrong; the text says what",
    421: "this server does not go by that name",
    500: "it failed here; the broker's log has more",
}
ANSWERS_OF_THE_BROKER: Final = {
    404: "there is no such thing",
    409: "it does not fit the state of things; the text says what to do",
    413: "too much at once",
    429: "over a limit; try again soon",
    501: "the broker does not do that",
    502: "a worker was lost",
    503: "the broker does not accept this now, or does not answer",
    504: "no answer in time; it may have been carried out",
}
WITH_LOGIN: Final[list[dict[str, list[str]]]] = [{"session": []}, {"password": []}]

STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 14px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font-family: ui-monospace, monospace; }
details { border-bottom: 1px solid light-dark(#dde2e8, #2b333e); padding: 0.25rem 0; }
summary { cursor: pointer; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.1rem 1rem; }
dd { margin: 0; }
pre { overflow-x: auto; padding: 0.5rem; background: light-dark(#f7f8fa, #161b22); }
"""
COOKIE: Final = "named by the port of the page; with TLS `__Host-` stands before the name"


def paths(known: list[Path]) -> list[Path]:
    """The routes of the description, which describes them as well."""

    async def openapi(call: Call) -> ASGIApp:
        return file_answer(document_file, call.request)

    async def docs(call: Call) -> ASGIApp:
        return file_answer(page_file, call.request)

    async def style(call: Call) -> ASGIApp:
        return file_answer(style_file, call.request)

    own = [
        Path(
            method="GET",
            path="/openapi.json",
            name="openapi",
            tag="page",
            summary="this document",
            handler=openapi,
            needs=Open.TO_ALL,
            answers=(Answer(200, "OpenAPI 3.1", dict[str, Any]),),
        ),
        Path(
            method="GET",
            path="/docs",
            name="docs",
            tag="page",
            summary="this document, for people",
            handler=docs,
            needs=Open.TO_ALL,
            answers=(Answer(200, "a page", media="text/html"),),
        ),
        Path(
            method="GET",
            path="/docs.css",
            name="docs_style",
            tag="page",
            summary="how that page looks",
            handler=style,
            needs=Open.TO_ALL,
            answers=(Answer(200, "a style sheet", media="text/css"),),
        ),
    ]
    made = openapi_document([*known, *own])
    document_file = file_of("application/json", msgspec.json.encode(made))
    style_file = file_of("text/css; charset=utf-8", STYLE.encode())
    page_file = file_of("text/html; charset=utf-8", docs_page(made).encode())
    return own


def openapi_document(table: list[Path]) -> dict[str, Any]:
    bodies = [path.body for path in table if path.body is not None]
    answers = [one for path in table for answer in path.answers for one in _bodies(answer)]
    types = list(dict.fromkeys([Failure, *bodies, *answers]))
    schemas, components = msgspec.json.schema_components(types, ref_template=REF)
    schema_of = dict(zip(types, schemas, strict=True))
    routes: dict[str, dict[str, Any]] = {}
    for path in table:
        if path.name != "unknown command":
            routes.setdefault(re.sub(r":path}", "}", path.path), {})[path.method.lower()] = _operation(path, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Scale0",
            "version": __version__,
            "summary": "Management of a broker and its network",
            "description": "Raw units are suffixed (`p99_us`); what is not known is null. Every refusal is a Failure.",
        },
        "servers": [{"url": "/"}],
        "paths": routes,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "session": {"type": "apiKey", "in": "cookie", "name": "scale0-8480", "description": COOKIE},
                "password": {"type": "http", "scheme": "basic"},
                "scrape_token": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _operation(path: Path, schema_of: dict[Any, Any]) -> dict[str, Any]:
    is_open = path.needs is Open.TO_ALL
    role = path.needs.text if isinstance(path.needs, Role) else ""
    operation: dict[str, Any] = {
        "operationId": f"{path.method.lower()}_{path.name}",
        "tags": [path.tag],
        "summary": path.summary,
        "description": f"Needs the role {role}." if role else "Needs no login.",
        "parameters": [_parameter(one) for one in path.takes],
        "responses": _responses(path, schema_of, is_open=is_open),
        "security": [] if is_open else list(WITH_LOGIN),
    }
    if path.name == "metrics":
        operation["security"].append({"scrape_token": []})
    if path.body is not None:
        content = {"application/json": {"schema": schema_of[path.body]}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _responses(path: Path, schema_of: dict[Any, Any], *, is_open: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for answer in path.answers:
        described: dict[str, Any] = {"description": answer.text}
        if answer.body is not None:
            shown = [schema_of[one] for one in _bodies(answer)]
            described["content"] = {answer.media: {"schema": shown[0] if len(shown) == 1 else {"anyOf": shown}}}
        elif answer.media != "application/json":
            described["content"] = {answer.media: {"schema": {"type": "string"}}}
        found[str(answer.status)] = described
    refusals = dict(ANSWERS_OF_ALL)
    if not is_open:
        refusals |= {401: "nobody is logged in", 403: "the role is not enough"} | ANSWERS_OF_THE_BROKER
    if path.method != "GET":
        refusals |= {403: "not allowed, or asked by a page of another site", 413: "the body is too large"}
        refusals |= {415: "the body is not JSON"}
    if path.tag == "login":
        refusals |= {401: "that is not right", 429: "too many attempts from there; Retry-After says when"}
    if path.tag == "page":
        refusals |= {404: "there is no such file"}
    for code, text in sorted(refusals.items()):
        content = {"application/json": {"schema": schema_of[Failure]}}
        found.setdefault(str(code), {"description": text, "content": content})
    return found


def _bodies(answer: Answer) -> tuple[Any, ...]:
    if answer.body is None:
        return ()
    return answer.body if isinstance(answer.body, tuple) else (answer.body,)


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.is_needed,
        "description": parameter.text,
        "schema": parameter.schema,
    }


def docs_page(document: dict[str, Any]) -> str:
    """The document as one page of plain HTML."""
    parts = [f"<h1>{html.escape(document['info']['title'])} API</h1>"]
    parts.append(f"<p>{html.escape(document['info']['description'])} <a href='openapi.json'>openapi.json</a></p>")
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts.append(_section(path, method, operation, document["components"]["schemas"]))
    head = "<meta charset='utf-8'><meta name='viewport' content='width=device-width'><title>Scale0 API</title>"
    head += "<link rel='icon' href='static/icon.svg'><link rel='stylesheet' href='docs.css'>"
    return f"<!doctype html><html lang='en'><head>{head}</head><body>{''.join(parts)}</body></html>"


def _section(path: str, method: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    lines = [f"<details><summary><code>{method.upper()} {html.escape(path)}</code> {html.escape(operation['summary'])}"]
    lines.append(f"</summary><p>{html.escape(operation['description'])}</p>")
    rows = "".join(
        f"<dt><code>{html.escape(one['name'])}</code></dt><dd>{html.escape(one['description'])}</dd>"
        for one in operation["parameters"]
    )
    lines.append(f"<dl>{rows}</dl>" if rows else "")
    if "requestBody" in operation:
        name = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        shown = [schemas[name]]
        inner = schemas[name].get("properties", {}).get("arguments", {}).get("$ref")
        shown += [schemas[inner.rpartition("/")[2]]] if inner else []
        text = "\n".join(msgspec.json.format(msgspec.json.encode(one), indent=2).decode() for one in shown)
        lines.append(f"<p>Body:</p><pre>{html.escape(text)}</pre>")
    answers = "".join(
        f"<dt><code>{code}</code></dt><dd>{html.escape(one['description'])}</dd>"
        for code, one in operation["responses"].items()
    )
    return "".join([*lines, f"<dl>{answers}</dl></details>"])
