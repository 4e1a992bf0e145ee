"""Filters and sorts, as operators write them."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scale0.errors import ProtocolError
from scale0.management.filters import Filter, arranged, severity

WORKERS: list[dict[str, Any]] = [
    {
        "identity": "w-1",
        "state": "ready",
        "services": ["render", "ocr"],
        "lru": 1,
        "busy": 2,
        "heartbeat_age_us": 400_000,
        "heartbeat_interval_us": 1_000_000,
        "is_behind": False,
        "rss_bytes": 5_000,
    },
    {
        "identity": "W-2",
        "state": "full",
        "services": ["render-hd"],
        "lru": None,
        "busy": 8,
        "heartbeat_age_us": 3_200_000,
        "heartbeat_interval_us": 1_000_000,
        "is_behind": True,
        "rss_bytes": 9_000,
    },
    {
        "identity": "w-3",
        "state": "draining",
        "services": [],
        "lru": None,
        "busy": 0,
        "heartbeat_age_us": None,
        "heartbeat_interval_us": None,
        "is_behind": False,
        "rss_bytes": None,
    },
]


def found(text: str) -> list[str]:
    return [row["identity"] for row in Filter(text).rows(WORKERS)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ["w-1", "W-2", "w-3"]),
        ("state:full", ["W-2"]),
        ("STATE:FULL", ["W-2"]),
        ("svc:render*", ["w-1", "W-2"]),
        ("svc:render", ["w-1"]),
        ("svc:none", ["w-3"]),
        ("lru:-", ["W-2", "w-3"]),
        ("id:w-?", ["w-1", "W-2", "w-3"]),
        ("hb>3s", ["W-2"]),
        ("hb>3", ["W-2"]),
        ("hb<=400ms", ["w-1"]),
        ("heartbeat_age<1m", ["w-1", "W-2"]),
        ("busy>=2", ["w-1", "W-2"]),
        ("busy=0", ["w-3"]),
        ("rss>8k", ["W-2"]),
        ("is_behind:true", ["W-2"]),
        ("ocr", ["w-1"]),
        ("-state:full", ["w-1", "w-3"]),
        ('"draining"', ["w-3"]),
        ("state:full svc:render* hb>3s", ["W-2"]),
        ("state:full busy<2", []),
        ("is:problem", ["W-2", "w-3"]),
        ("-is:problem", ["w-1"]),
        ("svc:[!r]*", ["w-1"]),
    ],
)
def test_a_filter_lets_the_rows_through_that_meet_every_word(text: str, names: list[str]) -> None:
    assert found(text) == names


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour:red", "no column 'colour' here; there are identity, state"),
        ("hb>soon", "not a number or a time such as 10, 2.5, 300ms"),
        ("x" * 401, "over 400 characters"),
        ("a " * 21, "at most 20 words"),
    ],
)
def test_a_filter_that_cannot_be_met_says_why(text: str, said: str) -> None:
    with pytest.raises(ProtocolError, match="400") as raised:
        found(text)
    assert said in raised.value.text


def test_a_filter_of_no_rows_knows_every_column() -> None:
    assert Filter("colour:red").rows([]) == []


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        ("", ["w-1", "W-2", "w-3"]),
        ("-busy", ["W-2", "w-1", "w-3"]),
        ("hb", ["w-1", "W-2", "w-3"]),
        ("-hb", ["W-2", "w-1", "w-3"]),
        ("-lru,-identity", ["w-1", "w-3", "W-2"]),
        ("state,identity", ["w-3", "W-2", "w-1"]),
        ("problems", ["W-2", "w-3", "w-1"]),
    ],
)
def test_rows_are_sorted_with_null_last(sort: str, names: list[str]) -> None:
    assert [row["identity"] for row in arranged(WORKERS, sort)] == names


@pytest.mark.parametrize("sort", ["colour", "a,b,c,d,e"])
def test_a_sort_that_cannot_be_is_refused(sort: str) -> None:
    with pytest.raises(ProtocolError, match="400"):
        arranged(WORKERS, sort)


@pytest.mark.parametrize(
    ("row", "weight"),
    [
        ({"state": "no worker", "queued": 3, "oldest_us": 1}, 2),
        ({"state": "ok", "queued": 0, "oldest_us": None, "errors_5m": 0}, 0),
        ({"state": "ok", "queued": 3, "oldest_us": 20_000}, 0),
        ({"state": "ok", "queued": 3, "oldest_us": 1_000_000}, 1),
        ({"state": "full", "queued": 0, "oldest_us": None}, 0),
        ({"state": "full", "busy": 8, "capacity": 8}, 0),
        ({"state": "active", "link": "up", "queued": 4}, 0),
        ({"state": "active", "link": "down"}, 1),
        ({"state": "gone", "link": "down"}, 2),
        ({"state": "active", "link": "up", "fallback": "lost"}, 1),
        ({"identity": "c-1", "limit_percent": 90.0}, 1),
        ({"state": "raised", "severity": "warn"}, 1),
        ({"state": "raised", "severity": "bad"}, 2),
        ({"state": "cleared", "severity": "bad"}, 0),
        ({"identity": "c-1", "errors_5m": 2}, 1),
        ({"connection": "00", "penalty_us": 1}, 1),
    ],
)
def test_the_weight_of_a_problem_is_what_an_operator_would_say(row: dict[str, Any], weight: int) -> None:
    assert severity(row) == weight


@given(st.text(max_size=80), st.text(max_size=40))
def test_any_text_is_a_filter_and_a_sort_or_is_refused(text: str, sort: str) -> None:
    with contextlib.suppress(ProtocolError):
        assert all(row in WORKERS for row in Filter(text).rows(WORKERS))
    with contextlib.suppress(ProtocolError):
        assert all(row in WORKERS for row in arranged(WORKERS, sort))


def test_a_glob_with_many_stars_is_quick() -> None:
    assert Filter("id:" + "*a" * 150).rows([{"identity": "a" * 20_000 + "b"}]) == []
