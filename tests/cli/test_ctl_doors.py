"""The doors of ctl: MANAGEMENTREQ to a real broker, HTTP to its real page, and what is refused before it is sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scale0 import Worker, testing
from scale0.cli.ctl_doors import Answer, BrokerAnswer, Door, HttpDoor, Query, RequestDoor, check_url, read_answer
from scale0.cli.manage_command import Credentials
from scale0.errors import ProtocolError, Scale0Error, SessionRefused, Unreachable, UsageError
from scale0.testing import TestBroker

OPS = Credentials("ops", "secret")
LIMIT_S = 60.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestBroker]:
    folder = tmp_path_factory.mktemp("managed")
    management = {**testing.managed_by(folder, {"ops": "secret"}), "http": "127.0.0.1:0"}
    with testing.broker(identity="eu-1", management=management) as running:
        worker = Worker(running.endpoint, identity="w-1")
        worker.add_service("greet", lambda name="you": f"hello {name}")
        with worker:
            yield running


@pytest.fixture(params=["managementreq", "http"])
def door(broker: TestBroker, request: pytest.FixtureRequest) -> Door:
    if request.param == "http":
        return HttpDoor(broker.server.page_url, OPS, LIMIT_S)
    return RequestDoor([broker.endpoint], OPS, LIMIT_S)


def test_both_doors_give_the_same_listing(door: Door) -> None:
    document = door.listing("workers", Query("id:w-*", "identity", 5))
    assert document["schema"] == "scale0.workers/1"
    assert document["broker"]["identity"] == "eu-1"
    assert [row["identity"] for row in document["rows"]] == ["w-1"]
    assert document["total"] == 1
    assert not door.listing("workers", Query("id:nobody"))["rows"]


def test_both_doors_carry_a_command_out(door: Door) -> None:
    answer = door.carry_out("test_task", {"service": "greet", "body": '["Ada"]'})
    assert answer.command_id
    assert answer.result["body"] == '"hello Ada"'


def test_both_doors_ask_all_brokers(door: Door) -> None:
    answer = door.carry_out("reload_config", {}, "all")
    assert answer.results is not None
    assert [(one.broker, one.code) for one in answer.results] == [("eu-1", 200)]


def test_one_broker_that_is_not_there_is_a_partial_failure(door: Door) -> None:
    answer = door.carry_out("reload_config", {}, ["eu-1", "eu-9"])
    assert answer.results is not None
    assert {one.broker: one.is_good for one in answer.results} == {"eu-1": True, "eu-9": False}
    assert not answer.is_good


def test_both_doors_refuse_with_cause(door: Door) -> None:
    with pytest.raises(Scale0Error, match="nobody"):
        door.carry_out("kick_worker", {"worker": "nobody"})


def test_wrong_credentials_are_refused_and_never_shown(broker: TestBroker) -> None:
    wrong = Credentials("ops", "hunter2")
    doors: list[Door] = [
        RequestDoor([broker.endpoint], wrong, LIMIT_S),
        HttpDoor(broker.server.page_url, wrong, LIMIT_S),
    ]
    for closed in doors:
        with pytest.raises(SessionRefused) as refused:
            closed.listing("workers")
        assert refused.value.code in {401, 429}
        assert "hunter2" not in str(refused.value)


def test_the_next_broker_is_asked_if_one_is_not_there(broker: TestBroker) -> None:
    with testing.broker() as gone:
        address = gone.endpoint
    door = RequestDoor([address, broker.endpoint], OPS, 5.0)
    assert door.listing("brokers")["broker"]["identity"] == "eu-1"
    assert door.where == broker.endpoint


def test_nobody_there_says_so(broker: TestBroker) -> None:
    with pytest.raises(Unreachable) as error:
        HttpDoor("http://127.0.0.1:1", OPS, LIMIT_S).listing("workers")
    assert error.value.tried == {"http://127.0.0.1:1": "nothing listens on that port"}


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://10.0.0.1:8480", "in the clear"),
        ("http://ops:secret@127.0.0.1:8480", "does not belong into an address"),
        ("tcp://127.0.0.1:5555", "is not a page's address"),
        ("8480", "is not a page's address"),
    ],
)
def test_a_password_is_sent_only_where_it_is_safe(url: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        check_url(url)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8480/", "http://localhost:8480", "http://[::1]:1", "https://eu-1"])
def test_safe_addresses_are_taken(url: str) -> None:
    assert check_url(url) == url.rstrip("/")


def test_an_unreadable_file_of_certificates_is_named(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("nonsense")
    with pytest.raises(UsageError, match=r"ca\.pem"):
        HttpDoor("https://127.0.0.1:1", OPS, 1.0, file)


def test_an_answer_of_several_brokers_that_cannot_be_read_is_refused() -> None:
    assert read_answer("id", {"results": [{"broker": "a"}]}, "all") == Answer("id", results=[BrokerAnswer("a")])
    with pytest.raises(ProtocolError, match="cannot be read"):
        read_answer("id", {"results": [{"broker": 1}]}, "all")
