"""Faults that strike real processes, and are taken back."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scale0.cli import drill_faults
from scale0.cli.drill_faults import PartitionFault, ProcessFault, Side
from scale0.errors import Scale0Error, Unreachable, UsageError
from scale0.transport.addresses import this_process

HERE = this_process().rpartition(":")[0]
LIMIT_S = 20.0
STOPPED = "T"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def await_stopped(pid: int, *, is_stopped: bool) -> None:
    end_s = time.monotonic() + LIMIT_S
    while (state_of(pid) == STOPPED) != is_stopped:
        assert time.monotonic() < end_s, "its state never changed"


def test_killed_process_is_gone_and_cannot_be_mended(child: subprocess.Popen[bytes]) -> None:
    fault = ProcessFault(f"{HERE}:{child.pid}", "KILL", 10.0)
    assert fault.lasts_s is None
    fault.strike()
    assert child.wait(LIMIT_S) == -9
    fault.mend()
    with pytest.raises(Scale0Error, match="is gone already"):
        fault.strike()


@pytest.mark.skipif(sys.platform != "linux", reason="a process's state is read from /proc")
def test_paused_process_goes_on_when_it_is_mended(child: subprocess.Popen[bytes]) -> None:
    fault = ProcessFault(f"{HERE}:{child.pid}", "STOP", 30.0)
    fault.strike()
    await_stopped(child.pid, is_stopped=True)
    fault.mend()
    await_stopped(child.pid, is_stopped=False)
    fault.mend()


@pytest.mark.skipif(sys.platform != "linux", reason="a process's state is read from /proc")
def test_paused_process_goes_on_even_if_the_drill_dies(child: subprocess.Popen[bytes]) -> None:
    program = f"""
import os
from pathlib import Path
from scale0.cli import drill_faults
drill_faults.GUARD_MARGIN_S = 0
drill_faults.ProcessFault("{HERE}:{child.pid}", "STOP", 0.5).strike()
while Path("/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] != "{STOPPED}":
    pass
os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=LIMIT_S).returncode == -9
    await_stopped(child.pid, is_stopped=False)


def test_process_of_another_machine_is_refused() -> None:
    with pytest.raises(UsageError, match="runs on elsewhere"):
        drill_faults.check_process("worker w", "elsewhere:12", "scale0 drill")


def test_drill_never_strikes_itself_or_who_started_it() -> None:
    for pid in (os.getpid(), os.getppid(), 1):
        with pytest.raises(UsageError, match="the drill itself depends on"):
            drill_faults.check_process("worker w", f"{HERE}:{pid}", "scale0 drill")


def test_process_that_is_not_here_is_refused(child: subprocess.Popen[bytes]) -> None:
    drill_faults.check_process("worker w", f"{HERE}:{child.pid}", "scale0 drill")
    child.communicate(b"\n")
    with pytest.raises(UsageError, match="there is none here"):
        drill_faults.check_process("worker w", f"{HERE}:{child.pid}", "scale0 drill")


@pytest.mark.parametrize("process", [None, "", "host", "host:", "host:x"])
def test_process_that_is_not_told_is_refused(process: str | None) -> None:
    with pytest.raises(UsageError, match="does not tell"):
        drill_faults.check_process("worker w", process, "scale0 drill")


class Managed:
    """Notes commands; one broker may be out of reach."""

    def __init__(self, unreachable: str = "") -> None:
        self.done: list[tuple[str, str, dict[str, Any]]] = []
        self._unreachable = unreachable

    def __call__(self, address: str, command: str, arguments: dict[str, Any]) -> Any:
        if address == self._unreachable:
            raise Unreachable({address: "nobody"}, 1.0)
        self.done.append((address, command, arguments))


ONE, OTHER = Side("eu-1", "tcp://one:1"), Side("eu-2", "tcp://other:1")


def test_partition_is_asked_of_both_brokers_and_healed_at_both() -> None:
    managed = Managed()
    fault = PartitionFault(ONE, OTHER, 5.0, managed, is_one_way=False)
    fault.strike()
    assert managed.done == [
        (ONE.address, "partition", {"peer": "eu-2", "for_s": 5.0, "lost": "both"}),
        (OTHER.address, "partition", {"peer": "eu-1", "for_s": 5.0, "lost": "both"}),
    ]
    managed.done.clear()
    fault.mend()
    fault.mend()
    assert managed.done == [(ONE.address, "heal", {"peer": "eu-2"}), (OTHER.address, "heal", {"peer": "eu-1"})]


def test_one_way_partition_loses_what_the_first_sends() -> None:
    managed = Managed()
    PartitionFault(ONE, OTHER, 5.0, managed, is_one_way=True).strike()
    assert [arguments["lost"] for _, _, arguments in managed.done] == ["sent", "received"]


def test_half_a_partition_is_healed_at_once() -> None:
    managed = Managed(unreachable=OTHER.address)
    fault = PartitionFault(ONE, OTHER, 5.0, managed, is_one_way=False)
    with pytest.raises(Unreachable):
        fault.strike()
    assert [command for _, command, _ in managed.done] == ["partition", "heal"]
