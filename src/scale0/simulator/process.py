"""One run of a participant: it starts, may be paused (STOP, CONT) or crash, and ends. The next run has another nonce.

Everything that happens to a process goes through `post`, so a paused one finds it all, in order, when it goes on.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from scale0.core.link_settings import Phase
from scale0.core.participant import Connected, Failed, Keep, Note, Open, ParticipantEffect, Transmit
from scale0.protocol import native
from scale0.protocol.dialects import Dialect
from scale0.protocol.ids import id_prefix
from scale0.protocol.messages import ChangeBroker, Config, ConfigAck, Error, Message, Pong, ReadyOk
from scale0.simulator.network import Socket
from scale0.simulator.schedule import wall_s
from scale0.simulator.transitions import phase_changed

if TYPE_CHECKING:
    from scale0.core.client_session import ClientSession
    from scale0.core.worker_session import WorkerSession
    from scale0.simulator.world import World

HEEDS = (Phase.CONNECTING, Phase.UP)  # whoever waits, or asks for another broker, does not hear this one
MOVES = frozenset((ChangeBroker, Config, ConfigAck, Error))  # what may send a participant elsewhere, or take it
NAMES_AN_EPOCH = frozenset((Config, ConfigAck, Pong, ReadyOk))
OF_EVERY_SESSION = frozenset((Open, Keep, Connected, Note, Failed))
BUSY_WAKES_MAX = 30  # so many wakes without any time passing mean that a real shell would spin


def behaviour_of(body: Sequence[bytes]) -> bytes:
    """What a task asks of its handler: its body's second frame. A task of an operator asks for nothing."""
    return body[1] if len(body) > 1 else b"ok"


class Process:
    """What all participants have in common."""

    is_at = ""  # the broker that it belongs to, if it is one end of a link between brokers

    def __init__(self, world: World, name: str, identity: str) -> None:
        self.world = world
        self.schedule = world.schedule
        self.name = name  # the participant, over all its runs
        self.identity = identity
        self.run_number = world.next_run(name)
        self.label = f"{name}#{self.run_number}"
        self.random = world.random_for(self.label)
        self.nonce = self.random.randbytes(8)
        self.id_prefix = id_prefix(identity, self.nonce)  # of its tasks
        self.is_alive = True
        self.is_paused = False
        self.paused_s = 0.0  # in all
        self.clock_off_s = 0.0  # this process's wall clock less the true one
        self.clock_was_off = False
        self.socket: Socket | None = None
        self._paused_at_s = 0.0
        self._backlog: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()

    @property
    def now(self) -> float:
        return self.schedule.now

    @property
    def wall_s(self) -> float:
        return wall_s(self.schedule.now) + self.clock_off_s

    def post(self, action: Callable[..., None], *arguments: Any) -> None:
        """Let this happen to the process: now, when it is continued, or never if it has ended."""
        if self.is_paused:
            self._backlog.append((action, arguments))
        elif self.is_alive:
            action(*arguments)

    def after(self, delay_s: float, action: Callable[..., None], *arguments: Any) -> None:
        self.schedule.after(delay_s, self.post, action, *arguments)

    def start(self) -> None:
        raise AssertionError("each kind of process has its own")

    def deliver(self, socket: Socket, frames: list[bytes]) -> None:
        raise AssertionError("each kind of process has its own")

    def link_failed(self, socket: Socket, reason: str) -> None:
        """The socket's monitor says that its connection failed."""

    def pause(self) -> None:
        if self.is_alive and not self.is_paused:
            self.is_paused = True
            self._paused_at_s = self.now

    def resume(self) -> None:
        if not self.is_paused:
            return
        self.is_paused = False
        self.paused_s += self.now - self._paused_at_s
        backlog, self._backlog = self._backlog, deque()
        while backlog and self.is_alive:
            action, arguments = backlog.popleft()
            action(*arguments)

    def crash(self) -> None:
        """Ends at once, without a word."""
        self._end(lingers=False)

    def leave_for_good(self) -> None:
        """Ends in order: what was sent still leaves."""
        self._end(lingers=True)

    def _end(self, lingers: bool) -> None:
        if self.is_alive:
            self.is_alive = False
            self.is_paused = False
            self._backlog.clear()
            if self.socket is not None:
                self.socket.close(lingers)
            self.world.ended(self)


class SessionProcess(Process):
    """A shell around one of the library's sessions, as the real ones are: it carries out effects and wakes in time."""

    dialect: Dialect
    session: ClientSession | WorkerSession

    def __init__(self, world: World, name: str, identity: str) -> None:
        super().__init__(world, name, identity)
        self.has_connected = False
        self._phase = Phase.IDLE  # as it was seen last
        self._config_version = b""  # as it was looked at last
        self._wake_s = math.inf
        self._last_wake_s = 0.0
        self._idle_wakes = 0

    def start(self) -> None:
        self.perform(self.session.start(self.now, self.wall_s))

    def deliver(self, socket: Socket, frames: list[bytes]) -> None:
        if socket is not self.socket:
            return
        message = native.decode(frames)
        kind, link = type(message), self.session.link
        if kind in MOVES:
            self.world.moves.heard(self, message)
        phase = link.phase
        self.perform(self.session.receive(message, self.schedule.now))
        if kind in NAMES_AN_EPOCH and phase in HEEDS and self.world.stars.is_any:
            self.world.stars.splits.obeyed(self, socket, message)
        # What an earlier process has saved is a hint only.
        if self.has_connected and link.held.version is not self._config_version:
            self._config_version = link.held.version
            self.world.versions.heard(self)

    def link_failed(self, socket: Socket, reason: str) -> None:
        if socket is self.socket:
            self.perform(self.session.link_failed(reason, self.schedule.now))

    def perform(self, effects: list[ParticipantEffect]) -> None:
        """Carry out `effects`, and those that follow from failed sends."""
        phase = self.session.link.phase
        if phase is not self._phase:
            phase_changed(self.world, self._phase, phase)
            self._phase = phase
        for effect in effects:
            if not self.is_alive:
                return
            kind = type(effect)
            if kind is Transmit:
                message = effect.message  # type: ignore[union-attr]
                if self.socket is not None and not self.socket.send(native.encode(self.dialect.header, message)):
                    effects.extend(self._not_sent(message))
            elif kind in OF_EVERY_SESSION:
                self._carry_out_own(effect)
            else:
                self.carry_out(effect)
        if self.is_alive:
            self._set_wake()

    def _carry_out_own(self, effect: ParticipantEffect) -> None:
        """The effects that clients and workers know."""
        world = self.world
        if isinstance(effect, Open):
            if self.socket is not None:
                self.socket.close(lingers=True)
            world.moves.opened(self, effect.endpoint, self.session.link.phase)
            self.socket = world.network.open(self, effect.endpoint)
        elif isinstance(effect, Keep):
            world.saved[self.name] = effect.saved
        elif isinstance(effect, Connected):
            self.has_connected = True
            world.count("effect", "Connected")
        elif isinstance(effect, Note):
            world.trace.event(self.now, self.label, f"note: {effect.text}")
        elif isinstance(effect, Failed):
            world.trace.event(self.now, self.label, f"failed: {effect.error!r}")
            world.count("effect", "Failed")
            self.failed()

    def carry_out(self, effect: ParticipantEffect) -> None:
        """The effects that only clients, or only workers, know."""
        raise AssertionError("each kind of process has its own")

    def failed(self) -> None:
        """The session is over: so is the process."""
        self.crash()

    def _not_sent(self, message: Message) -> list[ParticipantEffect]:
        self.world.count("network", "participant's pipe full")
        return self.session.send_failed(message, self.now)

    def _set_wake(self) -> None:
        due_s = self.session.next_deadline()
        if due_s < self._wake_s:
            self._wake_s = due_s
            # Sleeping takes a little longer than asked.
            at_s = max(due_s, self.schedule.now) + self.random.random() * 0.002
            self.schedule.at(at_s, self._wake, due_s)

    def _wake(self, due_s: float) -> None:
        if due_s == self._wake_s:
            self.post(self._tick)

    def _tick(self) -> None:
        self._wake_s = math.inf
        now = self.schedule.now
        self._idle_wakes = self._idle_wakes + 1 if now - self._last_wake_s < 0.0025 else 0
        self._last_wake_s = now
        if self._idle_wakes > BUSY_WAKES_MAX:
            self.world.violation("busy wait", f"{self.label} woke {self._idle_wakes} times on end")
        self.perform(self.session.tick(now, wall_s(now) + self.clock_off_s))
