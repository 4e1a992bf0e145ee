"""Sampling: of a busy service, keep some tasks for all, and let their weight say how many they stand for.

What people look for is kept whatever the rate: everything that was not replied, and the slowest. Of the rest, in
groups of so many tasks as the rate says, one is kept and has the group's size as its weight. So the weights of a
service's rows add up to its tasks exactly, and sums over the sample are unbiased: who is kept depends on its number in
the log and on nothing else of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from scale0.events import OUTCOMES

RATE_MAX: Final = 10_000  # tasks that one row may stand for
SLOWEST_SHARE: Final = 0.01  # of a service's tasks in a segment: they are kept
_REPLIED: Final = OUTCOMES.index("replied")
_SPREAD: Final = np.uint64(0x9E37_79B9_7F4A_7C15)  # multiplied with a row's number: which one of its group is kept


def weigh(tasks: Any, rates: Mapping[int, int]) -> Any:
    """The weight of each task; 0 for those that are not kept. `rates`: a service's number → tasks for one row."""
    weights = np.ones(len(tasks), dtype=np.int32)
    for service_no, rate in rates.items():
        _weigh_service(tasks, np.flatnonzero(tasks["service_no"] == service_no), min(rate, RATE_MAX), weights)
    return weights


def _weigh_service(tasks: Any, rows: Any, rate: int, weights: Any) -> None:
    if rate <= 1 or not len(rows):
        return
    own = tasks[rows]
    usual = own["outcome"] == _REPLIED
    latency_s = own["settled_s"] - own["received_s"]
    slow_s = np.quantile(latency_s, 1 - SLOWEST_SHARE)
    rows = rows[usual & (latency_s <= slow_s)]
    for group in _groups(rows, rate):
        weights[group.members] = 0
        weights[group.kept] = group.size


class _Group:
    """Equal-sized groups of rows that stand side by side, as a matrix; the last, shorter one comes on its own."""

    def __init__(self, members: Any) -> None:
        self.members = members.ravel()
        self.size = members.shape[1]
        chosen = (members[:, 0].astype(np.uint64) * _SPREAD) >> np.uint64(33)
        self.kept = members[np.arange(len(members)), (chosen % np.uint64(self.size)).astype(np.int64)]


def _groups(rows: Any, rate: int) -> list[_Group]:
    whole = len(rows) // rate * rate
    found = [_Group(rows[:whole].reshape(-1, rate))] if whole else []
    if whole < len(rows):
        found.append(_Group(rows[whole:].reshape(1, -1)))
    return found
