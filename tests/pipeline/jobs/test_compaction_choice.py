"""Which files are merged."""

from __future__ import annotations

from datetime import date, timedelta

from scale0_pipeline.jobs.compaction import FILES_MAX, GOOD_BYTES, merges_for
from scale0_pipeline.tables.files import DataFile

TODAY = date(2026, 1, 5)


def files(days_ago: int, count: int, size: int = 10) -> list[DataFile]:
    day = TODAY - timedelta(days_ago)
    return [DataFile(f"{day}-{number}-{size}", size, 1, day, number, number) for number in range(count)]


def test_a_closed_day_becomes_one_file_and_today_waits_for_many() -> None:
    assert [merge.day for merge in merges_for([*files(2, 2), *files(1, 1), *files(0, FILES_MAX)], TODAY)] == [
        TODAY - timedelta(2)
    ]
    assert len(merges_for(files(0, FILES_MAX + 1), TODAY)) == 1


def test_while_batches_come_a_closed_day_waits_too() -> None:
    assert merges_for(files(1, FILES_MAX), TODAY, FILES_MAX) == []
    assert len(merges_for(files(1, FILES_MAX + 1), TODAY, FILES_MAX)) == 1


def test_a_file_of_a_good_size_stays() -> None:
    (merge,) = merges_for([*files(1, 2), *files(1, 3, GOOD_BYTES)], TODAY)
    assert (len(merge.files), merge.bytes) == (2, 20)
