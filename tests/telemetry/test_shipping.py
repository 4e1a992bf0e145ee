"""Spool, shipping and retention: segments reach their place in order, and leave it only when they may."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from scale0.telemetry import catalogue, segments, shipping
from scale0.telemetry.catalogue import Consumer
from scale0.telemetry.frames import Order
from scale0.telemetry.place import Place
from scale0.telemetry.retention import Retention
from scale0.telemetry.shipping import Shipper
from scale0.telemetry.spool import Spool

DAY_US = 86_400_000_000


def sealed(spool: Spool, seq_lo: int, seq_hi: int, boot: str = "boot") -> None:
    numbers = list(range(seq_lo, seq_hi + 1))
    table = pa.table({"kind": ["task"] * len(numbers), "seq": numbers, "ts_us": numbers})
    spool.add(*segments.seal(table, "b", boot, "recorder"))


class Dock:
    """A shipper with a clock of its own."""

    def __init__(self, directory: Path, cap_bytes: int = 10**9) -> None:
        self.now_s, self.said = 0.0, list[str]()
        self.data = directory / "data"
        self.order = Order(str(directory / "t"), str(self.data), cap_bytes=cap_bytes)
        self.shipper = Shipper(self.order, "b", self.said.append, now=lambda: self.now_s)
        self.spool, self.place = self.shipper.spool, Place(self.data)

    def entries(self) -> list[tuple[int, int]]:
        return [(entry.seq_lo, entry.seq_hi) for entry in catalogue.read(self.place, "b")]


@pytest.fixture
def dock(tmp_path: Path) -> Dock:
    return Dock(tmp_path)


def test_segments_are_shipped_in_their_order_and_leave_the_spool(dock: Dock) -> None:
    for low in (1, 11, 101, 2):
        sealed(dock.spool, low, low, boot="boot-2" if low == 2 else "boot-1")
    dock.shipper.step()
    assert dock.entries() == [(1, 1), (11, 11), (101, 101), (2, 2)]
    assert dock.spool.waiting() == []


def test_a_place_that_is_away_is_tried_again_with_growing_pauses(dock: Dock) -> None:
    dock.data.write_text("a file where the directory should be")
    sealed(dock.spool, 1, 1)
    assert dock.shipper.step() == shipping.PAUSE_S
    dock.now_s += shipping.PAUSE_S
    assert dock.shipper.step() == 2 * shipping.PAUSE_S
    assert len(dock.said) == 1
    assert "is away" in dock.said[0]
    dock.data.unlink()
    assert 0 < dock.shipper.step() <= 2 * shipping.PAUSE_S, "not before its time"
    assert dock.entries() == []
    dock.now_s += 2 * shipping.PAUSE_S
    dock.shipper.step()
    assert dock.entries() == [(1, 1)]
    assert "is back" in dock.said[1]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_an_empty_directory_in_its_stead_is_not_the_place(dock: Dock, tmp_path: Path, is_restarted: bool) -> None:
    sealed(dock.spool, 1, 9)
    dock.shipper.step()
    mounted = dock.data.rename(tmp_path / "not mounted")
    dock.data.mkdir()
    dock = Dock(tmp_path) if is_restarted else dock
    sealed(dock.spool, 10, 19)
    dock.shipper.step()
    assert "is away: entry 1 of its catalogue is gone" in dock.said[0]
    assert list(dock.data.iterdir()) == []
    dock.data.rmdir()
    mounted.rename(dock.data)
    dock.now_s += shipping.PAUSE_S
    dock.shipper.step()
    assert dock.entries() == [(1, 9), (10, 19)]
    assert "is back" in dock.said[1]


def test_a_place_whose_old_entries_retention_has_deleted_is_the_place(dock: Dock) -> None:
    sealed(dock.spool, 1, 9)
    dock.shipper.step()
    catalogue.raise_floor(dock.place, "b", 1)
    sealed(dock.spool, 10, 19)
    dock.shipper.step()
    assert dock.entries() == [(10, 19)]
    assert dock.said == []


def test_a_new_place_needs_nothing_of_the_old_one(dock: Dock, tmp_path: Path) -> None:
    sealed(dock.spool, 1, 9)
    dock.shipper.step()
    order = Order(dock.order.directory, str(tmp_path / "elsewhere"))
    sealed(dock.spool, 10, 19)
    Shipper(order, "b", dock.said.append).step()
    assert [entry.seq_lo for entry in catalogue.read(Place(order.data), "b")] == [10]
    assert dock.said == []


def test_a_spool_over_its_cap_loses_the_oldest_and_the_catalogue_hears_of_it(tmp_path: Path) -> None:
    sealed(Spool(tmp_path / "probe", 0), 1, 9)
    size = next((tmp_path / "probe" / "spool").iterdir()).stat().st_size
    dock = Dock(tmp_path, cap_bytes=2 * size + size // 2)
    dock.data.write_text("in the way")
    for low in (1, 11, 21):
        sealed(dock.spool, low, low + 8)
    dock.shipper.step()
    assert any("9 rows lost" in said for said in dock.said)
    dock.data.unlink()
    dock.now_s += shipping.PAUSE_S
    dock.shipper.step()
    found = catalogue.read(dock.place, "b")
    assert [(entry.seq_lo, entry.gap, entry.rows, entry.path == "") for entry in found] == [
        (1, True, 9, True),
        (11, False, 9, False),
        (21, False, 9, False),
    ]


def test_a_file_that_cannot_be_read_is_put_aside(dock: Dock) -> None:
    sealed(dock.spool, 1, 1)
    sealed(dock.spool, 2, 2)
    dock.spool.waiting()[0].path.write_bytes(b"rot")
    dock.shipper.step()
    assert dock.entries() == [(2, 2)]
    assert dock.spool.waiting() == []
    assert "put aside" in dock.said[0]


def test_a_death_between_publishing_and_letting_go_publishes_nothing_twice(
    dock: Dock, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed(dock.spool, 1, 1)
    (one,) = dock.spool.waiting()
    with monkeypatch.context() as dying:
        dying.setattr(Path, "unlink", lambda *_, **__: (_ for _ in ()).throw(OSError("dead")))
        with pytest.raises(OSError, match="dead"):
            dock.spool.ship(dock.place, one)
    dock.shipper.step()
    assert dock.entries() == [(1, 1)]


def test_a_consumer_that_looked_lately_makes_it_followed(dock: Dock) -> None:
    dock.shipper.step()
    followed = [dock.shipper.is_followed]
    catalogue.keep_position(dock.place, "pipeline", Consumer({}, at_us=time.time_ns() // 1_000))
    dock.now_s += shipping.FOLLOWERS_S
    dock.shipper.step()
    followed.append(dock.shipper.is_followed)
    catalogue.keep_position(dock.place, "pipeline", Consumer({}, at_us=1))
    dock.now_s += shipping.FOLLOWERS_S
    dock.shipper.step()
    assert [*followed, dock.shipper.is_followed] == [False, True, False]


def test_its_thread_ships_what_is_there_before_it_ends(dock: Dock) -> None:
    dock.shipper.start()
    sealed(dock.spool, 1, 1)
    dock.shipper.end(60)
    assert dock.entries() == [(1, 1)]


# --- retention -------------------------------------------------------------------------------------------------------


@pytest.fixture
def filled(dock: Dock) -> Callable[[int], Retention]:
    """Three segments in the place, and what keeps them for a day under a cap of so many of them."""
    for low in (1, 11, 21):
        sealed(dock.spool, low, low + 8)
    dock.shipper.step()
    size = max(entry.bytes for entry in catalogue.read(dock.place, "b"))
    return lambda segments: Retention(dock.place, "b", 86_400, segments * size + size // 2)


def days_later(days: float) -> int:
    return time.time_ns() // 1_000 + round(days * DAY_US)


def test_old_segments_go_when_nobody_needs_them(dock: Dock, filled: Callable[[int], Retention]) -> None:
    assert filled(9).look(days_later(0.5)).segments == 0
    assert filled(9).look(days_later(2)).segments == 3
    assert dock.entries() == []
    assert dock.place.list("segments", "b") == []
    sealed(dock.spool, 31, 31)
    dock.shipper.step()
    assert [entry.number for entry in catalogue.read(dock.place, "b")] == [4]


def test_old_segments_stay_while_a_consumer_needs_them(dock: Dock, filled: Callable[[int], Retention]) -> None:
    catalogue.keep_position(dock.place, "fast", Consumer({"b": 3}))
    catalogue.keep_position(dock.place, "slow", Consumer({"b": 1}))
    catalogue.keep_position(dock.place, "of another", Consumer({"c": 5}, only=["c"]))
    deleted = filled(9).look(days_later(2))
    assert (deleted.segments, deleted.gaps) == (1, [])
    assert dock.entries() == [(11, 19), (21, 29)]


def test_the_cap_forces_out_what_is_needed_as_one_gap(dock: Dock, filled: Callable[[int], Retention]) -> None:
    catalogue.keep_position(dock.place, "slow", Consumer({}))
    retention = filled(1)
    deleted = retention.look(days_later(0))
    assert deleted.segments == 2
    (gap,) = deleted.gaps
    assert (gap.seq_lo, gap.seq_hi, gap.rows, gap.number) == (1, 19, 18, 4)
    assert [(entry.number, entry.gap) for entry in catalogue.read(dock.place, "b")] == [(3, False), (4, True)]
    assert retention.look(days_later(0)).segments == 0, "the cap holds"


def test_gaps_that_nobody_reads_do_not_become_many(dock: Dock, filled: Callable[[int], Retention]) -> None:
    catalogue.keep_position(dock.place, "dead", Consumer({}))
    retention = filled(1)
    for low in range(31, 131, 10):
        retention.look(days_later(0))
        sealed(dock.spool, low, low + 8)
        for one in dock.spool.waiting():
            entry = dock.spool.ship(dock.place, one)
            assert entry is not None
            retention.added(entry)
    retention.look(days_later(0))
    left = catalogue.read(dock.place, "b")
    assert [entry.gap for entry in left].count(False) == 1
    assert sum(entry.rows for entry in left) == 13 * 9
    assert len(left) <= 3
