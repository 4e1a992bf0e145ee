"""How fast the workers of a service are, one against another.

Among equal workers it makes no difference to a task which free one it gets: a policy can only change who is busy. It
matters where workers differ, so their recorded speeds are replayed too. A worker's slowness is the mean work of its
tasks against the mean of all. Means of few and uneven tasks differ by chance alone; that part of the spread is known
from the tasks' own variance, and is taken out again (each slowness is drawn towards 1 by as much). What is left counts
only if it is notable.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

TASKS_MIN: Final = 50  # of a worker whose speed is looked at
NOTABLE: Final = 0.05  # a smaller standard deviation of slowness is none
SPEEDS_MAX: Final = 256

Floats = NDArray[np.float64]


def slowness(work: Floats, worker: NDArray[np.int64]) -> Floats:
    """For each number of a worker, its slowness; 1 where it is not known. `worker` is -1 where nobody ran a task."""
    known = (worker >= 0) & ~np.isnan(work)
    count = int(worker.max(initial=-1)) + 1
    factors = np.ones(count)
    if not known.any() or not work[known].mean() > 0:
        return factors
    who, relative = worker[known], work[known] / work[known].mean()
    tasks = np.bincount(who, minlength=count).astype(np.float64)
    means = np.bincount(who, relative, count) / np.maximum(tasks, 1)
    squares = np.bincount(who, relative**2, count) / np.maximum(tasks, 1)
    enough = tasks >= TASKS_MIN
    if enough.sum() < 2:
        return factors
    seen = float(means[enough].var())
    by_chance = float(((squares - means**2)[enough] / tasks[enough]).mean())
    real = max(0.0, seen - by_chance)
    if np.sqrt(real) < NOTABLE:
        return factors
    factors[enough] = 1 + (means[enough] - 1) * real / seen
    return np.maximum(factors, 0.01)


def of_fleet(factors: Floats, worker: NDArray[np.int64]) -> Floats:
    """The slowness of those who worked, in order, so that a fleet of any size can be drawn from it."""
    present = np.unique(worker[worker >= 0])
    known = np.sort(factors[present]) if len(present) else np.ones(1)
    if np.ptp(known) == 0:
        return np.ones(1)
    if len(known) > SPEEDS_MAX:
        known = np.quantile(known, (np.arange(SPEEDS_MAX) + 0.5) / SPEEDS_MAX)
    return known


def draw(speeds: Floats, workers: int) -> list[float]:
    """A fleet of so many workers with the same spread; all equal if the recorded ones were."""
    if len(speeds) == 1:
        return [1.0] * workers
    return [float(value) for value in np.quantile(speeds, (np.arange(workers) + 0.5) / workers)]
