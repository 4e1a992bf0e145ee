"""Pauses between tries."""

from __future__ import annotations

from scale0.core.backoff import FIRST_S, MAX_S, Backoff
from tests.core.sessions_kit import Dice


def test_the_backoff_doubles_up_to_its_limit() -> None:
    backoff = Backoff(Dice(1.0))
    pauses = [backoff.pause_s() for _ in range(8)]
    assert pauses == [FIRST_S, 0.5, 1.0, 2.0, 4.0, MAX_S, MAX_S, MAX_S]


def test_a_pause_is_anything_from_nothing_to_the_backoff() -> None:
    dice = Dice(0.0)
    backoff = Backoff(dice)
    assert backoff.pause_s() == 0.0
    dice.throw = 0.5
    assert backoff.pause_s() == 0.25


def test_a_reset_starts_from_the_first_pause() -> None:
    backoff = Backoff(Dice(1.0))
    for _ in range(5):
        backoff.pause_s()
    backoff.reset()
    assert backoff.pause_s() == FIRST_S


def test_a_thousand_failures_do_no_harm() -> None:
    backoff = Backoff(Dice(1.0))
    assert max(backoff.pause_s() for _ in range(1000)) == MAX_S
