"""The tasks of a stretch of time, as columns of numbers.

Everything is drawn for all tasks at once. The time of settlement is drawn first and the rest is reckoned back from it:
so a stretch holds exactly the rows that were written in it, in the order in which they were written, as a broker's
segments do. Names are kept as numbers until the very end (`rows`).
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from scale0_pipeline.generate.world import (
    EU_1,
    EU_2,
    MAIL,
    REPORT,
    RESIZE,
    SCORE,
    SEARCH,
    SERVICES,
    US_1,
    Day,
    Flags,
    Floats,
    Ints,
    World,
    load,
)
from scale0_pipeline.units import MINUTE_US, SECOND_US

REPLIED, FAILED, ERROR, REFUSED = range(4)  # places in events.OUTCOMES
NOBODY: Final = -1
FORWARDED_SHARE: Final = 0.06  # of reports asked for in the US
STRAY_SHARE: Final = 0.0002  # tasks for a service that nobody knows
NETWORK_US: Final = (350.0, 550.0)
DOUBLED: Final = 6  # tasks of a fail-over that are settled twice
IN_FLIGHT: Final = 12  # tasks that a fail-over finds in flight
LOST_ROWS: Final = 5  # the last rows of a broker that crashes: they never reached its recorder


class Tasks(msgspec.Struct):
    """Columns of equal length; numbers stand for names, -1 for none."""

    ts_us: Ints
    broker: Ints
    service: Ints  # len(SERVICES) is one that nobody knows
    client: Ints
    sequence: Ints
    worker: Ints
    via: Ints
    is_relay: Flags
    outcome: Ints
    code: Ints
    received_us: Ints
    dispatched_us: Ints  # 0: never
    wait_us: Ints
    work_us: Ints
    epoch: Ints
    queued: Ints
    request_bytes: Ints
    reply_bytes: Ints
    lost_worker: Ints  # who had the attempt before, -1 if there was none
    lost_at_us: Ints

    def __len__(self) -> int:
        return len(self.ts_us)

    def take(self, chosen: Ints | Flags) -> Tasks:
        return Tasks(*[getattr(self, name)[chosen] for name in self.__struct_fields__])


def join(parts: list[Tasks]) -> Tasks:
    """All of them, in the order of time."""
    columns = [np.concatenate([getattr(part, name) for part in parts]) for name in Tasks.__struct_fields__]
    whole = Tasks(*columns)
    return whole.take(np.argsort(whole.ts_us, kind="stable"))


def draw(world: World, day: Day, from_us: int, to_us: int, count: int, sequence_lo: int) -> Tasks:
    """So many tasks that were settled or refused between two times."""
    rng = np.random.default_rng([world.seed, 3, from_us // SECOND_US])
    service, ts_us = _arrivals(rng, day, from_us, to_us, count)
    is_us = rng.random(count) < np.array([one.us_share for one in SERVICES])[service]
    is_reign = day.reign.holds(ts_us)
    broker = np.where(is_us, US_1, np.where(is_reign, EU_2, EU_1))
    worker = _workers(world, rng, service, is_us)
    work_us = _work(day, rng, service, worker, ts_us, world)
    queue_us = rng.exponential(180, count)
    is_overload = day.overload.holds(ts_us) & (service == RESIZE)
    queue_us[is_overload] = rng.exponential(2.5 * SECOND_US, int(is_overload.sum()))
    wait_us = rng.exponential(60, count).astype(np.int64)
    network_us = rng.gamma(4.0, np.where(is_us, NETWORK_US[1], NETWORK_US[0]) / 4)
    dispatched_us = ts_us - (network_us + wait_us + work_us).astype(np.int64)
    sizes = rng.lognormal(0, 0.7, (2, count))
    tasks = Tasks(
        ts_us=ts_us,
        broker=broker,
        service=service,
        client=np.searchsorted(world.client_shares, rng.random(count)).astype(np.int64),
        sequence=sequence_lo + np.arange(count, dtype=np.int64),
        worker=worker,
        via=np.full(count, NOBODY, dtype=np.int64),
        is_relay=np.zeros(count, dtype=np.bool_),
        outcome=np.zeros(count, dtype=np.int64),
        code=np.full(count, 200, dtype=np.int64),
        received_us=dispatched_us - queue_us.astype(np.int64),
        dispatched_us=dispatched_us,
        wait_us=wait_us,
        work_us=work_us.astype(np.int64),
        epoch=np.where(is_us, 0, np.where(is_reign, 2, np.where(ts_us < day.reign.from_us, 1, 3))).astype(np.int64),
        queued=np.minimum(queue_us / 1_000, 5_000).astype(np.int64),
        request_bytes=(sizes[0] * np.array([one.request_bytes for one in SERVICES])[service]).astype(np.int64),
        reply_bytes=(sizes[1] * np.array([one.reply_bytes for one in SERVICES])[service]).astype(np.int64),
        lost_worker=np.full(count, NOBODY, dtype=np.int64),
        lost_at_us=np.zeros(count, dtype=np.int64),
    )
    _fail(world, day, rng, tasks, is_overload)
    return tasks


def _arrivals(rng: np.random.Generator, day: Day, from_us: int, to_us: int, count: int) -> tuple[Ints, Ints]:
    """Services and times of settlement, in order."""
    minutes = max(1, (to_us - from_us) // MINUTE_US)
    table = load(day, from_us, minutes)
    numbers = rng.multinomial(count, (table / table.sum()).ravel())
    cell = np.repeat(np.arange(table.size), numbers)
    ts_us = from_us + (cell % minutes) * MINUTE_US + rng.integers(0, MINUTE_US, count)
    order = np.argsort(ts_us, kind="stable")
    return (cell // minutes)[order], ts_us[order]


def _workers(world: World, rng: np.random.Generator, service: Ints, is_us: Flags) -> Ints:
    worker = np.empty(len(service), dtype=np.int64)
    for number, pools in enumerate(world.pools):
        for region, pool in enumerate(pools):
            chosen = (service == number) & (is_us == bool(region))
            worker[chosen] = pool[rng.integers(0, len(pool), int(chosen.sum()))]
    return worker


def _work(day: Day, rng: np.random.Generator, service: Ints, worker: Ints, ts_us: Ints, world: World) -> Floats:
    medians = np.array([one.work_us for one in SERVICES])[service]
    spreads = np.array([one.spread for one in SERVICES])[service]
    work_us: Floats = medians * np.exp(rng.standard_normal(len(service)) * spreads)
    work_us[day.slow.holds(ts_us) & (worker == world.pools[SCORE][0][0])] *= 8.0
    return work_us


def _fail(world: World, day: Day, rng: np.random.Generator, tasks: Tasks, is_overload: Flags) -> None:
    """What goes wrong: handlers that raise, deadlines, tasks turned away, workers that are lost."""
    chance = rng.random(len(tasks))
    is_failed = chance < np.array([one.failing for one in SERVICES])[tasks.service]
    tasks.outcome[is_failed], tasks.code[is_failed] = FAILED, 500
    _settle_without_reply(tasks, (chance > 0.9999) & (tasks.service != MAIL), 504)
    if not world.with_faults:
        return
    _settle_without_reply(tasks, is_overload & (chance > 0.85), 408)
    _refuse(tasks, is_overload & (chance < 0.35), 429)
    is_stray = (chance > 0.5) & (chance < 0.5 + STRAY_SHARE)
    _refuse(tasks, is_stray, 404)
    tasks.service[is_stray] = len(SERVICES)
    _lose_worker(world, day, rng, tasks)
    _forward(rng, tasks)
    _fail_over(world, day, tasks)


def _settle_without_reply(tasks: Tasks, chosen: Flags, code: int) -> None:
    tasks.outcome[chosen], tasks.code[chosen], tasks.reply_bytes[chosen] = ERROR, code, 0
    tasks.wait_us[chosen], tasks.work_us[chosen] = NOBODY, NOBODY
    if code == 408:  # it never left the queue
        tasks.worker[chosen], tasks.dispatched_us[chosen] = NOBODY, 0


def _refuse(tasks: Tasks, chosen: Flags, code: int) -> None:
    _settle_without_reply(tasks, chosen, code)
    tasks.outcome[chosen] = REFUSED
    tasks.received_us[chosen] = tasks.ts_us[chosen]
    tasks.worker[chosen], tasks.dispatched_us[chosen] = NOBODY, 0


def _lose_worker(world: World, day: Day, rng: np.random.Generator, tasks: Tasks) -> None:
    """While a worker is gone others do its tasks; those that it had in hand are tried again, a few are given up."""
    pool = world.pools[SEARCH][0]
    lost = int(pool[1])
    gone = day.outage.holds(tasks.ts_us) & (tasks.worker == lost)
    tasks.worker[gone] = pool[2]
    in_hand = np.flatnonzero(gone & (tasks.ts_us < day.outage.from_us + 2 * MINUTE_US))
    tasks.lost_worker[in_hand] = lost
    tasks.lost_at_us[in_hand] = tasks.dispatched_us[in_hand] - 200
    tasks.received_us[in_hand] = tasks.dispatched_us[in_hand] - rng.integers(SECOND_US, 4 * SECOND_US, len(in_hand))
    given_up = np.zeros(len(tasks), dtype=np.bool_)
    given_up[in_hand[::4]] = True
    _settle_without_reply(tasks, given_up, 502)


def _fail_over(world: World, day: Day, tasks: Tasks) -> None:
    """Tasks that eu-1 had when it crashed: eu-2 settles them, most at once, some by another worker, a few as lost."""
    is_first = (tasks.broker == EU_2) & (tasks.outcome == REPLIED) & (tasks.lost_worker == NOBODY)
    chosen = np.flatnonzero(is_first)[:IN_FLIGHT]
    if not len(chosen) or tasks.ts_us[0] > day.reign.from_us:
        return
    place = np.arange(len(chosen))
    soon_us = day.reign.from_us + SECOND_US + place * 30_000
    tasks.ts_us[chosen] = np.minimum(tasks.ts_us[chosen], soon_us)
    tasks.dispatched_us[chosen] = tasks.ts_us[chosen] - 9_000
    tasks.wait_us[chosen], tasks.work_us[chosen] = 1_000, 7_000
    tasks.received_us[chosen] = day.reign.from_us - 20_000 - place * 11_000
    retried = chosen[::3]
    tasks.lost_worker[retried] = world.pools[SCORE][0][0]
    tasks.lost_at_us[retried] = tasks.dispatched_us[retried] - 500
    is_lost = np.zeros(len(tasks), dtype=np.bool_)
    is_lost[chosen[::5]] = True
    _settle_without_reply(tasks, is_lost, 502)


def _forward(rng: np.random.Generator, tasks: Tasks) -> None:
    """Some reports that are asked for in the US are made in the EU."""
    is_ours = (tasks.broker == US_1) & (tasks.service == REPORT) & (tasks.outcome == REPLIED) & (tasks.epoch == 0)
    chosen = is_ours & (rng.random(len(tasks)) < FORWARDED_SHARE)
    tasks.via[chosen] = EU_1


def relays(world: World, day: Day, tasks: Tasks, from_us: int) -> Tasks:
    """The rows that takers write of forwarded tasks: settled there a little earlier, by a worker of their own."""
    theirs = tasks.take(tasks.via != NOBODY)
    tasks.worker[tasks.via != NOBODY] = NOBODY
    pool = world.pools[REPORT][0]
    theirs.ts_us = np.maximum(theirs.ts_us - 60, from_us)
    theirs.broker = np.where(day.reign.holds(theirs.ts_us), EU_2, EU_1).astype(np.int64)
    tasks.via[tasks.via != NOBODY] = theirs.broker
    theirs.via = np.full(len(theirs), NOBODY, dtype=np.int64)
    theirs.is_relay = np.ones(len(theirs), dtype=np.bool_)
    theirs.worker = pool[theirs.sequence % len(pool)]
    theirs.dispatched_us = np.minimum(theirs.dispatched_us + 60, theirs.ts_us)
    theirs.received_us = theirs.dispatched_us - 30
    return theirs


def doubled(day: Day, tasks: Tasks, from_us: int, to_us: int) -> Tasks:
    """The last recorded tasks of eu-1 before its crash, settled once more by eu-2, which had not heard of it."""
    is_crash = from_us <= day.reign.from_us < to_us
    is_in_hand = (tasks.broker == EU_1) & (tasks.ts_us < day.reign.from_us) & (tasks.outcome == REPLIED)
    chosen = np.flatnonzero(is_in_hand & ~tasks.is_relay)[-DOUBLED - LOST_ROWS : -LOST_ROWS]
    again = tasks.take(chosen if is_crash else chosen[:0])
    again.ts_us = day.reign.from_us + SECOND_US + np.arange(len(again), dtype=np.int64) * 40_000
    again.dispatched_us = again.ts_us - 30_000
    again.wait_us = np.full(len(again), 500, dtype=np.int64)
    again.work_us = np.full(len(again), 28_000, dtype=np.int64)
    again.broker = np.full(len(again), EU_2, dtype=np.int64)
    again.epoch = np.full(len(again), 2, dtype=np.int64)
    return again
