"""The link's thread: the one that touches socket and session, and that no handler can keep.

That is what keeps a worker alive in the broker's eyes while a handler blocks, in a thread or even in the asyncio loop
(rule 17). One turn: requests, results out, messages in, timers, quick handlers, sleep. See `outbox.py` for how it is
woken, and `lead.py` for how it is relieved.
"""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable
from typing import Final

from scale0.core.participant import ParticipantEffect
from scale0.transport.dealer import DRAIN_MAX
from scale0.worker.lead import Lead
from scale0.worker.outbox import LOOK_AGAIN_S, Outbox
from scale0.worker.shell import Shell

BACKLOG_S: Final = 0.25  # how often the session hears how long jobs wait here
BUSY_S: Final = 0.01  # how often a link that does not sleep looks at the session's deadline
SLEEP_MAX_S: Final = 60.0


class LinkThread:
    """Runs one shell until the worker has left, or has failed. Public methods may be called from any thread."""

    def __init__(self, shell: Shell, outbox: Outbox, on_over: Callable[[], object]) -> None:
        self._shell = shell
        self._session = shell.session
        self._dealer = shell.dealer
        self._sync_runner = shell.runners[0]
        self._outbox = outbox
        self._on_over = on_over
        self._poller = select.poll()
        self._poller.register(outbox.fileno, select.POLLIN)
        self._socket_fds: tuple[int, ...] = ()
        self._monitor_fd = -1
        self._has_input = False  # something has come, or may have come
        self._batch = DRAIN_MAX  # how many messages are taken at once
        self._due_s = 0.0  # when the session's deadline is looked at again
        self._is_quiet = False  # the last short sleep brought nothing
        self._backlog_at_s = 0.0
        self._has_begun = False
        self._lead = Lead(self._main)
        shell.on_socket = self._watch_socket

    def start(self) -> None:
        self._lead.start()

    def tell(self, verb: Callable[[float], list[ParticipantEffect]]) -> None:
        """Have a verb of the session called, with the time."""
        self._outbox.call(lambda: self._shell.carry_out(verb(time.monotonic())))

    def leave(self, timeout_s: float) -> None:
        """Finish what has begun, return the rest, say goodbye; `timeout_s` is the limit."""
        self._outbox.call(lambda: self._shell.leave(timeout_s))

    def stop(self) -> None:
        """End at once: what has begun counts as lost."""
        self.tell(self._session.close)

    @property
    def error(self) -> BaseException | None:
        """What it failed with, once it is over."""
        return self._shell.error

    @property
    def was_cut_short(self) -> bool:
        return self._shell.was_cut_short

    # --- in the thread --------------------------------------------------------------------------------------------

    def _main(self) -> None:
        """Lead until all is over, or until the lead is lost."""
        shell = self._shell
        try:
            if not self._has_begun:
                self._has_begun = True
                shell.carry_out(self._session.start(time.monotonic(), time.time()))
            while not shell.is_over:
                self._turn()
                if self._sync_runner.has_quick_job and not self._lead.lend(self._sync_runner.run_quick_jobs):
                    self._outbox.announce()
                    return
        except BaseException as error:  # whoever waits for this thread must hear of its end, whatever it was
            shell.error = error
        shell.close()
        self._outbox.close()
        self._lead.end()
        self._on_over()

    def _turn(self) -> None:
        now = time.monotonic()
        shell, outbox = self._shell, self._outbox
        while outbox.calls:
            outbox.calls.popleft()()
        if outbox.results:
            shell.send_results(now)
        if self._dealer.is_open and (self._has_input or self._sync_runner.has_quick_job):
            self._take_input(now)
        if now >= self._due_s:
            if now >= self._session.next_deadline():
                shell.carry_out(self._session.tick(now, time.time()))
            self._due_s = self._session.next_deadline()
        if shell.jobs and now >= self._backlog_at_s:
            self._backlog_at_s = now + BACKLOG_S
            shell.report_backlog(now)
        if self._has_input or shell.is_over or self._sync_runner.has_quick_job:
            self._due_s = min(self._due_s, now + BUSY_S)  # what is done meanwhile may bring it forward
        else:
            self._sleep(now)

    def _take_input(self, now: float) -> None:
        """Take what has come, at most one batch.

        While messages come one by one, one is taken: a look for the next that finds none would cost more than taking
        this one did, and `_sleep` has to ask again in any case.
        """
        messages = self._dealer.drain(self._batch)
        self._has_input = len(messages) >= DRAIN_MAX
        if len(messages) < 2:
            self._batch = 1
        if messages:
            self._shell.receive(messages, now)

    def _sleep(self, now: float) -> None:
        """Wait for a message, a result, a request or a timer, whichever comes first."""
        outbox = self._outbox
        if self._dealer.is_open and self._dealer.is_readable:
            self._has_input = True
            self._batch = DRAIN_MAX
        if outbox.results or outbox.calls or self._has_input:
            for runner in self._shell.runners:
                runner.wake(now)
            return
        self._due_s = self._session.next_deadline()
        wake_at_s = min(self._due_s, now + SLEEP_MAX_S)
        for runner in self._shell.runners:
            runner.wake(now)
            look_at_s = runner.look(now)
            if look_at_s is not None:
                wake_at_s = min(wake_at_s, look_at_s)
        if self._shell.jobs:
            wake_at_s = min(wake_at_s, self._backlog_at_s)
            if not self._is_quiet:
                wake_at_s = min(wake_at_s, now + LOOK_AGAIN_S)
            outbox.is_sleeping = self._is_quiet
            if outbox.results:  # put before it was said that we sleep, and perhaps not announced
                return
        # Rounded up: a sleep that ends before its timer is due would be repeated for nothing.
        ready = self._poller.poll(max(0, math.ceil((wake_at_s - now) * 1000)))
        outbox.is_sleeping = False
        self._is_quiet = not ready and not outbox.results
        for fd, _ in ready:
            if fd == outbox.fileno:
                outbox.clear()
            elif fd == self._monitor_fd:
                self._shell.hear_failures()
            else:
                self._has_input = True

    def _watch_socket(self) -> None:
        """Poll the socket that is open now, and the former one no more."""
        for fd in self._socket_fds:
            self._poller.unregister(fd)
        self._socket_fds, self._monitor_fd = (), -1
        self._has_input = self._dealer.is_open
        if self._dealer.is_open:
            self._monitor_fd = self._dealer.monitor_fileno
            self._socket_fds = (self._dealer.fileno, self._monitor_fd)
            for fd in self._socket_fds:
                self._poller.register(fd, select.POLLIN)
