"""The demo as users run it: it balances its books, and leaves no process behind, however it ends."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.processes import LIMIT_S, end, running, scale0

WITH_SPARK_S = 540.0  # a start of Spark beside other tests of it; only a hang reaches this

needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are found through /proc")


def children_of(pid: int) -> list[int]:
    """Process ids of the direct children."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


def start_and_find_children(demo: subprocess.Popen[str]) -> list[int]:
    """Once the first figures are printed, two brokers and six workers run."""
    assert demo.stdout is not None
    for line in demo.stdout:
        if "greet" in line:
            break
    children = children_of(demo.pid)
    assert len(children) == 8
    return [os.pidfd_open(child) for child in children]


def wait_for_ends(descriptors: list[int]) -> None:
    """Each descriptor turns readable when its process has ended."""
    for descriptor in descriptors:
        readable, _, _ = select.select([descriptor], [], [], LIMIT_S)
        assert readable, "a process of the demo lives on"
        os.close(descriptor)


def test_the_demo_balances_its_books() -> None:
    done = scale0("demo", "--seconds", "6", "--no-report")
    assert done.returncode == 0, done.stdout + done.stderr
    killed = re.findall(r"✗ (\w+-\d) killed \(SIGKILL\) with \d tasks? in hand", done.stdout)
    assert killed[0].startswith("render-")
    assert f"● {killed[0]} started again" in done.stdout
    assert re.search(r"✗ broker demo-2 killed \(SIGKILL\) after [1-9][\d,]* forwarded tasks?", done.stdout)
    assert "● broker demo-2 started again" in done.stdout
    sums = {
        side: [int(figure.replace(",", "")) for figure in figures.split()]
        for side, figures in re.findall(r"^(client|broker) +([\d, ]+) ✓", done.stdout, re.MULTILINE)
    }
    accepted, replied, errored, still_open = sums["client"]
    assert accepted == replied + errored > 0
    assert still_open == 0
    assert sums["broker"] == sums["client"]
    assert "Ended cleanly: 8 processes." in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(WITH_SPARK_S + 60)
def test_the_demo_ends_with_a_report_of_its_own_tasks(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    done = scale0("demo", "--seconds", "6", "--report", str(report), limit_s=WITH_SPARK_S)
    assert done.returncode == 0, done.stdout + done.stderr
    # The broker that is killed only passes tasks on: the one that settles them ends in peace, and so does its recorder.
    assert re.search(r"● [\d,]+ tasks in the record, each that the client had for a worker", done.stdout), done.stdout
    assert f"Report: {report}" in done.stdout
    assert "<svg" in report.read_text()


@pytest.mark.slow
@needs_proc
def test_ctrl_c_cleans_everything_up() -> None:
    with running("demo", "--seconds", "60") as demo:
        children = start_and_find_children(demo)
        code, err = end(demo, signal.SIGINT)
        assert code == 130
        assert "Traceback" not in err
        wait_for_ends(children)


@pytest.mark.slow
@needs_proc
def test_no_orphan_outlives_a_killed_demo() -> None:
    with running("demo", "--seconds", "60") as demo:
        children = start_and_find_children(demo)
        demo.kill()
        wait_for_ends(children)
