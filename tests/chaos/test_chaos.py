"""A few cycles of real faults, and that a run notices what it is there to notice."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.chaos.books import Books
from tests.chaos.cables import Cable
from tests.chaos.faults import FAULTS
from tests.chaos.plan import make_plan
from tests.chaos.summary import Tally, percentile
from tests.chaos.topologies import GROUP, PAIR
from tests.chaos.vitals import Vitals, early_and_late
from tests.integration.wall_clock import WallClock

ROOT = Path(__file__).parents[2]
LIMIT_S = 100.0
MARK = "SCALE0_CHAOS_MARK"

linux = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="processes are watched through /proc")


# --- the books --------------------------------------------------------------------------------------------------------


def books_of(*lines: str, runs: tuple[str, ...] = ()) -> Books:
    books = Books()
    for line in lines:
        books.read(line)
    books.close(Counter(runs))
    return books


def test_books_of_a_good_run_have_no_breach() -> None:
    books = books_of(
        "open c/pay/1", "end c/pay/1 reply", "open c/pay/2", "end c/pay/2 502", runs=("c/pay/1", "c/pay/2")
    )
    assert books.breaches == []
    assert books.sum() == "2 tasks: 1 replied, 1 errors (1 × 502), 0 lost, 0 doubled"


def test_books_notice_a_second_outcome() -> None:
    books = books_of("open c/pay/1", "end c/pay/1 reply", "end c/pay/1 502")
    assert books.breaches == ["c/pay/1: a second outcome: 502"]
    assert books.doubled == 1


def test_books_notice_a_task_without_an_outcome() -> None:
    books = books_of("open c/pay/1")
    assert books.breaches == ["c/pay/1: no outcome at all"]
    assert books.open == 1


def test_books_notice_what_ran_twice_and_must_not() -> None:
    lines = ("open c/pay/1", "end c/pay/1 reply", "open c/double/1", "end c/double/1 reply")
    books = books_of(*lines, runs=("c/pay/1", "c/pay/1", "c/double/1", "c/double/1"))
    assert books.breaches == ["c/pay/1: ran 2 times"]


@pytest.mark.parametrize("end", ["502", "504", "wrong", "Unreachable"])
def test_books_notice_an_end_that_the_service_does_not_allow(end: str) -> None:
    (breach,) = books_of("open c/double/1", f"end c/double/1 {end}").breaches
    assert f"ended in {end}" in breach


# --- figures ----------------------------------------------------------------------------------------------------------


def test_percentile_is_the_smallest_value_that_so_many_do_not_exceed() -> None:
    assert [percentile(range(1, 101), part) for part in (0.5, 0.99, 1.0)] == [50, 99, 100]
    assert percentile([7.0], 0.99) == 7.0


def test_slow_leak_is_noticed_and_a_warm_up_is_not() -> None:
    warm_up = [*range(50, 70), *([70.0] * 80)]
    leak = [50 + 0.15 * number for number in range(100)]
    for samples, is_flat in ((warm_up, True), (leak, False)):
        vitals = Vitals("b1")
        vitals.memory_mib = samples
        assert vitals.trends()[0].is_flat is is_flat


def test_few_samples_say_nothing() -> None:
    assert early_and_late([1.0] * 39) == (None, None)
    assert early_and_late([1.0] * 40) == (1.0, 1.0)


def test_tally_tells_what_was_noticed_too_late() -> None:
    tally = Tally("kill-worker", interval_s=1.0)
    tally.add(3.05, 1.0, Counter({"reply": 5}))
    assert tally.too_slow() == ""
    tally.add(3.3, 1.0, Counter({"502": 1}))
    assert "noticed after 3.30 intervals" in tally.too_slow()
    assert tally.row() == ["kill-worker", "2", "5", "1", "3.05", "3.30", "1.00", "1.00"]


# --- the plan ---------------------------------------------------------------------------------------------------------


def test_plan_follows_from_its_seed() -> None:
    def names(seed: int) -> list[tuple[str, str]]:
        return [(cycle.fault.name, cycle.seed) for cycle in make_plan(seed, 60, [GROUP, PAIR])]

    assert names(1) == names(1)
    assert names(1) != names(2)


def test_each_fault_comes_equally_often_where_it_makes_sense() -> None:
    plan = make_plan(1, 500, [GROUP, PAIR])
    assert len(plan) == 500
    assert {cycle.fault.name for cycle in plan} == set(FAULTS)
    for topology in (GROUP, PAIR):
        times = Counter(cycle.fault.name for cycle in plan if cycle.topology is topology)
        assert max(times.values()) - min(times.values()) <= 1
        assert all(FAULTS[name].fits(topology) for name in times)


# --- cables -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["in", "out"])
def test_one_way_cut_holds_one_direction_and_loses_nothing(way: str) -> None:
    cable = Cable()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(LIMIT_S)
        cable.lead_to(f"tcp://127.0.0.1:{server.getsockname()[1]}")
        with socket.create_connection(("127.0.0.1", int(cable.endpoint.rpartition(":")[2])), LIMIT_S) as near:
            far, _ = server.accept()
            with far:
                far.settimeout(LIMIT_S)
                cable.hush("in" if way == "in" else "out")
                held, free = (near, far) if way == "in" else (far, near)
                held.sendall(b"held")
                free.sendall(b"free")
                assert held.recv(4) == b"free"
                free.setblocking(False)
                with pytest.raises(BlockingIOError):
                    free.recv(4)
                free.settimeout(LIMIT_S)
                cable.mend()
                assert free.recv(4) == b"held"
        cable.end()


def test_wall_clock_is_set_by_a_line_and_hands_on_all_others() -> None:
    clock = WallClock()
    assert list(clock.obey(iter(["ahead 3600", "finish", ""]))) == ["finish"]
    assert clock.read() - time.time() == pytest.approx(3600, abs=LIMIT_S)


# --- runs -------------------------------------------------------------------------------------------------------------


def start_run(out: Path, mark: str, *arguments: str) -> subprocess.Popen[str]:
    options = ["--untimed", "--interval", "0.4", "--topologies", "group", "--out", str(out), *arguments]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.chaos", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env={**os.environ, MARK: mark},
    )


def left_running(mark: str) -> list[str]:
    """The processes that were started under this mark, and are still there."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue  # it ended meanwhile, or is somebody else's
    return found


@pytest.mark.slow
@linux
def test_network_survives_a_few_faults_and_every_task_is_accounted_for(tmp_path: Path) -> None:
    mark = secrets.token_hex(8)
    faults = "kill-worker,kill-broker,mute-broker,full-disk,stalled-client,kill-recorder,full-telemetry"
    with start_run(tmp_path, mark, "--cycles", "7", "--seed", "1", "--faults", faults) as run:
        said, _ = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 0, said
    assert all(name in said for name in faults.split(","))
    assert "0 lost, 0 doubled" in said
    assert "completeness" in said
    assert "● no breach" in said
    assert not list(tmp_path.iterdir()), "the logs of a good run are removed"
    assert left_running(mark) == []


@pytest.mark.slow
@linux
def test_interrupted_run_leaves_nothing_running(tmp_path: Path) -> None:
    mark = secrets.token_hex(8)
    with start_run(tmp_path, mark, "--cycles", "500", "--faults", "pause-broker,pause-worker") as run:
        guard = threading.Timer(LIMIT_S, run.kill)
        guard.start()
        assert run.stdout is not None
        assert any(line.startswith("cycle 1/") for line in run.stdout), "it is under way"
        assert left_running(mark)
        run.send_signal(signal.SIGINT)
        said, _ = run.communicate()
        guard.cancel()
    assert run.returncode == 1
    assert "✗ interrupted" in said
    assert left_running(mark) == []


def test_unknown_fault_is_refused_with_the_names_there_are(tmp_path: Path) -> None:
    with start_run(tmp_path, "", "--faults", "meteor") as run:
        said, _ = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 2
    assert "no fault 'meteor'; there are kill-broker" in said
