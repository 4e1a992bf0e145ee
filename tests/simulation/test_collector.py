"""The collector of cycles rests during a run, and a world leaves nothing behind."""

from __future__ import annotations

import gc
import weakref

import pytest

from scale0.simulator import collector
from scale0.simulator.world import World


def test_a_world_is_collected_when_its_run_is_over() -> None:
    with collector.at_rest():
        world = World(3)
        gone = weakref.ref(world)
        del world
        assert gone() is not None, "a world refers to itself, so only the collector can free it"
    assert gone() is None


def test_the_collector_goes_on_as_before_after_a_run_that_failed() -> None:
    before = gc.get_threshold()
    during: list[tuple[int, int, int]] = []
    with pytest.raises(IndexError):
        fail_at_rest(during)
    assert during != [before]
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def fail_at_rest(thresholds: list[tuple[int, int, int]]) -> None:
    with collector.at_rest():
        thresholds.append(gc.get_threshold())
        raise IndexError
