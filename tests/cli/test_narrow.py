"""What is left out of the command line, and that nobody sees it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from scale0.cli.main import app, main
from scale0.cli.narrow import narrowed


def made(*words: str) -> Any:
    """What Typer makes for these words."""
    return typer.main.get_command(narrowed(app, words))


def paths(group: Any, *above: str) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        yield (*above, name)
        if hasattr(command, "commands"):
            yield from paths(command, *above, name)


EVERY_PATH = sorted(paths(made()))


def at(command: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        command = command.commands[name]
    return command


def test_everything_that_can_be_typed_is_found_with_the_same_options_and_help() -> None:
    whole = made()
    for path in EVERY_PATH:
        narrow, wide = at(made(*path), path), at(whole, path)
        assert [(one.name, one.opts) for one in narrow.params] == [(one.name, one.opts) for one in wide.params], path
        assert narrow.help == wide.help, path


def test_a_command_is_made_alone() -> None:
    assert list(made("broker", "--bind", "tcp://127.0.0.1:0").commands) == ["broker"]


def test_a_command_of_a_group_is_made_alone_in_its_group() -> None:
    assert set(paths(made("config", "show", "--json"))) == {("config",), ("config", "show")}


@pytest.mark.parametrize("words", [(), ("--help",), ("-v", "broker"), ("brokr",)])
def test_without_a_command_in_front_everything_is_made(words: tuple[str, ...]) -> None:
    assert sorted(paths(made(*words))) == EVERY_PATH


def test_help_of_a_group_lists_all_of_it() -> None:
    listed = {path for path in EVERY_PATH if path[0] == "keys"}
    assert set(paths(made("keys", "--help"))) == listed


def test_a_mistyped_word_is_compared_with_every_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workrs"]) == 2
    assert "workers" in capsys.readouterr().err
