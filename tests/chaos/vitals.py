"""Memory and open files of processes that live as long as the run, sampled from /proc, and whether they grow.

A process takes what it needs while it warms up, and then should need no more. So the first fifth of the samples is left
out; of the rest the median of the first quarter is compared with that of the last one, and a stated growth is allowed.
A leak of some bytes for each task or fault goes on for ever, and shows; a pause of the collector does not.
"""

from __future__ import annotations

import os
from pathlib import Path
from statistics import median

import msgspec

WARM_UP = 0.2  # of the samples
SAMPLES_MIN = 40  # fewer say nothing
MEMORY_GROWTH_MAX = 0.08  # of the first median …
MEMORY_GROWTH_MIB_MAX = 4.0  # … and at least this much
FILES_GROWTH_MAX = 10  # everybody may be at one broker late in a run, and elsewhere early

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Trend(msgspec.Struct, frozen=True):
    """One figure of one process, early and late in the run; None where the samples were too few."""

    process: str
    figure: str
    first: float | None
    last: float | None
    allowed: float = 0.0

    @property
    def is_flat(self) -> bool:
        return self.first is None or self.last is None or self.last - self.first <= self.allowed


class Vitals:
    """The samples of one process."""

    def __init__(self, process: str) -> None:
        self.process = process
        self.memory_mib: list[float] = []
        self.files: list[float] = []

    def sample(self, pid: int) -> None:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        self.memory_mib.append(pages * _PAGE_BYTES / 2**20)
        self.files.append(len(os.listdir(f"/proc/{pid}/fd")))

    def trends(self) -> list[Trend]:
        early_mib, late_mib = early_and_late(self.memory_mib)
        allowed_mib = max(MEMORY_GROWTH_MIB_MAX, MEMORY_GROWTH_MAX * (early_mib or 0.0))
        early, late = early_and_late(self.files)
        return [
            Trend(self.process, "memory MiB", early_mib, late_mib, allowed_mib),
            Trend(self.process, "open files", early, late, FILES_GROWTH_MAX),
        ]


def early_and_late(samples: list[float]) -> tuple[float | None, float | None]:
    """The medians of the first and the last quarter after the warm-up."""
    if len(samples) < SAMPLES_MIN:
        return None, None
    warm = samples[int(len(samples) * WARM_UP) :]
    quarter = len(warm) // 4
    return median(warm[:quarter]), median(warm[-quarter:])
