"""Jobs that are done side by side, each as soon as what it waits for is done.

Most of the time of a small job goes by in planning it, on one core: several at a time keep the others busy. Of those
that could begin, the one for which most others wait does: in the end nothing should be left that has to be done one
after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Final

import msgspec

THREADS: Final = 4  # jobs that are done at a time


class Job(msgspec.Struct, frozen=True):
    """Something to do, after the jobs of these names, if they are there; it says whether there was anything to do."""

    name: str
    do: Callable[[], bool]
    after: tuple[str, ...] = ()


def side_by_side(jobs: Sequence[Job], threads: int = THREADS) -> Iterator[str]:
    """Do the jobs, each of which stands behind those that it waits for; the names of those that did something, as they
    end. After a failure no job is begun."""
    waiting = by_urgency(jobs)
    running: dict[Future[bool], str] = {}
    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="scale0-table") as pool:
        while waiting or running:
            unfinished = {job.name for job in waiting} | set(running.values())
            ready = [job for job in waiting if unfinished.isdisjoint(job.after)]
            for job in ready[: threads - len(running)]:
                waiting.remove(job)
                running[pool.submit(job.do)] = job.name
            for ended in wait(running, return_when=FIRST_COMPLETED).done:
                name = running.pop(ended)
                if ended.result():
                    yield name


def by_urgency(jobs: Sequence[Job]) -> list[Job]:
    """Those first for which most others wait, one behind the other or side by side."""
    behind: dict[str, set[str]] = {job.name: set() for job in jobs}
    for job in reversed(jobs):
        for name in job.after:
            behind.get(name, set()).update({job.name}, behind[job.name])
    return sorted(jobs, key=lambda job: -len(behind[job.name]))
