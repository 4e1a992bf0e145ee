"""Rows leave in bursts, and the loop is told when to look again."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from scale0.core.journal import Journal
from scale0.events import TASK, Records
from scale0.transport import recording
from scale0.transport.clock import Clock
from scale0.transport.recording import BURST_BYTES, BURST_S, PUMP_S, Recording, Telemetry


class FakeFeed:
    """Writes down what it is given."""

    pid = 7

    def __init__(self, order: Any, hello: Any, say: Any) -> None:
        self.hello = hello
        self.put_rows: list[Records] = []
        self.pumped = 0
        self.closed: tuple[int, float] | None = None
        self.is_abandoned = False

    def put(self, records: Records) -> None:
        self.put_rows.append(records)

    def pump(self) -> None:
        self.pumped += 1

    def close(self, last_seq: int, at_s: float) -> None:
        self.closed = last_seq, at_s

    def abandon(self) -> None:
        self.is_abandoned = True


class FakeCore:
    def __init__(self) -> None:
        settings = SimpleNamespace(identity="eu-1", group="eu")
        self.state = SimpleNamespace(journal=Journal("boot"), settings=settings)

    def take_records(self) -> Records | None:
        return self.state.journal.take()  # type: ignore[no-any-return]


class Desk:
    def __init__(self) -> None:
        self.core = FakeCore()
        self.recording = Recording(Telemetry("t", "data"), print, Clock(lambda: 10.0, lambda: 1_000.0))
        self.recording.begin(self.core, version="1")
        feed: Any = self.recording._feed
        self.feed: FakeFeed = feed
        self.journal = self.core.state.journal


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(recording, "Feed", FakeFeed)
    return Desk()


def test_the_first_row_tells_of_the_run(desk: Desk) -> None:
    assert desk.feed.hello.anchor_us == 990_000_000
    assert desk.feed.hello.boot == desk.recording.boot
    desk.recording.look(10.0)
    (row,) = desk.feed.put_rows[0].notes
    assert (row.seq, row.kind, row.subject) == (1, "boot", "eu-1")
    assert {"pid", "wall_us", "version", "group"} <= set(row.detail)


def test_few_rows_wait_a_moment_and_go_together(desk: Desk) -> None:
    desk.recording.look(10.0)
    desk.journal.note(10.0, "gauge", "", "", None, {})
    assert desk.recording.look(10.01) == pytest.approx(10.0 + BURST_S)
    desk.journal.note(10.0, "gauge", "", "", None, {})
    assert len(desk.feed.put_rows) == 1
    assert desk.recording.look(10.0 + BURST_S) == math.inf
    assert [len(records.notes) for records in desk.feed.put_rows] == [1, 2]


def test_many_rows_go_at_once(desk: Desk) -> None:
    desk.recording.look(10.0)
    desk.journal.tasks += [bytes(TASK.size)] * (BURST_BYTES // TASK.size + 1)
    assert desk.recording.look(10.001) == math.inf
    assert len(desk.feed.put_rows) == 2


def test_a_recorder_is_looked_after_when_there_are_no_rows(desk: Desk) -> None:
    desk.recording.look(10.0)
    for moment_s in (10.1, 10.2, 10.1 + PUMP_S, 10.2 + PUMP_S):
        desk.recording.look(moment_s)
    assert desk.feed.pumped == 2, "at 10.0 and half a second later"


def test_the_last_rows_leave_with_a_goodbye(desk: Desk) -> None:
    desk.recording.end(is_clean=True)
    assert [len(records.notes) for records in desk.feed.put_rows] == [1]
    assert desk.feed.closed == (1, 10.0)


def test_a_crash_says_nothing(desk: Desk) -> None:
    desk.recording.end(is_clean=False)
    assert desk.feed.put_rows == []
    assert desk.feed.is_abandoned
    assert desk.feed.closed is None
