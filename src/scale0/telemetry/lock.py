"""One recorder works in a telemetry directory at a time: who starts it takes a lock, and the process inherits it.

The lock belongs to the open file, so it ends with the recorder, however that ends. A broker that starts again finds it
held while the former recorder seals what it has, and waits a moment.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import Final

from scale0.errors import UsageError

NAME: Final = "lock"
LOOK_S: Final = 0.02


def take(directory: Path) -> int | None:
    """The lock, as an open file, or None if another recorder has it. Makes the directory. Raises `OSError`."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(directory / NAME, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    except BaseException:
        os.close(file)
        raise
    return file


def wait(directory: Path, limit_s: float) -> bool:
    """Wait until no recorder works in `directory`; False if one still does after `limit_s`."""
    end_s = time.monotonic() + limit_s
    while (file := take(directory)) is None:
        if time.monotonic() >= end_s:
            return False
        time.sleep(LOOK_S)
    os.close(file)
    return True


def check(directory: Path) -> None:
    """Say at once what would keep a recorder from working here."""
    try:
        file = take(directory)
    except OSError as error:
        raise UsageError(
            f"telemetry cannot be written to {directory}: {error.strerror}\nname another directory with --telemetry-dir"
        ) from error
    if file is not None:
        with contextlib.suppress(OSError):
            os.close(file)
