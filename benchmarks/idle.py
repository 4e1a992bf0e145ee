"""What a broker costs that has nothing to do: alone, and with thousands of workers that heartbeat each second.

The interval's floor is set to one second for this, which is harsher than the default of 2.5 s. Memory per worker is the
growth of the broker's resident memory divided by the workers that connected; libzmq alone takes 28 KiB of it.
"""

from __future__ import annotations

import measure
import peers
from load import Load
from measure import PONGS, Window, median
from report import Bars, Options, Result, Table, Verdict, at_most, figure
from workers import has_files_for

_ALONE_PERCENT_MAX = 1.0
_HEARTBEATS_PERCENT_MAX = 12.0
_HEARTBEATS_WORKERS = 5_000
_WORKER_KIB_MAX = 36.0
_ANSWERED = 0.95
_INTERVAL_MS = 1_000


def run(options: Options) -> Result:
    alone = [_alone(options).cpu_percent("broker") for _ in range(options.repetitions)]
    options.say(f"idle: alone {median(alone):.2f} % of a core")
    rows = [["0", figure(median(alone)), "–", "–"]]
    verdicts = [at_most("CPU of a broker without peers", median(alone), _ALONE_PERCENT_MAX, " %")]
    percents = {"0": median(alone)}
    for count in options.heartbeating_workers:
        if not has_files_for(count, options):
            verdicts.append(at_most(f"CPU, {count:,} workers heartbeating", None, _HEARTBEATS_PERCENT_MAX, " %"))
            continue
        seen = [_heartbeating(count, options) for _ in range(options.repetitions)]
        percent, pongs, kib = (median([each[at] for each in seen]) for at in range(3))
        options.say(f"idle: {count:,} heartbeating {percent:.1f} % of a core, {kib:.1f} KiB each")
        rows.append([f"{count:,}", figure(percent), figure(pongs), figure(kib)])
        percents[f"{count:,}"] = percent
        verdicts += _verdicts(count, percent, pongs, kib, options)
    columns = ["workers", "% of a core", "PONGs/s", "KiB a worker"]
    table = Table("Idle: CPU and memory of the broker, heartbeats each second", columns, rows)
    return Result(
        "idle", [table], verdicts, [Bars("CPU of an idle broker, heartbeats each second", "% of a core", percents)]
    )


def _alone(options: Options) -> Window:
    with peers.Scale0().started(options.directory) as running:
        measure.watch(None, {}, options.warm_up_s)
        return measure.watch(None, {"broker": running.child.pid}, options.seconds * 2)


def _heartbeating(count: int, options: Options) -> tuple[float, float, float]:
    """CPU in percent of a core, PONGs a second, KiB for each worker."""
    scale0 = peers.Scale0(default_heartbeat_interval=_INTERVAL_MS / 1000)
    load = Load(count, in_flight=0, ping_ms=_INTERVAL_MS)
    with scale0.started(options.directory) as running:
        measure.watch(None, {}, options.warm_up_s)
        before_kib = measure.rss_kib(running.child.pid)
        with scale0.loaded(running, load, options.directory) as page:
            measure.watch(page, {}, max(options.warm_up_s, _INTERVAL_MS / 1000))
            grown_kib = measure.rss_kib(running.child.pid) - before_kib
            pongs = page.read(PONGS)
            window = measure.watch(page, {"broker": running.child.pid}, options.seconds * 2)
            return window.cpu_percent("broker"), (page.read(PONGS) - pongs) / window.seconds, grown_kib / count


def _verdicts(count: int, percent: float, pongs: float, kib: float, options: Options) -> list[Verdict]:
    """The CPU counts only if the heartbeats were answered; a short window cannot tell."""
    verdicts = [at_most(f"memory a connected worker, {count:,} connected", kib, _WORKER_KIB_MAX, " KiB")]
    answered = pongs / count
    is_answered = answered >= _ANSWERED if options.seconds >= 1 else None
    name = f"heartbeats of {count:,} workers that are answered, each second"
    verdicts.append(Verdict(name, f"{answered:.0%}", f"at least {_ANSWERED:.0%}", is_answered))
    if count == _HEARTBEATS_WORKERS:
        verdict = at_most(f"CPU, {count:,} workers heartbeating each second", percent, _HEARTBEATS_PERCENT_MAX, " %")
        if not is_answered:
            verdict.is_reached = is_answered
            verdict.measured += f" with {answered:.0%} answered"
        verdicts.append(verdict)
    return verdicts
