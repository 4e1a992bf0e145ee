"""Rates, percentiles and errors of the last minutes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scale0.core.meters import FAILED, Meter, Tally, bucket_of, bucket_top_us, family_of, percentiles


@given(st.integers(0, 10**12))
def test_bucket_holds_what_lies_below_its_top_within_a_quarter(latency_us: int) -> None:
    top_us = bucket_top_us(bucket_of(latency_us))
    assert latency_us < top_us <= max(latency_us * 1.26, latency_us + 1)


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_buckets_keep_the_order(a: int, b: int) -> None:
    low, high = sorted((a, b))
    assert bucket_of(low) <= bucket_of(high)


def test_percentiles_and_errors_come_from_the_last_five_minutes() -> None:
    meter = Meter(0.0)
    for n in range(100):
        meter.note(n * 0.1, 0.001 if n < 98 else 1.0)
    meter.note_error(9.9)
    p50_us, p99_us = meter.percentiles(10.0, 0.5, 0.99)
    assert p50_us is not None
    assert p99_us is not None
    assert 1000 <= p50_us <= 1300
    assert 1_000_000 <= p99_us <= 1_300_000
    assert meter.errors(10.0) == 1
    assert meter.rate(10.0) == pytest.approx(10.0)
    assert meter.errors(400.0) == 0
    assert meter.percentiles(400.0, 0.5) == [None]
    assert meter.rate(400.0) == 0.0


def test_percentile_of_nothing_is_unknown() -> None:
    assert percentiles({}, 0.5, 0.99) == [None, None]


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=50))
def test_percentiles_of_rising_shares_rise_and_the_last_holds_all(latencies_us: list[int]) -> None:
    buckets: dict[int, int] = {}
    for latency_us in latencies_us:
        buckets[bucket_of(latency_us)] = buckets.get(bucket_of(latency_us), 0) + 1
    low, middle, high = percentiles(buckets, 0.5, 0.9, 1.0)
    assert low is not None
    assert middle is not None
    assert high == bucket_top_us(bucket_of(max(latencies_us)))
    assert low <= middle <= high


@pytest.mark.parametrize(
    ("code", "family"),
    [(408, "late"), (504, "late"), (502, "lost"), (429, "refused"), (503, "refused"), (404, "caller"), (499, "caller")],
)
def test_every_code_has_a_family(code: int, family: str) -> None:
    assert family_of(code) == family


def test_errors_are_told_by_family_for_five_minutes() -> None:
    meter = Meter(0.0)
    for family in ("late", "late", "lost", FAILED):
        meter.note_error(1.0, family)
    meter.note_error(40.0, "refused")
    assert meter.families(41.0) == {"late": 2, "lost": 1, "refused": 1, "caller": 0, FAILED: 1}
    assert meter.errors(41.0) == 5
    assert meter.errors(315.0) == 1, "those of the first slot are forgotten"


def test_percentiles_hold_over_the_turn_of_a_slot() -> None:
    meter = Meter(0.0)
    meter.note(1.0, 0.001)
    meter.note(31.0, 1.0)
    p50_us, p100_us = meter.percentiles(32.0, 0.5, 1.0)
    assert p50_us is not None
    assert p100_us is not None
    assert p50_us < 1300
    assert p100_us >= 1_000_000


def test_what_a_service_noted_is_in_the_tally_of_all() -> None:
    tally = Tally()
    first, second = Meter(0.0, tally), Meter(0.0, tally)
    for n in range(100):
        first.note(1.0, 0.001 * n)
        second.note(1.0, 0.001 * n)
    first.sum_up(2.0, 10)
    second.sum_up(2.0, 1000)
    assert sum(tally.latencies.values()) == 200, "each that is looked at counts for those that are not"
    assert first.rate(10.0) == pytest.approx(10.0)


def test_many_latencies_are_sampled_and_still_counted_in_full() -> None:
    meter = Meter(0.0)
    for n in range(10_000):
        meter.note(1.0, 0.001 * (1 + n % 100))
    assert meter.rate(10.0) == pytest.approx(1000.0)
    p50_us, p99_us = meter.percentiles(10.0, 0.5, 0.99)
    assert p50_us is not None
    assert p99_us is not None
    assert 45_000 <= p50_us <= 65_000
    assert 95_000 <= p99_us <= 125_000
