"""What a benchmark hands over: tables, verdicts against named targets, and bars for the plot.

A verdict always shows both numbers, what was measured and what was asked, so that nobody must believe a word. A target
that could not be measured is neither reached nor missed: it is open, and says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec


class Options(msgspec.Struct, frozen=True):
    """Sizes of one run."""

    directory: Path
    seconds: float = 2.0  # a measuring window
    warm_up_s: float = 0.7
    repetitions: int = 3  # interleaved; medians are shown
    routing_workers: tuple[int, ...] = (1, 2, 50)
    connected_workers: tuple[int, ...] = (10, 100, 1_000, 5_000)
    heartbeating_workers: tuple[int, ...] = (1_000, 5_000)
    restart_workers: int = 1_000
    failover_interval_s: float = 0.5  # of heartbeats, where brokers of a pair are killed
    failovers: int = 20  # kills of whoever serves
    lost_workers: int = 200  # workers killed at once
    spread_workers: int = 5_000
    shares_workers: int = 60
    interval_s: float = 2.5  # of heartbeats, in networks of brokers
    calls: int = 1_500  # of one in flight, in each block
    core_workers: tuple[int, int] = (10, 5_000)
    core_tasks: int = 30_000
    recorded_events: int = 1_000_000
    pipeline_events: int = 10_000_000
    whatif_tasks: int = 1_000_000  # of the replayed hour
    whatif_cells: int = 40
    fresh_s: float = 60.0  # how long a stream is watched
    page_workers: int = 5_000  # connected to the broker whose pages are looked at
    page_services: int = 200
    pages: int = 50  # open at once
    handshakes: int = 1_000  # of clients that come at once, encrypted
    page_calls: int = 100  # GETs that are timed; a fourth of them waits for a fresh snapshot

    def say(self, text: str) -> None:
        """Progress, while it runs."""
        print(f"  {text}", flush=True)


class Table(msgspec.Struct):
    title: str
    columns: list[str]
    rows: list[list[str]]
    note: str = ""

    def markdown(self) -> str:
        widths = [max(len(row[at]) for row in [self.columns, *self.rows]) for at in range(len(self.columns))]
        lines = [f"### {self.title}", "", _line(self.columns, widths)]
        lines.append("|" + "|".join("-" * (width + 1) + (":" if at else "-") for at, width in enumerate(widths)) + "|")
        lines += [_line(row, widths) for row in self.rows]
        return "\n".join([*lines, *(["", self.note] if self.note else []), ""])


class Verdict(msgspec.Struct):
    """One target: what was asked, what came out."""

    target: str
    measured: str
    limit: str
    is_reached: bool | None  # None: could not be measured

    def line(self) -> str:
        word = {True: "reached", False: "missed ", None: "open   "}[self.is_reached]
        return f"{word}  {self.target}: {self.measured} (target {self.limit})"


class Bars(msgspec.Struct):
    """One panel of the plot: a bar a label."""

    title: str
    unit: str
    values: dict[str, float]
    limit: float | None = None


class Result(msgspec.Struct):
    name: str
    tables: list[Table] = []
    verdicts: list[Verdict] = []
    bars: list[Bars] = []


def at_most(target: str, measured: float | None, limit: float, unit: str = "") -> Verdict:
    if measured is None:
        return Verdict(target, "not measured", f"at most {figure(limit)}{unit}", None)
    return Verdict(target, f"{figure(measured)}{unit}", f"at most {figure(limit)}{unit}", measured <= limit)


def at_least(target: str, measured: float | None, limit: float, unit: str = "") -> Verdict:
    if measured is None:
        return Verdict(target, "not measured", f"at least {figure(limit)}{unit}", None)
    return Verdict(target, f"{figure(measured)}{unit}", f"at least {figure(limit)}{unit}", measured >= limit)


def exactly(target: str, measured: Sequence[float], limit: float) -> Verdict:
    """What must hold in every repetition; the one that is farthest off is shown."""
    worst = max(measured, key=lambda each: abs(each - limit))
    return Verdict(target, f"{worst:.4g}", f"exactly {figure(limit)}", worst == limit)


def figure(value: float | None) -> str:
    """Three significant digits; unknown is –, never 0."""
    if value is None:
        return "–"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def thousands(value: float) -> str:
    return f"{value / 1000:.1f}k"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cell.rjust(width) if at else cell.ljust(width)
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "| " + " | ".join(padded) + " |"


def machine() -> dict[str, Any]:
    """Where it was measured: figures of other machines are not comparable, ratios are."""
    import os
    import platform

    import zmq

    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "pyzmq": zmq.__version__,
        "libzmq": zmq.zmq_version(),
    }
