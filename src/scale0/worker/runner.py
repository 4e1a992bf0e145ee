"""What every runner is: a queue of jobs that the link's thread fills, and somebody who works on it.

Jobs stay in the queue until the moment they begin, so that what has not begun can be taken back: by a cancellation, or
when the worker leaves. The deque's own operations are atomic; no lock is held while anything runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

from scale0.worker.job import Job


class Runner(ABC):
    """Runs jobs somewhere. All public methods are the link's thread's to call."""

    def __init__(self) -> None:
        self._queue: deque[Job] = deque()  # at most the capacity: the session returns what is beyond it

    def add(self, job: Job) -> None:
        """Queue a job; `wake` follows when the batch is complete."""
        self._queue.append(job)

    def withdraw(self, job: Job) -> bool:
        """Take a job back. False: it has begun, or ended."""
        try:
            self._queue.remove(job)
        except ValueError:
            return False
        return True

    def withdraw_all(self) -> list[Job]:
        """Take back everything that has not begun."""
        taken: list[Job] = []
        try:
            while True:
                taken.append(self._queue.popleft())
        except IndexError:
            return taken

    def oldest_wait_s(self, now: float) -> float:
        """How long the longest-waiting job has waited."""
        try:
            return now - self._queue[0].received_s
        except IndexError:
            return 0.0

    @property
    def has_quick_job(self) -> bool:
        """Whether the next job is best run by the link's own thread, with `run_quick_jobs`."""
        return False

    def run_quick_jobs(self) -> None:
        """Run them in the calling thread, which may lose the lead meanwhile (`lead.py`)."""
        raise AssertionError("this runner has no quick jobs")

    @abstractmethod
    def wake(self, now: float) -> None:
        """See that the queue is being worked on, after a batch was added."""

    def look(self, now: float) -> float | None:
        """Help on a queue that does not move. Returns when to look again; None: not before the next batch."""
        return None

    def abort(self, job: Job) -> None:
        """Stop a job that has begun, as far as this runner can; the job's flag is set already."""
        return

    @abstractmethod
    def close(self) -> None:
        """End what can be ended, and do not wait for the rest."""
