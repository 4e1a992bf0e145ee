"""A scenario: what its options change, that they change nothing else, and that its command line says it all."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scale0.cli import sim_command
from scale0.errors import UsageError
from scale0.simulator.profiles import NETWORKS
from scale0.simulator.run import run
from scale0.simulator.scenario import (
    GUESTS,
    KINDS,
    Scenario,
    read_guests,
    read_kinds,
    read_numbers,
    read_seeds,
    write_numbers,
)
from scale0.simulator.timeline import HEALED, Recorder

NETWORK = NETWORKS + 4


def struck(scenario: Scenario) -> dict[int, str]:
    """The faults of a run, by their numbers."""
    recorder = Recorder()
    run(scenario, recorder)
    return {strike.number: strike.kind for strike in recorder.finish() if strike.number != HEALED}


def test_the_numbers_of_processes_are_respected() -> None:
    profile = Scenario(NETWORK, brokers=2, workers=3, clients=1).profile()
    assert profile.shape is not None
    assert (len(profile.shape.brokers), profile.workers, profile.clients) == (2, 3, 1)


def test_a_single_broker_can_be_asked_for_with_any_seed() -> None:
    profile = Scenario(NETWORK, brokers=1).profile()
    assert profile.shape is None
    assert profile.brokers == 1


def test_brokers_may_have_fallbacks() -> None:
    profile = Scenario(NETWORK, brokers=2, fallbacks=1).profile()
    assert profile.shape is not None
    assert (len(profile.shape.brokers), len(profile.shape.pairs)) == (3, 1)
    with pytest.raises(UsageError, match="at most"):
        Scenario(NETWORK, brokers=1, fallbacks=2).profile()
    with pytest.raises(UsageError, match="--brokers N"):
        Scenario(NETWORK, fallbacks=1).profile()


def test_faults_of_pairs_need_a_pair() -> None:
    kinds = ("active one crashes",)
    with pytest.raises(UsageError, match="--fallbacks 1"):
        Scenario(NETWORK, brokers=2, faults=kinds).profile()
    assert Scenario(NETWORK, brokers=2, fallbacks=1, faults=kinds).profile().faults == kinds


def test_guests_can_be_left_out() -> None:
    profile = Scenario(5, without=tuple(GUESTS)).profile()
    assert not any(getattr(profile, name) for names in GUESTS.values() for name in names)


def test_only_the_wanted_kinds_of_faults_happen() -> None:
    kinds = ("broker crashes", "process pauses")
    assert set(struck(Scenario(3, 800, faults=kinds)).values()) <= set(kinds)
    assert struck(Scenario(3, 800, faults=kinds))
    assert struck(Scenario(3, 800, faults=())) == {}


def test_leaving_a_fault_out_leaves_the_others_as_they_were() -> None:
    everything = struck(Scenario(3, 1000))
    assert len(everything) > 4
    some = tuple(everything)[::2]
    fewer = struck(Scenario(3, 1000, strikes=some))
    assert fewer
    assert set(fewer) <= set(some)
    assert all(everything.get(number, kind) == kind for number, kind in fewer.items())


def test_a_world_in_which_nothing_fails_becomes_rough_when_failures_are_asked_for() -> None:
    assert Scenario(0).profile().kind == "calm"
    assert Scenario(0, faults=("worker leaves",)).profile().kind == "calm"
    assert Scenario(0, faults=("broker crashes",)).profile().kind == "rough"


def test_faults_between_brokers_need_brokers_that_know_one_another() -> None:
    with pytest.raises(UsageError, match="--brokers 3"):
        Scenario(0, faults=("link breaks",)).profile()
    assert Scenario(0, faults=("link breaks",), brokers=2).profile().shape is not None


def test_too_few_workers_are_refused() -> None:
    seed = next(seed for seed in itertools.count(NETWORKS) if len(_groups(seed)) == 2)
    with pytest.raises(UsageError, match="at least 2"):
        Scenario(seed, workers=1).profile()


def _groups(seed: int) -> list[str]:
    shape = Scenario(seed).profile().shape
    return shape.groups if shape is not None else []


def test_an_unknown_kind_of_fault_names_those_that_are_near() -> None:
    with pytest.raises(UsageError, match="did you mean: broker-crashes"):
        read_kinds("broker-crash")
    with pytest.raises(UsageError, match="--faults list"):
        read_kinds("quux")


def test_kinds_of_faults_are_read_with_dashes_or_blanks() -> None:
    assert read_kinds("broker-crashes, Process Pauses") == ("broker crashes", "process pauses")
    assert read_kinds("all") is None
    assert read_kinds("none") == ()


def test_unknown_guests_are_refused() -> None:
    with pytest.raises(UsageError, match="majordomo"):
        read_guests("ghosts")


def test_seeds_are_read_as_single_ones_and_ranges() -> None:
    assert list(read_seeds("7, 0..3")) == [7, 0, 1, 2]
    assert read_seeds("0..3,10..12").number == 5


def test_ranges_without_an_end_go_on_side_by_side() -> None:
    seeds = read_seeds("5,0..,100..")
    assert seeds.number is None
    assert list(itertools.islice(seeds, 5)) == [5, 0, 100, 1, 101]


def test_a_seed_that_is_no_number_is_refused() -> None:
    with pytest.raises(UsageError, match=r"0\.\.100"):
        read_seeds("many")


@given(st.sets(st.integers(0, 200)))
def test_numbers_are_read_as_they_were_written(numbers: set[int]) -> None:
    assert read_numbers(write_numbers(numbers) or "none") == tuple(sorted(numbers))


small = st.none() | st.integers(1, 5)


@given(
    st.builds(
        Scenario,
        seed=st.integers(0, 2_000_000),
        steps=st.integers(0, 9999),
        brokers=small,
        fallbacks=small,
        workers=small,
        clients=small,
        faults=st.none() | st.lists(st.sampled_from(KINDS), unique=True).map(tuple),
        strikes=st.none() | st.sets(st.integers(0, 99)).map(lambda found: tuple(sorted(found))),
        without=st.lists(st.sampled_from(list(GUESTS)), unique=True).map(tuple),
    )
)
def test_the_command_line_of_a_scenario_gives_the_same_scenario(scenario: Scenario) -> None:
    typed = scenario.options()
    words = dict(zip(typed[::2], typed[1::2], strict=True))
    numbers: dict[str, Any] = {
        name: int(words[f"--{name}"]) for name in ("brokers", "fallbacks", "workers", "clients") if f"--{name}" in words
    }
    options = sim_command.Options(
        seed=int(words["--seed"]),
        steps=int(words["--steps"]),
        faults=words.get("--faults"),
        only_faults=words.get("--only-faults"),
        without=words.get("--without"),
        **numbers,
    )
    assert sim_command.scenario_of(options) == scenario
