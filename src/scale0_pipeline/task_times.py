"""Where the time of one task went, from its row: the rules of `silver/tasks`, in plain Python.

A task is received, waits, is dispatched, perhaps more than once, and is settled; all of that by one broker's clock, so
these durations are exact. What the worker tells of itself is a duration too, and needs no common clock. Only what lies
between two machines needs the measured offset of their clocks, and carries its error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

Row = Mapping[str, Any]


class Moment(msgspec.Struct, frozen=True):
    """A time by the broker's clock, known to within `error_us`; null if nobody can say how well it is known."""

    at_us: int
    error_us: int | None = 0


def latency_us(row: Row) -> int:
    """From received to settled."""
    received = row["received_us"]
    return int(row["ts_us"] - received) if received is not None else 0


def attempts_us(row: Row) -> int:
    """What earlier attempts took, all together."""
    spans = ((one["dispatched_us"], one["ended_us"]) for one in row["attempts"] or ())
    return sum(ended - begun for begun, ended in spans if begun is not None and ended is not None)


def queue_us(row: Row) -> int:
    """Without a worker: up to the last dispatch, or to the end if there was none, less what earlier attempts took."""
    end = row["dispatched_us"] if row["dispatched_us"] is not None else row["ts_us"]
    received = row["received_us"]
    return max(0, int(end - received) - attempts_us(row)) if received is not None else 0


def worker_us(row: Row) -> int | None:
    """In the worker, waiting and working; null if it did not tell."""
    if row["wait_us"] is None or row["work_us"] is None:
        return None
    return int(row["wait_us"] + row["work_us"])


def network_us(row: Row) -> int | None:
    """From the last dispatch to the outcome, less the time in the worker; null if that is not known."""
    worker = worker_us(row)
    if worker is None or row["dispatched_us"] is None:
        return None
    return max(0, int(row["ts_us"] - row["dispatched_us"]) - worker)


def sent(row: Row) -> Moment | None:
    """When the client sent it; null if its clock was not measured."""
    return _corrected(row["sent_us"], row["client_offset_us"], row["client_error_us"])


def worker_replied(row: Row) -> Moment | None:
    """When the worker replied; null if its clock was not measured."""
    return _corrected(row["worker_us"], row["worker_offset_us"], row["worker_error_us"])


def _corrected(at_us: int | None, offset_us: int | None, error_us: int | None) -> Moment | None:
    if at_us is None or offset_us is None:
        return None
    return Moment(at_us - offset_us, error_us)
