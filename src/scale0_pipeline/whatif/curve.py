"""From a question to its curve: which window, how many slots, which cells, and whether the method can be trusted.

Without a window it is the busiest hour of the last week that is recorded, since that is what workers are kept for. The
check is an hour of another day, the busiest of them: it is replayed with the workers that there were then, and its
percentiles are put beside those that were measured.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow.compute as pc

from scale0_pipeline.errors import NothingRecorded, PipelineError
from scale0_pipeline.gold import Gold
from scale0_pipeline.progress import Progress, silent
from scale0_pipeline.units import DAY_US, HOUR_US, WEEK_US
from scale0_pipeline.whatif import fan_out, policies
from scale0_pipeline.whatif.cells import DEFAULT_TIMEOUT_S, Check, Curve
from scale0_pipeline.whatif.fan_out import Job
from scale0_pipeline.whatif.recorded import Measured, Recorded, read

WORKERS_MAX: Final = 10_000
CELLS_MAX: Final = 1_000
CHECK_TASKS_MAX: Final = 200_000  # as many are enough for a 99th percentile


def run(
    place_url: str,
    service: str,
    workers: Iterable[int],
    *,
    policy: str = "lru",
    slots: int | None = None,
    since_us: int | None = None,
    until_us: int | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    master: str = "local[*]",
    progress: Progress = silent,
) -> Curve:
    """The curve of a service over these numbers of workers. `slots` of a worker are as recorded if not given."""
    counts = sorted(set(workers))
    _check_question(counts, policy, slots, timeout_s)
    gold = Gold(place_url)
    gold.check()
    hours = _hours(gold, service)
    since_us, until_us = _window(hours, service, since_us, until_us)
    progress("reading", 0, 0)
    recorded, measured = read(gold, service, since_us, until_us)
    slots = slots or _slots(gold, service)
    jobs = [Job(count, slots, policy, timeout_s) for count in counts]
    cells = fan_out.fill(recorded, jobs, master, progress)
    progress("checking", 0, 0)
    return Curve(
        service=service,
        policy=policy,
        slots=slots,
        timeout_s=timeout_s,
        since_us=since_us,
        until_us=until_us,
        tasks=len(recorded.came_s),
        erlangs=recorded.erlangs,
        workers_then=measured.workers,
        floor_p99_us=float(round(np.quantile(recorded.work_s, 0.99, method="inverted_cdf") * 1e6)),
        cells=cells,
        check=_checked(gold, service, hours, (since_us, until_us), slots, timeout_s),
    )


def check(recorded: Recorded, measured: Measured, slots: int, timeout_s: float, *, is_other_day: bool) -> Check | None:
    """A window replayed with the workers that there were, beside what was measured; None if those are not known."""
    if not measured.workers:
        return None
    cell = fan_out.one(recorded, Job(measured.workers, slots, "lru", timeout_s))
    return Check(
        since_us=recorded.about.since_us,
        until_us=recorded.about.until_us,
        tasks=measured.tasks,
        workers=measured.workers,
        replayed_p50_us=cell.p50_us,
        replayed_p99_us=cell.p99_us,
        measured_p50_us=measured.p50_us,
        measured_p99_us=measured.p99_us,
        is_other_day=is_other_day,
    )


def _check_question(counts: list[int], policy: str, slots: int | None, timeout_s: float) -> None:
    if not counts or counts[0] < 1 or counts[-1] > WORKERS_MAX or len(counts) > CELLS_MAX:
        limits = f"1 to {WORKERS_MAX:,} workers, and at most {CELLS_MAX:,} numbers of them"
        raise PipelineError(f"workers: {limits}", "ask for a range like 2..40")
    if slots is not None and slots < 1:
        raise PipelineError("slots: a worker has at least one", "leave it out to use what is recorded")
    if not timeout_s > 0:
        raise PipelineError("timeout: tasks need some time", "leave it out for 60 s")
    policies.named(policy, [])


def _hours(gold: Gold, service: str) -> dict[int, int]:
    """How many tasks each recorded hour had."""
    rows = gold.rows("gold/service_1h", columns=["hour_us", "count"], where=pc.field("service") == service)
    return dict(zip(rows["hour_us"].to_pylist(), rows["count"].to_pylist(), strict=True))


def _window(hours: dict[int, int], service: str, since_us: int | None, until_us: int | None) -> tuple[int, int]:
    if since_us is not None and until_us is not None:
        if until_us <= since_us:
            raise PipelineError("the window ends before it begins", "name its start first, then its end")
        return since_us, until_us
    if since_us is not None:
        return since_us, since_us + HOUR_US
    known = {hour: count for hour, count in hours.items() if until_us is None or hour < until_us}
    if not known:
        raise NothingRecorded(f"no task of {service} is recorded", "see what there is: scale0 pipeline report")
    recent = [hour for hour in known if hour > max(known) - WEEK_US]
    busiest = max(recent, key=lambda hour: (known[hour], hour))
    return busiest, busiest + HOUR_US


def _slots(gold: Gold, service: str) -> int:
    """Slots of a worker, as the brokers told; 1 if they did not."""
    rows = gold.rows("gold/capacity", columns=["slots_per_worker"], where=pc.field("service") == service)
    known = rows["slots_per_worker"].drop_null().to_pylist()
    return max(1, round(known[0])) if known else 1


def _checked(
    gold: Gold, service: str, hours: dict[int, int], window: tuple[int, int], slots: int, timeout_s: float
) -> Check | None:
    """On an hour of another day if there is one, else on another hour; None if all that is known is in the window."""
    others = {hour: count for hour, count in hours.items() if hour + HOUR_US <= window[0] or hour >= window[1]}
    own_days = range(window[0] // DAY_US, (window[1] - 1) // DAY_US + 1)
    other_days = {hour: count for hour, count in others.items() if hour // DAY_US not in own_days}
    chosen = other_days or others
    if not chosen:
        return None
    hour = max(chosen, key=lambda hour: (chosen[hour], hour))
    length_us = min(HOUR_US, HOUR_US * CHECK_TASKS_MAX // max(1, chosen[hour]))
    try:
        recorded, measured = read(gold, service, hour, hour + length_us)
    except NothingRecorded:
        return None
    return check(recorded, measured, slots, timeout_s, is_other_day=bool(other_days))
