"""A broker on its machine: it feeds `Broker` with frames and time and carries out what it asks for.

A crash loses everything but what was persisted; it may come between two effects of one verb, and then the later ones
never happen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scale0.core.broker import Broker
from scale0.core.effects import (
    Alarm,
    Answered,
    Asked,
    Dial,
    Effect,
    HangUp,
    KeepConfig,
    Listen,
    Persist,
    Publish,
    Send,
    Stopped,
)
from scale0.core.settings import BrokerSettings
from scale0.errors import ProtocolError
from scale0.protocol import codec
from scale0.protocol.dialects import PEER, Dialect, Role
from scale0.protocol.network import ConfigRecord, Document
from scale0.simulator.checks_broker import BrokerChecks
from scale0.simulator.gatekeeper import Gatekeeper
from scale0.simulator.links import DialedLink, DialedLinks, is_dialed
from scale0.simulator.machine import Machine
from scale0.simulator.network import Connection
from scale0.simulator.process import Process
from scale0.simulator.profiles import MANAGER, PASSWORD
from scale0.simulator.schedule import wall_s
from scale0.simulator.transitions import Transitions

if TYPE_CHECKING:
    from scale0.simulator.world import World

WORKER = Role.WORKER  # looked up once: each message is asked for it
NEVER = 1 << 30  # effects; more than any run has
GATE_S = 0.02  # what the gate takes to decide


class BrokerHost(Machine):
    def __init__(
        self,
        world: World,
        name: str,
        endpoint: str,
        settings: BrokerSettings,
        *,
        seeds: list[str] | None = None,
        document: Document | None = None,
    ) -> None:
        """`seeds` and `document` are what the operator starts the broker with, each time."""
        super().__init__(world, name)
        self.endpoint = endpoint
        self.publisher = settings.config_pub
        self.local = settings
        self.seeds = seeds or []
        self.document = document
        self.routes: dict[bytes, Connection] = {}
        self.links = DialedLinks(self)
        self.listens_to: list[str] = []
        self.broker: Broker
        self.checks: BrokerChecks
        self.gatekeeper: Gatekeeper
        self.transitions: Transitions
        # what is kept over restarts
        self.state = "active"
        self.epoch = 1
        self.is_serving = False  # as the active one of its pair
        self.records: list[ConfigRecord] = []
        self._effects_left = NEVER  # until it crashes

    @property
    def settings(self) -> BrokerSettings:
        """What holds for its broker now."""
        return self.broker.state.settings

    # --- its life -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """If it is down; a crash that was to come does not come any more."""
        self._effects_left = NEVER
        if self.is_running:
            return
        self.let_go()
        self.switch_on()
        self.broker = Broker(
            self.local,
            now=self.now,
            wall_s=self.wall_s,
            state=self.state,
            epoch=self.epoch,
            was_serving=self.is_serving,
            nonce=self.world.random_for(f"{self.name}#{self.incarnation}").randbytes(8),
            records=self.records,
            seeds=self.seeds,
            document=self.document,
        )
        users = {MANAGER: PASSWORD} if self.world.profile.is_managed else {}
        self.gatekeeper = Gatekeeper(self.broker, users)
        self.checks = BrokerChecks(self.world, self, self.broker.state.mode)
        self.transitions = Transitions(self.world, self)
        self.world.trace.event(self.now, self.name, f"starts, {self.broker.state.mode}")
        self.world.versions.started(self)
        self.wake_at(self.broker.next_deadline())

    def crash(self) -> None:
        if not self.is_running:
            return
        self.world.trace.event(self.now, self.name, "crashes")
        self._stop()

    def crash_after(self, effects: int) -> None:
        """Crash when so many more effects were carried out."""
        self._effects_left = effects

    def resumed(self) -> None:
        self.checks.paused(self.now)
        self.world.stars.went_on(self, self.now - self.paused_at_s)

    def knows_nothing_more(self) -> None:
        """It waits for its partner, which has to tell it everything: what it does from here on is judged anew."""
        before = self.checks
        before.ended()
        self.checks = BrokerChecks(self.world, self, self.broker.state.mode)
        self.checks.answers.owes_as(before.answers)
        self.checks.peers.owes_as(before.peers)

    def let_go(self) -> None:
        """The core's entries are made without Python's collector, which finds no cycle that leads through them."""
        if self.incarnation:
            self.broker.state.ledger.clear()
            self.broker.state.services.clear()

    def tick(self) -> None:
        now = self.schedule.now
        self._perform(self.broker.tick(now, wall_s(now) + self.clock_off_s))

    def _stop(self, lingers: bool = False) -> None:
        self.switch_off()
        self._effects_left = NEVER
        self.listens_to = []
        self.links.close(lingers)
        for connection in list(self.routes.values()):
            if lingers:
                self.world.network.end_after_word(connection)
            else:
                self.world.network.break_(connection)
        self.routes.clear()
        self.checks.ended()
        self.world.stars.ended(self)

    # --- what comes to it -----------------------------------------------------------------------------------------

    def arrive(self, connection: Connection, frames: list[bytes]) -> None:
        if connection.is_dead:
            return
        now, route, checks = self.schedule.now, connection.route, self.checks
        self.world.trace.message(now, connection.process.label, self.name, frames)
        try:
            dialect, message = codec.decode(frames)
        except ProtocolError as error:
            checks.received_garbage(connection)
            self._perform(self.broker.malformed(route, _dialect(frames), error, now))
            return
        peer = connection.peer
        if peer:
            checks.peers.received(peer, route, message)
            self.world.stars.heard(self, peer, route, message)
        else:
            self.world.stars.asked(self, message)
            checks.received(connection, dialect, message)
        effects = self.broker.receive(route, dialect, message, now)
        checks.handled()
        if dialect.role is WORKER:
            self.transitions.look_at(self.broker.state.sessions.by_route.get(route))
        self._perform(effects)

    def arrive_dialed(self, link: DialedLink, frames: list[bytes]) -> None:
        """From a broker that this one has dialed."""
        dialect, message = codec.decode(frames)
        peer, route = link.leads_to, link.route
        self.checks.peers.received(peer, route, message)
        self.world.stars.heard(self, peer, route, message)
        effects = self.broker.receive(route, dialect, message, self.schedule.now)
        self.checks.peers.handled()
        self._perform(effects)

    def link_broke(self, link: DialedLink) -> None:
        self.world.count("link", "told that it broke")
        self._perform(self.broker.link_broken(link.route, self.now))

    def link_refused(self, link: DialedLink) -> None:
        self.world.count("link", "told that nobody listens")
        self._perform(self.broker.link_refused(link.route, self.now))

    def hear(self, identity: str, version: bytes) -> None:
        """An announcement of another broker."""
        self.world.count("link", "announcement")
        self._perform(self.broker.heard_version(identity, version, self.now))

    def manage(self, command: str, arguments: dict[str, Any]) -> Any:
        """An operator's command: its result, or the error that refused it. Paused brokers do not take it."""
        if not self.is_running or self.is_paused:
            return None
        self.world.trace.event(self.now, self.name, f"manage {command}")
        self.world.count("manage", command)
        self.world.stars.ordered(self)
        try:
            result, effects = self.broker.manage(command, arguments, self.now)
        except ProtocolError as error:
            return error
        self.checks.managed(command)
        self._perform(effects)
        return result

    def configure(self, document: Document) -> Any:
        """The file was read again: nothing, or the error that refused it."""
        self.world.trace.event(self.now, self.name, "reads its file again")
        try:
            effects = self.broker.configure(document, self.now)
        except ProtocolError as error:
            return error
        self._perform(effects)
        return None

    # --- what its broker asks for ---------------------------------------------------------------------------------

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            self._effects_left -= 1
            if self._effects_left <= 0:
                self.world.trace.event(self.now, self.name, "crashes midway")
                self._stop()
                return
            if type(effect) is Send:
                why = self._send(effect)
                if why:
                    self.checks.send_failed(effect, self._peer_at(effect))
                    self.world.count("network", f"broker's send {why}")
                    effects.extend(self.broker.send_failed(effect, why, self.now))
                elif self.world.stars.is_any:
                    self.world.stars.left(self, effect.message)
            elif type(effect) is Stopped:
                self._drained()
                return
            else:
                self._carry_out(effect)
        told = self.broker.flush(self.schedule.now)
        if told:
            self._perform(told)
            return
        if self.world.stars.is_any:
            self.world.stars.stepped(self)
        self.world.moves.stepped()
        self.checks.after_step()
        self.transitions.look()
        due_s = self.broker.next_deadline()
        if due_s < self._wake_s:
            self.wake_at(due_s)

    def _carry_out(self, effect: Effect) -> None:
        """Whatever goes to no participant."""
        kind = type(effect).__name__
        self.world.count("effect", kind)
        if isinstance(effect, Persist):
            self.state = effect.state
            self.epoch, self.is_serving = max(self.epoch, effect.epoch), effect.is_serving
            self.checks.persisted(effect.state)
        elif isinstance(effect, KeepConfig):
            self.records = list(effect.records)
            self.world.versions.kept(self)
        elif isinstance(effect, Alarm):
            self.world.count("alarm", effect.name)
            self.world.versions.alarmed(effect)
            self.world.trace.event(self.now, self.name, f"alarm {effect.name}: {effect.text}")
        elif isinstance(effect, Dial):
            self.links.dial(effect)
        elif isinstance(effect, HangUp):
            self.links.hang_up(effect)
        elif isinstance(effect, Listen):
            self.listens_to = effect.endpoints
        elif isinstance(effect, Publish):
            self.world.versions.said(self, effect.message.config_version)
            self.world.network.publish(self, effect.message.identity, effect.message.config_version)
        elif isinstance(effect, Asked):
            self.world.schedule.after(GATE_S, self._decide, self.gatekeeper, effect)
        elif isinstance(effect, Answered):
            self.world.trace.event(self.now, self.name, f"answered: {effect.message}")
            follow_ups = self.gatekeeper.answered(effect, self.now)
            if follow_ups:
                self.world.schedule.after(0.0, self._follow_up, self.gatekeeper, follow_ups)

    def _decide(self, gatekeeper: Gatekeeper, asked: Asked) -> None:
        """The gate takes its time, and dies with its broker."""
        if self.is_running and not self.is_paused and gatekeeper is self.gatekeeper:
            self._perform(gatekeeper.decide(asked, self.now))

    def _follow_up(self, gatekeeper: Gatekeeper, effects: list[Effect]) -> None:
        if self.is_running and gatekeeper is self.gatekeeper:
            self._perform(effects)

    def _send(self, send: Send) -> str:
        """Why it could not be sent, or nothing."""
        peer, world, route, dialect = "", self.world, send.route, send.dialect
        if world.stars.is_any:
            world.stars.sent(self, send)
        if dialect is PEER:
            peer = self._peer_at(send)
            if peer:
                self.checks.peers.sent(peer, send)
        if is_dialed(route):
            return self.links.send(send)
        connection = self.routes.get(route)
        if connection is None:
            self.checks.sent_nowhere(send)
            return "unroutable"
        if not peer:
            self.checks.sent(connection, send)
            if dialect.role is WORKER:
                self.transitions.look_at(self.broker.state.sessions.by_route.get(route))
        if connection.down_pipe >= world.network.profile.pipe_messages:
            return "full"
        world.network.send_down(connection, codec.encode(dialect, send.message))
        return ""

    def _peer_at(self, send: Send) -> str:
        """The broker that this goes to; empty if it goes to a participant."""
        if send.dialect is not PEER:
            return ""
        link, connection = self.links.by_route.get(send.route), self.routes.get(send.route)
        if link is not None:
            return link.leads_to
        session = self.broker.state.sessions.by_route.get(send.route)
        return connection.peer if connection is not None else session.identity if session is not None else ""

    def _drained(self) -> None:
        """Draining is over: the process says goodbye and ends, and is started again."""
        self.world.count("effect", "Stopped")
        self.world.trace.event(self.now, self.name, "has drained and stops")
        self.checks.stopped()
        is_polite = self.world.shape is not None
        if is_polite:
            for effect in self.broker.stop(self.now):
                if isinstance(effect, Send):
                    self._send(effect)
        self._stop(lingers=is_polite)
        self.world.schedule.after(0.5, self.start)

    # --- what checks look at --------------------------------------------------------------------------------------

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


def _dialect(frames: list[bytes]) -> Dialect | None:
    try:
        return codec.dialect_of(frames)
    except ProtocolError:
        return None
