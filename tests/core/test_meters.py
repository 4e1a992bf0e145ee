"""Rates, percentiles and errors of the last minutes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scale0.core.meters import Meter, bucket_of, bucket_top_us, percentile


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
    assert percentile({}, 0.5) is None


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
