"""`--processes n` and `--reload`: n processes of one worker, kept running, and restarted when the source changes.

Each process has a group of its own, so that Ctrl-C in the terminal reaches the supervisor alone, which then asks each
of them once: a process that got the signal twice would not drain. A process that crashes is started again, after a
pause that doubles; one that leaves by itself is not. If its very first start shows that it cannot work (exit codes 2,
3, 4), the supervisor ends with that code, except with `--reload`, where the next change may be the cure.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final

import msgspec

from scale0.cli.failures import Exit, remark
from scale0.cli.worker_command import WorkerCommand

TURN_S: Final = 0.1
LOOK_S: Final = 0.5  # how often the source files are looked at
BACKOFF_S: Final = 0.5
BACKOFF_MAX_S: Final = 30.0
STEADY_S: Final = 30.0  # after a run of this length the pauses begin anew
KILL_S: Final = 5.0  # at the very end, for a process that does not go
FILES_MAX: Final = 5_000
_HOPELESS: Final = (Exit.USAGE, Exit.UNREACHABLE, Exit.REFUSED)
_NOT_SOURCE: Final = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "build", "dist"})
_NEVER: Final = math.inf

Snapshot = dict[str, int]


def supervise(command: WorkerCommand) -> int:
    """Run `command.processes` processes until they have left, or signals have ended them."""
    supervisor = Supervisor(command)
    with supervisor.signals_noted():
        try:
            return supervisor.run()
        finally:
            supervisor.end_all()


class Slot:
    """One of the n places, with its process if there is one now."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.start_at_s = 0.0
        self.started_s = 0.0
        self.starts = 0
        self.crashes = 0  # without a steady run between them


class Supervisor:
    """Keeps the processes of one command."""

    def __init__(self, command: WorkerCommand) -> None:
        self._command = msgspec.structs.replace(command, processes=1, is_reloading=False)
        self._is_reloading = command.is_reloading
        self._slots = [Slot() for _ in range(command.processes)]
        self._lifeline, self._lifeline_end = os.pipe()
        self._signals = 0
        self._told = 0  # signals that were passed on
        self._is_renewing = False  # the processes were asked to leave, for the source has changed
        self._exit_code = int(Exit.GOOD)

    def run(self) -> int:
        """The exit code of a start that cannot work; else 1 if a process was cut short, 0 if all left cleanly."""
        seen = snapshot(Path.cwd()) if self._is_reloading else {}
        look_at_s = time.monotonic() + LOOK_S
        while not self._is_done():
            self._turn(time.monotonic())
            time.sleep(TURN_S)  # a signal does not end it, but the next turn is near
            if self._is_reloading and not self._signals and time.monotonic() >= look_at_s:
                former, seen = seen, snapshot(Path.cwd())
                look_at_s = time.monotonic() + LOOK_S
                if seen != former:
                    self._renew({path for path, _ in seen.items() ^ former.items()})
        return self._exit_code

    def end_all(self) -> None:
        """Nothing is left behind, however this ended."""
        self._tell_all(signal.SIGTERM)
        limit_s = time.monotonic() + KILL_S
        for slot in self._slots:
            if slot.process is not None:
                try:
                    slot.process.wait(max(0.0, limit_s - time.monotonic()))
                except subprocess.TimeoutExpired:
                    slot.process.kill()
                    slot.process.wait()
        os.close(self._lifeline)
        os.close(self._lifeline_end)

    @contextlib.contextmanager
    def signals_noted(self) -> Iterator[None]:
        """Within this block SIGINT and SIGTERM are counted, for the next turn to pass on."""

        def note(number: int, frame: FrameType | None) -> None:
            self._signals += 1

        former = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    # --- one turn -------------------------------------------------------------------------------------------------

    def _is_done(self) -> bool:
        if any(slot.process is not None for slot in self._slots):
            return False
        if self._signals:
            return True
        return not self._is_reloading and all(slot.start_at_s == _NEVER for slot in self._slots)

    def _turn(self, now: float) -> None:
        """See who has ended, pass signals on, and start what is due."""
        for slot in self._slots:
            if slot.process is not None and slot.process.poll() is not None:
                self._ended(slot, slot.process.returncode, now)
        while self._told < self._signals:
            self._told += 1
            self._tell_all(signal.SIGTERM if self._told <= 2 else signal.SIGKILL)
        if self._is_renewing and all(slot.process is None for slot in self._slots):
            self._is_renewing = False
            self._slots = [Slot() for _ in self._slots]
        if not self._signals and not self._is_renewing:
            for slot in self._slots:
                if slot.process is None and now >= slot.start_at_s:
                    self._start(slot, now)

    def _start(self, slot: Slot, now: float) -> None:
        command = msgspec.json.encode(self._command).decode()
        arguments = [sys.executable, "-m", "scale0.cli.worker_command", str(self._lifeline), command]
        slot.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, pass_fds=[self._lifeline], process_group=0)
        slot.started_s = now
        slot.starts += 1

    def _ended(self, slot: Slot, code: int, now: float) -> None:
        slot.process = None
        slot.start_at_s = _NEVER
        if self._is_renewing or code == 0:
            return
        if self._signals:
            self._exit_code = self._exit_code or int(Exit.BAD_ANSWER)
        elif slot.starts == 1 and code in _HOPELESS:
            if self._is_reloading:
                remark("waiting for a change in the source")
            else:
                self._exit_code = code
                self._signals = max(self._signals, 1)  # the others would fail likewise
        else:
            self._restart_later(slot, code, now)

    def _restart_later(self, slot: Slot, code: int, now: float) -> None:
        slot.crashes = 1 if now - slot.started_s > STEADY_S else slot.crashes + 1
        pause_s = min(BACKOFF_MAX_S, BACKOFF_S * 2 ** (slot.crashes - 1))
        slot.start_at_s = now + pause_s
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        remark(f"a worker process {how}; the next one starts in {pause_s:.3g} s")

    def _renew(self, changed: set[str]) -> None:
        names = sorted(os.path.relpath(path) for path in changed)
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        remark(f"changed: {', '.join(names[:3])}{more}; starting again")
        self._is_renewing = True
        self._tell_all(signal.SIGTERM)

    def _tell_all(self, number: signal.Signals) -> None:
        for slot in self._slots:
            if slot.process is not None:
                slot.process.send_signal(number)


def snapshot(root: Path) -> Snapshot:
    """The modification times of the Python files under `root`, up to a bound; hidden folders and packages apart."""
    found: Snapshot = {}
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name[0] != "." and name not in _NOT_SOURCE)
        for name in sorted(files):
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                with contextlib.suppress(OSError):  # it went away between the listing and now
                    found[path] = os.stat(path).st_mtime_ns
                if len(found) >= FILES_MAX:
                    return found
    return found
