"""What a benchmark reads off: CPU time and memory of a process, and a page of counters that a load generator keeps.

Rates depend on who shares the machine, so the figure to trust is CPU per task: user and system time of all threads of
the broker's process, taken from the kernel at both ends of a window, divided by the tasks that a load generator counted
in the same window. The counters live in a small shared file, so that reading them costs the generator nothing.
"""

from __future__ import annotations

import mmap
import os
import resource
import statistics
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

_CPU_CLOCK: Final = 2  # all threads of a process: what clock_getcpuclockid(3) returns for its pid
_U64: Final = struct.Struct("=Q")

# Slots of the counter page; `load.c` has the same numbers. The last six are about pushed configs and latencies:
# CONFIGs and CONFIGACKs that came unasked, epoch and number of the newest version, how many workers have it, when the
# last of them got it (µs of the monotonic clock), and how many latencies were noted.
STOP, READY, COMPLETED, ERRORS, PONGS, RENEWED, CONFIGS, CONFIGACKS, NEWEST, REACHED, REACHED_US, SAMPLES = range(12)
_SAMPLES_AT: Final = 512  # behind the counters: pairs of when a reply came, in µs, and how long it took
_SAMPLES_MAX: Final = 1 << 15  # the newest are kept
PAGE_BYTES: Final = (_SAMPLES_AT + 2 * _SAMPLES_MAX) * 8


class Page:
    """Counters shared by a load generator, which writes, and the benchmark, which reads. `STOP` goes the other way."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = path
        if create:
            with path.open("wb") as file:
                file.truncate(PAGE_BYTES)
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), PAGE_BYTES)

    def read(self, slot: int) -> int:
        value: int = _U64.unpack_from(self._map, slot * 8)[0]
        return value

    def write(self, slot: int, value: int) -> None:
        _U64.pack_into(self._map, slot * 8, value)

    def add_sample(self, now_us: int, latency_us: int) -> None:
        """Note how long one task took."""
        count = self.read(SAMPLES)
        at = _SAMPLES_AT + 2 * (count % _SAMPLES_MAX)
        self.write(at, now_us)
        self.write(at + 1, latency_us)
        self.write(SAMPLES, count + 1)

    def latencies_us(self, from_s: float, until_s: float) -> list[float]:
        """How long the tasks took that were answered between two times of the monotonic clock, as far as is kept."""
        count = min(self.read(SAMPLES), _SAMPLES_MAX)
        pairs = struct.iter_unpack("=QQ", self._map[_SAMPLES_AT * 8 : (_SAMPLES_AT + 2 * count) * 8])
        return [float(latency_us) for at_us, latency_us in pairs if from_s * 1e6 <= at_us < until_s * 1e6]

    def close(self) -> None:
        self._map.close()


class Window(msgspec.Struct, frozen=True):
    """What happened between two readings."""

    seconds: float
    tasks: int
    errors: int
    cpu_s: dict[str, float]  # name of a process → CPU seconds of all its threads

    @property
    def tasks_per_s(self) -> float:
        return self.tasks / self.seconds

    def cpu_us_per_task(self, *names: str) -> float:
        """Of these processes together."""
        return sum(self.cpu_s[name] for name in names) * 1e6 / max(self.tasks, 1)

    def cpu_percent(self, name: str) -> float:
        return 100 * self.cpu_s[name] / self.seconds


def cpu_s(pid: int) -> float:
    """User and system time of all threads of a process so far, in seconds.

    This is the sum in `/proc/<pid>/stat`, read through the process's CPU clock, which counts in ns and not in 10 ms.
    """
    try:
        return time.clock_gettime(~pid << 3 | _CPU_CLOCK)
    except OSError as error:
        raise LookupError(f"process {pid} has ended") from error


def rss_kib(pid: int) -> int:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise LookupError(f"process {pid} has ended")


def watch(page: Page | None, pids: dict[str, int], seconds: float) -> Window:
    """Let the load run for `seconds` and say what was done and what it cost."""
    before = {name: cpu_s(pid) for name, pid in pids.items()}
    tasks, errors = (page.read(COMPLETED), page.read(ERRORS)) if page else (0, 0)
    started = time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - started
    if page:
        tasks, errors = page.read(COMPLETED) - tasks, page.read(ERRORS) - errors
    return Window(elapsed, tasks, errors, {name: cpu_s(pid) - before[name] for name, pid in pids.items()})


def wait_until_ready(page: Page, count: int, limit_s: float, is_alive: Iterable[object] = ()) -> None:
    """Wait until the generator's participants have their sessions."""
    end = time.monotonic() + limit_s
    while page.read(READY) < count:
        for process in is_alive:
            code = getattr(process, "returncode", None)
            if code is not None:
                raise RuntimeError(f"a load generator ended with code {code} before it was ready")
        if time.monotonic() > end:
            raise TimeoutError(f"{page.read(READY)} of {count} participants were ready after {limit_s:.0f} s")
        time.sleep(0.01)


def wait_until(is_so: Callable[[], bool], what: str, limit_s: float = 60.0, look_s: float = 0.02) -> float:
    """Look until it is so; how long it took, in seconds."""
    started = time.monotonic()
    while not is_so():
        if time.monotonic() - started > limit_s:
            raise TimeoutError(f"waited {limit_s:.0f} s for {what}")
        time.sleep(look_s)
    return time.monotonic() - started


class Others:
    """How much of the machine was used by processes that are not ours: the noise under the figures."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._busy_s, self._own_s = _busy_s(), _own_s()

    def cores(self) -> float:
        """Cores in use by others on average, once all our children have ended."""
        elapsed = time.monotonic() - self._started
        return max(0.0, (_busy_s() - self._busy_s - (_own_s() - self._own_s)) / elapsed)


def _busy_s() -> float:
    user, nice, system, _, _, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _own_s() -> float:
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in spent)


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def equal_rate(*full_speeds: float) -> int:
    """Tasks a second for a comparison at an equal rate: three quarters of what the slowest does at full speed.

    At a low rate each task wakes somebody, and what is measured is the kernel; near the limit of the faster one the
    slower one could not follow.
    """
    return max(100, int(min(full_speeds) * 0.75) // 100 * 100)


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that is not below `percent` of all."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def raise_file_limit() -> int:
    """Allow as many open files as the system lets us; thousands of connections need them. Children inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
