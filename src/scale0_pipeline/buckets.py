"""Histograms that add up: a duration's bucket is floor(log2(µs) · 32).

A bucket is 2.2 % wide, so its geometric middle is at most 1.1 % from any duration in it, however many histograms were
added up before. Percentiles are by nearest rank: of n durations in order, the one with number ceil(share · n). Sketches
merge worse: the one that Spark has was 24 % off after merging.

Logarithms differ in their last bit from one library to the next, and powers of two stand exactly on an edge. So a
billionth of a bucket is added first: then Java, numpy and DuckDB agree on every duration.

This is the plain side, for readers without Spark; `transforms.buckets` has the same as Spark expressions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

PER_OCTAVE: Final = 32
NUDGE: Final = 1e-9
ZERO: Final = -1  # took no time
NEGATIVE: Final = -2  # a clock was set back in between
NONE: Final = -3  # refused, or not known: it has no duration, and no place among percentiles
SHARES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}


def bucket_of(duration_us: int | None) -> int:
    """The bucket of a duration."""
    if duration_us is None:
        return NONE
    if duration_us <= 0:
        return ZERO if duration_us == 0 else NEGATIVE
    return math.floor(math.log2(duration_us) * PER_OCTAVE + NUDGE)


def middle_us(bucket: int) -> float:
    """What stands for the durations of a bucket."""
    return float(2.0 ** ((bucket + 0.5) / PER_OCTAVE)) if bucket >= 0 else 0.0


def bounds_us(bucket: int) -> tuple[float, float]:
    """From which duration a bucket reaches, and up to which."""
    if bucket < 0:
        return 0.0, 0.0
    return float(2.0 ** (bucket / PER_OCTAVE)), float(2.0 ** ((bucket + 1) / PER_OCTAVE))


def rank(share: float, count: int) -> int:
    """The number of the duration that stands for a share of `count` durations in order."""
    return max(1, math.ceil(share * count - NUDGE))


def percentile_us(counts: Iterable[tuple[int, int]], share: float) -> float | None:
    """The percentile of pairs of bucket and count, in any order and with repeats; None of no durations."""
    known = sorted((bucket, count) for bucket, count in counts if bucket != NONE)
    wanted = rank(share, sum(count for _, count in known))
    seen = 0
    for bucket, count in known:
        seen += count
        # Corrections are negative and stand in the same bucket as what they correct, so a sum may pass the rank for a
        # moment only within a bucket: negative ones sort first.
        if seen >= wanted:
            return middle_us(bucket)
    return None
