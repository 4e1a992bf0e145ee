from __future__ import annotations

from pathlib import Path

import pytest

from scale0.errors import SettingsError
from scale0.transport.state_file import FILE_NAME, StateFile


def test_without_a_file_the_broker_is_active_in_its_first_epoch(tmp_path: Path) -> None:
    for directory in (None, tmp_path, tmp_path / "not-there-yet"):
        kept = StateFile(directory).kept
        assert (kept.state, kept.epoch) == ("active", 1)


def test_kept_state_is_read_again(tmp_path: Path) -> None:
    directory = tmp_path / "new"
    StateFile(directory).keep("disabled")
    assert StateFile(directory).kept.state == "disabled"
    assert [path.name for path in directory.iterdir()] == [FILE_NAME], "nothing temporary is left"


def test_epoch_stays_when_the_state_changes(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text('{"state": "active", "epoch": 7}')
    StateFile(tmp_path).keep("disabled")
    assert StateFile(tmp_path).kept.epoch == 7


@pytest.mark.parametrize("content", ["", "{", '{"state": "asleep"}', "[]"])
def test_file_that_cannot_be_read_is_not_guessed_at(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE_NAME).write_text(content)
    with pytest.raises(SettingsError, match="delete it to start as active"):
        StateFile(tmp_path)


@pytest.mark.parametrize("content", [b'{"state": "\xff"}', b'{"epoch": 99999999999999999999}', b'{"epoch": 0}'])
def test_damaged_file_is_refused_with_its_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(SettingsError, match=FILE_NAME):
        StateFile(tmp_path)
