"""The clock's offset: arithmetic of PING and PONG."""

from __future__ import annotations

import pytest

from scale0.core.clock_offset import PINGS_MAX, SAMPLES_MAX, ClockOffset


def exchange(clock: ClockOffset, sent_s: float, back_s: float, broker_s: float) -> None:
    """PING at `sent_s`, PONG at `back_s`, and the broker's wall clock when it answered."""
    time_us = clock.wall_us(sent_s)
    clock.sent(time_us, sent_s)
    clock.heard(time_us, int(broker_s * 1e6), back_s)


def test_nothing_is_known_before_the_first_pong() -> None:
    clock = ClockOffset()
    clock.set_wall(5.0, 1005.0)
    assert clock.offset_us is None
    assert clock.round_trip_s is None
    assert clock.wall_us(6.0) == 1_006_000_000


@pytest.mark.parametrize(
    ("sent_s", "back_s", "broker_s", "offset_us"),
    [
        (0.0, 0.2, 1000.1, 0),
        (0.0, 0.2, 999.1, 1_000_000),
        (0.0, 0.2, 1040.1, -40_000_000),
        (3.0, 3.0, 1002.5, 500_000),
    ],
)
def test_the_broker_read_its_clock_half_way_through_the_round_trip(
    sent_s: float, back_s: float, broker_s: float, offset_us: int
) -> None:
    clock = ClockOffset()
    clock.set_wall(0.0, 1000.0)
    exchange(clock, sent_s, back_s, broker_s)
    assert clock.offset_us == pytest.approx(offset_us, abs=2)
    assert clock.round_trip_s == back_s - sent_s


def test_the_least_round_trip_is_believed() -> None:
    clock = ClockOffset()
    clock.set_wall(0.0, 1000.0)
    exchange(clock, 0.0, 0.010, 1000.005)
    exchange(clock, 1.0, 3.0, 1001.0)  # slow on the way back only: the guess is a second off
    assert clock.offset_us == pytest.approx(0, abs=2)
    assert clock.round_trip_s == 2.0


def test_a_sample_is_forgotten_after_eight_newer_ones() -> None:
    clock = ClockOffset()
    clock.set_wall(0.0, 1000.0)
    exchange(clock, 0.0, 0.001, 1000.2)
    for at_s in range(1, SAMPLES_MAX + 1):
        exchange(clock, float(at_s), at_s + 0.5, 1000.25 + at_s)
    assert clock.offset_us == pytest.approx(0, abs=2)


def test_a_jump_of_the_brokers_clock_forgets_what_was_measured_before_it() -> None:
    clock = ClockOffset()
    clock.set_wall(0.0, 1000.0)
    exchange(clock, 0.0, 0.001, 8200.0)
    exchange(clock, 1.0, 1.2, 1001.1)
    assert clock.offset_us == pytest.approx(0, abs=2)


def test_an_echo_of_no_ping_is_ignored() -> None:
    clock = ClockOffset()
    clock.heard(12345, 99999, 1.0)
    assert clock.offset_us is None


def test_a_pong_counts_once() -> None:
    clock = ClockOffset()
    clock.sent(100, 0.0)
    clock.heard(100, 100, 1.0)
    clock.heard(100, 100, 5.0)
    assert clock.round_trip_s == 1.0


def test_unanswered_pings_are_bounded() -> None:
    clock = ClockOffset()
    for time_us in range(PINGS_MAX + 1):
        clock.sent(time_us, 0.0)
    clock.heard(0, 0, 1.0)
    assert clock.offset_us is None
    clock.heard(1, 0, 1.0)
    assert clock.offset_us is not None


def test_a_jump_of_our_own_clock_forgets_what_was_measured() -> None:
    clock = ClockOffset()
    clock.set_wall(0.0, 1000.0)
    exchange(clock, 0.0, 0.1, 1000.05)
    clock.set_wall(1.0, 1001.01)  # drift
    assert clock.offset_us is not None
    clock.set_wall(2.0, 4602.0)
    assert clock.offset_us is None
