"""Listings, the visitor himself, and how the broker is."""

from __future__ import annotations

import pytest

from scale0.management.http.shapes import LIMIT_DEFAULT
from scale0.management.vocabulary import COMMANDS, LISTINGS
from tests.management.http.fake_door import FakeDoor
from tests.management.http.fake_rows import EVIL
from tests.management.http.support import Running, running


@pytest.mark.parametrize("name", LISTINGS)
def test_every_listing_says_which_broker_made_it_and_when(page: Running, name: str) -> None:
    listing = page.get(f"/api/v1/{name}").json()
    assert listing["schema"] == f"scale0.{name}/1"
    assert listing["at"].endswith("Z")
    assert listing["complete"] is True
    assert listing["broker"]["identity"] == "eu-1"
    if name == "overview":
        assert set(listing) >= {"verdict", "figures", "alarms", "services", "history", "brokers", "counts"}
    else:
        assert listing["shown"] == len(listing["rows"]) <= listing["total"] == listing["all"]


def test_rows_are_filtered_sorted_and_cut_on_the_server() -> None:
    with running(FakeDoor(workers=5_000, services=200)) as page:
        whole = page.get("/api/v1/workers").json()
        assert (whole["all"], whole["total"], whole["shown"]) == (5_000, 5_000, LIMIT_DEFAULT)
        full = page.get("/api/v1/workers", params={"filter": "state:full", "sort": "-identity", "limit": 3}).json()
        assert (full["all"], full["total"], full["shown"]) == (5_000, 1_000, 3)
        names = [row["identity"] for row in full["rows"]]
        assert names == sorted(names, reverse=True)
        last = page.get("/api/v1/workers", params={"offset": 4_999}).json()
        assert [row["identity"] for row in last["rows"]] == ["w-4999"]
        beyond = page.get("/api/v1/workers", params={"offset": 5_000}).json()
        assert (beyond["rows"], beyond["shown"], beyond["total"]) == ([], 0, 5_000)
        worst = page.get("/api/v1/workers", params={"sort": "problems", "filter": "is:problem"}).json()
        assert worst["total"] == worst["problems"] > 0
        assert worst["rows"][0]["identity"] == "w-40"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("limit=0", "limit: '0' is no number from 1 to 10,000"),
        ("limit=10001", "limit"),
        ("limit=ten", "limit"),
        ("limit=", "limit"),
        ("limit=٣", "limit"),
        ("offset=-1", "offset"),
        ("offset=99999999999999999999", "offset"),
        ("filter=colour:red", "no column 'colour' here"),
        ("filter=" + "a" * 500, "over 400 characters"),
        ("sort=colour", "no column 'colour' here"),
        ("sort=a,b,c,d,e", "at most 4 keys"),
    ],
)
def test_a_query_that_cannot_be_is_refused_with_why(page: Running, query: str, said: str) -> None:
    answer = page.get(f"/api/v1/workers?{query}")
    assert answer.status_code == 400
    assert said in answer.json()["text"]


def test_names_come_as_they_are_and_as_json(page: Running) -> None:
    answer = page.get("/api/v1/workers?filter=onerror")
    assert answer.json()["rows"][0]["identity"] == EVIL
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_two_who_look_within_a_second_cost_the_broker_one_question() -> None:
    with running() as page:
        for _ in range(10):
            page.get("/api/v1/services")
        assert page.door.count("snapshot") < 10


def test_me_says_what_i_may_do_and_what_each_command_takes(page: Running) -> None:
    me = page.get("/api/v1/me", "operator").json()
    assert {key: me[key] for key in ("user", "role", "network", "broker", "version", "colour")} == {
        "user": "operator",
        "role": "operate",
        "network": "prod",
        "broker": "eu-1",
        "version": "0.1.0",
        "colour": "#7a3cff",
    }
    known = {command["name"]: command for command in me["commands"]}
    assert set(known) == set(COMMANDS)
    assert known["drain"]["allowed"] is True
    assert known["handover"]["allowed"] is False
    kick = known["kick_worker"]
    assert (kick["tier"], kick["target"], kick["role"]) == (2, "worker", "operate")
    assert kick["arguments"]["required"] == ["worker"]
    assert "$ref" not in str(me)


def test_health_is_told_to_everybody_and_readiness_is_the_brokers() -> None:
    with running() as page:
        assert page.get("/healthz", "").text == "ok\n"
        ready = page.get("/readyz", "")
        assert (ready.status_code, ready.json()) == (200, {"ready": True, "state": "active"})
        page.post("/api/v1/commands/disable")
        ready = page.get("/readyz", "")
        assert (ready.status_code, ready.json()) == (503, {"ready": False, "state": "disabled"})
        page.do(page.door.silence)
        page.do(page.site.snapshots.spoil)
        ready = page.get("/readyz", "")
        assert (ready.status_code, ready.json()) == (503, {"ready": False, "state": "no answer"})
        assert page.get("/healthz", "").status_code == 200


def test_a_broker_that_does_not_answer_is_a_503_with_its_words() -> None:
    with running() as page:
        page.do(page.door.silence)
        answer = page.get("/api/v1/overview")
        assert answer.status_code == 503
        assert answer.json() == {"code": 503, "text": "the broker has ended"}


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/api/v2/workers", "/api/v1/workers/", "/API/v1/workers"])
def test_a_route_that_there_is_not_says_where_they_are_listed(page: Running, path: str) -> None:
    answer = page.get(path)
    assert answer.status_code == 404
    assert answer.json()["cure"] == "GET /openapi.json lists every route"


def test_a_method_that_a_route_has_not_is_refused(page: Running) -> None:
    with page.client("admin") as client:
        answer = client.delete("/api/v1/workers")
        assert answer.status_code == 405
        assert "GET" in answer.headers["allow"]
        assert client.get("/api/v1/commands/drain").status_code == 405
        assert client.head("/api/v1/workers").status_code == 200
