"""The OpenAPI document: valid, whole, and true, which schemathesis tries with requests made from it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from scale0.management.http.app import make_app
from scale0.management.http.attempts import Attempts
from scale0.management.http.document import openapi_document
from scale0.management.http.routing import Open
from tests.management.http.fake_door import FakeDoor
from tests.management.http.fake_page import make_site
from tests.management.http.support import PATHS, Running

DOCUMENT = openapi_document(PATHS)
UNLISTED = {"unknown command"}
ENDLESS = {"/api/v1/stream"}
ADMIN = ("admin", "adminadmin")
HEADERS = {"Host": "localhost"}
NEGATIVE = schemathesis.GenerationMode.NEGATIVE


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (inner for key, inner in value.items() if key == "$ref")
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_every_route_is_described_with_its_answers_and_its_security() -> None:
    described = {(method.upper(), path) for path, method, _ in operations()}
    assert described == {(path.method, path.path.replace(":path}", "}")) for path in PATHS if path.name not in UNLISTED}
    needs = {(path.method, path.path.replace(":path}", "}")): path.needs for path in PATHS}
    for path, method, operation in operations():
        is_open = needs[(method.upper(), path)] is Open.TO_ALL
        assert bool(operation["security"]) is not is_open, path
        assert {"400", "421", "500"} <= set(operation["responses"])
        assert is_open or {"401", "403"} <= set(operation["responses"])
        assert operation["summary"]


def test_every_reference_leads_somewhere_and_every_schema_is_valid() -> None:
    names = set(DOCUMENT["components"]["schemas"])
    assert {reference.removeprefix("#/components/schemas/") for reference in references(DOCUMENT)} <= names
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    ids = [operation["operationId"] for _, _, operation in operations()]
    assert len(ids) == len(set(ids))
    for path, _, operation in operations():
        declared = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
        assert declared == set(re.findall(r"{(\w+)}", path))


def test_the_document_is_served_and_says_what_it_is(page: Running) -> None:
    answer = page.get("/openapi.json", "")
    assert answer.json()["openapi"] == "3.1.0"
    assert answer.json()["components"]["securitySchemes"].keys() == {"session", "password", "scrape_token"}
    again = page.get("/openapi.json", "", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_the_page_of_the_document_needs_nothing_from_elsewhere(page: Running) -> None:
    answer = page.get("/docs", "")
    assert answer.headers["content-type"].startswith("text/html")
    elements = Elements()
    elements.feed(answer.text)
    assert not [tag for tag, attributes in elements.found if tag in ("script", "style") or "style" in attributes]
    assert not [link for _, attributes in elements.found for link in attributes.values() if link and "//" in link]
    assert "kick_worker" in answer.text
    assert page.get("/docs.css", "").headers["content-type"].startswith("text/css")
    assert sum(tag == "summary" for tag, _ in elements.found) == len(list(operations()))


@pytest.fixture(scope="module")
def described() -> Any:
    door = FakeDoor()
    site = make_site(door)
    return site, door, schemathesis.openapi.from_asgi("/openapi.json", make_app(site, paths=PATHS), headers=HEADERS)


@pytest.mark.parametrize(
    ("path", "method"), [(path, method) for path, method, _ in operations() if path not in ENDLESS]
)
def test_the_api_does_what_its_document_says(described: Any, path: str, method: str) -> None:
    site, door, schema = described

    @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
    @given(case=schema[path][method].as_strategy() | schema[path][method].as_strategy(NEGATIVE))
    def ask(case: Any) -> None:
        door.renew()
        site.snapshots.spoil()
        site.visitors._attempts = Attempts()
        # What a filter or a document means cannot be said in a schema: what it allows may be refused all the same.
        case.call_and_validate(auth=ADMIN, headers=HEADERS, excluded_checks=[positive_data_acceptance])

    ask()
