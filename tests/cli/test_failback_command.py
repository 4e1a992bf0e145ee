"""`scale0 failback`: which pair is meant, what stands in the way, and when the primary serves again."""

from __future__ import annotations

import io
from typing import Any

import pytest

from scale0.cli import failback_command
from scale0.cli.failback_command import CannotFailBackError, Clock
from scale0.cli.failures import Exit
from scale0.cli.pairs import find
from scale0.cli.render import Page
from scale0.cli.views import Row
from scale0.errors import SessionRefused, Unreachable, UsageError
from tests.cli.canned import gone_broker, listing, network_broker, standby_broker

STANDING_IN = [
    standby_broker("eu-2", fallback_broker="eu-1"),
    network_broker("eu-1", fallback="in sync"),
]
AS_IT_SHOULD_BE = [network_broker("us-1", fallback_broker="us-2", fallback="in sync"), standby_broker("us-2")]


class Brokers:
    """Two brokers of a pair, as a manager meets them: what each says of itself at each question, in turn."""

    def __init__(self, **rows: list[Row]) -> None:
        self.rows = rows
        self.commands: list[tuple[str, str]] = []
        self.now_s = 0.0

    def manage(self, endpoint: str, command: str, arguments: dict[str, Any], timeout_s: float) -> Any:
        name = endpoint.removeprefix("tcp://").partition(":")[0].replace("-", "")
        if command != "list":
            self.commands.append((name, command))
            return {}
        said = self.rows[name]
        row = said.pop(0) if len(said) > 1 else said[0]
        if not row:
            raise Unreachable({endpoint: "nothing listens on that port"}, timeout_s)
        return {"rows": [{**row, "is_self": True}]}

    def sleep(self, duration_s: float) -> None:
        self.now_s += duration_s

    def fail_back(self, *rows: Row, name: str = "") -> tuple[Exit, str]:
        page = Page(io.StringIO())
        clock = Clock(lambda: self.now_s, self.sleep)
        end = failback_command.run(name, lambda _: listing("network", *rows), self.manage, 1.0, page, clock)
        assert isinstance(page.file, io.StringIO)
        return end, page.file.getvalue()


def passive(**more: Any) -> Row:
    return {"state": "passive", "epoch": 3, **more}


def active(**more: Any) -> Row:
    return {"state": "active", "epoch": 5, **more}


# --- which pair -------------------------------------------------------------------------------------------------------


def test_a_network_without_a_pair_is_told_how_to_get_one() -> None:
    with pytest.raises(UsageError, match="fallback_broker"):
        failback_command.choose([network_broker("eu-1")], "")


@pytest.mark.parametrize("name", ["", "eu-2", "eu-1"])
def test_a_pair_is_known_by_either_name_and_by_none_if_only_one_is_not_as_it_should_be(name: str) -> None:
    assert failback_command.choose([*AS_IT_SHOULD_BE, *STANDING_IN], name).name == "eu-2"


def test_two_pairs_to_fail_back_need_a_name() -> None:
    third = [standby_broker("eu-3", fallback_broker="eu-4"), network_broker("eu-4", fallback="in sync")]
    with pytest.raises(UsageError, match="one of eu-2, eu-3"):
        failback_command.choose([*STANDING_IN, *third], "")


def test_a_broker_that_is_of_no_pair_is_refused_with_the_names_that_are() -> None:
    with pytest.raises(UsageError, match=r"nix is of no pair\nthe primaries are: eu-2"):
        failback_command.choose(STANDING_IN, "nix")


# --- what stands in the way -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "cause", "cure"),
    [
        (
            [gone_broker("eu-2", fallback_broker="eu-1"), network_broker("eu-1", fallback="lost")],
            "eu-2 does not follow eu-1: it is gone",
            "start it again; eu-1 serves on",
        ),
        (
            [standby_broker("eu-2", fallback_broker="eu-1"), network_broker("eu-1", fallback="behind")],
            "eu-2 does not follow eu-1 yet: its copy is not whole",
            "try again in a moment",
        ),
        (
            [network_broker("eu-2", fallback_broker="eu-1"), network_broker("eu-1")],
            "eu-2 and eu-1 both serve",
            "mend the link",
        ),
        (
            [gone_broker("eu-2", fallback_broker="eu-1"), gone_broker("eu-1")],
            "neither eu-2 nor eu-1 serves",
            "start them again",
        ),
    ],
)
def test_what_stands_in_the_way_is_told_with_its_cure(rows: list[Row], cause: str, cure: str) -> None:
    (pair,) = find(rows)
    with pytest.raises(CannotFailBackError) as refusal:
        failback_command.check(pair)
    assert refusal.value.args[0].startswith(cause)
    assert refusal.value.args[1].startswith(cure)


def test_a_refusal_ends_with_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [gone_broker("eu-2", fallback_broker="eu-1"), network_broker("eu-1", fallback="lost")]
    brokers = Brokers()
    assert brokers.fail_back(*rows) == (Exit.REFUSED, "")
    assert "error: eu-2 does not follow eu-1" in capsys.readouterr().err
    assert not brokers.commands


# --- the handover -----------------------------------------------------------------------------------------------------


def test_failback_waits_until_the_primary_serves_and_is_followed() -> None:
    brokers = Brokers(
        eu2=[passive(), passive(), passive(), active(fallback="lost"), active(fallback="in sync")],
        eu1=[{"state": "holding"}, passive()],
    )
    end, said = brokers.fail_back(*STANDING_IN)
    assert end is Exit.GOOD
    assert brokers.commands == [("eu1", "handover")]
    assert said.splitlines() == ["* eu-2 serves again after 100 ms, in epoch 5", "eu-1 follows, and is in sync"]


def test_nothing_is_done_if_the_primary_serves() -> None:
    brokers = Brokers()
    assert brokers.fail_back(*AS_IT_SHOULD_BE) == (Exit.GOOD, "* us-1 serves, and us-2 follows: nothing to do\n")
    assert not brokers.commands


def test_a_primary_that_may_not_be_asked_is_not_handed_to() -> None:
    class Refusing(Brokers):
        def manage(self, endpoint: str, command: str, arguments: dict[str, Any], timeout_s: float) -> Any:
            if command == "list":
                raise SessionRefused(endpoint, 401, "auth_id and auth_password do not match")
            return super().manage(endpoint, command, arguments, timeout_s)

    brokers = Refusing()
    with pytest.raises(SessionRefused):
        brokers.fail_back(*STANDING_IN)
    assert not brokers.commands


def test_a_fallback_that_goes_on_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    brokers = Brokers(eu2=[passive()], eu1=[{"state": "holding"}, active()])
    assert brokers.fail_back(*STANDING_IN)[0] is Exit.REFUSED
    assert "eu-1 serves on: eu-2 was lost to it before it could" in capsys.readouterr().err


def test_waiting_ends(capsys: pytest.CaptureFixture[str]) -> None:
    brokers = Brokers(eu2=[passive()], eu1=[{"state": "holding"}])
    assert brokers.fail_back(*STANDING_IN)[0] is Exit.REFUSED
    assert "eu-2 does not serve after 1 s; eu-1 is holding" in capsys.readouterr().err


def test_a_standby_that_does_not_follow_yet_makes_it_partial(capsys: pytest.CaptureFixture[str]) -> None:
    brokers = Brokers(eu2=[active(fallback="lost")], eu1=[{}])
    end, said = brokers.fail_back(*STANDING_IN)
    assert (end, said.splitlines()) == (Exit.PARTIAL, ["* eu-2 serves again after 0 ms, in epoch 5"])
    assert "eu-1 does not follow yet" in capsys.readouterr().err
