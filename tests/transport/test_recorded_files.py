"""What operators may fetch of a broker's recorded events, and what they may not."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from scale0.core.effects import FromFiles
from scale0.errors import ProtocolError
from scale0.telemetry import catalogue, segments
from scale0.telemetry.place import Place
from scale0.transport import recorded_files
from scale0.transport.recorded_files import RecordedFiles


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    for name in ("eu-1", "eu-2"):
        for seq in (1, 2, 3):
            table = pa.table({"kind": ["task"], "seq": [seq], "ts_us": [seq]})
            segments.write_segment(made, table, name, "boot", "recorder")
    return made


@pytest.fixture
def files(place: Place) -> RecordedFiles:
    return RecordedFiles(place.url, "eu-1")


def test_entries_of_its_own_catalogue_are_told_from_a_number_on(files: RecordedFiles) -> None:
    told = files.answer("segments", {"after": 1, "author": "ops"})
    assert told["broker"] == "eu-1"
    assert [entry["number"] for entry in told["entries"]] == [2, 3]
    assert [entry["number"] for entry in files.answer("segments", {"limit": 1})["entries"]] == [1]


def test_a_consumer_that_is_named_has_its_position_kept(files: RecordedFiles, place: Place) -> None:
    files.answer("segments", {"after": 2, "consumer": "collect-x"})
    (kept,) = catalogue.consumers(place).values()
    assert (kept.position, kept.only) == ({"eu-1": 2}, ["eu-1"])


def test_a_segment_is_read_in_pieces(files: RecordedFiles, place: Place) -> None:
    entry = catalogue.read(place, "eu-1")[0]
    content = place.read_bytes(entry.path)
    pieces = [
        files.answer("segment", {"path": entry.path, "offset": offset, "length": 1_000})["data"]
        for offset in range(0, entry.bytes, 1_000)
    ]
    assert b"".join(pieces) == content


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("segments/eu-2/boot-1-1.parquet", 400),
        ("segments/eu-1/../eu-2/boot-1-1.parquet", 503),
        ("/etc/passwd", 400),
        ("segments/eu-1/boot-9-9.parquet", 404),
        ("", 400),
    ],
)
def test_nothing_but_its_own_segments_can_be_asked_for(files: RecordedFiles, path: str, code: int) -> None:
    refused = files.answer("segment", {"path": path})
    assert isinstance(refused, ProtocolError)
    assert refused.code == code


@pytest.mark.parametrize("arguments", [{"after": -1}, {"after": "x"}, {"limit": True}])
def test_what_is_no_number_is_refused(files: RecordedFiles, arguments: dict[str, Any]) -> None:
    refused = files.answer("segments", arguments)
    assert isinstance(refused, ProtocolError)
    assert refused.code == 400


def test_requests_are_answered_in_another_thread_and_too_many_are_refused(
    files: RecordedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, answered = threading.Event(), threading.Event()
    results: dict[int, Any] = {}

    def slow(command: str, arguments: dict[str, Any]) -> Any:
        assert go_on.wait(60)
        return threading.current_thread().name

    def done(key: int, result: Any) -> None:
        results[key] = result
        if len(results) == recorded_files.WAITING_MAX + 5:
            answered.set()

    monkeypatch.setattr(files, "answer", slow)
    for key in range(recorded_files.WAITING_MAX + 5):
        files.ask(FromFiles(key, "segments", {}), done)
    refused = [result for result in results.values() if isinstance(result, ProtocolError)]
    assert refused
    assert all(error.code == 429 for error in refused)
    go_on.set()
    assert answered.wait(60)
    assert "recorded-files" in results.values()
