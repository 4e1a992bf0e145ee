"""The feed with real recorders: nothing waits, nothing is lost that need not be, and what is lost is told."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from scale0.events import Note, Records
from scale0.telemetry import catalogue, feed, frames, lock, log
from scale0.telemetry.feed import Feed, new_boot
from scale0.telemetry.frames import Hello, Order
from scale0.telemetry.place import Place
from tests.telemetry.rows import ANCHOR_US, NAMES, task, tasks

LIMIT_S = 60.0


class Fed:
    """A feed with its recorder, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.said = directory, list[str]()
        self.order = Order(str(directory), str(directory / "data"))
        self.boot = new_boot(1_700_000_000.0)
        self.feed = Feed(self.order, Hello("eu-1", self.boot, ANCHOR_US), self.said.append)

    def until(self, condition: Callable[[], bool]) -> None:
        end_s = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < end_s, self.said
            self.feed.pump()
            threading.Event().wait(0.01)

    def until_recorded(self, seq: int) -> None:
        """Everything up to this row is in the recorder's log."""
        self.until(lambda: self.last_logged() >= seq)

    def last_logged(self) -> int:
        found = [frames.last_seq(chunk) for _, _, path in log.logs(self.directory) for chunk in log.read(path)]
        return max(found, default=0)

    def has_nothing_waiting(self) -> bool:
        return not self.feed._waiting and not self.feed._head

    def rows(self) -> list[dict[str, Any]]:
        """All that was recorded, when the recorder has ended."""
        assert lock.wait(self.directory, LIMIT_S)
        place = Place(self.order.data)
        found: list[dict[str, Any]] = []
        for entry in catalogue.read(place, "eu-1"):
            found += pq.read_table(place.path(entry.path)).to_pylist()
        return found


@pytest.fixture
def fed(tmp_path: Path) -> Iterator[Fed]:
    made = Fed(tmp_path / "telemetry")
    yield made
    made.feed.abandon()
    assert lock.wait(made.directory, LIMIT_S)


def kinds(rows: list[dict[str, Any]]) -> list[tuple[int, str]]:
    return [(row["seq"], row["kind"]) for row in rows]


def test_rows_arrive_and_a_goodbye_ends_them(fed: Fed) -> None:
    fed.feed.put(tasks(1, 3))
    fed.feed.put(Records([], [], [Note(4, 11.0, "gauge")], []))
    fed.feed.close(4, 12.0)
    rows = fed.rows()
    assert kinds(rows) == [(1, "task"), (2, "task"), (3, "task"), (4, "gauge"), (5, "boot_end")]
    assert rows[0]["service"] == "echo"
    assert json.loads(rows[-1]["detail"]) == {"clean": True}


def test_a_feed_that_ends_without_a_word_leaves_an_end_that_is_not_clean(fed: Fed) -> None:
    fed.feed.put(tasks(1, 3))
    fed.until(fed.has_nothing_waiting)
    fed.feed.abandon()
    rows = fed.rows()
    assert kinds(rows) == [(1, "task"), (2, "task"), (3, "task"), (4, "boot_end")]
    assert json.loads(rows[-1]["detail"]) == {"clean": False}


def test_a_recorder_that_is_killed_is_replaced_and_nothing_is_lost(fed: Fed) -> None:
    fed.feed.put(tasks(1, 50))
    fed.until_recorded(50)
    killed = fed.feed.pid
    os.kill(killed, signal.SIGKILL)
    fed.until(lambda: fed.feed.pid != killed)
    fed.feed.put(tasks(51, 60))
    fed.until(lambda: fed.feed.pid not in (0, killed))
    fed.feed.close(60, 12.0)
    rows = fed.rows()
    assert [row["seq"] for row in rows] == list(range(1, 62))
    assert {row["service"] for row in rows[:-1]} == {"echo"}, "the new one was told the names"
    assert any("exit code -9" in said for said in fed.said)


def test_last_words_of_a_recorder_are_heard_also_if_a_row_finds_it_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nhead -c 1 > /dev/null\necho there is no room\nexit 1\n")
    script.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(script))
    fed = Fed(tmp_path / "telemetry")
    os.waitid(os.P_PID, fed.feed.pid, os.WEXITED | os.WNOWAIT)
    fed.feed.put(tasks(1, 1))
    fed.feed.abandon()
    assert fed.said == ["there is no room", "the recorder ended (exit code 1); another one is started in 0.5 s"]


def test_a_broker_that_ends_just_after_its_recorder_was_killed_still_says_everything(
    fed: Fed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "PAUSE_S", LIMIT_S)
    monkeypatch.setattr(feed, "PAUSE_S_MAX", LIMIT_S)
    fed.feed.put(tasks(1, 5))
    fed.until_recorded(5)
    os.kill(fed.feed.pid, signal.SIGKILL)
    fed.until(lambda: fed.feed.pid == 0)
    fed.feed.put(tasks(6, 7))
    fed.feed.close(7, 12.0)
    rows = fed.rows()
    assert [row["seq"] for row in rows] == list(range(1, 9))
    assert json.loads(rows[-1]["detail"]) == {"clean": True}


def test_a_recorder_that_is_told_to_leave_seals_what_it_has(fed: Fed) -> None:
    fed.feed.put(tasks(1, 5))
    fed.until_recorded(5)
    left = fed.feed.pid
    os.kill(left, signal.SIGTERM)
    fed.until(lambda: fed.feed.pid not in (0, left))
    fed.feed.put(tasks(6, 7))
    fed.feed.close(7, 12.0)
    assert [row["seq"] for row in fed.rows()] == list(range(1, 9))


def test_rows_that_do_not_fit_are_dropped_whole_and_told(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    os.kill(fed.feed.pid, signal.SIGSTOP)
    monkeypatch.setattr(feed, "BUFFER_BYTES_MAX", 100_000)
    fed.feed.put(tasks(1, 1))
    seq = 1
    while not fed.feed.dropped_bytes:
        fed.feed.put(Records([], [], [], [task(n) for n in range(seq + 1, seq + 101)]))
        seq += 100
    anchor = Note(seq + 1, 10.0, "anchor", value=1_000)
    fed.feed.put(Records([(9, "late")], [], [anchor], [task(n) for n in range(seq + 2, seq + 101)]))
    assert len([said for said in fed.said if "dropped" in said]) == 1
    os.kill(fed.feed.pid, signal.SIGCONT)
    fed.until(fed.has_nothing_waiting)
    fed.feed.put(Records([], [], [], [task(seq + 101, service_no=9)]))
    fed.feed.close(seq + 101, 12.0)
    rows = fed.rows()
    lost = [row for row in rows if row["kind"] == "dropped"]
    assert [row["value"] for row in lost] == [200]
    assert json.loads(lost[0]["detail"]) == {"seq_lo": seq - 99, "seq_hi": seq + 100, "why": "dropped"}
    last = rows[-2]
    assert last["service"] == "late", "a name that was told in rows that were dropped"
    assert last["received_us"] == ANCHOR_US + 10_001_000, "and the clock"
    assert len(rows) + 199 == seq + 102


def test_what_is_kept_of_sent_rows_has_a_limit_and_names_survive_it(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "KEPT_BYTES", 1_000)
    monkeypatch.setattr(feed, "BLOCK_BYTES", 500)
    fed.feed.put(tasks(1, 20))
    forgetting = Records([(6, "void")], [], [], [task(21, service_no=6)], is_forgetting=True)
    fed.feed.put(forgetting)
    fed.feed.put(Records(NAMES[1:], [], [], [task(n, service_no=2) for n in range(22, 40)]))
    fed.until_recorded(39)
    killed = fed.feed.pid
    os.kill(killed, signal.SIGKILL)
    fed.until(lambda: fed.feed.pid not in (0, killed))
    fed.feed.put(Records([], [], [], [task(40, service_no=2)]))
    fed.feed.close(40, 12.0)
    rows = fed.rows()
    assert [row["seq"] for row in rows] == list(range(1, 42))
    assert [rows[at]["service"] for at in (0, 20, 21, 39)] == ["echo", "void", "client-1", "client-1"]


def test_what_is_kept_of_rows_that_left_one_by_one_costs_no_more_than_the_rows(
    fed: Fed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "KEPT_BYTES", 100_000)
    monkeypatch.setattr(feed, "BLOCK_BYTES", 10_000)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for seq in range(1, 2_001):
            fed.feed.put(Records([], [], [], [task(seq)]))
            fed.until(fed.has_nothing_waiting)
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 100_000 <= held <= 150_000


def test_rows_that_left_one_by_one_are_told_again_with_their_names(fed: Fed) -> None:
    os.kill(fed.feed.pid, signal.SIGSTOP)
    fed.feed.put(tasks(1, 1))
    for seq in range(2, 30):
        fed.feed.put(Records([(5 + seq, f"name-{seq}")], [], [], [task(seq, service_no=5 + seq)]))
    killed = fed.feed.pid
    os.kill(killed, signal.SIGKILL)
    fed.until(lambda: fed.feed.pid not in (0, killed))
    fed.feed.put(Records([], [], [], [task(30, service_no=7)]))
    fed.feed.close(30, 12.0)
    rows = fed.rows()
    assert [row["seq"] for row in rows] == list(range(1, 32))
    assert [rows[at]["service"] for at in (0, 1, 28, 29)] == ["echo", "name-2", "name-29", "name-2"]


def test_a_second_feed_waits_until_the_first_ones_recorder_has_ended(fed: Fed) -> None:
    fed.feed.put(tasks(1, 1))
    second = Fed(fed.directory)
    assert second.feed.pid == 0
    second.feed.put(tasks(1, 2))
    fed.feed.close(1, 12.0)
    second.until(lambda: second.feed.pid != 0)
    second.feed.close(2, 12.0)
    rows = fed.rows()
    assert [(row["boot"] == fed.boot, row["kind"]) for row in rows] == [
        (True, "task"),
        (True, "boot_end"),
        (False, "task"),
        (False, "task"),
        (False, "boot_end"),
    ]


def test_names_of_runs_are_uuids_of_version_7_and_rise_with_time() -> None:
    first, second = new_boot(1_700_000_000.0), new_boot(1_700_000_001.0)
    assert first < second
    assert len(first) == 36
    assert first[14] == "7"
    assert first[19] in "89ab"
