"""Each route with each role gives what the table says; a route that says nothing is closed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scale0.management.http import reading
from scale0.management.http.routing import Call, Open, Path, as_json
from scale0.management.vocabulary import COMMANDS, LISTINGS, Role
from tests.management.http.support import PATHS, Running, running

ROLES = {"viewer": Role.VIEW, "operator": Role.OPERATE, "admin": Role.ADMIN}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "kick_worker": {"worker": "w-7"},
    "cancel_task": {"task": "c-1.00000000000000aa.1"},
    "retry_dead_letter": {"task": "c-1.00000000000000aa.1"},
    "test_task": {"service": "render"},
    "config_check": {"document": "{}"},
    "config_apply": {"document": "{}"},
    "config_rollback": {"version": "41"},
    "forget_broker": {"broker": "us-1"},
    "partition": {"peer": "eu-2", "for_s": 1},
    "hints": {"version": 1},
    "segment": {"path": "a"},
    "list": {"what": "workers"},
    "snapshot": {"parts": ["workers"]},
}
GUARDED = [path for path in PATHS if path.needs is not Open.TO_ALL]
ENDLESS = {"stream"}
NOTHING_THERE = {"trends", "heat", "heat map", "why", "unknown command"}


def ask(page: Running, path: Path, user: str) -> int:
    where = path.path.replace("{name}", "no_such_command").replace("{task}", "7f3a")
    with page.client(user) as client:
        if path.name in ENDLESS:
            with client.stream("GET", where) as answer:
                return answer.status_code
        body = {"arguments": ARGUMENTS.get(path.name, {})} if path.tag == "commands" else None
        return client.request(path.method, where, json=body).status_code


@pytest.mark.parametrize("path", GUARDED, ids=lambda path: f"{path.method} {path.path}")
def test_each_route_lets_in_exactly_the_roles_that_it_names(page: Running, path: Path) -> None:
    assert isinstance(path.needs, Role), f"{path.path} does not say who may use it"
    good = 404 if path.name in NOTHING_THERE else 204 if path.name == "logout" else 200
    page.do(page.door.asked.clear)
    assert ask(page, path, "") == 401
    assert not page.door.visitors_asked
    for user, role in ROLES.items():
        page.do(page.door.renew)
        page.do(page.door.asked.clear)
        code = ask(page, path, user)
        assert code == (good if role >= path.needs else 403), user
        if role < path.needs:
            assert page.door.denials[-1] == (user, "127.0.0.1", path.name, 403)
            assert not page.door.visitors_asked


def test_every_command_and_listing_of_the_vocabulary_has_its_route_with_its_role() -> None:
    routes = {(path.method, path.path): path.needs for path in PATHS}
    for command in COMMANDS.values():
        assert routes[("POST", f"/api/v1/commands/{command.name}")] is command.role
    for listing in LISTINGS.values():
        assert routes[("GET", f"/api/v1/{listing.name}")] is listing.role


def test_only_these_routes_are_open_to_all() -> None:
    public = {f"{path.method} {path.path}" for path in PATHS if path.needs is Open.TO_ALL}
    assert public == {
        "GET /healthz",
        "GET /readyz",
        "GET /",
        "GET /static/{path:path}",
        "GET /openapi.json",
        "GET /docs",
        "GET /docs.css",
        "POST /api/v1/login",
        "POST /api/v1/login/token",
    }


def test_a_route_that_does_not_say_who_may_use_it_is_closed_to_all() -> None:
    async def secret(call: Call) -> Any:
        raise AssertionError("nobody may come here")

    forgotten = Path(method="GET", path="/api/v1/secret", name="secret", summary="forgotten", handler=secret)
    assert forgotten.needs is None
    with running(paths=[*reading.paths(), forgotten]) as page:
        assert page.get("/api/v1/secret", "").status_code == 401
        for user in ROLES:
            assert page.get("/api/v1/secret", user).status_code == 403
        assert page.door.denials[-1] == ("admin", "127.0.0.1", "GET /api/v1/secret", 403)


def test_a_route_that_fails_tells_nothing_of_why() -> None:
    async def fail(call: Call) -> Any:
        raise RuntimeError("the password is sesame")

    broken = Path(method="GET", path="/broken", name="broken", summary="", handler=fail, needs=Open.TO_ALL)
    with running(paths=[broken]) as page:
        answer = page.get("/broken", "")
    assert answer.status_code == 500
    assert "sesame" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_values_that_json_has_no_word_for_are_written_as_text() -> None:
    answer = as_json({"a": complex(1, 2)})
    assert msgspec.json.decode(bytes(answer.body)) == {"a": "(1+2j)"}
