"""The machine that a broker runs on: it feeds `Broker` with frames and time and carries out what it asks for.

A crash loses everything but what was persisted; a pause (STOP, CONT) loses nothing, and after it the broker finds all
messages that came meanwhile, and then the time.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any

from scale0.core.broker import Broker
from scale0.core.effects import Alarm, Effect, Persist, Send, Stopped
from scale0.core.settings import BrokerSettings
from scale0.errors import ProtocolError
from scale0.protocol import codec
from scale0.protocol.dialects import Dialect
from scale0.simulator.checks_broker import BrokerChecks
from scale0.simulator.network import Connection
from scale0.simulator.process import BUSY_WAKES_MAX, Process
from scale0.simulator.schedule import wall_s

if TYPE_CHECKING:
    from scale0.simulator.world import World


class BrokerHost:
    def __init__(self, world: World, name: str, endpoint: str, settings: BrokerSettings) -> None:
        self.world = world
        self.name = name
        self.endpoint = endpoint
        self.settings = settings
        self.routes: dict[bytes, Connection] = {}
        self.is_running = False
        self.is_paused = False
        self.clock_off_s = 0.0
        self.told_clock_off_s = 0.0  # as the broker saw it last
        self.started_s = 0.0
        self.incarnation = 0
        self.broker: Broker
        self.checks: BrokerChecks
        self._state = "active"
        self._inbox: deque[tuple[Connection, list[bytes]]] = deque()
        self._wake_s = math.inf
        self._last_wake_s = 0.0
        self._idle_wakes = 0

    @property
    def now(self) -> float:
        return self.world.schedule.now

    @property
    def wall_s(self) -> float:
        return wall_s(self.now) + self.clock_off_s

    def start(self) -> None:
        if self.is_running:
            return
        self.incarnation += 1
        self.is_running = True
        self.started_s = self.now
        self.told_clock_off_s = self.clock_off_s
        self.broker = Broker(self.settings, now=self.now, wall_s=self.wall_s, state=self._state)
        self.checks = BrokerChecks(self.world, self, self._state)
        self.world.trace.event(self.now, self.name, f"starts, {self._state}")
        self._set_wake()

    def crash(self) -> None:
        if not self.is_running:
            return
        self.world.trace.event(self.now, self.name, "crashes")
        self._stop()

    def pause(self) -> None:
        if self.is_running and not self.is_paused:
            self.is_paused = True

    def resume(self) -> None:
        if not self.is_paused:
            return
        self.is_paused = False
        self.checks.paused(self.now)
        inbox, self._inbox = self._inbox, deque()
        while inbox and self.is_running:
            connection, frames = inbox.popleft()
            if not connection.is_dead:
                self._receive(connection, frames)
        if self.is_running:
            self._tick()

    def arrive(self, connection: Connection, frames: list[bytes]) -> None:
        if self.is_paused:
            self._inbox.append((connection, frames))
        elif self.is_running:
            self._receive(connection, frames)

    def manage(self, command: str, arguments: dict[str, Any]) -> Any:
        """An operator's command. Disabled and paused brokers take it too."""
        if not self.is_running or self.is_paused:
            return None
        self.world.trace.event(self.now, self.name, f"manage {command}")
        self.world.count("manage", command)
        try:
            result, effects = self.broker.manage(command, arguments, self.now)
        except ProtocolError as error:
            return error
        self.checks.managed(command)
        self._perform(effects)
        return result

    def is_listed(self, process: Process) -> bool:
        """Whether this worker stands in the LRU queue."""
        session = self.broker.state.sessions.by_identity.get(process.identity)
        is_same = session is not None and session.nonce == process.nonce
        return is_same and session.worker is not None and session.worker.is_listed  # type: ignore[union-attr]

    def slots_of(self, process: Process) -> list[bytes]:
        """The tasks that the broker believes this worker to hold."""
        session = self.broker.state.sessions.by_identity.get(process.identity)
        if session is None or session.nonce != process.nonce or session.worker is None:
            return []
        return list(session.worker.slots)

    def _receive(self, connection: Connection, frames: list[bytes]) -> None:
        now = self.now
        self.world.trace.message(now, connection.process.label, self.name, frames)
        try:
            dialect, message = codec.decode(frames)
        except ProtocolError as error:
            self.checks.received_garbage(connection)
            self._perform(self.broker.malformed(connection.route, _dialect(frames), error, now))
            return
        self.checks.received(connection, dialect, message)
        effects = self.broker.receive(connection.route, dialect, message, now)
        self.checks.handled(effects)
        self._perform(effects)

    def _perform(self, effects: list[Effect]) -> None:
        work = deque(effects)
        while work:
            effect = work.popleft()
            if type(effect) is Send:
                why = self._send(effect)
                if why:
                    self.checks.send_failed(effect)
                    self.world.count("network", f"broker's send {why}")
                    work.extend(self.broker.send_failed(effect, why, self.now))
            elif type(effect) is Persist:
                self._state = effect.state
                self.checks.persisted(effect.state)
            elif type(effect) is Alarm:
                self.world.count("alarm", effect.name)
                self.world.trace.event(self.now, self.name, f"alarm {effect.name}: {effect.text}")
            elif type(effect) is Stopped:
                self.world.count("effect", "Stopped")
                self.world.trace.event(self.now, self.name, "has drained and stops")
                self.checks.stopped()
                self._stop()
                self.world.schedule.after(0.5, self.start)
                return
        self.checks.after_step()
        self._set_wake()

    def _send(self, send: Send) -> str:
        """Why it could not be sent, or nothing."""
        connection = self.routes.get(send.route)
        if connection is None:
            self.checks.sent_nowhere(send)
            return "unroutable"
        self.checks.sent(connection, send)
        if connection.down_pipe >= self.world.network.profile.pipe_messages:
            return "full"
        self.world.network.send_down(connection, codec.encode(send.dialect, send.message))
        return ""

    def _stop(self) -> None:
        self.is_running = False
        self.is_paused = False
        self._wake_s = math.inf
        self._inbox.clear()
        for connection in list(self.routes.values()):
            self.world.network.break_(connection)
        self.routes.clear()
        self.checks.ended()

    def _set_wake(self) -> None:
        due_s = self.broker.next_deadline()
        if due_s < self._wake_s:
            self._wake_s = due_s
            self.world.schedule.at(max(due_s, self.now) + 0.001, self._wake, due_s, self.incarnation)

    def _wake(self, due_s: float, incarnation: int) -> None:
        if due_s == self._wake_s and incarnation == self.incarnation and self.is_running and not self.is_paused:
            self._tick()

    def _tick(self) -> None:
        self._wake_s = math.inf
        self._idle_wakes = self._idle_wakes + 1 if self.now - self._last_wake_s < 0.0015 else 0
        self._last_wake_s = self.now
        if self._idle_wakes > BUSY_WAKES_MAX:
            self.world.violation("busy wait", f"{self.name} woke {self._idle_wakes} times on end")
        self.told_clock_off_s = self.clock_off_s
        self._perform(self.broker.tick(self.now, self.wall_s))


def _dialect(frames: list[bytes]) -> Dialect | None:
    try:
        return codec.dialect_of(frames)
    except ProtocolError:
        return None
