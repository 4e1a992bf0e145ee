"""What generated brokers record beside tasks: boots, gauges, sessions, config, fail-overs, losses.

Notes are few, so they are made one by one. Gauges are sparser than a broker's own, one a minute instead of one a
second; their counts are filled in by `rows`, when the numbers of the rows between them are known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from scale0_pipeline.generate.world import BROKERS, EU_1, EU_2, GROUPS, MAIL, SEARCH, SERVICES, US_1, Day, Span, World
from scale0_pipeline.units import HOUR_US, MINUTE_US, SECOND_US

GAUGE_US: Final = MINUTE_US
WORKER_US: Final = 5 * MINUTE_US
FLAP_US: Final = 5 * MINUTE_US
SETTLED_US: Final = 5 * SECOND_US  # by then all workers of a broker have their sessions
OFFSET_ERROR_US: Final = 128


class Note(msgspec.Struct):
    """A row that is not a task's, before it has a number."""

    ts_us: int
    kind: str
    subject: str = ""
    what: str = ""
    value: int | None = None
    detail: dict[str, Any] = {}


def offset_us(world: World, worker: int, at_us: int, origin_us: int) -> int:
    """A worker's clock less its broker's at some time."""
    one = world.workers[worker]
    return one.offset_us + int(one.drift_ppm * (at_us - origin_us) / 1e6)


def of_part(world: World, day: Day, broker: int, part: Span, is_boot: bool, origin_us: int) -> list[Note]:
    """The notes of a broker within a part of a day in which it runs, in the order of time."""
    notes = [*_gauges(world, broker, part), *_workers(world, day, broker, part, origin_us)]
    if is_boot:
        notes.append(Note(part.from_us, "boot", "", "", None, {"group": GROUPS[broker], "version": "0.1.0"}))
        notes.append(Note(part.from_us + 1, "config", version(day, part.from_us), "applied", None, {"author": "ops"}))
        notes += _opened(world, day, broker, part)
    notes += [note for note in _incidents(world, day, broker) if part.from_us <= note.ts_us < part.to_us]
    return sorted(notes, key=lambda note: note.ts_us)


def version(day: Day, at_us: int) -> str:
    """The config's version at some time."""
    return f"1.{day.number + (2 if at_us >= day.changed_us > 0 else 1)}"


def _gauges(world: World, broker: int, part: Span) -> Iterator[Note]:
    for at_us in range(_next(part.from_us, GAUGE_US), part.to_us, GAUGE_US):
        yield Note(at_us, "gauge")
        if broker == US_1:
            yield Note(at_us + 5_000, "peer_gauge", BROKERS[EU_1])
        if at_us % (10 * GAUGE_US):
            continue
        for number, service in enumerate(SERVICES):
            size = len(world.pools[number][int(broker == US_1)])
            detail = {"workers": size, "capacity": 2 * size, "busy": size // 2, "free": size}
            yield Note(at_us + 7_000, "service_gauge", service.name, "", 0, detail)


def _workers(world: World, day: Day, broker: int, part: Span, origin_us: int) -> Iterator[Note]:
    for number, worker in enumerate(world.workers):
        if worker.is_us != (broker == US_1):
            continue
        for at_us in range(_next(part.from_us, WORKER_US) + number * 10_000, part.to_us, WORKER_US):
            if not _is_there(world, day, broker, number, at_us, part):
                continue
            detail = {
                "capacity": worker.capacity,
                "offset_us": offset_us(world, number, at_us, origin_us),
                "offset_error_us": OFFSET_ERROR_US,
                "config_version": version(day, at_us),
            }
            yield Note(at_us, "worker", worker.name, "ready", None, detail)


def _is_there(world: World, day: Day, broker: int, number: int, at_us: int, part: Span) -> bool:
    """Whether a worker has a session at a time: not before it was opened, and not while it is lost."""
    if at_us < part.from_us + SETTLED_US:
        return False
    if broker == EU_2 and not day.reign.from_us + SETTLED_US < at_us < day.reign.to_us - SETTLED_US:
        return False
    is_lost = day.outage.from_us <= at_us < day.outage.to_us + SETTLED_US
    return not (is_lost and number == int(world.pools[SEARCH][0][1]))


def _opened(world: World, day: Day, broker: int, part: Span) -> Iterator[Note]:
    """Sessions that begin with a broker's process: none at a standby."""
    if broker == EU_2:
        return
    for number, worker in enumerate(world.workers):
        if worker.is_us == (broker == US_1):
            yield from _session(world, number, part.from_us + SECOND_US + number * 1_000)


def _session(world: World, number: int, at_us: int) -> Iterator[Note]:
    worker = world.workers[number]
    yield Note(at_us, "session", worker.name, "opened", None, {"role": "worker"})
    detail = {"role": "worker", "services": [SERVICES[worker.service].name], "capacity": worker.capacity}
    yield Note(at_us + 400, "session", worker.name, "ready", None, detail)


def _lost(world: World, number: int, at_us: int, why: str) -> Note:
    return Note(at_us, "session", world.workers[number].name, "lost", None, {"role": "worker", "why": why})


def _incidents(world: World, day: Day, broker: int) -> Iterator[Note]:
    if not world.with_faults:
        return
    if broker != EU_2:
        lag_us = 0 if broker == EU_1 else 3 * SECOND_US
        detail = {"author": "ops", "former": version(day, day.changed_us - 1)}
        yield Note(day.changed_us + lag_us, "config", version(day, day.changed_us), "applied", None, detail)
    if broker == EU_1:
        searcher = int(world.pools[SEARCH][0][1])
        yield _lost(world, searcher, day.outage.from_us, "silent for 3 intervals")
        yield from _session(world, searcher, day.outage.to_us)
    elif broker == EU_2:
        yield from _reign(world, day)
    else:
        yield from _flaps(world, day)


def _reign(world: World, day: Day) -> Iterator[Note]:
    partner = {"partner": BROKERS[EU_1], "former_epoch": 1}
    begins_us, ends_us = day.reign
    yield Note(begins_us, "failover", BROKERS[EU_2], "took_over", 2, {**partner, "tasks": 12})
    theirs = [number for number, worker in enumerate(world.workers) if not worker.is_us]
    for number in theirs:
        yield from _session(world, number, begins_us + SECOND_US + number * 1_000)
        detail = {"role": "worker", "why": "handed over"}
        name = world.workers[number].name
        yield Note(ends_us - 1_000_000 + number * 1_000, "session", name, "closed", None, detail)
    yield Note(ends_us, "failover", BROKERS[EU_2], "handed_over", 2, {**partner, "tasks": 0})


def _flaps(world: World, day: Day) -> Iterator[Note]:
    flapping = int(world.pools[MAIL][1][-1])
    for at_us in range(day.flapping.from_us, day.flapping.to_us, FLAP_US):
        yield _lost(world, flapping, at_us, "silent for 3 intervals")
        yield from _session(world, flapping, at_us + 2 * SECOND_US)


def _next(from_us: int, step_us: int) -> int:
    """The first multiple of a step from a time on, a little after the full minute so that no two notes coincide."""
    return -(-from_us // step_us) * step_us + 1_000


def runs(day: Day, broker: int, part: Span) -> list[tuple[Span, bool]]:
    """When a broker's process runs within a part of a day, and whether a new process begins there."""
    is_hit = day.reign.from_us < part.to_us and day.reign.to_us > part.from_us
    if broker != EU_1 or not is_hit:
        return [(part, False)]
    before = Span(part.from_us, max(part.from_us, day.reign.from_us))
    after = Span(min(part.to_us, day.reign.to_us), part.to_us)
    is_new = part.from_us <= day.reign.to_us < part.to_us
    return [(span, is_new and span is after) for span in (before, after) if span.to_us > span.from_us]


assert FLAP_US * 12 >= HOUR_US  # it flaps some ten times an hour
