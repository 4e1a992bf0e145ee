"""Drives a client's socket from an asyncio event loop: `driver`'s twin, without threads.

The loop watches the socket's descriptor and takes what has come in batches; nothing here blocks. The descriptor is
edge-triggered, so after sending, once a turn of the loop, the socket is asked whether input has come that no signal
will tell. One timer stands for all deadlines of the session.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable, Sequence
from typing import Final

from scale0.client.engine import Engine, Sending
from scale0.client.options import GRACE_S, ClientOptions
from scale0.client.record import Record
from scale0.errors import DeadlineExceeded, UsageError
from scale0.protocol.ids import show_id

SPIN_S: Final = 0.001  # the shortest timer, should a deadline have passed and not moved


class LoopDriver:
    """A client's engine inside the event loop in which it is first used. Not thread-safe."""

    def __init__(self, options: ClientOptions) -> None:
        self.engine = Engine(options)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watched: tuple[int, ...] = ()  # descriptors of the socket and its monitor
        self._generation = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_turn_due = False

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        elif self._loop.is_closed():
            raise UsageError("this client belongs to an event loop that is closed: make a new one")
        return self._loop

    def submit(self, sendings: Sequence[Sending], timeout_s: float, priority: int) -> None:
        """Send tasks of one service; outcomes come to their records."""
        self._after_use()
        self.engine.submit_all(self.engine.traced(sendings), timeout_s, priority)

    def cancel(self, records: Iterable[Record]) -> None:
        """Nobody wants these any more."""
        if not self.engine.is_closed:
            self._after_use()
            for record in records:
                self.engine.cancel(record)

    async def wait(self, record: Record, limit_s: float) -> None:
        """Until `record` is ready; TimeoutError if that takes longer."""
        if record.is_ready:
            return
        loop = self.loop
        ready: asyncio.Future[None] = loop.create_future()
        record.wake = lambda: None if ready.done() else ready.set_result(None)
        limit = loop.call_later(limit_s, self._expire, ready, limit_s)
        try:
            await ready
        finally:
            limit.cancel()
            record.wake = None

    async def wait_for_outcome(self, record: Record, timeout_s: float) -> None:
        """Until a task's outcome. Its session gives it one by deadline and grace: the limit here is beyond that."""
        try:
            await self.wait(record, timeout_s + GRACE_S)
        except TimeoutError as error:
            self.cancel([record])
            raise DeadlineExceeded(504, str(error), record.service, show_id(record.id)) from None
        except asyncio.CancelledError:
            self.cancel([record])
            raise

    async def connect(self) -> None:
        """Until a broker has taken the session; raises why none did."""
        record = Record("")
        self._after_use()
        self.engine.start()
        limit_s = self.engine.connect_limit_s
        self.engine.tell_when_connected(record)
        try:
            await self.wait(record, limit_s)
        except TimeoutError:
            raise self.engine.unreachable(limit_s) from None
        record.take()

    def close(self) -> None:
        """Leave cleanly: what is open is settled. May be called again."""
        self._unwatch()
        if self._timer is not None:
            self._timer.cancel()
        self.engine.close()

    # --- turns of the loop ----------------------------------------------------------------------------------------

    def _expire(self, ready: asyncio.Future[None], limit_s: float) -> None:
        if not ready.done():
            ready.set_exception(TimeoutError(f"waited {limit_s:.3g} s for {self.engine.whereabouts()}"))

    def _after_use(self) -> None:
        """The socket is being used: before the loop sleeps, look after what that may have changed."""
        if not self._is_turn_due:
            self._is_turn_due = True
            self.loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._is_turn_due = False
        engine = self.engine
        if engine.is_closed:
            return
        engine.settle_input()
        if engine.generation != self._generation:
            self._watch()
        self._set_timer()
        if engine.is_unsettled:
            self._after_use()

    def _on_input(self) -> None:
        self.engine.take_input()
        self._end_turn()

    def _on_monitor(self) -> None:
        self.engine.look_at_link()
        self._end_turn()

    def _on_timer(self) -> None:
        self._timer = None
        self.engine.tick()
        self._end_turn()

    def _set_timer(self) -> None:
        """One timer, at the session's next deadline. One that is set too early stays: it fires, which costs little."""
        in_s = max(self.engine.next_deadline() - time.monotonic(), SPIN_S)
        at_s = self.loop.time() + in_s
        if self._timer is not None:
            if self._timer.when() <= at_s:
                return
            self._timer.cancel()
            self._timer = None
        if in_s != math.inf:
            self._timer = self.loop.call_at(at_s, self._on_timer)

    def _watch(self) -> None:
        """Watch the socket that the session has opened, and no longer the one before."""
        self._unwatch()
        self._generation = self.engine.generation
        dealer = self.engine.dealer
        if dealer.is_open:
            self._watched = (dealer.fileno, dealer.monitor_fileno)
            self.loop.add_reader(self._watched[0], self._on_input)
            self.loop.add_reader(self._watched[1], self._on_monitor)

    def _unwatch(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            for fileno in self._watched:
                self._loop.remove_reader(fileno)
        self._watched = ()
