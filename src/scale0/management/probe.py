"""What a process can learn of itself from its system: memory, processor, disk, open files.

Every figure may be missing: on another system than Linux, or in a sandbox that hides it. Then it is `None`, which is
never taken for 0.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Final

import msgspec

PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
PROC: Final = Path("/proc")
CGROUP: Final = Path("/sys/fs/cgroup")
MEASURED_S: Final = 1.0  # a share of less says nothing: a broker that has just begun has done nothing but begin
UNLIMITED_BYTES: Final = 2**60
"""A cgroup without a limit says `max`, and an older one a number beyond any memory."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """How this process is now."""

    rss_bytes: int | None
    memory_bytes: int | None
    cpu_percent: float | None  # of one processor, since the last look
    open_files: int | None
    open_files_max: int | None
    disk_bytes: int | None
    disk_free_bytes: int | None


class Probe:
    """Looks at this process; `state_dir` is where its state lies, if it keeps one."""

    def __init__(self, state_dir: Path | None = None) -> None:
        self._state_dir = state_dir
        self._looked_s = time.monotonic()
        self._used_s = time.process_time()

    def look(self) -> Figures:
        disk_bytes, disk_free_bytes = _disk(self._state_dir)
        return Figures(
            rss_bytes=rss_bytes(),
            memory_bytes=memory_bytes(),
            cpu_percent=self._cpu_percent(),
            open_files=_open_files(),
            open_files_max=_open_files_max(),
            disk_bytes=disk_bytes,
            disk_free_bytes=disk_free_bytes,
        )

    def _cpu_percent(self) -> float | None:
        now, used_s = time.monotonic(), time.process_time()
        passed_s, worked_s = now - self._looked_s, used_s - self._used_s
        if passed_s < MEASURED_S:
            return None
        self._looked_s, self._used_s = now, used_s
        return round(100 * worked_s / passed_s, 1)


def rss_bytes() -> int | None:
    """The memory that this process has in use."""
    try:
        return int((PROC / "self" / "statm").read_text().split()[1]) * PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return None


def memory_bytes(proc: Path = PROC, cgroup: Path = CGROUP) -> int | None:
    """The memory that it may have: its container's limit, or the machine's, whichever is less."""
    found = [_cgroup_bytes(cgroup / name) for name in ("memory.max", "memory/memory.limit_in_bytes")]
    found.append(_machine_bytes(proc))
    known = [size for size in found if size is not None]
    return min(known) if known else None


def _cgroup_bytes(file: Path) -> int | None:
    try:
        size = int(file.read_text())
    except (OSError, ValueError):  # no such group, or `max`
        return None
    return size if 0 < size < UNLIMITED_BYTES else None


def _machine_bytes(proc: Path) -> int | None:
    try:
        first = (proc / "meminfo").read_text().splitlines()[0]
        name, size, unit = first.split()
    except (OSError, ValueError, IndexError):
        return None
    return int(size) * 1024 if name == "MemTotal:" and unit == "kB" else None


def _open_files() -> int | None:
    try:
        return len(os.listdir(PROC / "self" / "fd"))
    except OSError:
        return None


def _open_files_max() -> int | None:
    try:
        import resource
    except ImportError:  # not on this system
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else None


def _disk(path: Path | None) -> tuple[int | None, int | None]:
    if path is None:
        return None, None
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return None, None
    return usage.total, usage.free
