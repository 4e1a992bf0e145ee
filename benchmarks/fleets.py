"""Processes full of worker sessions, for benchmarks in which workers reconnect, move, or get a new config.

Each is `fleet.py` with a page of counters; a figure of the fleet is the sum over its processes.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from measure import Page
from processes import Child, script

PER_PROCESS = 250


class Fleet(msgspec.Struct):
    """One process with many worker sessions."""

    page: Page
    process: Child


def start(
    endpoints: Sequence[str], count: int, interval_s: float, stack: contextlib.ExitStack, directory: Path
) -> list[Fleet]:
    """`count` workers, spread evenly over the brokers at `endpoints`. They may still be connecting."""
    fleets = []
    for number, first in enumerate(range(0, count, PER_PROCESS)):
        page = Page(directory / f"fleet-{number}-{time.monotonic_ns()}.page", create=True)
        share = min(PER_PROCESS, count - first)
        arguments = [page.path, ",".join(endpoints), share, number, round(interval_s * 1000)]
        fleets.append(Fleet(page, stack.enter_context(script("fleet", arguments, directory))))
    return fleets


def total(fleets: Sequence[Fleet], slot: int) -> int:
    return sum(fleet.page.read(slot) for fleet in fleets)


def check(fleets: Sequence[Fleet]) -> None:
    """Raise if one of the processes has ended."""
    for fleet in fleets:
        if fleet.process.returncode is not None:
            raise RuntimeError(f"a fleet ended:\n{fleet.process.output.read_text()[-2000:]}")
