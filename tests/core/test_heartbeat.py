"""When to PING, and which silence counts."""

from __future__ import annotations

import math

import pytest

from scale0.core.heartbeat import Heartbeat
from scale0.protocol.messages import NO_VERSION
from tests.core.sessions_kit import Dice, settings


def beating(throw: float = 0.5) -> Heartbeat:
    heartbeat = Heartbeat(settings(), Dice(throw))
    heartbeat.clock.set_wall(0.0, 1000.0)
    heartbeat.begin(0.0)
    return heartbeat


def test_the_first_ping_leaves_at_any_point_of_the_interval() -> None:
    assert [beating(throw).next_s() for throw in (0.0, 0.4, 1.0)] == [0.0, 1.0, 2.5]


@pytest.mark.parametrize(("throw", "gap_s"), [(0.0, 2.25), (0.5, 2.375), (1.0, 2.5)])
def test_the_next_ping_leaves_a_little_before_the_interval_is_over(throw: float, gap_s: float) -> None:
    heartbeat = beating(throw)
    heartbeat.ping(NO_VERSION, 0, 10.0)
    heartbeat.heard_at_s = 10.0
    assert heartbeat.next_s() == pytest.approx(10.0 + gap_s)


def test_a_ping_says_the_time_the_interval_and_the_offset() -> None:
    heartbeat = beating()
    first = heartbeat.ping(NO_VERSION, 7, 1.0)
    assert (first.time_us, first.heartbeat_interval_ms, first.oldest_unanswered) == (1_001_000_000, 2500, 7)
    assert not first.has_offset
    heartbeat.clock.heard(first.time_us, first.time_us - 3_000_000, 1.0)
    second = heartbeat.ping(NO_VERSION, 7, 2.0)
    assert second.has_offset
    assert second.offset_us == 3_000_000


def test_silence_counts_from_the_last_word() -> None:
    heartbeat = beating()
    heartbeat.heard_at_s = 2.0
    assert not heartbeat.is_silent(9.4)
    assert heartbeat.is_silent(9.5)


def test_the_brokers_word_on_interval_and_liveness_holds() -> None:
    heartbeat = beating(1.0)
    heartbeat.adopt(1000, 5, 0.0)
    assert (heartbeat.interval_s, heartbeat.silence_s) == (1.0, 5.0)
    assert heartbeat.next_s() == 1.0, "a shorter interval makes the next PING come sooner"
    heartbeat.adopt(0, 0, 0.0)
    assert (heartbeat.interval_s, heartbeat.silence_s) == (1.0, 5.0)


def test_a_longer_interval_that_was_agreed_outlasts_a_pushed_config() -> None:
    heartbeat = beating()
    heartbeat.agree(10_000, 0.0)
    heartbeat.adopt(2500, 3, 1.0)
    assert heartbeat.interval_s == 10.0
    heartbeat.end()
    heartbeat.adopt(2500, 3, 2.0)
    assert heartbeat.interval_s == 2.5


def test_without_a_link_no_ping_is_due() -> None:
    heartbeat = beating()
    heartbeat.end()
    heartbeat.heard_at_s = math.inf
    assert heartbeat.next_s() == math.inf
    assert not heartbeat.is_due(1e9)
