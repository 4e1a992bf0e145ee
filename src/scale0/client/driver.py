"""Drives a client's socket from the threads that wait for it: one leads, the others follow.

A thread hop costs more than everything else in a call, so the thread that waits for a reply sleeps on the socket
itself. Of several waiting threads one *leads*: it sleeps on the socket, takes what comes and wakes the others, its
followers, as their outcomes arrive; when it has its own, it hands the lead to one that still waits. When nobody waits,
a background thread leads: heartbeats, deadlines and callbacks go on. It gives way at once to a caller, and stays out of
the way as long as callers come one after another.

Two rules make this safe. `state` guards engine, socket and leadership, and is held for microseconds, never while
asleep: a leader sleeps on file descriptors, not on the ZeroMQ socket, so others may send meanwhile. And since any use
of the socket may swallow the signal of a message that has come, whoever used it takes what is there before `state` is
released, and wakes whom it was for, the leader included.

Nothing foreign runs under `state`: outcomes of futures with callbacks go to the background thread.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from scale0.client.engine import Engine, Sending
from scale0.client.options import GRACE_S, ClientOptions
from scale0.client.record import Record
from scale0.client.waker import Sleep
from scale0.errors import DeadlineExceeded, UsageError
from scale0.protocol.ids import show_id

PARK_S: Final = 0.05  # how long the background thread stays away after the last caller
TAKE_S: Final = 0.001  # callers that submit one by one and do not wait take what has come this often
IDLE_S: Final = 10.0  # no sleep is longer
SPIN_S: Final = 0.001  # the shortest sleep, should a deadline have passed and not moved
CLOSE_S: Final = 5.0  # how long `close` waits for the background thread

_monotonic = time.monotonic


class Driver:
    """A client's engine with the threads around it. Thread-safe."""

    def __init__(self, options: ClientOptions) -> None:
        self.engine = Engine(options)
        self.state = threading.Lock()
        self.callbacks_open = 0  # futures with callbacks and without an outcome; under `state`
        self._leader: Record | None = None  # what the leading caller waits for
        self._followers: dict[Record, list[threading.Lock]] = {}
        self._caller_sleep = Sleep()
        self._background_sleep = Sleep()
        self._has_background_lead = False
        self._wakes_at_s = 0.0  # when whoever leads looks at the time again
        self._sleeps_on = 0  # which of the engine's sockets
        self._used_at_s = 0.0  # when a caller last submitted or waited: both take what has come
        self._taken_at_s = 0.0  # when a submission last did
        self._callbacks: deque[Callable[[], None]] = deque()
        self._must_close = False
        self._is_forked = False
        self._thread: threading.Thread | None = None
        _drivers.add(self)

    # --- verbs, from any thread -----------------------------------------------------------------------------------

    def submit(self, sendings: Sequence[Sending], timeout_s: float, priority: int) -> None:
        """Send tasks of one service; outcomes come to their records."""
        self._check()
        sendings = self.engine.traced(sendings)
        with self.state:
            self.engine.submit_all(sendings, timeout_s, priority)
            now = _monotonic()
            if self._is_slept_on() or now >= self._taken_at_s + TAKE_S:
                self._taken_at_s = now
                self._after_use()
            self._used_at_s = now

    def cancel(self, records: Iterable[Record]) -> None:
        """Nobody wants these any more."""
        if not self._is_forked:
            with self.state:
                for record in records:
                    self.engine.cancel(record)
                self._after_use()

    def run(self, sending: Sending, timeout_s: float, priority: int) -> None:
        """Send one task and wait for its outcome; whatever ends the waiting early gives the task up."""
        self._check()
        record = sending[0]
        sendings = self.engine.traced((sending,))
        try:
            with self.state:
                self.engine.submit_all(sendings, timeout_s, priority)
                self._wait(record, timeout_s + GRACE_S)
        except BaseException as error:
            self.cancel([record])
            if isinstance(error, TimeoutError):
                raise _no_outcome(record, error) from None
            raise

    def wait(self, record: Record, limit_s: float) -> None:
        """Until `record` is ready; TimeoutError if that takes longer."""
        if not record.is_ready:
            self._check()
            with self.state:
                self._wait(record, limit_s)

    def wait_for_outcome(self, record: Record, timeout_s: float) -> None:
        """Until a task's outcome. Its session gives it one by deadline and grace: the limit here is beyond that."""
        try:
            self.wait(record, timeout_s + GRACE_S)
        except TimeoutError as error:
            self.cancel([record])
            raise _no_outcome(record, error) from None

    def connect(self) -> None:
        """Until a broker has taken the session; raises why none did."""
        self._check()
        record = Record("")
        with self.state:
            self.engine.start()
            limit_s = self.engine.connect_limit_s
            self.engine.tell_when_connected(record)
            self._after_use()
        try:
            self.wait(record, limit_s)
        except TimeoutError:
            raise self.engine.unreachable(limit_s) from None
        record.take()

    def look(self) -> None:
        """Take what has come, without waiting; for callers that only ask whether they are done."""
        if not self._is_forked and self.state.acquire(blocking=False):
            try:
                self.engine.take_input()
                self._after_use()
            finally:
                self.state.release()

    def call_back(self, function: Callable[[], None]) -> None:
        """Run `function` in the background thread, soon. Comes under `state`."""
        self._callbacks.append(function)
        self._background_sleep.waker.wake()

    def hurry(self) -> None:
        """Somebody waits without driving: let the background thread lead now. Comes under `state`."""
        self._background_sleep.waker.wake()

    def close(self) -> None:
        """Leave cleanly: what is open is settled, whoever waits wakes. May be called again, from any thread."""
        if self._is_forked:
            return
        with self.state:
            self.engine.close()
            self._wake_sleepers()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(CLOSE_S)
        self.engine.saved_config.wait()

    def close_soon(self) -> None:
        """`close` for a finalizer, which may run in any thread at any point: takes no lock and does not wait."""
        self._must_close = True
        if not self._is_forked:
            self._background_sleep.waker.wake()

    # --- leading and following: all under `state`, which is released only while asleep ------------------------------

    def _wait(self, record: Record, limit_s: float) -> None:
        until_s = _monotonic() + limit_s
        try:
            while not record.is_ready:
                if self._leader is None:
                    self._lead(record, until_s)
                else:
                    self._after_use()
                    if not record.is_ready:  # what was taken just now may be it
                        self._follow(record, until_s)
                if not record.is_ready and _monotonic() >= until_s:
                    raise TimeoutError(f"waited {limit_s:.3g} s for {self.engine.whereabouts()}")
        finally:
            self._used_at_s = _monotonic()

    def _lead(self, record: Record, until_s: float) -> None:
        self._leader = record
        if self._has_background_lead:
            self._background_sleep.waker.wake()
        try:
            self._drive(self._caller_sleep, until_s, lambda: record.is_ready)
        finally:
            self._leader = None
            self._hand_over()

    def _hand_over(self) -> None:
        """Wake one that still waits, to lead; the background thread, if callbacks are awaited."""
        for record, locks in self._followers.items():
            if not record.is_ready:
                _wake(locks[0])
                return
        if self.callbacks_open:
            self._background_sleep.waker.wake()

    def _drive(self, sleep: Sleep, until_s: float, is_enough: Callable[[], bool]) -> None:
        """Take what comes and keep the time, until it is enough or the time is up."""
        engine = self.engine
        engine.settle_input()
        while not is_enough():
            now = _monotonic()
            if now >= until_s or engine.is_closed:
                return
            due_s = engine.next_deadline()
            if now >= due_s:
                engine.tick()
                if is_enough():
                    return
                due_s = max(engine.next_deadline(), now + SPIN_S)
            self._wakes_at_s = min(until_s, due_s, now + IDLE_S)
            seconds = 0.0 if engine.is_unsettled else self._wakes_at_s - now
            sleep.prepare(engine)
            self._sleeps_on = engine.generation
            self.state.release()
            try:
                woken_by = sleep.until(seconds)
            finally:
                self.state.acquire()
            for fileno, _ in woken_by:
                if fileno == sleep.waker.fileno:
                    sleep.waker.clear()
                elif fileno == sleep.monitor_fileno:
                    engine.look_at_link()
            engine.take_input()
            if sleep is not self._caller_sleep:
                self._wake_leader_if_ready()

    def _follow(self, record: Record, until_s: float) -> None:
        """Sleep until the leader has this outcome, or hands over the lead."""
        lock = threading.Lock()
        lock.acquire()
        locks = self._followers.setdefault(record, [])
        locks.append(lock)
        record.wake = lambda: _wake(*locks)
        self.state.release()
        try:
            lock.acquire(timeout=max(0.0, until_s - _monotonic()))
        finally:
            self.state.acquire()
            locks.remove(lock)
            if not locks:
                self._followers.pop(record, None)
                record.wake = None

    def _after_use(self) -> None:
        """The socket was used: take what came meanwhile, and wake who sleeps too long or on a socket that is gone."""
        engine = self.engine
        if engine.is_unsettled:
            engine.settle_input()
        due_s = engine.next_deadline()
        if due_s < self._wakes_at_s or engine.generation != self._sleeps_on or engine.is_unsettled:
            self._wakes_at_s = due_s
            self._sleeps_on = engine.generation
            self._wake_sleepers()
        self._wake_leader_if_ready()

    def _is_slept_on(self) -> bool:
        """Whether somebody sleeps on the socket, or is to. If not, the next who does looks first: no signal is lost."""
        return self._leader is not None or self._has_background_lead or self.engine.generation != self._sleeps_on

    def _wake_leader_if_ready(self) -> None:
        """Another thread may have taken what the leader sleeps for, and with it the signal."""
        if self._leader is not None and self._leader.is_ready:
            self._caller_sleep.waker.wake()

    def _wake_sleepers(self) -> None:
        self._caller_sleep.waker.wake()
        self._background_sleep.waker.wake()

    # --- the background thread ------------------------------------------------------------------------------------

    def _run_background(self) -> None:
        sleep = self._background_sleep
        while True:
            while self._callbacks:
                self._callbacks.popleft()()
            with self.state:
                if self._must_close:
                    self.engine.close()
                if self.engine.is_closed and not self._callbacks:
                    self._wake_sleepers()
                    return
                if self._leader is None and self._is_background_wanted():
                    self._has_background_lead = True
                    try:
                        self._drive(sleep, float("inf"), self._background_gives_way)
                    finally:
                        self._has_background_lead = False
                    continue
            sleep.park(PARK_S)

    def _is_background_wanted(self) -> bool:
        """No caller comes soon, or something goes on that no caller may be waiting for."""
        is_quiet = _monotonic() - self._used_at_s >= PARK_S
        return is_quiet or self.callbacks_open > 0 or not self.engine.is_connected

    def _background_gives_way(self) -> bool:
        return self._leader is not None or bool(self._callbacks) or self._must_close

    # --- threads and processes ------------------------------------------------------------------------------------

    def _check(self) -> None:
        """The driver can be used here and now; its background thread runs."""
        if self._is_forked:
            raise UsageError("this client was made before the process was forked: make a new one in the child")
        if self._thread is None:
            with self.state:
                if self._thread is None and not self.engine.is_closed:
                    self._thread = threading.Thread(target=self._run_background, name="scale0-client", daemon=True)
                    self._thread.start()

    def forget_after_fork(self) -> None:
        self._is_forked = True


def _no_outcome(record: Record, error: TimeoutError) -> DeadlineExceeded:
    return DeadlineExceeded(504, str(error), record.service, show_id(record.id))


def _wake(*locks: threading.Lock) -> None:
    for lock in locks:
        if lock.locked():
            lock.release()


_drivers: weakref.WeakSet[Driver] = weakref.WeakSet()


def _close_all() -> None:
    for driver in list(_drivers):
        driver.close()


def _forget_all() -> None:
    for driver in list(_drivers):
        driver.forget_after_fork()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forget_all)
