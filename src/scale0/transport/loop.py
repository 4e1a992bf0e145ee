"""The broker's one loop: it drains the ROUTER sockets in batches, feeds the core, and sends what the core returns.

One thread owns sockets and core, so nothing is locked. Every message is read to its last frame whatever it holds: a
short or many-framed one must never leave the socket between two frames, or one client would get another's reply. How
effects are carried out is `outgoing`'s.

This is the hot path: every task passes here four times, and everything rare stands in a function of its own. Flags are
plain ints, a frame's `more` comes with it, and no exception is raised but the one that ends a batch.
"""

from __future__ import annotations

import contextlib
import errno
import math
import socket as sockets
from collections import deque
from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import Any, Final, Protocol

import msgspec
import zmq
from zmq.backend import zmq_poll

from scale0.core.effects import Effect, Route, Send
from scale0.errors import ProtocolError
from scale0.protocol.bundles import is_bundle, unbundled
from scale0.protocol.codec import AnyMessage, decode, dialect_of
from scale0.protocol.dialects import Dialect
from scale0.transport.clock import SYSTEM_CLOCK, Clock
from scale0.transport.outgoing import Outgoing
from scale0.transport.reading import read_on, user_of
from scale0.transport.sockets import EVENTS, NOBLOCK, POLLIN, Port

BATCH_MAX: Final = 200  # messages taken from one socket before the others and the timers have their turn
TURN_S_MAX: Final = 1.0  # the core is ticked at least this often: it sees jumps of the wall clock by it
FLUSH_AT: Final = 128  # effects that are sent together: with more, workers would stand idle until the batch ends
BUSY_S: Final = 0.01  # while messages come, deadlines are looked at so often
CALLS_MAX: Final = 1_000  # calls from other threads that wait for their turn

Receive = Callable[[Route, Dialect, AnyMessage, float], list[Effect]]


class Core(Protocol):
    """What the loop needs of `scale0.core.broker.Broker`."""

    def receive(self, route: Route, dialect: Dialect, message: AnyMessage, now: float) -> list[Effect]: ...
    def malformed(self, route: Route, dialect: Dialect | None, error: ProtocolError, now: float) -> list[Effect]: ...
    def send_failed(self, send: Send, reason: str, now: float) -> list[Effect]: ...
    def tick(self, now: float, wall_s: float) -> list[Effect]: ...
    def flush(self, now: float) -> list[Effect]: ...
    def next_deadline(self) -> float: ...
    def introduce(self, route: Route, key: str) -> None: ...
    def takes_bundles(self, route: Route) -> bool: ...


class Sieve(Protocol):
    """What drops messages during a drill (`partition.py`). Without a drill there is none, and nothing is asked."""

    def receive(self, route: Route, dialect: Dialect, message: AnyMessage, now: float) -> list[Effect]: ...
    def sift(self, effects: list[Effect]) -> list[Effect]: ...
    def hears(self, identity: str) -> bool: ...


class Counters(msgspec.Struct):
    """What the loop has seen since it began."""

    received: int = 0
    sent: int = 0
    malformed: int = 0
    unroutable: int = 0
    full: int = 0
    ticks: int = 0
    bugs: int = 0


class Loop:
    """Carries messages between `ports` and `core` until `stop`.

    `on_effect` gets every effect that is not a `Send`, `on_tick` is called after each tick, and `on_bug` with a
    sentence while an unexpected exception is handled. With `strict` such an exception ends the loop; without, it is
    counted and the broker goes on serving.
    """

    def __init__(
        self,
        core: Core,
        ports: Sequence[Port],
        *,
        on_effect: Callable[[Effect], None],
        on_tick: Callable[[float], None] = lambda now: None,
        on_bug: Callable[[str], None] = lambda what: None,
        clock: Clock = SYSTEM_CLOCK,
        strict: bool = False,
    ) -> None:
        self.core = core
        self.counters = Counters()
        self.is_stopped = False
        self.sieve: Sieve | None = None
        self.known: Container[Route] = ()  # connections whose key the core knows, where connections have keys
        self.record: Callable[[float], float] | None = None  # brings rows to the recorder, if there is one
        self._ports: dict[Any, Port] = {}
        self._on_effect, self._on_tick, self._on_bug = on_effect, on_tick, on_bug
        self._monotonic, self._wall = clock.monotonic, clock.wall
        self._strict = strict
        self._outgoing = Outgoing(core.takes_bundles, self._carry_out_rare, self._send_failed, self._bug)
        self._calls: deque[Callable[[], list[Effect]]] = deque()
        self._wake_up, self._woken = sockets.socketpair()
        self._wake_up.setblocking(False)
        self._woken.setblocking(False)
        self._poll_set: list[tuple[Any, int]] = []
        self._watchers: dict[int, Callable[[], None]] = {self._woken.fileno(): self._run_calls}
        self._poll_set.append((self._woken.fileno(), POLLIN))
        for port in ports:
            self.add_port(port)
        self._next_tick_s = -math.inf
        self._look_at_s = -math.inf  # when the core is asked again for its next deadline

    # --- from any thread ------------------------------------------------------------------------------------------

    def call(self, action: Callable[[], list[Effect]]) -> None:
        """Run `action` between two batches and carry out what it returns. Also from a signal handler."""
        if len(self._calls) >= CALLS_MAX:
            raise RuntimeError(f"{CALLS_MAX} calls already wait for the broker's loop")
        self._calls.append(action)
        self.wake()

    def stop(self) -> None:
        """End `run` after the present batch."""
        self.is_stopped = True
        self.wake()

    def wake(self) -> None:
        """End the present wait. A full pipe has done so already, and a closed one has nobody left to wake."""
        with contextlib.suppress(OSError):
            self._wake_up.send(b"\0")

    @property
    def wake_fd(self) -> int:
        """For `signal.set_wakeup_fd`: a signal then ends the wait."""
        return self._wake_up.fileno()

    # --- the loop's own thread ------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until `stop`."""
        while not self.is_stopped:
            self.turn()

    def add_port(self, port: Port) -> None:
        """From now on messages come and go through `port`, too."""
        self._ports[port.socket] = port
        self._outgoing.add_port(port)
        self._poll_set.append((port.socket, POLLIN))

    def watch(self, file: int, act: Callable[[], list[Effect]]) -> None:
        """Call `act` when `file` turns readable, and carry out what it returns.

        A descriptor costs the wait an eighth of what a socket of ZeroMQ costs it. That of a socket (`zmq.FD`) turns
        readable when something new has come, so `act` takes all there is, or arranges to be called again.
        """
        self._watchers[file] = partial(self._heed, act)
        self._poll_set.append((file, POLLIN))

    def take(self, route: Route, frames: Sequence[bytes]) -> list[Effect]:
        """What somebody else has read from a port, a message or a bundle; what the core asks for."""
        now = self._monotonic()
        receive = self.core.receive if self.sieve is None else self.sieve.receive
        messages: Sequence[Sequence[bytes]] = (frames,)
        if len(frames) == 1 and is_bundle(frames[0]):
            try:
                messages = unbundled(frames[0])
            except ProtocolError as error:
                return self._malformed(route, frames, error, now)
        self.counters.received += len(messages)
        return self._take_all(route, messages, receive, now)

    def close(self) -> None:
        """Give back the wake-up pair; the ports belong to whoever opened them."""
        self._wake_up.close()
        self._woken.close()

    def turn(self, wait_s_max: float = TURN_S_MAX) -> None:
        """Wait for messages or for the next deadline, then handle a batch of each socket and what is due.

        Asking the core for its next deadline costs as much as a message. So it is asked before a wait that may be
        long, and every `BUSY_S` while messages come one after another.
        """
        now = self._monotonic()
        if now >= self._look_at_s:
            due_s = min(self._next_tick_s, self.core.next_deadline())
            if now >= due_s:
                self._tick(now)
                due_s = min(self._next_tick_s, self.core.next_deadline())
            if self.record is not None:
                due_s = min(due_s, self._record(self.record, now))
            self._look_at_s = due_s
        # Rounded up, for a wait that ends a moment early would spin until the deadline.
        wait_s = min(self._look_at_s - now, wait_s_max)
        ready_now = zmq_poll(self._poll_set, math.ceil(wait_s * 1000) if wait_s > 0 else 0)
        if ready_now:  # what is handled now may set a nearer deadline
            self._look_at_s = min(self._look_at_s, now + BUSY_S)
        for ready, _ in ready_now:
            port = self._ports.get(ready)
            if port is not None:
                self._drain(port)
            else:
                self._watchers[ready]()
                self._look_at_s = now

    def _drain(self, port: Port) -> None:
        """At most `BATCH_MAX` messages of `port`, each to its last frame."""
        receive, mark, monotonic = port.receive, port.mark, self._monotonic
        core_receive = self.core.receive if self.sieve is None else self.sieve.receive
        known = self.known if port.has_keys else None
        count = 0
        # What the messages ask for is sent in bursts: one burst wakes ZeroMQ's I/O thread once, not for each task.
        batch: list[Effect] = []
        try:
            while count < BATCH_MAX:
                route: Any = mark + receive(NOBLOCK)  # ROUTER puts the routing id ahead, and a frame always follows
                frame = receive(NOBLOCK, False)
                has_more = frame.more
                if known is not None and route not in known:
                    self.core.introduce(route, user_of(frame))
                frames: Sequence[bytes]
                if not has_more:
                    frames = (frame.bytes,)
                else:
                    second = receive(NOBLOCK, False)
                    frames = (frame.bytes, second.bytes)
                    has_more = second.more
                count += 1
                now = monotonic()
                try:
                    if has_more:
                        frames = read_on(receive, frames)
                    if is_bundle(frames[0]) and len(frames) == 1:
                        messages = unbundled(frames[0])
                        count += len(messages) - 1
                        effects = self._take_all(route, messages, core_receive, now)
                    else:
                        dialect, message = decode(frames)
                        effects = core_receive(route, dialect, message, now)
                except ProtocolError as error:
                    effects = self._malformed(route, frames, error, now)
                except Exception:
                    effects = self._bug("a message")
                if effects:
                    batch += effects
                    if len(batch) >= FLUSH_AT:
                        self._carry_out(batch, now)
                        batch = []
                if count == 1 and not port.get(EVENTS) & POLLIN:
                    break  # a lone message: asking costs less than the exception that would end the batch
        except zmq.Again:
            pass  # drained
        finally:
            self.counters.received += count
            now = monotonic()
            batch += self.core.flush(now)
            if batch:
                self._carry_out(batch, now)

    def _take_all(
        self, route: Route, messages: Sequence[Sequence[bytes]], receive: Receive, now: float
    ) -> list[Effect]:
        """Each message of a bundle as if it had come alone."""
        effects: list[Effect] = []
        for frames in messages:
            try:
                dialect, message = decode(frames)
                effects += receive(route, dialect, message, now)
            except ProtocolError as error:
                effects += self._malformed(route, frames, error, now)
            except Exception:
                effects += self._bug("a message")
        return effects

    def _carry_out(self, effects: list[Effect], now: float) -> None:
        """Send what the core asks for, in order; what comes of failed sends follows."""
        if self.sieve is not None:
            effects = self.sieve.sift(effects)
        while effects:
            effects = self._outgoing.carry_out(effects, now)
        self.counters.sent = self._outgoing.sent

    # --- rare -----------------------------------------------------------------------------------------------------

    def _tick(self, now: float) -> None:
        self._next_tick_s = now + TURN_S_MAX
        self.counters.ticks += 1
        self._outgoing.unread.forget_read()
        try:
            effects = [*self.core.tick(now, self._wall()), *self.core.flush(now)]
        except Exception:
            effects = self._bug("a tick")
        self._carry_out(effects, now)
        self._on_tick(now)

    def _carry_out_rare(self, effect: Effect) -> None:
        try:
            self._on_effect(effect)
        except Exception:
            self._bug(type(effect).__name__)

    def _record(self, record: Callable[[float], float], now: float) -> float:
        try:
            return record(now)
        except Exception:
            self._bug("rows to be recorded")
            return math.inf

    def _heed(self, act: Callable[[], list[Effect]]) -> None:
        """Something rare came: a call, or what a watched descriptor brings."""
        try:
            effects = [*act(), *self.core.flush(self._monotonic())]
        except Exception:
            effects = self._bug("a call")
        self._carry_out(effects, self._monotonic())

    def _run_calls(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass
        for _ in range(len(self._calls)):
            self._heed(self._calls.popleft())

    def _malformed(self, route: Route, frames: Sequence[bytes], error: ProtocolError, now: float) -> list[Effect]:
        self.counters.malformed += 1
        try:
            dialect: Dialect | None = dialect_of(frames)
        except ProtocolError:
            dialect = None
        try:
            return self.core.malformed(route, dialect, error, now)
        except Exception:
            return self._bug("a malformed message")

    def _send_failed(self, send: Send, number: int | None, now: float) -> list[Effect]:
        if number == errno.EHOSTUNREACH:
            self.counters.unroutable += 1
            reason = "unroutable"
        elif number == errno.EAGAIN:
            self.counters.full += 1
            reason = "full"
        else:
            raise zmq.ZMQError(number)
        try:
            return self.core.send_failed(send, reason, now)
        except Exception:
            return self._bug("a failed send")

    def _bug(self, what: str) -> list[Effect]:
        """An exception that nobody expected, while it is being handled: count it, tell it, go on serving."""
        self.counters.bugs += 1
        self._on_bug(f"unexpected exception while handling {what}; the broker goes on")
        if self._strict:
            raise  # noqa: PLE0704
        return []
