"""A fault: a function that breaks something, waits until that is noticed, and mends it.

It returns how long noticing took, in seconds, or None if there was nobody to notice. "Noticed" is what the network
does about it: a lost worker is no longer listed by its broker, those who were at a lost broker are at another one, a
full disk or a jump of the clock has raised an alarm. Between noticing and mending, replies come: no fault here stops
the service.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec

from tests.chaos.stage import Stage
from tests.chaos.topologies import Topology

Run = Callable[[Stage, Random], float | None]
Fits = Callable[[Topology], bool]


class Fault(msgspec.Struct, frozen=True):
    """One kind of fault, and where it makes sense."""

    name: str
    run: Run
    fits: Fits
    needs_own_disk: bool = False


FAULTS: dict[str, Fault] = {}
"""By name; `faults` has them all."""


def always(_topology: Topology) -> bool:
    return True


def is_group(topology: Topology) -> bool:
    return not topology.is_pair


def is_pair(topology: Topology) -> bool:
    return topology.is_pair


def fault(name: str, fits: Fits = always, *, needs_own_disk: bool = False) -> Callable[[Run], Run]:
    """Decorator: a kind of fault, by its name."""

    def enter(run: Run) -> Run:
        FAULTS[name] = Fault(name, run, fits, needs_own_disk)
        return run

    return enter
