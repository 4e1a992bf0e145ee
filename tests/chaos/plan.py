"""Which faults come, in which order, on which topology: all of it from the seed.

Each kind comes equally often: they are dealt like a deck of cards, shuffled anew each time it is used up. Within a
cycle the choice of a victim, and of how much, comes from the seed and the cycle's number. What the network makes of it
is not in the seed: these are real processes, in real time.
"""

from __future__ import annotations

from collections.abc import Collection
from random import Random

import msgspec

from tests.chaos.faults import FAULTS, Fault
from tests.chaos.topologies import Topology


class Cycle(msgspec.Struct, frozen=True):
    """One fault to come."""

    number: int
    topology: Topology
    fault: Fault
    seed: str

    def random(self) -> Random:
        return Random(self.seed)


def make_plan(
    seed: int, cycles: int, topologies: Collection[Topology], wanted: Collection[str] = (), *, has_disks: bool = True
) -> list[Cycle]:
    """All cycles of a run, one topology after the other. `wanted` are names of faults; empty: all that can be."""
    plan: list[Cycle] = []
    parts = _share_out(cycles, [topology.weight for topology in topologies])
    for topology, part in zip(topologies, parts, strict=True):
        kinds = [
            fault
            for fault in FAULTS.values()
            if fault.fits(topology) and (not wanted or fault.name in wanted) and (has_disks or not fault.needs_own_disk)
        ]
        random = Random(f"{seed}:{topology.name}")
        deck: list[Fault] = []
        for _ in range(part if kinds else 0):
            if not deck:
                deck = random.sample(kinds, len(kinds))
            number = len(plan) + 1
            plan.append(Cycle(number, topology, deck.pop(), f"{seed}:{number}"))
    return plan


def _share_out(cycles: int, weights: list[int]) -> list[int]:
    """`cycles` by weight; what is left over goes to the first."""
    parts = [cycles * weight // sum(weights) for weight in weights]
    parts[0] += cycles - sum(parts)
    return parts
