"""Help reads well on a terminal of 80 columns: prose fills its lines, no example is broken, a flag names no value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from rich.text import Text
from typer.main import get_command

from scale0.cli import help_text, main

WIDTH = 80 - 2  # Typer's margins


def commands(command: Any, *path: str) -> Iterator[tuple[str, str]]:
    """Each command's name and help, as written."""
    yield " ".join(path), command.help or ""
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, *path, name)


ALL = dict(commands(get_command(main.app), "scale0"))


def test_prose_is_joined_and_examples_are_not() -> None:
    text = "First line.\n\nOne\ntwo.\n\n\b\n  scale0 one\n  scale0 two"
    assert help_text.joined(text) == "First line.\n\nOne two.\n\n\b\n  scale0 one\n  scale0 two"


@pytest.mark.parametrize("words", [[], ["broker"], ["ctl"], ["ctl", "drain"], ["config"], ["pipeline", "run"]])
def test_a_flag_asks_for_no_value(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([*words, "--help"]) == 0
    told = capsys.readouterr().out
    assert "--help" in told
    assert "bool" not in told


@pytest.mark.parametrize("name", ALL)
def test_no_paragraph_of_prose_is_broken_by_its_source(name: str) -> None:
    paragraphs = [part.strip("\n") for part in ALL[name].split("\n\n")]
    assert [part for part in paragraphs if "\n" in part and not part.startswith(help_text.EXAMPLES)] == []


@pytest.mark.parametrize("name", ALL)
def test_examples_are_set_apart_from_the_prose_above(name: str) -> None:
    paragraphs = [part.strip("\n") for part in ALL[name].split("\n\n")]
    assert [part for part in paragraphs if help_text.EXAMPLES in part and not part.startswith(help_text.EXAMPLES)] == []


@pytest.mark.parametrize("name", ALL)
def test_an_example_fits_its_line(name: str) -> None:
    examples = [part for part in ALL[name].split("\n\n") if part.lstrip("\n").startswith(help_text.EXAMPLES)]
    lines = [Text.from_markup(line.strip("\b")).plain for part in examples for line in part.split("\n")]
    assert [line for line in lines if len(line) > WIDTH] == []
