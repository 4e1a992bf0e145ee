"""Listings piece by piece."""

from __future__ import annotations

from typing import Any

import pytest

from scale0.core import listings, snapshots
from scale0.core.snapshots import ROWS, ROWS_MAX, WALK_S, WALKS_MAX
from scale0.errors import ProtocolError
from scale0.protocol.messages import Disconnect
from tests.core.desk import Desk, Worker


@pytest.fixture
def desk() -> Desk:
    return Desk()


def fill(desk: Desk, count: int) -> list[Worker]:
    return [desk.worker(f"w{number:04}", "greet", f"s{number % 7}") for number in range(count)]


def piece(desk: Desk, part: str, after: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = desk.manage("snapshot", parts=[part], after=after)["parts"][part]
    return found


def walk(desk: Desk, part: str) -> list[list[dict[str, Any]]]:
    """All pieces of a listing."""
    found = piece(desk, part)
    pieces = [found["rows"]]
    while found["after"] is not None:
        found = piece(desk, part, found["after"])
        pieces.append(found["rows"])
    return pieces


def test_pieces_make_up_the_listing(desk: Desk) -> None:
    fill(desk, 300)
    pieces = walk(desk, "workers")
    assert len(pieces) > 1
    assert max(map(len, pieces)) <= min(ROWS["workers"], ROWS_MAX)
    whole = desk.manage("list", what="workers")["rows"]
    assert [row for one in pieces for row in one] == whole
    assert not desk.broker.state.snapshots.walks, "a walk that has ended is forgotten"


@pytest.mark.parametrize(
    "part", ["services", "clients", "tasks", "network_workers", "dead_letters", "config", "network"]
)
def test_every_listing_can_be_gone_through(desk: Desk, part: str) -> None:
    worker = desk.worker("w", "greet", capacity=2)
    client = desk.client("ada")
    for _ in range(3):
        client.submit("greet")
    desk.worker("x", "other")
    worker.say(Disconnect())
    assert [row for one in walk(desk, part) for row in one] == desk.manage("list", what=part)["rows"]


def test_first_answer_has_a_piece_of_each_part_as_far_as_there_is_room(desk: Desk) -> None:
    fill(desk, 5)
    told = desk.manage("snapshot", parts=["overview", "services", "workers"])
    assert (told["seq"], told["broker"]["state"]) == (1, "active")
    assert "figures" in told["parts"]["overview"]
    # The overview is all that is done at once; the others go on from their cursors.
    assert told["parts"]["workers"]["rows"] == []
    assert told["parts"]["workers"]["total"] == 5
    rest = piece(desk, "workers", told["parts"]["workers"]["after"])
    assert (len(rest["rows"]), rest["after"]) == (5, None)
    assert desk.manage("snapshot", parts=["services"])["seq"] == 3


def test_walk_keeps_its_order_while_workers_come_and_go(desk: Desk) -> None:
    workers = fill(desk, 250)
    first = piece(desk, "workers")
    workers[-1].say(Disconnect())
    workers[0].say(Disconnect())
    desk.worker("late", "greet")
    rows = list(first["rows"])
    after = first["after"]
    while after is not None:
        found = piece(desk, "workers", after)
        rows += found["rows"]
        after = found["after"]
    names = [row["identity"] for row in rows]
    assert names == [f"w{number:04}" for number in range(249)], (
        "each once, the one that had gone before its turn left out"
    )


def test_walk_that_nobody_goes_on_with_is_dropped(desk: Desk) -> None:
    fill(desk, 250)
    first = piece(desk, "workers")
    desk.pass_time(WALK_S / 2)
    second = piece(desk, "workers", first["after"])
    desk.pass_time(WALK_S + 0.1)
    assert not desk.broker.state.snapshots.walks
    with pytest.raises(ProtocolError, match="begin anew") as refused:
        piece(desk, "workers", second["after"])
    assert refused.value.code == 400


def test_cursor_is_good_once_and_for_its_own_part(desk: Desk) -> None:
    fill(desk, 250)
    first = piece(desk, "workers")
    with pytest.raises(ProtocolError, match="begin anew"):
        piece(desk, "network_workers", first["after"])
    piece(desk, "workers", first["after"])
    with pytest.raises(ProtocolError, match="begin anew"):
        piece(desk, "workers", first["after"])


def test_walks_are_bounded_and_the_oldest_goes(desk: Desk) -> None:
    fill(desk, 130)
    cursors = [piece(desk, "workers")["after"] for _ in range(WALKS_MAX + 1)]
    assert len(desk.broker.state.snapshots.walks) == WALKS_MAX
    with pytest.raises(ProtocolError):
        piece(desk, "workers", cursors[0])
    assert piece(desk, "workers", cursors[-1])["after"] is None


def test_pauses_end_a_piece_without_rows(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listings, "PAUSE_STEPS", 10)
    monkeypatch.setattr(snapshots, "PAUSE", 1.0)
    fill(desk, 50)
    pieces = walk(desk, "workers")
    assert pieces[0] == []
    assert sum(map(len, pieces)) == 50


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"parts": []},
        {"parts": "workers"},
        {"parts": ["workers", "workers"]},
        {"parts": ["secrets"]},
        {"parts": [7]},
        {"parts": ["workers", "services"], "after": "1.workers.1"},
        {"parts": ["workers"], "after": 1},
        {"parts": ["workers"], "after": ""},
        {"parts": ["workers"], "after": "9" * 5000},
        {"parts": ["workers"], "after": "²"},
    ],
    ids=str,
)
def test_snapshot_that_cannot_be_made_says_why(desk: Desk, arguments: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError) as refused:
        desk.manage("snapshot", **arguments)
    assert refused.value.code == 400
