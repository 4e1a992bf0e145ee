"""How a thread sleeps on a client's socket, and how another one wakes it."""

from __future__ import annotations

import contextlib
import select
import socket
from typing import Final

from scale0.client.engine import Engine

_IN: Final = select.POLLIN


class Waker:
    """A pair of sockets of which one end is polled. May be woken from any thread, any number of times."""

    def __init__(self) -> None:
        self._inner, self._outer = socket.socketpair()
        self._inner.setblocking(False)
        self._outer.setblocking(False)
        self.fileno = self._inner.fileno()

    def wake(self) -> None:
        # A full buffer wakes as well as one byte more; a closed one has nobody to wake.
        with contextlib.suppress(OSError):
            self._outer.send(b"\0")

    def clear(self) -> None:
        with contextlib.suppress(OSError):
            self._inner.recv(4096)

    def __del__(self) -> None:
        # Only when nobody can sleep on it any more: a closed descriptor may soon be somebody else's.
        self._inner.close()
        self._outer.close()


class Sleep:
    """One thread's sleep on an engine's socket, its monitor and a waker."""

    def __init__(self) -> None:
        self.waker = Waker()
        self.monitor_fileno = -1
        self._generation = -1
        self._poll = select.poll()
        self._park = select.poll()
        self._park.register(self.waker.fileno, _IN)

    def prepare(self, engine: Engine) -> None:
        """Look for the engine's socket, if it is a new one. Comes before `until`, while the engine is ours."""
        if engine.generation == self._generation:
            return
        self._generation = engine.generation
        self._poll = select.poll()
        self._poll.register(self.waker.fileno, _IN)
        self.monitor_fileno = -1
        if engine.dealer.is_open:
            self.monitor_fileno = engine.dealer.monitor_fileno
            self._poll.register(self.monitor_fileno, _IN)
            self._poll.register(engine.dealer.fileno, _IN)

    def until(self, seconds: float) -> list[tuple[int, int]]:
        """Sleep at most so long, rounded up: a deadline has passed after it. Returns the descriptors that woke it."""
        return self._poll.poll(seconds * 1000)

    def park(self, seconds: float) -> None:
        """Sleep on the waker alone."""
        if self._park.poll(seconds * 1000):
            self.waker.clear()
