"""The outbox wakes its reader once for many results, and never leaves one unseen."""

from __future__ import annotations

import select

import pytest

from scale0.protocol.messages import UNKNOWN_US, Status, Task, TaskId
from scale0.worker.handlers import Handler
from scale0.worker.job import Job
from scale0.worker.outbox import Outbox


@pytest.fixture
def job() -> Job:
    return Job(Task(TaskId(b"n" * 20), "work", (), 1000), Handler("work", lambda: None), 100.0, 1.0)


def _is_woken(outbox: Outbox) -> bool:
    return bool(select.select([outbox.fileno], [], [], 0)[0])


def test_results_wait_silently_until_they_are_announced(job: Job) -> None:
    outbox = Outbox()
    outbox.finish(job, (b"1",))
    outbox.finish(job, (b"2",))
    assert not _is_woken(outbox)
    outbox.announce()
    outbox.announce()
    assert _is_woken(outbox)
    outbox.clear()
    assert not _is_woken(outbox)
    assert len(outbox.results) == 2
    outbox.close()


def test_a_sleeping_reader_is_woken_by_each_result(job: Job) -> None:
    outbox = Outbox()
    outbox.is_sleeping = True
    outbox.finish(job, ())
    assert _is_woken(outbox)
    outbox.clear()
    outbox.give_back(job)
    assert _is_woken(outbox)
    outbox.close()


def test_parts_are_numbered_and_announced_at_once(job: Job) -> None:
    outbox = Outbox()
    outbox.add_part(job, (b"1",))
    assert _is_woken(outbox)
    outbox.add_part(job, (b"2",))
    outbox.finish(job, ())
    assert [(part, is_final) for _, _, _, part, is_final, _ in outbox.results] == [(0, False), (1, False), (2, True)]
    outbox.close()


def test_what_was_never_started_has_no_durations(job: Job) -> None:
    outbox = Outbox()
    outbox.give_back(job)
    outbox.finish(job, ())
    assert [work_us for *_, work_us in outbox.results] == [UNKNOWN_US, UNKNOWN_US]
    assert outbox.results[0][1] == Status.RETURNED
    outbox.close()


def test_a_closed_outbox_takes_a_late_result_without_complaint(job: Job) -> None:
    outbox = Outbox()
    outbox.close()
    outbox.finish(job, ())
    outbox.announce()
