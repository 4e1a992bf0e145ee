"""What a service did in the last minutes: rate, latency percentiles, errors by family.

Slots of 30 s, ten of them kept; latencies fall into buckets of a quarter octave (about 12 % wide), so that slots
merge by adding. Nothing runs in the background: slots turn over when something is counted or read. What is looked at
for a service is added to a tally of all services too, from which `vitals` makes the broker's own history.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from scale0.protocol.codes import Code

SLOT_S = 30.0
SLOTS = 10
NOTED_MAX = 1024
SAMPLED = 8
FAMILIES: Final = ("late", "lost", "refused", "caller")
"""Of errors: past the deadline; the worker gone; not taken, by this broker's will; and what was the caller's doing."""
FAILED: Final = "failed"  # no family of the broker's: the handler answered, and its answer says that it failed
_FAMILY: Final = {
    int(Code.DEADLINE_IN_QUEUE): "late",
    int(Code.DEADLINE_IN_FLIGHT): "late",
    int(Code.WORKER_LOST): "lost",
    int(Code.OVER_LIMIT): "refused",
    int(Code.NOT_ACCEPTING): "refused",
}


def family_of(code: int) -> str:
    """The family of an error's code."""
    return _FAMILY.get(code, "caller")


class Slot(msgspec.Struct):
    starts_s: float
    settled: int = 0
    errors: int = 0
    latencies: dict[int, int] = {}
    families: dict[str, int] = {}


class Tally:
    """Latencies of all services since it was last emptied."""

    __slots__ = ("latencies",)

    def __init__(self) -> None:
        self.latencies: dict[int, int] = {}


class Meter:
    """Counts of one service, over the last five minutes.

    Latencies are noted as they come and looked at later. When there are many, every eighth is looked at and counts for
    eight: the percentiles stay good, and the broker's hot path pays for one `append`.
    """

    __slots__ = ("_closed", "_slots", "_tally", "ends_s", "noted")

    def __init__(self, now: float, tally: Tally | None = None) -> None:
        self._slots: list[Slot] = [Slot(now)]
        self._closed: dict[int, int] = {}  # latencies of all slots but the last
        self._tally = tally or Tally()
        self.ends_s = now + SLOT_S
        self.noted: list[float] = []

    def note(self, now: float, latency_s: float) -> None:
        """One more task was settled."""
        noted = self.noted
        noted.append(latency_s)
        if len(noted) >= NOTED_MAX or now >= self.ends_s:
            self._look(now)

    def note_error(self, now: float, family: str = FAILED) -> None:
        """It was settled by an error, was never accepted, or its reply says that the handler failed."""
        if now >= self.ends_s:
            self._look(now)
        slot = self._slots[-1]
        slot.errors += 1
        slot.families[family] = slot.families.get(family, 0) + 1

    def sum_up(self, now: float, samples: int) -> None:
        """Look at what was noted, at so many of them at most."""
        if self.noted:
            self._look(now, -(-len(self.noted) // samples))

    def rate(self, now: float) -> float:
        """Settled tasks a second, over the last 30 to 60 s."""
        self._look(now)
        recent = self._slots[-2:]
        covered_s = now - recent[0].starts_s
        return sum(slot.settled for slot in recent) / covered_s if covered_s > 0 else 0.0

    def errors(self, now: float) -> int:
        self._look(now)
        return sum(slot.errors for slot in self._slots)

    def settled(self, now: float) -> int:
        """Tasks that were settled, however they ended."""
        self._look(now)
        return sum(slot.settled for slot in self._slots)

    def families(self, now: float) -> dict[str, int]:
        """Errors of each family, and replies of handlers that failed."""
        self._look(now)
        found = dict.fromkeys((*FAMILIES, FAILED), 0)
        for slot in self._slots:
            for family, count in slot.families.items():
                found[family] += count
        return found

    def percentiles(self, now: float, *shares: float) -> list[int | None]:
        """Latencies in µs below which each share of the tasks fell, the shares rising; None without tasks."""
        self._look(now)
        return percentiles(merged((self._closed, self._slots[-1].latencies)), *shares)

    def _look(self, now: float, weight: int = 0) -> None:
        """Count what was noted, each for `weight`, and begin a new slot when its time has come."""
        noted = self.noted
        if noted:
            weight = weight or (SAMPLED if len(noted) >= NOTED_MAX else 1)
            slot, tally = self._slots[-1], self._tally.latencies
            slot.settled += len(noted)
            latencies = slot.latencies
            for latency_s in noted[::weight]:
                bucket = bucket_of(int(latency_s * 1e6))
                latencies[bucket] = latencies.get(bucket, 0) + weight
                tally[bucket] = tally.get(bucket, 0) + weight
            noted.clear()
        if now >= self.ends_s:
            self._turn(now)

    def _turn(self, now: float) -> None:
        missed = int((now - self.ends_s) // SLOT_S)
        starts_s = self.ends_s + missed * SLOT_S
        self._slots = [slot for slot in self._slots if slot.starts_s > starts_s - SLOT_S * SLOTS]
        self._closed = merged(slot.latencies for slot in self._slots)
        self._slots.append(Slot(starts_s))
        self.ends_s = starts_s + SLOT_S


def bucket_of(latency_us: int) -> int:
    """A quarter octave: the leading bit's place, and the two bits after it."""
    if latency_us < 4:
        return max(0, latency_us)
    bits = latency_us.bit_length()
    return bits * 4 + ((latency_us >> (bits - 3)) & 3)


def bucket_top_us(bucket: int) -> int:
    """The latency that the bucket's members do not reach."""
    if bucket < 4:
        return bucket + 1
    bits, quarter = divmod(bucket, 4)
    return (5 + quarter) << (bits - 3)


def merged(parts: Iterable[dict[int, int]]) -> dict[int, int]:
    """Buckets of several times as one."""
    found: dict[int, int] = {}
    for part in parts:
        for bucket, count in part.items():
            found[bucket] = found.get(bucket, 0) + count
    return found


def percentiles(buckets: dict[int, int], *shares: float) -> list[int | None]:
    """The latency in µs of each share, the shares rising; None where nothing was counted."""
    total = sum(buckets.values())
    if not total:
        return [None] * len(shares)
    found: list[int | None] = []
    seen = 0
    ranked = iter(sorted(buckets.items()))
    bucket = 0
    for share in shares:
        while seen < share * total:
            bucket, count = next(ranked)
            seen += count
        found.append(bucket_top_us(bucket))
    return found
