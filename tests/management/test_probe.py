"""What the process learns of itself is plausible, and what it cannot learn is not made up."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from scale0.management.probe import Probe, memory_bytes, rss_bytes


def test_this_process_has_memory_and_files() -> None:
    figures = Probe(Path.cwd()).look()
    assert figures.rss_bytes is not None
    assert figures.memory_bytes is not None
    assert 2**20 < figures.rss_bytes < figures.memory_bytes
    assert figures.open_files is not None
    assert figures.open_files >= 3
    assert figures.disk_bytes is not None
    assert figures.disk_free_bytes is not None
    assert figures.disk_free_bytes <= figures.disk_bytes


def test_work_shows_as_a_share_of_the_time_since_the_last_look(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, used_s = 50.0, 3.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    monkeypatch.setattr(time, "process_time", lambda: used_s)
    probe = Probe()
    now_s, used_s = 55.0, 4.0
    assert probe.look().cpu_percent == 20.0


def test_no_share_is_told_of_less_than_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, used_s = 50.0, 3.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    monkeypatch.setattr(time, "process_time", lambda: used_s)
    probe = Probe()
    now_s, used_s = 50.01, 3.01  # a broker begins
    assert probe.look().cpu_percent is None
    now_s, used_s = 55.0, 3.05
    assert probe.look().cpu_percent == 1.0


def test_without_a_state_directory_no_disk_is_looked_at() -> None:
    assert Probe().look().disk_bytes is None
    assert Probe(Path("/no/such/place")).look().disk_bytes is None


@pytest.mark.parametrize(
    ("limit", "expected"),
    [("1048576\n", 1_048_576), ("max\n", 8_192_000), ("9223372036854771712", 8_192_000), (None, 8_192_000)],
)
def test_a_container_may_have_less_than_its_machine(tmp_path: Path, limit: str | None, expected: int) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:        8000 kB\nMemFree: 1 kB\n")
    if limit is not None:
        (tmp_path / "memory.max").write_text(limit)
    assert memory_bytes(tmp_path, tmp_path) == expected


def test_a_system_that_says_nothing_is_not_guessed_at(tmp_path: Path) -> None:
    assert memory_bytes(tmp_path, tmp_path) is None
    assert rss_bytes() != 0
