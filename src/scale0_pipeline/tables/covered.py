"""Which rows were taken already: sets of whole numbers, kept as intervals.

A row is known by its broker, its boot and its number, and numbers come almost in order: so what was taken of a boot is
nearly always one interval, however many rows it is. A segment that comes again is therefore noticed by two
comparisons, and one that overlaps is cut to what is new, without looking at a single row.

Intervals hold both ends. A set is a sorted list of intervals that neither overlap nor touch.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

Interval = tuple[int, int]


def add(intervals: list[Interval], lo: int, hi: int) -> list[Interval]:
    """The set with all numbers from `lo` to `hi`."""
    _check(lo, hi)
    # Those that overlap or touch it become one with it.
    first = bisect_left(intervals, lo - 1, key=lambda interval: interval[1])
    last = bisect_right(intervals, hi + 1, key=lambda interval: interval[0])
    if first < last:
        lo, hi = min(lo, intervals[first][0]), max(hi, intervals[last - 1][1])
    return [*intervals[:first], (lo, hi), *intervals[last:]]


def missing(intervals: list[Interval], lo: int, hi: int) -> list[Interval]:
    """What of the numbers from `lo` to `hi` is not in the set."""
    _check(lo, hi)
    gaps = []
    for start, end in intervals[bisect_left(intervals, lo, key=lambda interval: interval[1]) :]:
        if start > hi:
            break
        if start > lo:
            gaps.append((lo, start - 1))
        lo = max(lo, end + 1)
    return [*gaps, (lo, hi)] if lo <= hi else gaps


class Covered:
    """The numbers that were taken of each broker's boots, as JSON would have them: broker → boot → intervals."""

    def __init__(self, boots: dict[str, dict[str, list[Interval]]] | None = None) -> None:
        self.boots = boots if boots is not None else {}

    def take(self, broker: str, boot: str, lo: int, hi: int) -> list[Interval]:
        """Take what is new of the numbers from `lo` to `hi`, and say what that is."""
        known = self.boots.setdefault(broker, {})
        intervals = known.get(boot, [])
        new = missing(intervals, lo, hi)
        known[boot] = add(intervals, lo, hi)
        return new

    def only(self, keys: set[tuple[str, str]]) -> dict[str, dict[str, list[Interval]]]:
        """The part of it that tells of these (broker, boot) pairs."""
        part: dict[str, dict[str, list[Interval]]] = {}
        for broker, boot in sorted(keys):
            part.setdefault(broker, {})[boot] = self.boots[broker][boot]
        return part

    def update(self, part: dict[str, dict[str, list[Interval]]]) -> None:
        """Later words about some boots replace what was known of them."""
        for broker, boots in part.items():
            self.boots.setdefault(broker, {}).update(boots)

    def copy(self) -> Covered:
        return Covered({broker: dict(boots) for broker, boots in self.boots.items()})


def _check(lo: int, hi: int) -> None:
    if lo > hi:
        raise ValueError(f"{lo}..{hi} holds no number")
