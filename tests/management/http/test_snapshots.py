"""One question for all who look, pieces put together, and views that are made once."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from scale0.errors import ProtocolError
from scale0.management.http.snapshots import Snapshot, Snapshots, View
from tests.management.http.fake_door import PIECE, FakeDoor


def test_a_long_listing_is_put_together_from_pieces() -> None:
    async def run() -> None:
        door = FakeDoor(workers=3 * PIECE + 1)
        snapshot = await Snapshots(door).get("workers")
        assert [row["identity"] for row in snapshot.rows] == [row["identity"] for row in door.lists["workers"]]
        assert snapshot.document["total"] == 3 * PIECE + 1
        assert snapshot.document["complete"] is True
        assert snapshot.document["schema"] == "scale0.workers/1"
        assert snapshot.document["broker"]["identity"] == "eu-1"
        assert door.count("snapshot") == 4

    asyncio.run(run())


def test_fifty_who_ask_at_once_cost_one_question() -> None:
    async def run() -> None:
        door = FakeDoor()
        snapshots = Snapshots(door)
        door.hold()
        waiting = [asyncio.create_task(snapshots.get("services")) for _ in range(50)]
        while not door.asked:
            await asyncio.sleep(0)
        door.opened.set()
        found = await asyncio.gather(*waiting)
        assert len({id(one) for one in found}) == 1
        assert door.count("snapshot") == 1
        assert await snapshots.get("services") is found[0]

    asyncio.run(run())


def test_one_who_leaves_does_not_take_the_answer_from_the_others() -> None:
    async def run() -> None:
        door = FakeDoor()
        snapshots = Snapshots(door)
        door.hold()
        first, second = (asyncio.create_task(snapshots.get("services")) for _ in range(2))
        while not door.asked:
            await asyncio.sleep(0)
        first.cancel()
        door.opened.set()
        assert (await second).rows

    asyncio.run(run())


def test_after_a_change_nothing_older_is_shown() -> None:
    async def run() -> None:
        door = FakeDoor()
        snapshots = Snapshots(door)
        before = await snapshots.get("workers", fresh_s=60)
        count = len(before.rows)
        door.lists["workers"] = door.lists["workers"][1:]
        assert await snapshots.get("workers", fresh_s=60) is before
        snapshots.spoil()
        after = await snapshots.get("workers", fresh_s=60)
        assert len(after.rows) == count - 1
        assert after.seq > before.seq

    asyncio.run(run())


def test_a_question_that_was_on_its_way_during_a_change_is_asked_again() -> None:
    async def run() -> None:
        door = FakeDoor()
        snapshots = Snapshots(door)
        door.hold()
        early = asyncio.create_task(snapshots.get("services", fresh_s=60))
        while not door.asked:
            await asyncio.sleep(0)
        snapshots.spoil()
        door.opened.set()
        await early
        assert await snapshots.get("services", fresh_s=60) is not await early
        assert door.count("snapshot") == 2

    asyncio.run(run())


def test_a_listing_that_takes_long_is_asked_for_less_often() -> None:
    async def run() -> None:
        door = FakeDoor()
        snapshots = Snapshots(door)
        await snapshots.get("workers")
        snapshots._took_s["workers"] = 0.1
        assert snapshots.rest_s("workers") == pytest.approx(2.0)
        first = await snapshots.get("workers", fresh_s=0.0)
        assert await snapshots.get("workers", fresh_s=0.0) is first
        snapshots._took_s["workers"] = 9.0
        assert snapshots.rest_s("workers") == 2.5

    asyncio.run(run())


def test_a_walk_that_the_broker_forgot_is_begun_once_more() -> None:
    class Forgetful(FakeDoor):
        forgotten = 0

        async def ask(self, principal, command, arguments, **more):  # type: ignore[no-untyped-def]
            if arguments.get("after") and self.forgotten < 1:
                self.forgotten += 1
                raise ProtocolError(400, "no walk stands there; begin anew, without after")
            return await super().ask(principal, command, arguments, **more)

    async def run() -> None:
        door = Forgetful(workers=2 * PIECE)
        assert len((await Snapshots(door).get("workers")).rows) == 2 * PIECE
        assert door.forgotten == 1

    asyncio.run(run())


def test_a_broker_that_refuses_is_told_to_each_who_waits_and_asked_again() -> None:
    async def run() -> None:
        door = FakeDoor()
        snapshots = Snapshots(door)
        door.refuse("snapshot", 503, "the broker has ended")
        for _ in range(2):
            with pytest.raises(ProtocolError, match="503"):
                await snapshots.get("workers")
        door.refused.clear()
        assert (await snapshots.get("workers")).rows

    asyncio.run(run())


def test_a_view_counts_what_there_is_what_fits_and_what_is_shown() -> None:
    rows = [{"identity": f"w-{number}", "state": "gone" if number == 3 else "ready"} for number in range(10)]
    snapshot = Snapshot("workers", 1, {"at": "now", "rows": rows, "total": 10}, 0.0)
    shown = msgspec.json.decode(snapshot.shown(View("state:ready", "-identity", 4, 2)))
    assert [row["identity"] for row in shown["rows"]] == ["w-7", "w-6", "w-5", "w-4"]
    assert {key: shown[key] for key in ("all", "problems", "total", "shown")} == {
        "all": 10,
        "problems": 1,
        "total": 9,
        "shown": 4,
    }
    assert snapshot.shown(View("state:ready", "-identity", 4, 2)) is snapshot.shown(
        View("state:ready", "-identity", 4, 2)
    )


def test_a_listing_that_the_broker_cut_short_says_how_many_there_are() -> None:
    snapshot = Snapshot("tasks", 1, {"at": "now", "rows": [{"id": "a"}], "total": 1_500}, 0.0)
    shown = msgspec.json.decode(snapshot.shown(View()))
    assert (shown["all"], shown["total"], shown["shown"]) == (1_500, 1_500, 1)
