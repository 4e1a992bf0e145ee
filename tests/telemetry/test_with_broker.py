"""Real brokers that record: what they did is there afterwards, however they ended."""

from __future__ import annotations

import json
import os
import resource
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from scale0 import Client, Worker
from scale0.cli.collecting import Summary, collect
from scale0.client.manager import manage
from scale0.events import TASK
from scale0.telemetry import catalogue, frames, log
from scale0.telemetry.frames import Kind
from scale0.telemetry.place import Place
from scale0.testing import TestBroker, broker, managed_by, running_network

LIMIT_S = 60.0
USERS = {"ops": "secret"}


def until(condition: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end_s, what
        threading.Event().wait(0.02)


def echo(endpoint: str, identity: str = "w1") -> Worker:
    worker = Worker(endpoint, identity=identity)

    @worker.service("echo")
    def echo(number: int) -> int:
        return number

    return worker


def call(endpoint: str, count: int) -> None:
    with Client(endpoint) as client:
        futures = [client.submit("echo", number, returns=int) for number in range(count)]
        assert [future.result() for future in futures] == list(range(count))


def rows_of(data: Path, name: str) -> list[dict[str, Any]]:
    place = Place(data)
    found: list[dict[str, Any]] = []
    for entry in catalogue.read(place, name):
        found += pq.read_table(place.path(entry.path)).to_pylist()
    return found


def logged_tasks(directory: Path) -> int:
    """Rows of tasks in the write-ahead log of a recorder that runs."""
    return sum(
        len(payload) // TASK.size
        for _, _, path in log.logs(directory)
        for chunk in log.read(path)
        for kind, payload in frames.split(chunk)
        if kind is Kind.TASKS
    )


def kinds(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(row["kind"] for row in rows)


def assert_complete(rows: list[dict[str, Any]]) -> None:
    """Every number of each run is a row or told as lost, once."""
    for boot in {row["boot"] for row in rows}:
        covered: list[int] = []
        for row in rows:
            if row["boot"] == boot:
                covered += range(row["seq"] - (row["value"] if row["kind"] == "dropped" else 1) + 1, row["seq"] + 1)
        assert covered == list(range(1, len(covered) + 1))


def test_every_task_is_recorded_with_its_split_of_time(tmp_path: Path) -> None:
    with broker(telemetry=tmp_path, identity="eu-1") as running, echo(running.endpoint):
        call(running.endpoint, 300)
    rows = rows_of(tmp_path / "data", "eu-1")
    assert_complete(rows)
    assert kinds(rows)["task"] == 300
    assert rows[0]["kind"] == "boot"
    assert (rows[-1]["kind"], json.loads(rows[-1]["detail"])) == ("boot_end", {"clean": True})
    for row in rows:
        if row["kind"] == "task":
            assert (row["service"], row["worker"], row["outcome"], row["role"]) == ("echo", "w1", "replied", "origin")
            assert row["received_us"] <= row["dispatched_us"] <= row["ts_us"]
            assert row["work_us"] is not None
    assert abs(rows[0]["ts_us"] / 1e6 - time.time()) < LIMIT_S * 10
    assert (tmp_path / "wal").exists()
    assert not list((tmp_path / "wal").iterdir())
    assert not list((tmp_path / "spool").iterdir())


def test_a_broker_that_is_killed_leaves_all_that_it_had_told(tmp_path: Path) -> None:
    running = TestBroker(_settings("eu-1"), process=True, telemetry=tmp_path)
    running.start()
    try:
        with echo(running.endpoint):
            call(running.endpoint, 200)
            until(lambda: logged_tasks(tmp_path) >= 200, "the rows are in the log")
            os.kill(running.pid, signal.SIGKILL)
    finally:
        running.kill()
    rows = rows_of(tmp_path / "data", "eu-1")
    assert_complete(rows)
    assert kinds(rows)["task"] >= 200
    assert json.loads(rows[-1]["detail"]) == {"clean": False}
    assert rows[-1]["kind"] == "boot_end"


def test_a_broker_whose_recorder_is_killed_serves_on_and_loses_no_row(tmp_path: Path) -> None:
    with broker(telemetry=tmp_path, identity="eu-1") as running, echo(running.endpoint):
        recording = running.server.recording
        assert recording is not None
        call(running.endpoint, 100)
        until(lambda: logged_tasks(tmp_path) >= 100, "the rows are in the log")
        killed = recording.recorder_pid
        os.kill(killed, signal.SIGKILL)
        call(running.endpoint, 100)
        until(lambda: recording.recorder_pid not in (0, killed), "another one is started")
        call(running.endpoint, 100)
    rows = rows_of(tmp_path / "data", "eu-1")
    assert_complete(rows)
    assert kinds(rows)["task"] == 300
    assert kinds(rows)["dropped"] == 0
    assert {row["service"] for row in rows if row["kind"] == "task"} == {"echo"}


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux can limit the files of a process that runs")
def test_a_broker_whose_recorder_finds_no_room_serves_on_and_the_loss_is_counted(tmp_path: Path) -> None:
    with broker(telemetry=tmp_path, identity="eu-1") as running, echo(running.endpoint):
        recording = running.server.recording
        assert recording is not None
        call(running.endpoint, 50)
        until(lambda: logged_tasks(tmp_path) >= 50, "the rows are in the log")
        said: list[str] = []
        recording._feed._say = said.append  # type: ignore[union-attr]
        resource.prlimit(recording.recorder_pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        call(running.endpoint, 50)
        until(lambda: any("the broker goes on serving" in line for line in said), "it says so")
        call(running.endpoint, 50)
        infinite = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(recording.recorder_pid, resource.RLIMIT_FSIZE, infinite)

        def is_written_again() -> bool:
            call(running.endpoint, 1)
            return logged_tasks(tmp_path) > 50

        until(is_written_again, "rows are written again")
    rows = rows_of(tmp_path / "data", "eu-1")
    assert_complete(rows)
    lost = [row for row in rows if row["kind"] == "dropped"]
    assert sum(row["value"] for row in lost) > 0
    assert {json.loads(row["detail"])["why"] for row in lost} == {"disk"}


def test_a_broker_that_starts_again_goes_on_in_the_same_directory(tmp_path: Path) -> None:
    with broker(telemetry=tmp_path, identity="eu-1", process=True) as running:
        running.restart()
        running.restart(kill=True)
    rows = rows_of(tmp_path / "data", "eu-1")
    assert_complete(rows)
    ends = [json.loads(row["detail"])["clean"] for row in rows if row["kind"] == "boot_end"]
    assert ends == [True, False, True]
    boots = [row["boot"] for row in rows if row["kind"] == "boot_end"]
    assert boots == sorted(boots), "names of runs rise with time"


# --- collecting -----------------------------------------------------------------------------------------------------


def fetch(endpoints: list[str], place: Path) -> Summary:
    def ask(endpoint: str, command: str, arguments: dict[str, Any], timeout_s: float) -> Any:
        return manage(endpoint, command, arguments, auth_id="ops", auth_password="secret", timeout_s=timeout_s)

    return collect(endpoints, str(place), ask, timeout_s=3.0, progress=lambda what, done, of: None)


def test_all_that_two_brokers_recorded_arrives_though_one_was_away(tmp_path: Path) -> None:
    """One is away while the other one is asked, and has recorded runs that nobody has fetched when it is back."""
    place = tmp_path / "all"
    with running_network(
        2, telemetry=tmp_path, state_dir=tmp_path / "state", management=managed_by(tmp_path, USERS)
    ) as network:
        first, second = network.brokers
        with echo(first.endpoint), echo(second.endpoint, "w2"):
            call(first.endpoint, 100)
            call(second.endpoint, 100)
        second.stop()
        first.stop()
        first.start()
        summary = fetch([first.endpoint], place)
        assert summary.brokers == ["broker-1"]
        assert list(summary.failed) == ["broker-2"]
        second.start()
        network.wait()
        later = fetch([first.endpoint], place)
        assert later.brokers == ["broker-1", "broker-2"]
        assert later.failed == {}
        assert fetch([second.endpoint], place).segments == 0, "run again there is nothing to do"
    here = [rows_of(place, f"broker-{number}") for number in (1, 2)]
    assert sum(row["kind"] == "task" and row["role"] == "origin" for row in here[0] + here[1]) == 200
    there = [rows_of(tmp_path / f"broker-{number}" / "data", f"broker-{number}") for number in (1, 2)]
    for fetched, recorded in zip(here, there, strict=True):
        assert fetched
        assert recorded[: len(fetched)] == fetched
    assert {entry.source for entry in catalogue.read(Place(place), "broker-1")} == {"collect"}


def test_a_broker_that_records_nothing_says_so(tmp_path: Path) -> None:
    with broker(identity="eu-1", management=managed_by(tmp_path, USERS)) as running:
        summary = fetch([running.endpoint], tmp_path)
    assert "--telemetry" in summary.failed["eu-1"]


def _settings(identity: str) -> Any:
    from scale0.transport.settings_file import from_keywords

    return from_keywords({"identity": identity})
