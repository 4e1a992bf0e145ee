"""Things that fall due, in buckets of time.

A broker holds hundreds of thousands of deadlines and meets almost none of them: nearly every task is answered first. A
heap would keep each of them until its time. Here a thing is filed under a bucket of `resolution_s`, is taken out again
in constant time when it no longer matters, and a bucket is dropped as soon as it is empty. Nothing fires early; it
fires at most one resolution late.
"""

from __future__ import annotations

import math
from typing import Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K")


class Timetable(Generic[K, T]):
    """Things by key, filed under the time at which they fall due."""

    def __init__(self, resolution_s: float) -> None:
        self._resolution_s = resolution_s
        self._per_s = 1.0 / resolution_s
        self._buckets: dict[int, dict[K, T]] = {}
        self._first = 0  # no bucket lies before it; it may be empty by now
        self.next_s = math.inf  # when `due` may have something, at the earliest; asked for after each message

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values()))

    def add(self, key: K, thing: T, at_s: float) -> int:
        """File `thing`; the returned bucket takes it out again."""
        bucket = int(at_s * self._per_s) + 1
        if bucket * self._resolution_s <= at_s:  # the product was rounded down
            bucket += 1
        held = self._buckets.get(bucket)
        if held is None:
            if not self._buckets or bucket < self._first:
                self._set_first(bucket)
            self._buckets[bucket] = {key: thing}
        else:
            held[key] = thing
        return bucket

    def remove(self, key: K, bucket: int) -> None:
        """Take a thing out that has not fallen due."""
        held = self._buckets[bucket]
        del held[key]
        if not held:
            del self._buckets[bucket]
            if not self._buckets:
                self.next_s = math.inf

    def clear(self) -> None:
        self._buckets.clear()
        self.next_s = math.inf

    def due(self, now: float) -> list[T]:
        """Take out everything whose time has come, oldest bucket first, in the order in which it was filed."""
        if now < self.next_s:
            return []
        last = int(now * self._per_s)
        if (last + 1) * self._resolution_s <= now:  # the product was rounded down: `next_s` promised this bucket
            last += 1
        if last < self._first or not self._buckets:
            return []
        ripe = sorted(bucket for bucket in self._buckets if bucket <= last)
        things: list[T] = []
        for bucket in ripe:
            things.extend(self._buckets.pop(bucket).values())
        if self._buckets:
            self._set_first(min(self._buckets))
        else:
            self.next_s = math.inf
        return things

    def soonest(self, count: int) -> list[T]:
        """At least the `count` things that fall due next, if there are so many; they stay."""
        things: list[T] = []
        for bucket in sorted(self._buckets):
            if len(things) >= count:
                break
            things.extend(self._buckets[bucket].values())
        return things

    def _set_first(self, bucket: int) -> None:
        self._first = bucket
        self.next_s = bucket * self._resolution_s
