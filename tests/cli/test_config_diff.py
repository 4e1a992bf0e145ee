"""What a change says, and whom it touches."""

from __future__ import annotations

import pytest

from scale0.cli import config_diff
from scale0.protocol.network_diff import Change
from tests.cli.canned import gone_broker, network_broker

ROWS = [
    network_broker("eu-1", services={"render": 5, "render.big": 2}),
    network_broker("eu-2", workers=9, services={"render": 7}),
    gone_broker("us-1", workers=None),
]


def test_a_diff_looks_as_in_the_design() -> None:
    changes = [
        Change("service.render.timeout", "10", "5"),
        Change("broker.eu-2.state", "active", "disabled"),
        Change("liveness", "3", "4"),
    ]
    assert [line.plain for line in config_diff.draw(changes, ROWS, "1.41.0badcafe → 1.42.00c0ffee")] == [
        "! 1.41.0badcafe → 1.42.00c0ffee: 3 changes",
        "service.render.timeout 10 → 5             12 workers",
        "broker.eu-2.state      active → disabled  ! 9 workers move",
        "liveness               3 → 4",
    ]


@pytest.mark.parametrize(
    ("change", "touched"),
    [
        (Change("broker.eu-2", "group eu", None), "! 9 workers move"),
        (Change("broker.eu-2.state", "disabled", "active"), ""),
        (Change("broker.eu-2.group", "eu", "us"), ""),
        (Change("broker.us-1", "group us", None), ""),  # nobody knows how many it had
        (Change("broker.eu-3", None, "group eu"), ""),
        (Change("service.render.big.timeout", "10", "5"), "2 workers"),
        (Change("service.render", "timeout 10", None), "12 workers"),
        (Change("service.renderer.timeout", "10", "5"), ""),
        (Change("limits.sessions", "1", "2"), ""),
    ],
)
def test_a_change_names_whom_it_touches(change: Change, touched: str) -> None:
    assert config_diff.touched(change, ROWS).plain == touched


def test_one_worker_moves_and_two_move() -> None:
    row = network_broker("eu-2", workers=1)
    assert config_diff.touched(Change("broker.eu-2", "", None), [row]).plain == "! 1 worker moves"


def test_a_long_entry_is_cut_and_a_hostile_one_is_inert() -> None:
    [_verdict, line] = config_diff.draw([Change("broker.x", None, "\x1b[2J" + "y" * 500)], [], "a → b")
    assert "\x1b" not in line.plain
    assert line.plain.endswith("…")
    assert len(line.plain) < 2 * config_diff.SHOWN_CELLS_MAX


def test_a_change_that_moves_nobody_is_no_warning() -> None:
    [verdict, _line] = config_diff.draw([Change("liveness", "3", "4")], ROWS, "a → b")
    assert verdict.plain == "● a → b: 1 change"
