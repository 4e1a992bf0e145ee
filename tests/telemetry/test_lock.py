"""The lock of a telemetry directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scale0.errors import UsageError
from scale0.telemetry import lock


def test_one_has_it_at_a_time(tmp_path: Path) -> None:
    held = lock.take(tmp_path / "t")
    assert held is not None
    assert lock.take(tmp_path / "t") is None
    assert not lock.wait(tmp_path / "t", 0.0)
    os.close(held)
    assert lock.wait(tmp_path / "t", 0.0)


def test_a_directory_that_cannot_be_made_is_told_before_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--telemetry-dir"):
        lock.check(tmp_path / "file" / "t")
    lock.check(tmp_path / "t")
    assert lock.wait(tmp_path / "t", 0.0), "looking does not take it"
