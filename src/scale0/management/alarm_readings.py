"""What alarms about services and workers look at: functions from `Vitals` to readings, one for each subject.

`None` means that it is not known now: then nothing is raised or cleared. A subject that is no longer among the readings
is well again. A reading carries the figures that its alarm's sentences name, already in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from scale0.management.vitals import Measure, Vitals, WorkersVitals

ERRORS_MIN = 20
"""Of fewer errors no share is taken: one of three tasks is not yet 33 % of them."""

NAMES_SHOWN = 3
WORKERS = "workers"
"""The subject of an alarm about some of the workers; its cause names the worst."""


class Reading(msgspec.Struct):
    """How one subject is. `figures` are what the alarm's sentences name besides `subject` and `value`."""

    subject: str
    value: float
    figures: dict[str, Any] = {}


Readings = list[Reading] | None


def is_serving(vitals: Vitals) -> bool:
    """Whether this broker is to serve now: a standby, or one that is disabled, needs neither workers nor peers."""
    own = next((each for each in vitals.brokers or () if each.is_self), None)
    return own is not None and own.state in ("active", "holding")


# --- services -------------------------------------------------------------------------------------------------------


def without_worker(vitals: Vitals) -> Readings:
    """1 for a service that nobody serves, here or at a linked peer."""
    if vitals.services is None or vitals.brokers is None:
        return None
    if not is_serving(vitals):
        return []
    return [
        Reading(each.name, float(not each.workers + each.workers_afar), {"waits": _waits(each.queued, each.oldest_s)})
        for each in vitals.services
    ]


def oldest_s(vitals: Vitals) -> Readings:
    """How long the oldest task of a service has waited, though there are workers."""
    if vitals.services is None:
        return None
    return [
        Reading(each.name, each.oldest_s, {"queued": tasks(each.queued), "oldest": seconds(each.oldest_s)})
        for each in vitals.services
        if each.workers + each.workers_afar
    ]


def queue_percent(vitals: Vitals) -> Readings:
    most = vitals.shell.queued_per_service_max
    if vitals.services is None or not most:
        return None
    return [
        Reading(each.name, 100 * each.queued / most, {"queued": tasks(each.queued), "most": f"{most:,}"})
        for each in vitals.services
    ]


def errors_percent(vitals: Vitals) -> Readings:
    if vitals.services is None:
        return None
    readings = []
    for each in vitals.services:
        settled = max(each.settled_5m, each.errors_5m, 1)
        percent = 100 * each.errors_5m / settled if each.errors_5m >= ERRORS_MIN else 0.0
        figures = {"percent": f"{percent:.3g} %", "errors": f"{each.errors_5m:,}", "settled": f"{settled:,.0f}"}
        readings.append(Reading(each.name, percent, figures))
    return readings


# --- workers --------------------------------------------------------------------------------------------------------


def stuck(vitals: Vitals) -> Readings:
    return _of_workers(vitals, lambda workers: workers.stuck, lambda value: f"{value:.0f}")


def sessions_per_h(vitals: Vitals) -> Readings:
    return _of_workers(vitals, lambda workers: workers.sessions, lambda value: f"{value:.0f} an hour")


def workers_behind(vitals: Vitals) -> Readings:
    readings = _of_workers(vitals, lambda workers: workers.behind, lambda value: "")
    for reading in readings or ():
        assert vitals.workers is not None, "there are readings of them"
        reading.value = float(vitals.workers.behind.count)
    return readings


def skew_s(vitals: Vitals) -> Readings:
    return _of_workers(vitals, lambda workers: workers.skew_s, seconds)


def _of_workers(vitals: Vitals, measure: Callable[[WorkersVitals], Measure], words: Callable[[float], str]) -> Readings:
    """One reading for all workers: the worst of them, with names."""
    if vitals.workers is None:
        return None
    found = measure(vitals.workers)
    shown = [f"{name} ({said})" if (said := words(value)) else name for value, name in found.worst[:NAMES_SHOWN]]
    figures = {
        "names": listed(shown, found.count),
        "worst": found.worst[0][1] if found.worst else "",
        "of": f"{vitals.workers.count:,}",
        "total": sum(value for value, _ in found.worst),
    }
    return [Reading(WORKERS, found.highest, figures)]


# --- figures in words -----------------------------------------------------------------------------------------------


def seconds(value: float) -> str:
    if value >= 120:
        return f"{value / 60:.0f} min"
    return f"{value:.3g} s" if value >= 1 or value == 0 else f"{value * 1000:.3g} ms"


def mebibytes(value: float) -> str:
    return f"{value / 2**20:,.0f} MiB"


def tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count:,} tasks"


def listed(names: Iterable[str], count: int) -> str:
    """Some names, and how many more there are."""
    shown = list(names)
    more = count - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")


def _waits(queued: int, oldest_waits_s: float) -> str:
    if not queued:
        return "no task waits for it now"
    return f"{tasks(queued)} {'waits' if queued == 1 else 'wait'}, the oldest for {seconds(oldest_waits_s)}"
