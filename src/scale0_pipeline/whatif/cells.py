"""What a replay finds: a cell for each number of workers, and the curve that they make."""

from __future__ import annotations

from typing import Final

import msgspec

KNEE_ABOVE_FLOOR: Final = 1.2  # more workers than these buy less than a fifth of the 99th percentile
DEFAULT_TIMEOUT_S: Final = 60.0


class Cell(msgspec.Struct, frozen=True):
    """One number of workers. `is_cut`: it failed so many tasks that the rest was not tried; figures are at least so."""

    workers: int
    tasks: int
    p50_us: float
    p99_us: float
    queue_p99_us: float
    waited: int  # tasks that found no free slot
    late: int  # 408 and 504
    refused: int  # 429
    utilisation: float
    worker_seconds: float
    is_replayed: bool = True  # False: there were more slots than tasks at any time, so that none could wait
    is_cut: bool = False

    @property
    def is_good(self) -> bool:
        return not self.late and not self.refused and not self.is_cut


class Check(msgspec.Struct, frozen=True):
    """The method tried on a time that was held out: replayed with the workers that there were, beside what was seen."""

    since_us: int
    until_us: int
    tasks: int
    workers: int
    replayed_p50_us: float
    replayed_p99_us: float
    measured_p50_us: float
    measured_p99_us: float
    is_other_day: bool

    @property
    def p50_error(self) -> float:
        return _error(self.replayed_p50_us, self.measured_p50_us)

    @property
    def p99_error(self) -> float:
        return _error(self.replayed_p99_us, self.measured_p99_us)


class Curve(msgspec.Struct, frozen=True):
    """The answer: cells by rising number of workers."""

    service: str
    policy: str
    slots: int
    timeout_s: float
    since_us: int
    until_us: int
    tasks: int
    erlangs: float
    workers_then: int  # that there were, in the window
    floor_p99_us: float  # of work alone: no number of workers goes below it
    cells: list[Cell]
    check: Check | None = None

    @property
    def knee(self) -> int | None:
        """The fewest workers with which no task fails and the 99th percentile is near its floor; None if none do."""
        near_us = self.floor_p99_us * KNEE_ABOVE_FLOOR
        return next((cell.workers for cell in self.cells if cell.is_good and cell.p99_us <= near_us), None)


def _error(replayed: float, measured: float) -> float:
    return (replayed - measured) / measured if measured else 0.0
