"""Ways to choose among workers that have room, to compare with the broker's own.

The core always takes the first of the LRU queue. A policy is asked just before a task comes, and brings its choice to
the front; everything else, the queue, the slots and the deadlines, is the core's. `lru` leaves the order as it is. When
no worker has room there is nothing to choose: whoever is free first takes what waits longest.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from scale0.core.workers import Worker
from scale0_pipeline.errors import PipelineError

Lru = OrderedDict[Worker, None]
Policy = Callable[[Lru], None]
_TRIES: Final = 8


def lru(_workers: list[Worker]) -> Policy | None:
    """The product's own: who was used least recently."""
    return None


def random_one(workers: list[Worker]) -> Policy:
    """Any worker with room, each as likely as the others."""
    draw = random.Random(0)

    def choose(free: Lru) -> None:
        for _ in range(_TRIES):
            worker = draw.choice(workers)
            if worker.is_listed:
                free.move_to_end(worker, last=False)
                return
        free.move_to_end(draw.choice(list(free)), last=False)

    return choose


def round_robin(workers: list[Worker]) -> Policy:
    """In a fixed order, those without room are passed over."""
    place = 0

    def choose(free: Lru) -> None:
        nonlocal place
        for _ in workers:
            worker = workers[place]
            place = (place + 1) % len(workers)
            if worker.is_listed:
                free.move_to_end(worker, last=False)
                return

    return choose


def most_recent(_workers: list[Worker]) -> Policy:
    """Who was used most recently: a few workers stay warm, and the rest could be sent home."""

    def choose(free: Lru) -> None:
        free.move_to_end(next(reversed(free)), last=False)

    return choose


def least_busy(_workers: list[Worker]) -> Policy:
    """Who has the fewest tasks; of equals, who was used least recently."""

    def choose(free: Lru) -> None:
        free.move_to_end(min(free, key=lambda worker: len(worker.slots)), last=False)

    return choose


POLICIES: Final[dict[str, Callable[[list[Worker]], Policy | None]]] = {
    "lru": lru,
    "random": random_one,
    "round_robin": round_robin,
    "most_recent": most_recent,
    "least_busy": least_busy,
}


def named(name: str, workers: list[Worker]) -> Policy | None:
    made = POLICIES.get(name)
    if made is None:
        raise PipelineError(f"no policy {name!r}", f"choose one of {', '.join(POLICIES)}")
    return made(workers)
