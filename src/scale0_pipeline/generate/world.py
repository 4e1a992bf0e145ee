"""The network that generated days tell of, and what happens to it.

There are three brokers: `eu-1` with its fallback `eu-2`, and `us-1` far away. Five services differ in load, in work
time and in size; clients are many and unequal; each region has workers of each service, as many as the load asks for.
Load follows the day and the week. On top of that each day has its incidents, drawn from the seed: a slow worker, a
burst, an overload, a worker that is lost, one that flaps, one whose clock drifts, a change of the config, and a
fail-over in which `eu-1` crashes and `eu-2` reigns for a while.
"""

from __future__ import annotations

import hashlib
import math
from datetime import UTC, date, datetime
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from scale0_pipeline.units import DAY_US, HOUR_US, MINUTE_US, SECOND_US

DAY_MINUTES: Final = 1440

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

EU_1, EU_2, US_1 = 0, 1, 2
BROKERS: Final = ("eu-1", "eu-2", "us-1")
GROUPS: Final = ("eu", "eu", "us")
CLIENTS: Final = 60
WORKERS_MAX: Final = 200  # of a service in a region
DRIFTING_PPM: Final = 240.0


class Service(NamedTuple):
    """A service: its share of all tasks, what a task of it takes, and how much of it is asked for far away."""

    name: str
    share: float
    work_us: float
    spread: float
    failing: float
    request_bytes: int
    reply_bytes: int
    us_share: float


SERVICES: Final = (
    Service("score", 0.42, 6_000.0, 0.5, 0.0008, 900, 120, 0.35),
    Service("resize", 0.25, 35_000.0, 0.6, 0.002, 180_000, 40_000, 0.25),
    Service("mail", 0.18, 12_000.0, 0.4, 0.001, 4_000, 60, 0.30),
    Service("search", 0.12, 20_000.0, 0.8, 0.0005, 300, 9_000, 0.40),
    Service("report", 0.03, 700_000.0, 0.9, 0.01, 1_500, 600_000, 0.50),
)
SCORE, RESIZE, MAIL, SEARCH, REPORT = range(5)


class Span(NamedTuple):
    """From when to when something holds, in µs."""

    from_us: int
    to_us: int

    def holds(self, at_us: Ints) -> Flags:
        return (at_us >= self.from_us) & (at_us < self.to_us)


class Worker(NamedTuple):
    """A worker: where its clock stands, and how fast it runs away."""

    name: str
    service: int
    is_us: bool
    capacity: int
    offset_us: int
    drift_ppm: float


class Day(NamedTuple):
    """A day and its incidents. A span that is empty never holds."""

    number: int
    start_us: int
    slow: Span  # the first worker of score in the EU works eight times as long
    burst: Span  # mail is asked for four times as often
    overload: Span  # resize has more to do than it can: long queues, and tasks turned away
    outage: Span  # the second worker of search in the EU is lost
    flapping: Span  # the last worker of mail in the US comes and goes
    reign: Span  # eu-1 is gone and eu-2 serves
    changed_us: int  # a new config is applied
    dropped: Span  # the recorder of us-1 is behind, and rows are lost


class World(NamedTuple):
    """All that stays the same from day to day."""

    seed: int
    with_faults: bool
    events_per_day: float
    workers: tuple[Worker, ...]
    pools: tuple[tuple[Ints, Ints], ...]  # by service: the numbers of its workers in the EU, and in the US
    client_shares: Floats  # cumulative


def make_world(events: int, days: int, seed: int, with_faults: bool) -> World:
    """The network that does so many tasks in so many days."""
    rng = np.random.default_rng([seed, 1])
    workers: list[Worker] = []
    pools: list[tuple[Ints, Ints]] = []
    for number, service in enumerate(SERVICES):
        pool = []
        for is_us in (False, True):
            size = _pool_size(events / days, service, is_us)
            pool.append(np.arange(len(workers), len(workers) + size))
            workers += [_worker(rng, number, is_us, place) for place in range(size)]
        pools.append((pool[0], pool[1]))
    weights = 1.0 / np.arange(1, CLIENTS + 1) ** 1.1
    return World(seed, with_faults, events / days, tuple(workers), tuple(pools), np.cumsum(weights / weights.sum()))


def _pool_size(events_per_day: float, service: Service, is_us: bool) -> int:
    """So many that they are busy a third of the time at the peak."""
    share = service.us_share if is_us else 1 - service.us_share
    busy = 1.6 * events_per_day / 86_400 * service.share * share * service.work_us * 1.2 / 1e6
    return min(WORKERS_MAX, max(4, math.ceil(busy / 2 * 3)))


def _worker(rng: np.random.Generator, service: int, is_us: bool, place: int) -> Worker:
    is_drifting = service == SEARCH and is_us and place == 0
    return Worker(
        f"{SERVICES[service].name}-{'us' if is_us else 'eu'}-{place + 1}",
        service,
        is_us,
        2,
        int(rng.normal(0, 3_000)),
        DRIFTING_PPM if is_drifting else float(rng.normal(0, 8)),
    )


def make_day(world: World, first: date, index: int) -> Day:
    """The incidents of the day with this number, counted from the first one."""
    start_us = int(datetime(first.year, first.month, first.day, tzinfo=UTC).timestamp()) * SECOND_US + index * DAY_US
    rng = np.random.default_rng([world.seed, 2, index])
    starts = start_us + (rng.uniform(0, 1, 8) * 50 * MINUTE_US).astype(np.int64)
    if not world.with_faults:
        never = Span(0, 0)
        return Day(index, start_us, never, never, never, never, never, never, 0, never)

    def span(place: int, hour: int, minutes: int) -> Span:
        begins_us = int(starts[place]) + hour * HOUR_US
        return Span(begins_us, begins_us + minutes * MINUTE_US)

    return Day(
        index,
        start_us,
        slow=span(0, 9, 40),
        burst=span(1, 11, 15),
        overload=span(2, 16, 12),
        outage=span(3, 6, 25),
        flapping=span(4, 19, 55),
        reign=span(5, 14, 45),
        changed_us=span(6, 8, 0).from_us,
        dropped=span(7, 21, 2),
    )


def load(day: Day, from_us: int, minutes: int) -> Floats:
    """How much each service is asked for, minute by minute: shares that need not sum up to anything."""
    at_us = from_us + np.arange(minutes, dtype=np.int64) * MINUTE_US
    hour = (at_us - day.start_us) / HOUR_US
    weekday = datetime.fromtimestamp(day.start_us / SECOND_US, UTC).weekday()
    curve = (1.0 - 0.6 * np.cos((hour - 3) / 24 * 2 * math.pi)) * (0.55 if weekday >= 5 else 1.0)
    table = np.outer([service.share for service in SERVICES], curve)
    table[MAIL, day.burst.holds(at_us)] *= 4.0
    table[RESIZE, day.overload.holds(at_us)] *= 3.0
    return table


def draw_boot(seed: int, broker: int, start_us: int) -> str:
    """The name of a run of a broker's process: a UUID of version 7 whose chance comes from the seed."""
    chance = hashlib.sha256(f"{seed} {broker} {start_us}".encode()).hexdigest()
    stamp = f"{start_us // 1000:012x}"
    return f"{stamp[:8]}-{stamp[8:]}-7{chance[:3]}-a{chance[3:6]}-{chance[6:18]}"


def nonces(seed: int) -> list[str]:
    """Of each client's process."""
    return [hashlib.sha256(f"{seed} client {number}".encode()).hexdigest()[:16] for number in range(CLIENTS)]
