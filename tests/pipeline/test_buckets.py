"""Histograms: what they forget, and that it is never more than 1.2 %."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from scale0_pipeline.buckets import NEGATIVE, NONE, SHARES, ZERO, bounds_us, bucket_of, middle_us, percentile_us, rank

DURATIONS = st.lists(st.integers(1, 10**12), min_size=1, max_size=300)


@given(st.integers(1, 1 << 40))
def test_a_bucket_holds_its_durations(duration_us: int) -> None:
    low, high = bounds_us(bucket_of(duration_us))
    assert low * (1 - 1e-9) <= duration_us <= high * (1 + 1e-9)
    assert abs(middle_us(bucket_of(duration_us)) / duration_us - 1) < 0.011


def test_powers_of_two_begin_their_octave() -> None:
    assert [bucket_of(1 << bits) for bits in range(41)] == [32 * bits for bits in range(41)]


def test_what_is_no_duration_has_its_own_bucket() -> None:
    assert [bucket_of(us) for us in (0, -1, -(10**9), None)] == [ZERO, NEGATIVE, NEGATIVE, NONE]
    assert middle_us(ZERO) == middle_us(NEGATIVE) == 0.0


@given(DURATIONS, DURATIONS)
def test_percentiles_are_within_a_hundredth_after_any_merge(first: list[int], second: list[int]) -> None:
    ordered = sorted(first + second)
    counts = [(bucket_of(us), 1) for us in first] + [(bucket_of(us), 1) for us in second]
    for share in SHARES.values():
        exact = ordered[math.ceil(share * len(ordered) - 1e-9) - 1]
        found = percentile_us(counts, share)
        assert found is not None
        assert abs(found / exact - 1) < 0.012


def test_refused_tasks_have_no_place_among_percentiles() -> None:
    assert percentile_us([(NONE, 100)], 0.5) is None
    assert percentile_us([(NONE, 100), (bucket_of(1_000), 1)], 0.5) == middle_us(bucket_of(1_000))


def test_a_correction_takes_a_duration_out_again() -> None:
    short, long = bucket_of(10), bucket_of(10_000)
    assert percentile_us([(short, 2), (long, 2), (long, -2)], 0.99) == middle_us(short)


def test_a_rank_is_not_pushed_up_by_the_last_bit_of_a_product() -> None:
    assert [rank(0.9, 10), rank(0.99, 100), rank(0.999, 1_000), rank(0.5, 1)] == [9, 99, 999, 1]
