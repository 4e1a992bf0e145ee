"""Who has gone, when and why: found by comparing two looks."""

from __future__ import annotations

from typing import Any

import pytest

from scale0.management.departures import KEPT_MAX, KEPT_US, Departures

NOW_US = 1_800_000_000_000_000


def worker(identity: str = "w-1", **more: Any) -> dict[str, Any]:
    return {"identity": identity, "state": "ready", "services": ["render"], "busy": 0, "is_absent": False, **more}


@pytest.mark.parametrize(
    ("last", "state", "why"),
    [
        ({}, "left", "left, or was sent away"),
        ({"state": "draining"}, "left", "drained"),
        ({"is_absent": True}, "gone", "silent"),
        ({"heartbeat_age_us": 2_500_000, "heartbeat_interval_us": 1_000_000}, "gone", "silent"),
    ],
)
def test_who_is_not_there_any_more_has_gone_and_his_last_row_says_why(last: Any, state: str, why: str) -> None:
    seen = Departures()
    seen.look([worker(**last), worker("w-2")], NOW_US)
    assert seen.rows == []
    seen.look([worker("w-2")], NOW_US + 5_000_000)
    (row,) = seen.rows
    assert (row["identity"], row["state"], row["why"], row["services"]) == ("w-1", state, why, ["render"])
    assert row["at"] == "2027-01-15T08:00:05Z"


def test_who_comes_back_is_not_gone_and_an_hour_later_it_is_forgotten() -> None:
    seen = Departures()
    seen.look([worker("w-1"), worker("w-2")], NOW_US)
    seen.look([], NOW_US + 1)
    assert [row["identity"] for row in seen.rows] == ["w-1", "w-2"]
    seen.look([worker("w-2")], NOW_US + 2)
    assert [row["identity"] for row in seen.rows] == ["w-1"]
    seen.look([], NOW_US + 3)
    assert [row["identity"] for row in seen.rows] == ["w-2", "w-1"], "the newest first"
    seen.look([], NOW_US + KEPT_US + 2)
    assert [row["identity"] for row in seen.rows] == ["w-2"]


def test_the_list_is_bounded() -> None:
    seen = Departures()
    seen.look([worker(f"w-{number}") for number in range(KEPT_MAX + 10)], NOW_US)
    seen.look([], NOW_US)
    assert len(seen.rows) == KEPT_MAX
