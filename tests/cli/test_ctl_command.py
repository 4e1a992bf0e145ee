"""ctl's engine without a network: what is confirmed, what is narrowed down, what is refused before it is sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scale0.cli import ctl_command, listings
from scale0.cli.ctl_command import Wanted
from scale0.cli.ctl_doors import Answer, BrokerAnswer, Brokers, Query, narrow
from scale0.cli.failures import Exit
from scale0.cli.render import Page
from scale0.errors import ProtocolError, UsageError
from scale0.management.vocabulary import COMMANDS
from tests.cli import canned

Capture = pytest.CaptureFixture[str]


class FakeDoor:
    """A broker that keeps what it was told."""

    where = "fake"

    def __init__(self, *rows: dict[str, Any], results: list[BrokerAnswer] | None = None) -> None:
        self.rows = rows
        self.results = results
        self.told: list[tuple[str, dict[str, Any], Brokers]] = []

    def listing(self, what: str, query: Query | None = None) -> dict[str, Any]:
        return narrow(json.loads(canned.listing(what, *self.rows)), query or Query())

    def carry_out(self, command: str, arguments: dict[str, Any], brokers: Brokers = "own") -> Answer:
        self.told.append((command, arguments, brokers))
        return Answer("the-id", {"state": "done"} if self.results is None else None, self.results)


def run(wanted: Wanted, door: FakeDoor, typed: str | None = None, seen: list[str] | None = None) -> Exit:
    def answer(question: str) -> str:
        if seen is not None:
            seen.append(question)
        return typed or ""

    return ctl_command.run(wanted, door, Page(), None if typed is None else answer)


@pytest.mark.parametrize("name", sorted(name for name, command in COMMANDS.items() if command.tier < 3))
def test_tiers_1_and_2_are_carried_out_as_they_were_typed(name: str) -> None:
    arguments: dict[str, dict[str, Any]] = {
        "kick_worker": {"worker": "w"},
        "cancel_task": {"task": "t"},
        "retry_dead_letter": {"task": "t"},
    }
    arguments |= {"test_task": {"service": "s"}, "config_check": {"document": "{}"}, "hints": {"version": 1}}
    arguments |= {"segment": {"path": "p"}, "snapshot": {"parts": ["workers"]}}
    door = FakeDoor()
    assert run(Wanted(COMMANDS[name], arguments.get(name, {})), door) == Exit.GOOD
    assert [told[0] for told in door.told] == [name]


@pytest.mark.parametrize("name", sorted(name for name, command in COMMANDS.items() if command.tier == 3))
def test_tier_3_is_refused_without_a_terminal_unless_it_is_surely_meant(name: str) -> None:
    known: dict[str, dict[str, Any]] = {
        "config_apply": {"document": "{}"},
        "config_rollback": {"version": "41"},
        "forget_broker": {"broker": "eu-3"},
        "partition": {"peer": "eu-2", "for_s": 1.0},
    }
    arguments = known.get(name, {})
    door = FakeDoor({"identity": "eu-1"})
    with pytest.raises(UsageError, match="--yes"):
        run(Wanted(COMMANDS[name], arguments), door)
    assert not door.told
    assert run(Wanted(COMMANDS[name], arguments, is_yes=True), door) == Exit.GOOD


def test_the_name_that_is_to_be_typed_is_the_object(capsys: Capture) -> None:
    door, seen = FakeDoor(), list[str]()
    wanted = Wanted(COMMANDS["forget_broker"], {"broker": "eu-3"})
    with pytest.raises(UsageError, match="not confirmed"):
        run(wanted, door, "eu-2", seen)
    assert run(wanted, door, "eu-3", seen) == Exit.GOOD
    assert seen == ["Type eu-3 to go on: "] * 2
    assert "forget-broker: take a broker that will not come back out of the config" in capsys.readouterr().err


def test_without_an_object_it_is_the_broker_and_what_it_has_is_told(capsys: Capture) -> None:
    door = FakeDoor({"identity": "eu-1", "workers": 12, "clients": 3, "queued": 0, "in_flight": 6})
    assert run(Wanted(COMMANDS["disable"]), door, "eu-1") == Exit.GOOD
    assert "it has 12 workers, 3 clients, 0 queued tasks, 6 running tasks" in capsys.readouterr().err


def test_what_goes_to_all_brokers_wants_the_networks_name(capsys: Capture) -> None:
    door = FakeDoor(
        {"identity": "eu-1"}, {"identity": "eu-2"}, results=[BrokerAnswer("eu-1"), BrokerAnswer("eu-2", 503)]
    )
    with pytest.raises(UsageError, match="not confirmed"):
        run(Wanted(COMMANDS["drain"], brokers="all"), door, "eu-1")
    assert run(Wanted(COMMANDS["drain"], brokers="all"), door, "prod") == Exit.PARTIAL
    assert door.told == [("drain", {}, "all")]
    captured = capsys.readouterr()
    assert "it goes to all 2 brokers of prod" in captured.err
    assert "! drain: 1 of 2 brokers; not eu-2" in captured.out


def test_json_has_the_shape_of_the_api(capsys: Capture) -> None:
    door = FakeDoor(
        results=[BrokerAnswer("eu-1", 200, {"state": "draining"}), BrokerAnswer("eu-2", 503, text="silent")]
    )
    assert run(Wanted(COMMANDS["drain"], brokers=["eu-1", "eu-2"], is_json=True), door) == Exit.PARTIAL
    assert json.loads(capsys.readouterr().out) == {
        "command_id": "the-id",
        "complete": False,
        "results": [
            {"broker": "eu-1", "code": 200, "result": {"state": "draining"}},
            {"broker": "eu-2", "code": 503, "text": "silent"},
        ],
    }


def test_arguments_are_checked_before_anything_is_sent() -> None:
    door = FakeDoor()
    with pytest.raises(UsageError, match="it takes worker, reason"):
        run(Wanted(COMMANDS["kick_worker"], {"task": "x"}), door)
    assert not door.told


@pytest.mark.parametrize(("word", "found"), [("dead-letters", "dead_letters"), ("workers", "workers")])
def test_listings_are_found_however_they_are_written(word: str, found: str) -> None:
    assert ctl_command.find_listing(word) == found


def test_an_unknown_word_is_answered_with_what_there_is() -> None:
    with pytest.raises(UsageError, match="services"):
        ctl_command.find_listing("unicorns")
    with pytest.raises(UsageError, match="kick_worker"):
        ctl_command.find_command("frobnicate")


def shown(door: FakeDoor, query: Query, capsys: Capture, **options: Any) -> list[str]:
    ctl_command.show("workers", door, query, listings.Options(**options), Page())
    return capsys.readouterr().out.splitlines()


def test_a_filter_tells_how_many_of_how_many_and_no_verdict_on_the_rest(capsys: Capture) -> None:
    door = FakeDoor(canned.worker("w-1"), canned.worker("w-2", state="full", stuck=1))
    assert shown(door, Query("state:full"), capsys)[0] == "● 1 of 2 workers matches state:full (eu-1, config v42)"
    none = shown(door, Query("state:gone"), capsys)
    assert none == ["– 0 of 2 workers match state:gone (eu-1, config v42)"]


def test_a_limit_says_what_was_left_out(capsys: Capture) -> None:
    door = FakeDoor(*(canned.worker(f"w-{number}") for number in range(5)))
    lines = shown(door, Query(sort="-identity", limit=2), capsys)
    assert [line.split()[0] for line in lines[2:4]] == ["w-4", "w-3"]
    assert lines[-1] == "2 of 5: --limit 5 shows all"


def test_a_filter_that_cannot_be_read_is_a_usage_error(capsys: Capture) -> None:
    with pytest.raises(UsageError, match="no column 'unicorn'"):
        shown(FakeDoor(canned.worker("w-1")), Query("unicorn:x"), capsys)


def test_workers_of_peers_are_asked_for_before_they_are_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctl_command, "PEERS_S", 0.0)
    asked: list[str] = []

    class LateDoor(FakeDoor):
        def listing(self, what: str, query: Query | None = None) -> dict[str, Any]:
            asked.append(what)
            self.rows = ({"identity": "w-1", "broker": "eu-2", "state": "ready"},) if len(asked) > 1 else ()
            return super().listing(what, query)

    assert ctl_command.show("network_workers", LateDoor(), Query(), listings.Options(), Page()) == Exit.GOOD
    assert "w-1" in capsys.readouterr().out
    assert asked == ["network_workers", "network_workers"]


def test_watching_with_json_gives_a_line_each_time(capsys: Capture) -> None:
    door = FakeDoor(canned.worker("w-1"))
    asked = 0

    def listing(what: str, query: Query | None = None) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        if asked > 3:
            raise KeyboardInterrupt
        document: dict[str, Any] = json.loads(canned.listing(what, *door.rows))
        return document

    door.listing = listing  # type: ignore[method-assign]
    lines = shown(door, Query(), capsys, is_json=True, is_watching=True, interval_s=0.0)
    assert [json.loads(line)["schema"] for line in lines] == ["scale0.workers/1"] * 3


def test_an_overview_is_read_wherever_the_broker_has_it() -> None:
    assert ctl_command.read_overview({"figures": {}, "verdict": {}})["figures"] == {}
    assert ctl_command.read_overview({"rows": [{"figures": {"queued": 1}}]})["figures"] == {"queued": 1}
    with pytest.raises(ProtocolError, match="older"):
        ctl_command.read_overview({"rows": []})
