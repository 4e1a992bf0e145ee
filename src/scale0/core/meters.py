"""What a service did in the last minutes: rate, latency percentiles, errors.

Slots of 30 s, ten of them kept; latencies fall into buckets of a quarter octave (about 12 % wide), so that slots
merge by adding. Nothing runs in the background: slots turn over when something is counted or read.
"""

from __future__ import annotations

import msgspec

SLOT_S = 30.0
SLOTS = 10
NOTED_MAX = 1024
SAMPLED = 8


class Slot(msgspec.Struct):
    starts_s: float
    settled: int = 0
    errors: int = 0
    latencies: dict[int, int] = {}


class Meter:
    """Counts of one service, over the last five minutes.

    Latencies are noted as they come and looked at later. When there are many, every eighth is looked at and counts for
    eight: the percentiles stay good, and the broker's hot path pays for one `append`.
    """

    __slots__ = ("_slots", "ends_s", "noted")

    def __init__(self, now: float) -> None:
        self._slots: list[Slot] = [Slot(now)]
        self.ends_s = now + SLOT_S
        self.noted: list[float] = []

    def note(self, now: float, latency_s: float) -> None:
        """One more task was settled."""
        noted = self.noted
        noted.append(latency_s)
        if len(noted) >= NOTED_MAX or now >= self.ends_s:
            self._look(now)

    def note_error(self, now: float) -> None:
        """It was settled by an error, or by a reply that says that the handler failed."""
        self._look(now)
        self._slots[-1].errors += 1

    def rate(self, now: float) -> float:
        """Settled tasks a second, over the last 30 to 60 s."""
        self._look(now)
        recent = self._slots[-2:]
        covered_s = now - recent[0].starts_s
        return sum(slot.settled for slot in recent) / covered_s if covered_s > 0 else 0.0

    def errors(self, now: float) -> int:
        self._look(now)
        return sum(slot.errors for slot in self._slots)

    def percentiles(self, now: float, *shares: float) -> list[int | None]:
        """Latencies in µs below which each share of the tasks fell; None without tasks."""
        self._look(now)
        merged: dict[int, int] = {}
        for slot in self._slots:
            for bucket, count in slot.latencies.items():
                merged[bucket] = merged.get(bucket, 0) + count
        return [percentile(merged, share) for share in shares]

    def _look(self, now: float) -> None:
        """Count what was noted, and begin a new slot when its time has come."""
        if self.noted:
            slot, weight = self._slots[-1], SAMPLED if len(self.noted) >= NOTED_MAX else 1
            slot.settled += len(self.noted)
            for latency_s in self.noted[::weight]:
                bucket = bucket_of(int(latency_s * 1e6))
                slot.latencies[bucket] = slot.latencies.get(bucket, 0) + weight
            self.noted.clear()
        if now >= self.ends_s:
            self._turn(now)

    def _turn(self, now: float) -> None:
        missed = int((now - self.ends_s) // SLOT_S)
        starts_s = self.ends_s + missed * SLOT_S
        self._slots = [slot for slot in self._slots if slot.starts_s > starts_s - SLOT_S * SLOTS]
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


def percentile(buckets: dict[int, int], share: float) -> int | None:
    total = sum(buckets.values())
    if not total:
        return None
    wanted = share * total
    seen = 0
    for bucket in sorted(buckets):
        seen += buckets[bucket]
        if seen >= wanted:
            return bucket_top_us(bucket)
    raise AssertionError("a share is at most 1")
