"""Commands over HTTP, and hostile bodies."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scale0.management.http.shapes import DEPTH_MAX
from tests.management.http.support import Running, running

KICK = "/api/v1/commands/kick_worker"


@pytest.fixture(autouse=True)
def _renewed(page: Running) -> None:
    page.do(page.door.renew)


def test_a_command_reaches_the_gate_with_who_where_from_and_its_id(page: Running) -> None:
    body = {"arguments": {"worker": "w-7", "reason": "deaf"}, "command_id": "a-1"}
    answer = page.post(KICK, body, "operator")
    assert answer.status_code == 200
    assert answer.json() == {"command_id": "a-1", "result": {"state": "active"}}
    asked = page.door.visitors_asked[-1]
    assert asked.command == "kick_worker"
    assert asked.arguments == {"worker": "w-7", "reason": "deaf"}
    assert (asked.command_id, asked.brokers) == ("a-1", "own")
    assert (asked.principal.user, asked.principal.door, asked.principal.source) == ("operator", "http", "127.0.0.1")


def test_a_command_without_an_id_gets_one(page: Running) -> None:
    first, second = (page.post("/api/v1/commands/balance").json()["command_id"] for _ in range(2))
    assert len(first) == 36
    assert first != second


def test_a_change_is_seen_at_once_by_whoever_looks_next(page: Running) -> None:
    before = page.get("/api/v1/workers").json()["all"]
    page.post(KICK, {"arguments": {"worker": "w-7"}})
    assert page.get("/api/v1/workers").json()["all"] == before - 1


def test_a_command_for_all_brokers_tells_what_each_made_of_it(page: Running) -> None:
    answer = page.post("/api/v1/commands/drain", {"brokers": "all", "command_id": "n-1"})
    assert answer.status_code == 207
    told = answer.json()
    assert (told["command_id"], told["complete"]) == ("n-1", False)
    by_broker = {one["broker"]: one for one in told["results"]}
    assert by_broker["us-1"] == {"broker": "us-1", "code": 503, "text": "silent for 14 s"}
    assert by_broker["eu-2"]["code"] == 200
    some = page.post("/api/v1/commands/drain", {"brokers": ["eu-1", "eu-2"]})
    assert some.status_code == 200
    assert some.json()["complete"] is True


@pytest.mark.parametrize(("code", "status"), [(400, 400), (404, 404), (409, 409), (429, 429), (498, 400), (499, 400)])
def test_what_the_broker_refuses_has_the_status_of_the_same_number(code: int, status: int) -> None:
    with running() as page:
        page.door.refuse("drain", code, "it cannot be; do something else first")
        answer = page.post("/api/v1/commands/drain")
    assert answer.status_code == status
    assert answer.json() == {"code": code, "text": "it cannot be", "cure": "do something else first"}


def test_a_command_that_there_is_not_is_refused_with_those_there_are(page: Running) -> None:
    answer = page.post("/api/v1/commands/explode")
    assert answer.status_code == 404
    assert "disable, enable, drain" in answer.json()["cure"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "kick_worker: Object missing required field `worker`"),
        ({"arguments": {"worker": 7}}, "Expected `str`, got `int` - at `$.worker`"),
        ({"arguments": {"worker": "w", "force": True}}, "Object contains unknown field `force`"),
        ({"arguments": {"worker": "w"}, "also": 1}, "Object contains unknown field `also`"),
        ({"arguments": ["w"]}, "Expected `object`, got `array`"),
        ({"arguments": {"worker": "w"}, "brokers": "some"}, "Invalid enum value 'some'"),
        ({"arguments": {"worker": "w"}, "brokers": []}, "Expected `array` of length >= 1"),
        ({"arguments": {"worker": "w"}, "brokers": ["x"] * 300}, "Expected `array` of length <= 256"),
        ({"arguments": {"worker": "w"}, "command_id": "x" * 65}, "length <= 64"),
        ({"arguments": {"worker": "w"}, "command_id": "a b"}, "matching regex"),
        ({"arguments": {"worker": "w"}, "command_id": "a\n"}, "matching regex"),
        ([], "Expected `object`, got `array`"),
    ],
)
def test_a_body_that_is_not_as_it_should_be_is_refused_with_where(page: Running, body: Any, said: str) -> None:
    before = len(page.door.visitors_asked)
    with page.client("admin") as client:
        answer = client.post(KICK, json=body)
    assert answer.status_code == 400
    assert said in answer.json()["text"]
    assert len(page.door.visitors_asked) == before


HOSTILE = [
    b"",
    b"{",
    b"\xff\xfe",
    b'{"arguments": {"worker": "\xed\xa0\x80"}}',
    b"[" * 100_000,
    b'{"arguments": ' + b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b"}",
    b'{"arguments": {"worker": ' + b"[" * (DEPTH_MAX + 2) + b"]" * (DEPTH_MAX + 2) + b"}}",
    b'{"arguments": {"worker": 1e400}}',
    b"NaN",
    b"1" * 10_000,
]


@pytest.mark.parametrize("content", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("path", [KICK, "/api/v1/login", "/api/v1/login/token"])
def test_hostile_bodies_are_refused_and_the_server_lives(page: Running, content: bytes, path: str) -> None:
    with page.client("admin") as client:
        answer = client.post(path, content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400, answer.text
        assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("media", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_only_json_is_taken_for_it_is_what_no_form_can_send(page: Running, media: str) -> None:
    with page.client("admin") as client:
        answer = client.post(KICK, content=b'{"arguments": {"worker": "w-7"}}', headers={"Content-Type": media})
    assert answer.status_code == 415


@settings(max_examples=60)
@given(content=st.binary(max_size=200) | st.text(max_size=60).map(lambda text: f'{{"arguments": {text}}}'.encode()))
def test_any_body_is_carried_out_or_refused(page: Running, content: bytes) -> None:
    with page.client("admin") as client:
        answer = client.post(KICK, content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 400, 404)


def test_a_gate_that_hangs_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "scale0.management.http.door.ask.__kwdefaults__", {"command_id": "", "brokers": "own", "within_s": 0.1}
    )
    with running() as page:
        page.do(page.door.hold)
        answer = page.post("/api/v1/commands/drain")
    assert answer.status_code == 504
    assert "look at the audit" in answer.json()["cure"]


def test_task_bodies_are_for_operators_alone(page: Running) -> None:
    body = {"arguments": {"service": "render"}}
    assert page.post("/api/v1/commands/test_task", body, "viewer").status_code == 403
    assert page.post("/api/v1/commands/test_task", body, "operator").json()["result"]["body"] == '"fine"'
