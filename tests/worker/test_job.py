"""A job's cancellation, and the room for its parts."""

from __future__ import annotations

import threading

from scale0.protocol.messages import Task, TaskId
from scale0.worker.handlers import Handler
from scale0.worker.job import PARTS_UNSENT_MAX, Cancellation, Job


def _job() -> Job:
    return Job(Task(TaskId(b"n" * 20), "work", (), 1000), Handler("work", lambda: None), 100.0, 1.0)


def test_cancellation_is_seen_however_it_is_asked_for() -> None:
    job = _job()
    cancelled = Cancellation(job)
    assert [bool(cancelled), cancelled.is_set(), cancelled.wait(0)] == [False, False, False]
    job.cancel()
    assert [bool(cancelled), cancelled.is_set(), cancelled.wait()] == [True, True, True]


def test_a_cancellation_before_the_wait_is_not_missed() -> None:
    job = _job()
    job.cancel()
    assert Cancellation(job).wait()


def test_whoever_waits_is_woken() -> None:
    job = _job()
    seen: list[bool] = []
    waiter = threading.Thread(target=lambda: seen.append(Cancellation(job).wait(30)))
    waiter.start()
    job.cancel()
    waiter.join(30)
    assert seen == [True]


def test_parts_have_room_up_to_a_bound_and_always_after_a_cancellation() -> None:
    job = _job()
    told: list[bool] = []
    job.on_room = lambda: told.append(job.has_room)
    for sent in (0, 1, 0):
        job.parts_made, job.parts_sent = PARTS_UNSENT_MAX, sent
        job.tell_room()
    job.cancel()
    assert told == [False, True, False, True]
