"""Histograms as arrays, so that a whole page of percentiles is a few sums.

`scale0_pipeline.buckets` says what a bucket is. Here a histogram is a row with a place for every bucket; rows add up
over minutes, services and brokers, and percentiles are taken of the sums. Percentiles of percentiles do not exist.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from scale0_pipeline.buckets import NEGATIVE, NUDGE, PER_OCTAVE, ZERO, middle_us, rank

OCTAVES: Final = 37
"""Up to 2**37 µs, about 38 hours; what lasts longer is counted in the last bucket."""
SIZE: Final = OCTAVES * PER_OCTAVE
MERGED: Final = 8
"""Buckets that a cell of the heat map joins: 32 an octave become 4."""

Counts = npt.NDArray[np.int64]


def empty(*shape: int) -> Counts:
    """Histograms; the place after the last bucket holds zeros and negatives, which stand before all others."""
    return np.zeros((*shape, SIZE + 1), dtype=np.int64)


def places(buckets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where each bucket is kept; `NONE`, of tasks that took no time, must have been taken out."""
    return np.where(buckets < 0, SIZE, np.minimum(buckets, SIZE - 1))


def add(target: Counts, spots: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]) -> None:
    """Adds numbers to an array, seen as one row, at places that may repeat."""
    np.add.at(target.reshape(-1), spots, numbers)


def bucket_of(us: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The bucket of each duration."""
    positive = np.log2(np.maximum(us, 1).astype(np.float64)) * PER_OCTAVE
    return np.where(us > 0, np.floor(positive + NUDGE).astype(np.int64), np.where(us == 0, ZERO, NEGATIVE))


def percentile_us(counts: Counts, share: float) -> float | None:
    """The duration that `share` of the tasks do not exceed; null of nothing."""
    total = int(counts.sum())
    if total <= 0:
        return None
    wanted = rank(share, total)
    if wanted <= counts[SIZE]:
        return 0.0
    place = int(np.searchsorted(np.cumsum(counts[:SIZE]) + counts[SIZE], wanted))
    return middle_us(min(place, SIZE - 1))


def percentiles_us(rows: Counts, share: float) -> list[float | None]:
    """The percentile of each row of histograms."""
    return [percentile_us(row, share) for row in rows]


def wider(rows: Counts, times: int) -> Counts:
    """The same histograms with so many bins made one; the last one may have fewer."""
    bins = -(-len(rows) // times)
    padded = np.zeros((bins * times, rows.shape[1]), dtype=np.int64)
    padded[: len(rows)] = rows
    merged: Counts = padded.reshape(bins, times, rows.shape[1]).sum(axis=1)
    return merged


def quarter_octaves(rows: Counts) -> Counts:
    """The same histograms with 4 buckets an octave; zeros and negatives count in the lowest."""
    merged: Counts = rows[:, :SIZE].reshape(rows.shape[0], SIZE // MERGED, MERGED).sum(axis=2)
    merged[:, 0] += rows[:, SIZE]
    return merged
