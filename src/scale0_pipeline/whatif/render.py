"""A curve as text: one line for each number of workers, with a bar, the knee, and how the method was checked."""

from __future__ import annotations

import math
from typing import Final

from scale0_pipeline import words
from scale0_pipeline.whatif.cells import Cell, Check, Curve

BAR: Final = 24
EIGHTHS: Final = " ▏▎▍▌▋▊▉"
CAVEATS: Final = "workers that serve other services too, and workers that are lost, are not in it; bodies weigh nothing"


def render(curve: Curve) -> str:
    """For a terminal; what programs read is the curve itself, as JSON."""
    top_us = max((cell.p99_us for cell in curve.cells), default=0.0)
    lines = [
        f"{words.name(curve.service)}: {words.count(curve.tasks)} tasks, {words.date_and_time(curve.since_us)} to "
        f"{words.date_and_time(curve.until_us)} UTC, {words.figure(curve.erlangs)} busy slots on average",
        f"policy {curve.policy}, {words.plural(curve.slots, 'slot')} a worker, deadline {curve.timeout_s:g} s; "
        f"there were {curve.workers_then or words.UNKNOWN} workers",
        "",
        f"{'workers':>7} {'p50':>9} {'p99':>10} {'queue p99':>10} {'busy':>7} {'late':>8} {'cost':>9}",
        *(_line(cell, curve, top_us) for cell in curve.cells),
        "",
        _knee(curve),
        _check(curve.check),
        CAVEATS,
    ]
    return "\n".join(lines) + "\n"


def _line(cell: Cell, curve: Curve, top_us: float) -> str:
    least = "≥ " if cell.is_cut else ""
    failed = cell.late + cell.refused
    marks = [mark for mark, of in (("knee", curve.knee), ("as it was", curve.workers_then)) if of == cell.workers]
    text = (
        f"{cell.workers:>7} {words.duration(cell.p50_us):>9} {least + words.duration(cell.p99_us):>10} "
        f"{words.duration(cell.queue_p99_us):>10} {words.percent(cell.utilisation):>7} "
        f"{least + words.count(failed):>8} {cell.worker_seconds / 3600:>7.1f} h  "
        f"{_bar(cell.p99_us, curve.floor_p99_us, top_us):<{BAR}} {', '.join(marks)}"
    )
    return text.rstrip()


def _bar(p99_us: float, floor_us: float, top_us: float) -> str:
    """By the logarithm, from the floor, where no task waits, to the longest."""
    if p99_us <= 0 or floor_us <= 0 or top_us <= floor_us:
        return ""
    share = math.log(max(p99_us / floor_us, 1.0)) / math.log(top_us / floor_us)
    eighths = round(min(1.0, share) * BAR * 8)
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def _knee(curve: Curve) -> str:
    if curve.knee is None:
        return "knee: beyond these numbers; with all of them tasks fail, or wait for long"
    floor = words.duration(curve.floor_p99_us)
    knee = words.plural(curve.knee, "worker")
    return f"knee: {knee}; more would bring the p99 down by less than a fifth ({floor} of it is work)"


def _check(check: Check | None) -> str:
    if check is None:
        return "not checked: nothing else is recorded to try it on"
    which = "held-out day" if check.is_other_day else "another hour of the same day"
    return (
        f"checked on {which} ({words.date_and_time(check.since_us)}, {words.plural(check.workers, 'worker')}): "
        f"p50 {words.duration(check.replayed_p50_us)} replayed, {words.duration(check.measured_p50_us)} measured "
        f"({_signed(check.p50_error)}); p99 {words.duration(check.replayed_p99_us)} and "
        f"{words.duration(check.measured_p99_us)} ({_signed(check.p99_error)})"
    )


def _signed(error: float) -> str:
    return words.signed(words.percent(round(error, 3)), round(error, 3))
