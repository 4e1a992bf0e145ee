"""Who leads: the one thread that owns socket and session now.

Handing a task to another thread and its result back costs two wake-ups, which is more than all the rest of a quick
task, and most of its latency. So the leading thread runs quick handlers itself. It must not be kept by them, for the
heartbeat depends on it: while it runs them the lead is *lent*, and a deputy, who looks every `TAKEOVER_S`, takes it for
good if the same run still goes on. The former leader then finishes its handler, puts the result into the outbox like
any other thread, and ends; a new deputy stands by. The lead is a lock, so there is always at most one leader.

An idle worker's deputy sleeps: it is called when quick handlers run again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

TAKEOVER_S: Final = 0.005


class Lead:
    """The lead over one link. `main` is run by whoever has it, until it returns."""

    def __init__(self, main: Callable[[], None]) -> None:
        self._main = main
        self._lock = threading.Lock()
        self._runs = 0  # how often the lead was lent
        self._is_lent = False
        self._is_over = False
        self._has_deputy = False
        self._is_called = threading.Event()

    def start(self) -> None:
        """Begin to lead, in a new thread."""
        self._lock.acquire()
        self._start_thread(self._main, "scale0-link")

    def lend(self, work: Callable[[], None]) -> bool:
        """Do `work`, in the leading thread, while the deputy watches. False: the lead is lost, touch nothing more."""
        self._runs += 1
        self._is_lent = True
        if not self._is_called.is_set():  # after the count: see `_watch`
            self._call_deputy()
        self._lock.release()
        work()
        if not self._lock.acquire(blocking=False):
            return False
        self._is_lent = False
        return True

    def end(self) -> None:
        """Let the deputy go; by the leader, at the end."""
        self._is_over = True
        self._is_called.set()

    def _call_deputy(self) -> None:
        self._is_called.set()
        if not self._has_deputy:
            self._has_deputy = True
            self._start_thread(self._deputize, "scale0-deputy")

    def _start_thread(self, target: Callable[[], None], name: str) -> None:
        threading.Thread(target=target, name=name, daemon=True).start()

    # --- in the deputy's thread -----------------------------------------------------------------------------------

    def _deputize(self) -> None:
        while not self._is_over:
            self._is_called.wait()
            if self._watch():
                self._is_lent = False
                self._has_deputy = False  # the next run finds a new one
                self._is_called.clear()
                self._main()
                return

    def _watch(self) -> bool:
        """Look until nothing is run any more. True: the leader was kept, and the lead is ours."""
        while not self._is_over:
            runs = self._runs
            time.sleep(TAKEOVER_S)
            if self._runs != runs:
                continue
            if self._is_lent:
                if self._lock.acquire(blocking=False):
                    return True
                continue
            self._is_called.clear()
            if self._runs == runs:  # else it was lent before the line above, without a call
                return False
        return False
