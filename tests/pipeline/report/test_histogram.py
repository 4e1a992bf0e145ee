"""Histograms as arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scale0_pipeline import buckets
from scale0_pipeline.report import histogram
from scale0_pipeline.report.charts import heat

Durations = st.lists(st.integers(min_value=-5, max_value=2**36), min_size=1, max_size=200)


def filled(durations: list[int]) -> histogram.Counts:
    counts = histogram.empty(1)
    spots = histogram.places(histogram.bucket_of(np.array(durations)))
    histogram.add(counts, spots, np.ones(len(durations), dtype=np.int64))
    return counts


@given(Durations)
def test_buckets_are_those_of_the_facts(durations: list[int]) -> None:
    assert histogram.bucket_of(np.array(durations)).tolist() == [buckets.bucket_of(us) for us in durations]


@given(Durations, st.sampled_from([0.5, 0.9, 0.99, 0.999]))
def test_percentiles_are_those_of_gold_and_close_to_exact(durations: list[int], share: float) -> None:
    found = histogram.percentile_us(filled(durations)[0], share)
    exact = sorted(durations)[buckets.rank(share, len(durations)) - 1]
    assert found == buckets.percentile_us([(buckets.bucket_of(us), 1) for us in durations], share)
    assert found == pytest.approx(max(exact, 0), rel=0.012)


def test_of_nothing_there_is_no_percentile() -> None:
    assert histogram.percentile_us(histogram.empty(1)[0], 0.5) is None


@given(Durations)
def test_merging_buckets_and_bins_loses_no_task(durations: list[int]) -> None:
    counts = np.concatenate([filled(durations)] * 5)
    assert histogram.quarter_octaves(counts).sum() == counts.sum()
    assert histogram.wider(counts, 2).shape[0] == 3
    assert histogram.wider(counts, 2).sum() == counts.sum()


def test_shades_grow_with_the_logarithm_of_the_count() -> None:
    shades = heat.shades(np.array([[0, 1, 10, 100, 1_000, 10_000]]))[0].tolist()
    assert shades[0] == 0
    assert shades == sorted(shades)
    assert (shades[1], shades[-1]) == (1, heat.SHADES)
    assert heat.shades(np.zeros((2, 3), dtype=np.int64)).max() == 0
