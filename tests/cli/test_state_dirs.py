"""Where the command line keeps its state."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scale0.cli import state_dirs

HOME = {"HOME": "/home/ada"}


def test_the_state_is_below_the_home_directory_by_default() -> None:
    assert state_dirs.state_home(HOME) == Path("/home/ada/.local/state/scale0")


def test_the_variable_of_the_standard_moves_it() -> None:
    assert state_dirs.state_home({**HOME, "XDG_STATE_HOME": "/var/state"}) == Path("/var/state/scale0")


@pytest.mark.parametrize("told", ["", "state", "./state"])
def test_a_relative_path_in_the_variable_is_ignored(told: str) -> None:
    assert state_dirs.state_home({**HOME, "XDG_STATE_HOME": told}) == Path("/home/ada/.local/state/scale0")


def test_a_broker_has_a_directory_of_its_own() -> None:
    assert state_dirs.broker_dir("eu-1", HOME) == Path("/home/ada/.local/state/scale0/brokers/eu-1")


@given(st.text(min_size=1, max_size=300))
def test_any_name_is_one_component_of_a_path(name: str) -> None:
    made = state_dirs.file_name(name.encode("utf-8", "replace").decode())
    assert made
    assert "/" not in made
    assert made not in {".", ".."}
    assert made.isascii()
    assert len(made) <= state_dirs.NAME_BYTES_MAX


def test_names_that_differ_stay_apart() -> None:
    names = ["a/b", "a%2Fb", "a b", ".", "..", "%2E", "x" * 300, "x" * 299 + "y"]
    assert len({state_dirs.file_name(name) for name in names}) == len(names)


def test_a_participants_file_depends_on_its_brokers() -> None:
    one = state_dirs.participant_file("worker", ["tcp://a:1"], HOME)
    two = state_dirs.participant_file("worker", ["tcp://a:1", "tcp://b:1"], HOME)
    assert one != two
    assert one == state_dirs.participant_file("worker", iter(["tcp://a:1"]), HOME)
    assert one.parent == Path("/home/ada/.local/state/scale0/participants")
