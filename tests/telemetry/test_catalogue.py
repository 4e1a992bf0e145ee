"""The catalogue: numbers without holes, read from any position."""

from __future__ import annotations

from pathlib import Path

import pytest

from scale0.telemetry import catalogue
from scale0.telemetry.catalogue import Consumer, Entry
from scale0.telemetry.place import Place


def entry(broker: str = "b", seq_lo: int = 1) -> Entry:
    return Entry(
        broker=broker,
        boot="boot",
        path=f"segments/{broker}/boot-{seq_lo}-{seq_lo}.parquet",
        seq_lo=seq_lo,
        seq_hi=seq_lo,
        rows=1,
        tasks=1,
        ts_lo_us=1,
        ts_hi_us=1,
        sealed_us=1,
    )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_entries_are_numbered_from_one_without_holes(place: Place) -> None:
    assert [catalogue.append(place, entry(seq_lo=n)).number for n in range(1, 40)] == list(range(1, 40))
    assert catalogue.last_number(place, "b") == 39
    assert [one.seq_lo for one in catalogue.read(place, "b")] == list(range(1, 40))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 7, 8, 9])
def test_the_last_number_is_found_whatever_it_is(place: Place, count: int) -> None:
    for n in range(count):
        catalogue.append(place, entry(seq_lo=n + 1))
    assert catalogue.last_number(place, "b") == count


def test_a_reader_goes_on_where_it_was(place: Place) -> None:
    for n in range(1, 6):
        catalogue.append(place, entry(seq_lo=n))
    assert [one.number for one in catalogue.read(place, "b", 3)] == [4, 5]
    assert [one.number for one in catalogue.read(place, "b", 1, limit=2)] == [2, 3]
    assert catalogue.read(place, "b", 5) == []


def test_brokers_are_apart_even_with_strange_names(place: Place) -> None:
    for name in ("eu/1", "..", "ü ber"):
        catalogue.append(place, entry(name))
    assert sorted(catalogue.brokers(place)) == ["..", "eu/1", "ü ber"]
    assert len(catalogue.read_all(place, {})) == 3
    assert [one.broker for one in catalogue.read_all(place, {"eu/1": 1, "..": 1})] == ["ü ber"]


def test_a_number_that_another_writer_took_is_left_to_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue.append(place, entry(seq_lo=1))
    monkeypatch.setattr(catalogue, "last_number", lambda place, broker: 0)
    assert catalogue.append(place, entry(seq_lo=2)).number == 2
    assert [one.seq_lo for one in catalogue.read(place, "b")] == [1, 2]


def test_entries_below_the_floor_are_gone_and_numbers_go_on(place: Place) -> None:
    for n in range(1, 6):
        catalogue.append(place, entry(seq_lo=n))
    catalogue.raise_floor(place, "b", 3)
    catalogue.raise_floor(place, "b", 2)
    assert catalogue.floor(place, "b") == 3
    assert [one.number for one in catalogue.read(place, "b")] == [4, 5]
    assert [one.number for one in catalogue.read(place, "b", 1)] == [4, 5]
    catalogue.raise_floor(place, "b", 5)
    assert catalogue.read(place, "b") == []
    assert catalogue.append(place, entry(seq_lo=6)).number == 6
    assert [one.number for one in catalogue.read(place, "b", 2)] == [6]


def test_consumers_say_how_far_they_are(place: Place) -> None:
    catalogue.keep_position(place, "pipeline", Consumer({"b": 7}, at_us=5))
    place.write_atomic((catalogue.CONSUMERS, "broken.json"), b"{")
    assert catalogue.consumers(place) == {"pipeline": Consumer({"b": 7}, at_us=5), "broken": Consumer({})}
