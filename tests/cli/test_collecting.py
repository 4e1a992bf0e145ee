"""Collecting: all that is missing, checked, once, and on from where it was."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from scale0.cli import collecting
from scale0.cli.collecting import Summary, collect
from scale0.errors import Unreachable
from scale0.telemetry import catalogue, segments
from scale0.telemetry.place import Place
from scale0.transport.recorded_files import RecordedFiles


class Brokers:
    """Brokers that answer `list` and what is asked of their files."""

    def __init__(self, directory: Path, *names: str) -> None:
        self.places = {name: Place(directory / name) for name in names}
        self.away: set[str] = set()
        self.asked: list[str] = []
        self.fails_after = 10**6

    def record(self, name: str, *seqs: int, rows: int = 1) -> None:
        for seq in seqs:
            numbers = list(range(seq, seq + rows))
            digests = [hashlib.sha256(str(number).encode()).hexdigest() for number in numbers]
            table = pa.table({"kind": ["task"] * rows, "seq": numbers, "ts_us": numbers, "trace_id": digests})
            segments.write_segment(self.places[name], table, name, "boot", "recorder")

    def manage(self, endpoint: str, command: str, arguments: dict[str, Any], timeout_s: float) -> Any:
        name = endpoint.removeprefix("tcp://")
        if name in self.away or len(self.asked) >= self.fails_after:
            raise Unreachable({endpoint: "nobody is there"}, timeout_s)
        self.asked.append(command)
        if command == "list":
            rows = [
                {"identity": other, "endpoints": [f"tcp://{other}"], "is_self": other == name} for other in self.places
            ]
            return {"rows": rows}
        return RecordedFiles(self.places[name].url, name).answer(command, arguments)

    def collect(self, place: Place, *endpoints: str) -> Summary:
        return collect(endpoints or ["tcp://a"], place.url, self.manage, progress=lambda what, done, of: None)


@pytest.fixture
def brokers(tmp_path: Path) -> Brokers:
    made = Brokers(tmp_path, "a", "b")
    made.record("a", 1, 2, 3)
    made.record("b", 1)
    return made


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "all")


def test_all_brokers_of_the_network_are_fetched_from(brokers: Brokers, place: Place) -> None:
    summary = brokers.collect(place)
    assert (summary.brokers, summary.segments, summary.rows, summary.failed) == (["a", "b"], 4, 4, {})
    fetched = catalogue.read(place, "a")
    assert [(entry.number, entry.seq_lo, entry.source) for entry in fetched] == [
        (1, 1, "collect"),
        (2, 2, "collect"),
        (3, 3, "collect"),
    ]
    for entry in fetched:
        assert hashlib.sha256(place.read_bytes(entry.path)).hexdigest() == entry.sha256


def test_run_again_only_what_is_new_is_fetched(brokers: Brokers, place: Place) -> None:
    brokers.collect(place)
    assert brokers.collect(place).segments == 0
    brokers.record("b", 2)
    assert brokers.collect(place).segments == 1
    assert len(catalogue.read(place, "b")) == 2


def test_a_run_that_is_cut_off_goes_on_where_it_was(brokers: Brokers, place: Place) -> None:
    for brokers.fails_after in range(1, 12):
        brokers.asked.clear()
        brokers.collect(place)
    brokers.fails_after = 10**6
    assert brokers.collect(place).failed == {}
    assert [entry.seq_lo for entry in catalogue.read(place, "a")] == [1, 2, 3]
    assert [entry.seq_lo for entry in catalogue.read(place, "b")] == [1]


def test_a_broker_that_is_away_is_told_of_and_fetched_next_time(brokers: Brokers, place: Place) -> None:
    brokers.away.add("b")
    summary = brokers.collect(place)
    assert summary.brokers == ["a"]
    assert "tcp://b" in summary.failed["b"]
    brokers.away.clear()
    assert brokers.collect(place).segments == 1


def test_large_segments_come_in_pieces(brokers: Brokers, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "PIECE_BYTES", 1_000)
    brokers.record("b", 10, rows=500)
    assert brokers.collect(place).failed == {}
    assert brokers.asked.count("segment") > 20
    assert catalogue.read(place, "b")[1].rows == 500


def test_a_segment_that_is_not_what_its_catalogue_says_is_not_taken(brokers: Brokers, place: Place) -> None:
    entry = catalogue.read(brokers.places["b"], "b")[0]
    brokers.places["b"].write_atomic(entry.path, b"x" * entry.bytes)
    summary = brokers.collect(place)
    assert "is not what its catalogue says" in summary.failed["b"]
    assert catalogue.read(place, "b") == []


def test_what_is_gone_there_is_a_gap_here(brokers: Brokers, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = catalogue.read(brokers.places["a"], "a")[1]
    brokers.places["a"].delete(entry.path)
    real = brokers.manage

    def manage(endpoint: str, command: str, arguments: dict[str, Any], timeout_s: float) -> Any:
        from scale0.errors import ProtocolError, TaskRefused

        answer = real(endpoint, command, arguments, timeout_s)
        if isinstance(answer, ProtocolError):
            raise TaskRefused(answer.code, answer.text)
        return answer

    monkeypatch.setattr(brokers, "manage", manage)
    summary = brokers.collect(place)
    assert (summary.segments, summary.gaps) == (3, 1)
    assert [(entry.seq_lo, entry.gap) for entry in catalogue.read(place, "a")] == [(1, False), (2, True), (3, False)]


def test_a_broker_that_writes_to_this_very_place_is_not_fetched_twice(brokers: Brokers) -> None:
    own = brokers.places["a"]
    assert brokers.collect(own).brokers == ["a", "b"]
    assert len(catalogue.read(own, "a")) == 3
    assert len(catalogue.read(own, "b")) == 1


def test_the_broker_keeps_for_us_what_we_have_not_fetched(brokers: Brokers, place: Place) -> None:
    brokers.collect(place)
    (kept,) = catalogue.consumers(brokers.places["a"]).values()
    assert kept.position == {"a": 3}
