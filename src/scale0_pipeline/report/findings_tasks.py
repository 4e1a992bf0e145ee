"""Findings about services: tasks that ended badly, waited, burned the error budget, or became slow."""

from __future__ import annotations

import math
import shlex
from typing import Final

import numpy as np

from scale0_pipeline import words
from scale0_pipeline.report import histogram
from scale0_pipeline.report.book import Book
from scale0_pipeline.report.finding import Finding
from scale0_pipeline.report.flow import CALLER, FAILED, FAMILIES, LATE, LOST, OVER_LIMIT, Integers
from scale0_pipeline.report.period import stretches

TASKS_MIN: Final = 20
"""Fewer tasks say nothing about a share."""
BAD_MIN: Final = 5
BAD_SHARE: Final = 0.01
GRAVE_SHARE: Final = 0.05
WAITING_SHARE: Final = 0.5
WAITING_US: Final = 20_000
"""Waiting matters when a task waits longer than it is worked on, and longer than this."""
BURN_MAX: Final = 1_000.0
"""No budget burns faster; so a burn rate weighs less than a task, and what explains it is told in its place."""
SLOWER: Final = 2.0
"""A p99 that grew by this factor against the period before is a finding."""
SLOW_MIN_US: Final = 10_000
"""Below this nobody minds a factor."""


def bad_ends(book: Book) -> list[Finding]:
    """A service of which over 1 % ended badly, for a time or throughout; from 5 % on it is grave."""
    found = []
    flow = book.flow
    for index, service in enumerate(flow.services):
        stretch = worst_stretch(flow.count[index], flow.bad[index])
        if stretch is None:
            continue
        first, last = stretch
        tasks, worst = int(flow.count[index, first:last].sum()), int(flow.bad[index, first:last].sum())
        surely = least_share(worst, tasks)
        if worst < BAD_MIN or surely < BAD_SHARE:
            continue
        family = max((f for f in FAMILIES if f != CALLER), key=lambda f: int(flow.families[f][index, first:last].sum()))
        found.append(
            Finding(
                severity="bad" if surely >= GRAVE_SHARE else "warn",
                subject=f"service {service}",
                what=_bad_words(book, index, family, first, last),
                since=_between(book, first, last),
                evidence=f"{words.count(worst)} of {words.count(tasks)} tasks ({words.percent(worst / tasks)}) "
                f"ended badly, most of them {_codes(book, service, family)}",
                command=_command(family, service),
                weight=worst,
            )
        )
    return found


def worst_stretch(count: Integers, bad: Integers) -> tuple[int, int] | None:
    """The bins in which most of the bad ends lie. If no stretch of bad bins has half of them, they are all over it."""
    is_bad = (bad > count * BAD_SHARE) & (bad > 0)
    runs = stretches(is_bad, bridge=2)
    if not runs:
        return None
    worst = max(runs, key=lambda run: int(bad[run[0] : run[1]].sum()))
    if int(bad[worst[0] : worst[1]].sum()) * 2 >= int(bad.sum()):
        return worst
    return runs[0][0], runs[-1][1]


def least_share(bad: int, tasks: int) -> float:
    """The share that so many bad ends prove at the least: Wilson's lower bound at 95 %, so that 1 of 11 is no alarm."""
    if tasks <= 0:
        return 0.0
    share, z = min(bad / tasks, 1.0), 1.96
    middle = share + z * z / (2 * tasks)
    reach = z * math.sqrt((share * (1 - share) + z * z / (4 * tasks)) / tasks)
    return (middle - reach) / (1 + z * z / tasks)


def _bad_words(book: Book, index: int, family: str, first: int, last: int) -> str:
    service = words.name(book.flow.services[index])
    if family in (LATE, OVER_LIMIT) and _waiting_share(book, index, first, last) > WAITING_SHARE:
        return f"{service} waits for workers"
    return {
        LATE: f"{service} answers too late",
        LOST: f"{service} loses tasks with their workers",
        OVER_LIMIT: f"{service} turns tasks away",
        FAILED: f"Handlers of {service} fail",
    }[family]


def _codes(book: Book, service: str, family: str) -> str:
    meaning = {LATE: "late", LOST: "lost with a worker", OVER_LIMIT: "over a limit", FAILED: "raised by the handler"}
    by_family = {LATE: (408, 504), LOST: (502,), OVER_LIMIT: (429, 503), FAILED: (500,)}[family]
    of_service = {code: n for (name, code, _), n in book.flow.codes.items() if name == service and code in by_family}
    code = max(of_service, key=lambda one: of_service[one], default=by_family[0])
    return f"{meaning[family]} ({code})"


def _command(family: str, service: str) -> str:
    return {
        LATE: f"scale0 pipeline whatif --service {shlex.quote(service)}",
        OVER_LIMIT: f"scale0 pipeline whatif --service {shlex.quote(service)}",
        LOST: "scale0 workers",
        FAILED: "scale0 dead-letters",
    }[family]


def waiting(book: Book) -> list[Finding]:
    """A service whose tasks wait for a worker longer than they are worked on."""
    found = []
    flow = book.flow
    for index, service in enumerate(flow.services):
        queue, latency, accepted = flow.sums["queue_us"][index], flow.sums["latency_us"][index], flow.accepted[index]
        is_waiting = (queue > latency * WAITING_SHARE) & (queue > accepted * WAITING_US) & (accepted > 0)
        runs = stretches(is_waiting, bridge=2)
        if not runs or accepted.sum() < TASKS_MIN:
            continue
        first, last = max(runs, key=lambda run: int(queue[run[0] : run[1]].sum()))
        tasks = int(accepted[first:last].sum())
        mean_us = float(queue[first:last].sum()) / max(tasks, 1)
        share = _waiting_share(book, index, first, last)
        found.append(
            Finding(
                severity="warn",
                subject=f"service {service}",
                what=f"{words.name(service)} waits for workers",
                since=_between(book, first, last),
                evidence=f"{words.count(tasks)} tasks waited {words.duration(mean_us)} on average, "
                f"{words.percent(share)} of their time",
                command=f"scale0 pipeline whatif --service {shlex.quote(service)}",
                weight=tasks * share,
            )
        )
    return found


def _waiting_share(book: Book, index: int, first: int, last: int) -> float:
    latency = float(book.flow.sums["latency_us"][index, first:last].sum())
    return float(book.flow.sums["queue_us"][index, first:last].sum()) / latency if latency > 0 else 0.0


def burning(book: Book) -> list[Finding]:
    """A service that used up its error budget too fast, by the burn rates of `gold/slo_burn`."""
    found = []
    for row in book.rows("gold/slo_burn"):
        service = row["service"]
        found.append(
            Finding(
                severity="bad" if row["threshold"] >= 6 else "warn",
                subject=f"service {service}",
                what=f"{words.name(service)} burns its error budget {words.figure(row['burn'])} times too fast",
                since=book.period.between(row["since_us"], row["until_us"]),
                evidence=f"windows {row['window']}, objective {words.percent(row['objective'])}",
                command="scale0 services",
                weight=row["burn"] / BURN_MAX,
            )
        )
    return found


def slower(book: Book) -> list[Finding]:
    """A service whose p99 is twice that of the period before."""
    found = []
    for index, service in enumerate(book.flow.services):
        now, then = book.flow.by_service[index], book.before.by_service[index]
        if min(int(now.sum()), int(then.sum())) < TASKS_MIN * 5:
            continue
        p99, former = histogram.percentile_us(now, 0.99) or 0.0, histogram.percentile_us(then, 0.99) or 0.0
        if p99 < SLOW_MIN_US or p99 < former * SLOWER:
            continue
        found.append(
            Finding(
                severity="warn",
                subject=f"service {service}",
                what=f"{words.name(service)} became slower",
                since="against the period before",
                evidence=f"p99 {words.duration(p99)}, before {words.duration(former)}",
                command=f"scale0 pipeline report --since 7d   (and look at {words.name(service)})",
                weight=float(now.sum()) * 0.01,
            )
        )
    return found


def _between(book: Book, first: int, last: int) -> str:
    """The words for a stretch of bins."""
    period = book.period
    since, until = (period.since_us + index * period.bin_us for index in (first, last))
    active = np.flatnonzero(book.flow.count.sum(axis=0) > 0)
    is_whole = len(active) > 0 and first <= active[0] and last > active[-1]
    return "throughout" if is_whole else period.between(since, until)
