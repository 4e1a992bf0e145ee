"""The config that a participant holds: what replaces it, and when a newer one is fetched."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from scale0.core.endpoints import Endpoints
from scale0.core.held_config import HeldConfig, SavedConfig
from scale0.protocol.messages import NO_VERSION
from tests.core.sessions_kit import HOME, SPARE, ack, config, document, version


def held(saved: SavedConfig | None = None) -> HeldConfig:
    return HeldConfig(saved or SavedConfig(), Endpoints([HOME], {}))


def test_without_a_saved_config_there_is_no_version() -> None:
    fresh = held()
    assert (fresh.version, fresh.data, fresh.is_damaged, fresh.preferred_broker) == (NO_VERSION, b"", False, "")


def test_what_was_saved_is_held_until_a_broker_says_more() -> None:
    text = document({"b2": SPARE}, preferred="b2")
    saved = SavedConfig("JSON", version(4), text)
    mine = held(saved)
    assert (mine.version, mine.data, mine.preferred_broker) == (version(4), text, "b2")
    assert mine.to_save() == saved


def test_a_damaged_config_is_not_named() -> None:
    mine = held(SavedConfig("JSON", version(4), b"{"))
    assert mine.is_damaged
    assert mine.version == NO_VERSION


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 50)), min_size=1, max_size=30))
def test_the_version_never_goes_back(told: list[tuple[bool, int]]) -> None:
    mine = held()
    highest = NO_VERSION
    for is_whole, number in told:
        message = config(number, document()) if is_whole else ack(config_version=version(number))
        assert mine.take(message) is (version(number) > highest)
        highest = max(highest, version(number))
        assert mine.version == highest


@given(st.lists(st.tuples(st.sampled_from(["hear", "take", "wait"]), st.integers(1, 5)), max_size=40))
def test_each_version_is_fetched_at_most_once_and_never_one_that_is_held(steps: list[tuple[str, int]]) -> None:
    mine = held()
    fetched: list[bytes] = []
    heard = NO_VERSION
    now = 0.0
    for step, number in steps:
        if step == "hear":
            mine.hear(version(number), now, 1.0)
            heard = max(heard, version(number))
        elif step == "take":
            mine.take(config(number, document()))
        else:
            now += number
            if mine.must_fetch(now):
                assert heard > mine.version
                fetched.append(heard)
    assert len(fetched) == len(set(fetched))


def test_a_later_version_does_not_put_the_fetching_off() -> None:
    mine = held()
    mine.hear(version(1), 0.0, 1.0)
    mine.hear(version(2), 1.5, 1.0)
    assert mine.fetch_at_s == 2.0
    assert mine.must_fetch(2.0)
    assert mine.fetch_at_s == math.inf
