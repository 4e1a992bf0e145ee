"""The source follows the catalogue; its offset is a position."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from scale0.telemetry.catalogue import Position
from scale0.telemetry.place import Place
from scale0_pipeline.jobs import stream
from scale0_pipeline.jobs.stream import CatalogueReader, reached, stretches, waiting
from scale0_pipeline.tables.plans import admit
from tests.pipeline.jobs.world import add_segment

ALL = ReadAllAvailable()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_stream_begins_where_the_log_is(place: Place) -> None:
    add_segment(place, "eu-1", 1, 5)
    add_segment(place, "eu-1", 6, 9)
    reader = CatalogueReader(place.url, {"eu-1": 1})
    assert reader.initialOffset() == {"eu-1": 1}
    assert reader.latestOffset({"eu-1": 1}, ALL) == {"eu-1": 2}


def test_without_news_the_offset_stays_and_nothing_is_read(place: Place) -> None:
    reader = CatalogueReader(place.url, {})
    assert reader.latestOffset({}, ALL) == {}
    assert reader.partitions({}, {}) == []


def test_a_new_broker_is_noticed(place: Place) -> None:
    add_segment(place, "eu-1", 1, 5)
    reader = CatalogueReader(place.url, {})
    first = reader.latestOffset({}, ALL)
    add_segment(place, "us-1", 1, 5)
    second = reader.latestOffset(first, ALL)
    (stretch,) = reader.partitions(first, second)
    assert sorted(reader.read(stretch)) == [("eu-1", 1), ("us-1", 1)]


def test_catching_up_ends_where_the_catalogue_was_when_it_began(place: Place) -> None:
    add_segment(place, "eu-1", 1, 5)
    until = reached(place)
    add_segment(place, "eu-1", 6, 9)
    add_segment(place, "us-1", 1, 5)
    assert list(stretches(place, {}, until)) == [{"eu-1": 1}]
    assert list(stretches(place, {"eu-1": 1}, until)) == []


def test_catching_up_takes_the_batches_that_a_stream_would_take(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        add_segment(place, "eu-1", number * 10 + 1, number * 10 + 5)
        add_segment(place, "us-1", number * 10 + 1, number * 10 + 5)
    monkeypatch.setattr(stream, "admit", lambda entries: admit(entries, segments_max=4))
    reader, offsets = CatalogueReader(place.url, {}), [Position()]
    for _ in range(2):
        offsets.append(reader.latestOffset(offsets[-1], ALL))
    assert list(stretches(place, {}, reached(place))) == offsets[1:] == [{"eu-1": 2, "us-1": 2}, reached(place)]


def test_a_batch_has_a_limit_and_no_broker_waits_behind_another(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        add_segment(place, "eu-1", number * 10 + 1, number * 10 + 5)
        add_segment(place, "us-1", number * 10 + 1, number * 10 + 5)
    monkeypatch.setattr(stream, "admit", lambda entries: admit(entries, segments_max=4))
    assert CatalogueReader(place.url, {}).latestOffset({}, ALL) == {"eu-1": 2, "us-1": 2}


def test_what_is_waiting_comes_in_the_order_in_which_it_was_sealed(place: Place) -> None:
    add_segment(place, "us-1", 1, 5)
    add_segment(place, "eu-1", 1, 5)
    add_segment(place, "us-1", 6, 9)
    entries = list(waiting(place, ["eu-1", "us-1"], {}, None))
    assert [(entry.broker, entry.number) for entry in entries] == [("us-1", 1), ("eu-1", 1), ("us-1", 2)]
