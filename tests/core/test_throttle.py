"""An overloaded worker asks for less, and for more when it has caught up (rule 20)."""

from __future__ import annotations

import math

from scale0.core.throttle import Throttle

INTERVAL_S = 2.0


def judge(throttle: Throttle, now: float, *, round_trip_s: float | None = None, is_idle: bool = False) -> bool:
    return throttle.judge(now, INTERVAL_S, round_trip_s, is_idle)


def test_a_long_wait_halves_what_is_offered_once_an_interval() -> None:
    throttle = Throttle(8, is_on=True)
    throttle.report(4.1)
    steps = [(judge(throttle, now), throttle.offered) for now in (0.0, 1.0, 2.0, 4.0, 6.0, 8.0)]
    assert steps == [(True, 4), (False, 4), (True, 2), (True, 1), (True, 0), (False, 0)]


def test_a_wait_within_the_bound_changes_nothing() -> None:
    throttle = Throttle(8, is_on=True)
    throttle.report(4.0)
    assert not judge(throttle, 0.0)
    assert throttle.next_s() == math.inf


def test_caught_up_it_asks_for_twice_as_much_up_to_its_capacity() -> None:
    throttle = Throttle(3, is_on=True)
    throttle.report(10.0)
    for now in (0.0, 2.0):
        judge(throttle, now)
    assert throttle.offered == 0
    throttle.report(0.0)
    steps = [(judge(throttle, now), throttle.offered) for now in (4.0, 6.0, 8.0, 10.0)]
    assert steps == [(True, 1), (True, 2), (True, 3), (False, 3)]


def test_between_half_the_bound_and_the_bound_nothing_moves_and_nobody_spins() -> None:
    throttle = Throttle(8, is_on=True)
    throttle.report(5.0)
    judge(throttle, 0.0)
    throttle.report(3.0)
    assert not judge(throttle, 2.0)
    assert throttle.offered == 4
    assert throttle.next_s() == 4.0


def test_an_idle_worker_has_caught_up_whatever_was_reported() -> None:
    throttle = Throttle(1, is_on=True)
    throttle.report(100.0)
    judge(throttle, 0.0)
    assert throttle.offered == 0
    assert judge(throttle, 2.0, is_idle=True)
    assert throttle.offered == 1


def test_slow_pongs_are_overload_too() -> None:
    throttle = Throttle(4, is_on=True)
    assert judge(throttle, 0.0, round_trip_s=2.1, is_idle=True)
    assert throttle.offered == 2
    assert judge(throttle, 2.0, round_trip_s=0.1, is_idle=True)
    assert throttle.offered == 4


def test_the_bound_can_be_given() -> None:
    throttle = Throttle(4, is_on=True, bound_s=0.5)
    throttle.report(0.6)
    assert judge(throttle, 0.0)


def test_switched_off_it_never_changes_anything() -> None:
    throttle = Throttle(4, is_on=False)
    throttle.report(1000.0)
    assert not judge(throttle, 0.0, round_trip_s=1000.0)
    assert throttle.offered == 4
    assert throttle.next_s() == math.inf


def test_a_new_capacity_is_offered_as_it_is() -> None:
    throttle = Throttle(8, is_on=True)
    throttle.report(100.0)
    judge(throttle, 0.0)
    throttle.set_capacity(6)
    assert throttle.offered == 6
