"""Failed logins of one source are limited, right ones are not, and no source costs memory for ever."""

from __future__ import annotations

import pytest

from scale0.management.http.attempts import BURST, REFILL_S, SOURCES_MAX, Attempts, network_of
from scale0.management.http.shapes import Refused


def test_a_source_is_told_to_wait_after_its_last_attempt() -> None:
    attempts = Attempts()
    for _ in range(BURST):
        attempts.take("10.0.0.1", 0.0)
    with pytest.raises(Refused) as raised:
        attempts.take("10.0.0.1", 0.0)
    assert raised.value.failure.code == 429
    assert raised.value.headers == {"Retry-After": "6"}
    attempts.take("10.0.0.2", 0.0)
    attempts.take("10.0.0.1", REFILL_S)
    with pytest.raises(Refused):
        attempts.take("10.0.0.1", REFILL_S)


def test_whoever_is_right_is_never_slowed_down() -> None:
    attempts = Attempts()
    for _ in range(100):
        attempts.take("10.0.0.1", 0.0)
        attempts.give_back("10.0.0.1", 0.0)


def test_giving_back_never_makes_more_attempts_than_there_were() -> None:
    attempts = Attempts()
    for _ in range(50):
        attempts.give_back("10.0.0.1", 0.0)
    for _ in range(BURST):
        attempts.take("10.0.0.1", 0.0)
    with pytest.raises(Refused):
        attempts.take("10.0.0.1", 0.0)


def test_an_ipv6_host_has_one_store_for_all_its_addresses() -> None:
    attempts = Attempts(burst=2)
    attempts.take("2001:db8::1", 0.0)
    attempts.take("2001:db8::2", 0.0)
    with pytest.raises(Refused):
        attempts.take("2001:db8::3", 0.0)
    assert network_of("::ffff:10.0.0.1") != network_of("::ffff:10.0.0.2")
    assert network_of("no address") == "no address"


def test_ten_thousand_sources_and_more_leave_memory_bounded() -> None:
    attempts = Attempts()
    for number in range(SOURCES_MAX + 500):
        attempts.take(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 0.0)
    assert len(attempts._stores) == SOURCES_MAX
