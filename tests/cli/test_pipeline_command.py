"""`scale0 pipeline` and `scale0 why`, as far as they go without Spark: what is refused, and what is said of it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scale0.cli import pipeline_command
from scale0.cli.main import main
from scale0.errors import UsageError


def test_named_data_place_is_used_and_else_this_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert pipeline_command.place_of("elsewhere") == "elsewhere"
    assert pipeline_command.place_of(None) == str(tmp_path / "scale0" / "data")


def test_missing_extra_is_named_with_the_command_that_adds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec

    def find(name: str, *more: Any) -> Any:
        return None if name == "deltalake" else real(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    with pytest.raises(UsageError, match=r"deltalake missing\n.*pip install 'scale0\[pipeline\]'"):
        pipeline_command.need_pipeline()


def test_a_run_is_told_in_whole_words() -> None:
    told = [SimpleNamespace(rows=rows, batches=batches, seconds=32.46) for rows, batches in ((77_245, 1), (1, 2))]
    assert [pipeline_command.run_words(one) for one in told] == [
        "77,245 rows in 1 batch, 32.5 s",
        "1 row in 2 batches, 32.5 s",
    ]


@pytest.mark.parametrize("command", [("pipeline", "report"), ("why", "ann.0011223344556677.1")])
def test_place_without_a_record_says_what_to_do(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--data", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "scale0 " in said.splitlines()[-1]


def test_window_that_ends_before_it_begins_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["pipeline", "report", "--data", str(tmp_path), "--since", "1h", "--until", "2h"]
    assert main(command) == 2
    assert "ends before it begins" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["report", "--since", "yesterday"],
        ["backfill", "--day", "tomorrow"],
        ["generate", "--events", "many"],
        ["whatif", "--service", "render", "--workers", "some"],
    ],
)
def test_what_cannot_be_read_is_a_usage_error(arguments: list[str], tmp_path: Path) -> None:
    assert main(["pipeline", *arguments, "--data", str(tmp_path)]) == 2


def test_generated_days_are_written_and_told_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "generate", "--data", str(tmp_path), "--events", "2k", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "scale0.pipeline_generate/1"
    assert told["result"]["tasks"] >= 2000
    assert list((tmp_path / "segments").rglob("*.parquet"))
