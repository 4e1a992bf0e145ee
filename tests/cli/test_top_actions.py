"""What can be done with a row: which command, how surely it must be meant, and the line that does the same."""

from __future__ import annotations

from typing import Any

import pytest

from scale0.cli import top_actions
from scale0.cli.top_state import SCREENS
from tests.cli import canned


def test_a_worker_with_tasks_in_hand_is_kicked_by_its_name_only() -> None:
    idle = top_actions.of_row("workers", canned.worker("w-12", busy=0))[0]
    busy = top_actions.of_row("workers", canned.worker("w-12", busy=2))[0]
    assert (idle.tier, busy.tier) == (2, 3)
    assert "2 tasks in hand" in busy.effect
    assert busy.line == "scale0 ctl kick w-12"


@pytest.mark.parametrize(
    ("row", "titles"),
    [
        (canned.network_broker("eu-2"), ["Drain eu-2", "Disable eu-2", "Reload the config of eu-2"]),
        (canned.network_broker("eu-2", state="disabled"), ["Enable eu-2"]),
        (canned.gone_broker("eu-2"), ["Forget eu-2"]),
    ],
)
def test_a_brokers_state_decides_what_can_be_done(row: dict[str, Any], titles: list[str]) -> None:
    assert [action.title for action in top_actions.of_row("network", row)] == titles


def test_another_broker_is_named_and_the_own_one_is_not() -> None:
    other, own = (top_actions.of_row("network", canned.network_broker(name))[0] for name in ("eu-2", "eu-1"))
    assert (other.brokers, other.line) == (["eu-2"], "scale0 ctl drain eu-2")
    assert (own.brokers, own.line) == ("own", "scale0 ctl drain")


def test_services_tasks_and_dead_letters_have_their_commands() -> None:
    found = {
        listing: [
            action.command.name for action in top_actions.of_row(listing, {"name": "x", "id": "t", "identity": "i"})
        ]
        for listing, _title in SCREENS.values()
        if listing not in {"network", "workers"}
    }
    assert found == {
        "services": ["test_task"],
        "clients": [],
        "tasks": ["cancel_task"],
        "dead_letters": ["retry_dead_letter"],
        "alarms": [],
        "events": [],
    }
