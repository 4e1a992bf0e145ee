"""The file that keeps a participant's last config."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scale0.core.held_config import SavedConfig
from scale0.errors import UsageError
from scale0.transport import saved_config
from scale0.transport.saved_config import FILE_BYTES_MAX, SavedConfigFile, check_path
from tests.core.sessions_kit import HOME, SPARE, document, version

SAVED = SavedConfig("ZPL", version(7), document({"b1": HOME}, config_type="ZPL"), [SPARE])
LIMIT_S = 20.0


class Kept:
    """A file, and what was noted about it."""

    def __init__(self, path: Path | None) -> None:
        self.notes: list[str] = []
        self.file = SavedConfigFile(path, self.notes.append)

    def keep(self, *all_saved: SavedConfig) -> None:
        for saved in all_saved:
            self.file.keep(saved)
        self.file.wait(LIMIT_S)


def test_what_was_kept_is_there_at_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "made" / "on the way" / "saved.json"
    Kept(path).keep(SAVED)
    later = Kept(path)
    assert later.file.read() == SAVED
    assert later.notes == []
    assert sorted(path.parent.iterdir()) == [path], "nothing temporary is left"


def test_people_can_read_it(tmp_path: Path) -> None:
    Kept(tmp_path / "saved.json").keep(SAVED)
    content = msgspec.json.decode((tmp_path / "saved.json").read_bytes())
    assert content["config"] == SAVED.config.decode()
    assert content["endpoints"] == [SPARE]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=40)
@given(st.text(), st.lists(st.text(max_size=20), max_size=5))
def test_any_text_comes_back_as_it_was(tmp_path: Path, config: str, endpoints: list[str]) -> None:
    saved = SavedConfig("JSON", version(1), config.encode(), endpoints)
    Kept(tmp_path / "any.json").keep(saved)
    assert Kept(tmp_path / "any.json").file.read() == saved


def test_without_a_file_there_is_nothing(tmp_path: Path) -> None:
    for kept in (Kept(tmp_path / "none.json"), Kept(None)):
        assert kept.file.read() == SavedConfig()
        assert kept.notes == []


def test_without_a_path_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Kept(None).keep(SAVED)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b"{}",
        b'{"schema": "other/1", "config_version": "%s", "config_type": "JSON", "config": ""}' % (b"00" * 16),
        b'{"schema": "scale0.saved_config/1", "config_version": "00", "config_type": "JSON", "config": ""}',
        b'{"schema": "scale0.saved_config/1", "config_version": "no", "config_type": "JSON", "config": ""}',
        b"[" * 5000,
        b" " * (FILE_BYTES_MAX + 1),
    ],
    ids=["empty", "half", "list", "bytes", "nothing", "schema", "short version", "no version", "deep", "large"],
)
def test_a_damaged_file_is_ignored_with_a_note(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "saved.json"
    path.write_bytes(content)
    kept = Kept(path)
    assert kept.file.read() == SavedConfig()
    assert [note.startswith(f"{path}: the saved config is ignored") for note in kept.notes] == [True]
    kept.keep(SAVED)
    assert kept.file.read() == SAVED, "the next one takes its place"


def test_a_place_that_cannot_be_written_is_noted_once_and_hurts_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    kept = Kept(tmp_path / "file" / "saved.json")
    kept.keep(SAVED)
    kept.keep(SAVED)
    assert len(kept.notes) == 1
    assert "cannot be saved" in kept.notes[0]


def test_keeping_does_not_wait_for_the_disk_and_only_the_newest_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = threading.Event(), threading.Event()
    written: list[bytes] = []

    def slow(_path: Path, content: bytes) -> None:
        begun.set()
        assert may_end.wait(LIMIT_S)
        written.append(content)

    monkeypatch.setattr(saved_config, "replace_file", slow)
    kept = Kept(tmp_path / "saved.json")
    kept.file.keep(SAVED)
    assert begun.wait(LIMIT_S)
    for number in range(8, 20):
        kept.file.keep(SavedConfig("JSON", version(number), b"{}"))
    kept.file.wait(0.0)
    assert kept.file.is_writing
    may_end.set()
    kept.file.wait(LIMIT_S)
    assert [version(number).hex().encode() in content for number, content in zip((7, 19), written, strict=True)] == [
        True,
        True,
    ]


@pytest.mark.parametrize("path", ["", 5, b"file"])
def test_what_is_no_path_is_refused(path: object) -> None:
    with pytest.raises(UsageError, match="save_config is the path of a file"):
        check_path(path)  # type: ignore[arg-type]


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a directory"):
        check_path(tmp_path)
    assert check_path(str(tmp_path / "file")) == tmp_path / "file"
    assert check_path(None) is None
