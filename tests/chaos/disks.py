"""A small disk for what a broker keeps, which can be filled up and made read-only.

It is a `tmpfs` in a mount namespace of the run's own: `enter_own_space` starts the run again inside one, so that
nothing is left mounted when it ends, however it ends. Where the kernel grants no such namespace the files lie on the
ordinary disk; then a full disk is a limit on the size of files, and a read-only one cannot be had.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

SIZE_KIB = 256  # far more than a broker keeps of its config
BALLAST = "ballast"
CHUNK_BYTES = 4096
SPACE = "SCALE0_CHAOS_SPACE"  # set where mounting is the run's own affair

_WAYS = (["unshare", "--mount"], ["unshare", "--user", "--map-root-user", "--mount"])


def enter_own_space(arguments: list[str]) -> None:
    """Go on in a mount namespace, with the same process id. Returns if there is none to be had, or this is one."""
    if SPACE in os.environ or shutil.which("unshare") is None:
        return
    for way in _WAYS:
        if subprocess.run([*way, "true"], capture_output=True, check=False).returncode == 0:
            os.environ[SPACE] = "1"
            os.execvp(way[0], [*way, sys.executable, "-m", "tests.chaos", *arguments])


class Disk:
    """Where one broker keeps something: its state, or what its recorder has not shipped yet."""

    def __init__(self, path: Path, size_kib: int = SIZE_KIB) -> None:
        self.path = path
        self.is_own = SPACE in os.environ
        self._size_kib = size_kib
        path.mkdir(parents=True, exist_ok=True)
        if self.is_own:
            _mount("-t", "tmpfs", "-o", f"size={size_kib}k", "none", str(path))

    def fill(self, pid: int) -> None:
        """Not a byte more can be written."""
        if not self.is_own:
            _limit_files(pid, 0)
            return
        file = os.open(self.path / BALLAST, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            for _ in range(self._size_kib * 1024 // CHUNK_BYTES + 1):
                os.write(file, bytes(CHUNK_BYTES))
        except OSError:
            pass  # it is full
        finally:
            os.close(file)

    def empty(self, pid: int) -> None:
        if self.is_own:
            (self.path / BALLAST).unlink()
        else:
            _limit_files(pid, resource.RLIM_INFINITY)

    def forbid_writing(self) -> bool:
        """It becomes read-only; False if it cannot, for somebody has a file on it open for writing."""
        return _mount("-o", "remount,ro", str(self.path), is_sure=False)

    def allow_writing(self) -> None:
        _mount("-o", "remount,rw", str(self.path))

    def end(self) -> None:
        """What is on it moves to the ordinary disk, beside the logs."""
        if not self.is_own:
            return
        kept = self.path.with_name(f"{self.path.name}-kept")
        shutil.copytree(self.path, kept, ignore=shutil.ignore_patterns(BALLAST))
        subprocess.run(["umount", str(self.path)], check=True, capture_output=True, timeout=20)
        self.path.rmdir()
        kept.rename(self.path)


def _mount(*arguments: str, is_sure: bool = True) -> bool:
    done = subprocess.run(["mount", *arguments], check=is_sure, capture_output=True, timeout=20)
    return done.returncode == 0


def _limit_files(pid: int, size_bytes: int) -> None:
    _soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size_bytes, hard))
