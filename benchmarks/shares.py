"""A broker joins a group whose workers are all elsewhere: how soon has it its share of them, and how fair is it?

Two brokers have all workers, half each. A third one joins; the others then send it, with CHANGEBROKER, what is over
their share. The workers are sessions of the library, so they move as the library does: READY with capacity 0, finish,
go. Counts are those that the brokers themselves give. The time runs from the line with which the third broker says that
it listens, so its joining is part of it.
"""

from __future__ import annotations

import contextlib
import time

import fleets
import networks
from measure import READY, RENEWED, median, wait_until
from report import Bars, Options, Result, Table, Verdict, at_most, figure
from scale0.core.groups import BALANCE_INTERVALS

_OFF_PERCENT_MAX = 20.0
_LIMIT_S = 90.0
_LOOK_S = 0.1

Seen = tuple[float, list[int], float]
"""Seconds until shares are fair, the shares when they no longer change, CONNECTs a worker meanwhile."""


def run(options: Options) -> Result:
    seen: list[Seen] = []
    for repetition in range(options.repetitions):
        seen.append(_join(options))
        seconds, shares, _ = seen[-1]
        options.say(f"shares {repetition + 1}/{options.repetitions}: {shares} after {seconds:.2f} s")
    rows = [
        [str(number), figure(seconds), *map(str, shares), f"{_off_percent(shares):.0f}", figure(connects)]
        for number, (seconds, shares, connects) in enumerate(seen, 1)
    ]
    columns = ["repetition", "fair after, s", "b1", "b2", "b3, which joined", "farthest off, %", "CONNECTs a worker"]
    note = f"{options.shares_workers} workers, half at b1 and half at b2; heartbeats each {options.interval_s:g} s."
    table = Table("Shares: a third broker joins", columns, rows, f"{note} Fair: all within 20 % of an equal share.")
    last = {f"b{number}": float(share) for number, share in enumerate(seen[-1][1], 1)}
    return Result("shares", [table], _verdicts(seen, options), [Bars("Workers after b3 joined", "workers", last)])


def _join(options: Options) -> Seen:
    count = options.shares_workers
    with (
        networks.started(2, options.directory, default_heartbeat_interval=options.interval_s) as network,
        contextlib.ExitStack() as stack,
    ):
        crew = fleets.start(network.endpoints, count, options.interval_s, stack, options.directory)
        wait_until(lambda: fleets.total(crew, READY) == count, f"{count} workers to connect")
        connects = fleets.total(crew, RENEWED)
        network.add()
        started = time.monotonic()

        def is_fair() -> bool:
            fleets.check(crew)
            shares = network.workers()
            return sum(shares) == count and _off_percent(shares) <= _OFF_PERCENT_MAX

        wait_until(is_fair, "fair shares", _LIMIT_S, _LOOK_S)
        seconds = time.monotonic() - started
        shares = _await_rest(network, crew, options)
        return seconds, shares, (fleets.total(crew, RENEWED) - connects) / count


def _await_rest(network: networks.Network, crew: list[fleets.Fleet], options: Options) -> list[int]:
    """The shares, once they have been the same for as long as brokers take to look at them again, and all serve."""
    count = options.shares_workers
    shares, since_s = network.workers(), time.monotonic()

    def is_at_rest() -> bool:
        nonlocal shares, since_s
        now = network.workers()
        if now != shares or sum(now) != count or fleets.total(crew, READY) != count:
            shares, since_s = now, time.monotonic()
        return time.monotonic() - since_s > 2 * options.interval_s

    wait_until(is_at_rest, "shares that no longer change", _LIMIT_S, _LOOK_S)
    return shares


def _off_percent(shares: list[int]) -> float:
    """How far the farthest of them is from an equal share."""
    equal = sum(shares) / len(shares)
    return max(abs(share - equal) for share in shares) / equal * 100 if equal else 100.0


def _verdicts(seen: list[Seen], options: Options) -> list[Verdict]:
    worst = max((shares for _, shares, _ in seen), key=_off_percent)
    found = " · ".join(map(str, worst))
    name = f"shares of {options.shares_workers} workers after a join ({found}), farthest from equal"
    seconds = median([each[0] for each in seen])
    return [
        at_most(name, _off_percent(worst), _OFF_PERCENT_MAX, " %"),
        # Brokers look at shares for so long after a join; what is not fair by then stays so.
        at_most("fair shares after a join", seconds / options.interval_s, BALANCE_INTERVALS, " intervals"),
    ]
