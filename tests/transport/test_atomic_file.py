from __future__ import annotations

import os
from pathlib import Path

import pytest

from scale0.transport.atomic_file import replace_file


def test_content_is_replaced_as_a_whole_and_directories_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file.json"
    for content in (b"a long one", b"new", b""):
        replace_file(path, content)
        assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_failure_at_any_step_leaves_the_old_content_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "file.json"
    replace_file(path, b"old")
    monkeypatch.setattr(*((os, "fsync", full) if step == "fsync" else (Path, "replace", full)))
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_content_is_on_disk_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    sync, move = os.fsync, Path.replace

    def noted_sync(descriptor: int) -> None:
        steps.append("directory" if os.fstat(descriptor).st_mode & 0o040000 else "content")
        sync(descriptor)

    def noted_move(self: Path, target: Path) -> Path:
        steps.append("name")
        return move(self, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(Path, "replace", noted_move)
    replace_file(tmp_path / "file.json", b"new")
    assert steps == ["content", "name", "directory"]
