"""Verdicts of brokers, clients and dead letters."""

from __future__ import annotations

import pytest

from scale0.cli.more_views import BROKERS, CLIENTS, DEAD_LETTERS, VIEWS, uptime
from scale0.cli.views import BrokerInfo, Row

EU = BrokerInfo("eu-1", "active", 1, 42, 65_000_000)


def test_an_active_broker_says_how_long_it_has_been_up() -> None:
    assert BROKERS.verdict([{"identity": "eu-1", "state": "active"}], EU) == (
        "ok",
        "1 broker, up 1 min 5 s (eu-1, config v42)",
    )


def test_a_disabled_broker_is_bad_and_can_be_enabled() -> None:
    rows = [{"identity": "eu-1", "state": "disabled"}]
    assert BROKERS.verdict(rows, EU) == ("bad", "1 broker, eu-1 is disabled (eu-1, config v42)")
    assert BROKERS.advise(rows) == "scale0 ctl enable"


def test_clients_are_sorted_by_what_they_wait_for() -> None:
    rows: list[Row] = [{"identity": "a", "open_tasks": 1}, {"identity": "b", "open_tasks": 7}]
    assert [row["identity"] for row in sorted(rows, key=CLIENTS.rank)] == ["b", "a"]
    assert CLIENTS.verdict(rows, EU) == ("ok", "2 clients, 8 tasks open (eu-1, config v42)")


def test_an_absent_client_is_a_warning() -> None:
    rows: list[Row] = [{"identity": "a", "is_absent": True}, {"identity": "b"}]
    assert CLIENTS.verdict(rows, EU) == ("warn", "2 clients, 1 absent, 0 tasks open (eu-1, config v42)")


def test_dead_letters_name_their_service() -> None:
    assert DEAD_LETTERS.verdict([], EU)[0] == "ok"
    assert DEAD_LETTERS.verdict([{"service": "ocr"}, {"service": "ocr"}], EU) == (
        "warn",
        "2 tasks of ocr failed the last attempt (eu-1, config v42)",
    )


@pytest.mark.parametrize("name", VIEWS)
def test_every_view_survives_an_empty_row(name: str) -> None:
    view = VIEWS[name]
    assert len(view.cells({})) == len(view.columns)
    assert view.verdict([], EU)[1]
    assert view.verdict([{}], EU)[1]
    view.rank({})
    view.advise([{}])


@pytest.mark.parametrize(
    ("uptime_us", "text"), [(0, "0 s"), (59_000_000, "59 s"), (93_784_000_000, "1 d 2 h"), (3_600_000_000, "1 h")]
)
def test_uptime_has_its_two_largest_units(uptime_us: int, text: str) -> None:
    assert uptime(uptime_us) == text
