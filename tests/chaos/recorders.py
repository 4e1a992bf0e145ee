"""The recorders of a network, seen from the run: each works on a small disk of its own, and all ship to one place.

A recorder is no child of the run but of its broker, and outlives it: it is found by its parent, and at the end by the
lock that it holds. The run itself counts as somebody who follows, so that segments are sealed every few seconds.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from scale0.telemetry import catalogue, lock
from scale0.telemetry.catalogue import Consumer
from scale0.telemetry.place import Place
from tests.chaos.disks import Disk
from tests.integration.networks import BrokerProcess

DISK_KIB = 16 * 1024  # minutes of what a broker records here
MODULE = b"scale0.telemetry"
CONSUMER = "chaos"
END_S = 40.0  # for a recorder to seal, to ship and to end
PROC = Path("/proc")


class Recorders:
    """Where the brokers of one network record."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self.data = logs / "data"
        self.data.mkdir(parents=True, exist_ok=True)
        self.disks: dict[str, Disk] = {}
        self.processes: dict[tuple[str, int], list[int]] = {}
        """Each broker's processes so far, and how many tasks each had settled whenever it was looked at."""
        self._awaited: dict[tuple[str, str], tuple[int, int]] = {}

    def options(self, identity: str) -> list[str]:
        """What makes a broker record; its disk is there from now on."""
        disk = self.disks[identity] = Disk(self._logs / f"{identity}-telemetry", DISK_KIB)
        return ["--telemetry", "--telemetry-dir", str(disk.path), "--telemetry-data", str(self.data)]

    def sample(self, broker: BrokerProcess, *, is_one_of_a_pair: bool) -> None:
        """Note its process, and how many tasks it has settled; one of a pair counts those of its partner, too."""
        counts = self.processes.setdefault((broker.identity, broker.process.pid), [])
        if not is_one_of_a_pair:
            row = broker.rows("brokers")[0]
            counts.append(int(row["replied"]) + int(row["errored"]))

    def follow(self) -> None:
        catalogue.keep_position(Place(self.data), CONSUMER, Consumer({}, time.time_ns() // 1_000))

    def has_shipped(self, broker: BrokerProcess) -> bool:
        """Something of it is in the place; before that its recorder cannot tell the place from any empty directory."""
        return catalogue.last_number(Place(self.data), broker.identity) > 0

    # --- one recorder -------------------------------------------------------------------------------------------------

    def pid(self, broker: BrokerProcess) -> int:
        """The recorder that this broker has started; 0 while there is none."""
        return next((pid for pid in _recorders() if _parent(pid) == broker.process.pid), 0)

    def is_calm(self, broker: BrokerProcess) -> bool:
        """It has a recorder, and what was wrong with that one is over."""
        pid = self.pid(broker)
        for (identity, word), (whose, before) in list(self._awaited.items()):
            if identity != broker.identity:
                continue
            if pid == whose and said(broker, word) <= before:
                return False
            del self._awaited[identity, word]
        return bool(pid)

    def expect(self, broker: BrokerProcess, word: str) -> None:
        """Its recorder has to say this before it is calm again; another recorder need not."""
        self._awaited[broker.identity, word] = (self.pid(broker), said(broker, word))

    @contextlib.contextmanager
    def paused(self, pid: int) -> Iterator[None]:
        """`kill -STOP` while the block runs; should the run be killed meanwhile, `-CONT` comes all the same."""
        script = f"kill -STOP {pid}; echo; read _; kill -CONT {pid}"
        with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as guard:
            assert guard.stdout is not None
            guard.stdout.readline()
            yield

    @contextlib.contextmanager
    def data_away(self) -> Iterator[None]:
        """The data place is not where it was while the block runs."""
        away = self.data.with_name("data-away")
        self.data.rename(away)
        try:
            yield
        finally:
            away.rename(self.data)

    # --- the end ------------------------------------------------------------------------------------------------------

    def await_end(self) -> None:
        """Until all have sealed and shipped what they had, and have ended by themselves."""
        for identity, disk in self.disks.items():
            assert lock.wait(disk.path, END_S), f"the recorder of {identity} did not end within {END_S:g} s"

    def end(self) -> None:
        """None of them runs any more, and their disks are gone; what was on them is beside the logs."""
        with contextlib.ExitStack() as ends:
            for disk in self.disks.values():
                ends.callback(disk.end)
            for disk in self.disks.values():
                ends.callback(_end_in, disk.path)


def said(broker: BrokerProcess, word: str) -> int:
    """How often this was in a broker's log, in a line about recording."""
    lines = [line["event"] for line in list(broker.said)]
    return sum(word in line for line in lines if line.startswith("telemetry: "))


def _end_in(directory: Path) -> None:
    if lock.wait(directory, END_S):
        return
    for pid in _recorders():
        with contextlib.suppress(OSError):
            if any(os.path.realpath(file) == str(directory / lock.NAME) for file in (PROC / str(pid) / "fd").iterdir()):
                os.kill(pid, signal.SIGKILL)
    lock.wait(directory, END_S)


def _recorders() -> Iterator[int]:
    """All processes that are recorders, whosoever they are."""
    for process in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if MODULE in (process / "cmdline").read_bytes().split(b"\0"):
                yield int(process.name)


def _parent(pid: int) -> int:
    with contextlib.suppress(OSError, IndexError):
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return int(fields[1]) if fields[0] != "Z" else 0
    return 0
