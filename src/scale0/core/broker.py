"""The broker: a few verbs are its whole interface.

    receive       a message came            malformed     bytes came that are no message
    send_failed   a message could not go    tick          time has passed; with the wall clock
    manage        an operator's command     configure     the file was read again
    heard_version a publisher spoke         link_broken   a dialed link's connection ended
    link_refused  nobody listens there      flush         a burst of messages ends
    stop          the process ends          next_deadline when `tick` has something to do
    take_records  what is to be recorded    answer        what the shell or its gate says
    pass_on       a command for others too  introduce     a connection has proven a key
    allow         keys that are good        takes_bundles who takes several in one

Each takes what happened and `now`, and returns what the shell must do, in order. There is no socket, clock, random
number or file inside: the same broker runs over ZeroMQ and in the simulator. The rules stand in the modules beside this
one; here is only who handles what.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from scale0.core import (
    access,
    admission,
    afar,
    binary_star,
    broker_tasks,
    config_service,
    connections,
    dialing,
    doubt,
    failed_sends,
    groups,
    hints,
    liveness,
    majordomo,
    management,
    management_door,
    membership,
    modes,
    peer_dialect,
    peer_status,
    peers,
    peers_due,
    recording,
    replication,
    revocation,
    routing,
    snapshots,
    standby,
    turns,
    vitals,
)
from scale0.core.census import Census, census, check, check_session
from scale0.core.effects import DIALED, Effect, Route, Send
from scale0.core.handlers import HANDLERS
from scale0.core.management_door import Passed
from scale0.core.permissions import Permission
from scale0.core.sessions import Session
from scale0.core.settings import BrokerSettings
from scale0.core.state import State
from scale0.core.workers import delist
from scale0.errors import ProtocolError
from scale0.events import Records
from scale0.protocol.codec import AnyMessage
from scale0.protocol.codes import Code
from scale0.protocol.dialects import PEER, Dialect
from scale0.protocol.majordomo import MdpMessage
from scale0.protocol.messages import Connect, Disconnect, Error, ManagementReq, NeedBroker, Ping
from scale0.protocol.network import ConfigRecord, Document


class Broker:
    """One broker's rules. See the module for its verbs."""

    def __init__(
        self,
        settings: BrokerSettings,
        *,
        now: float,
        wall_s: float,
        epoch: int = 1,
        state: str = "active",
        was_serving: bool = False,
        nonce: bytes = bytes(8),
        records: list[ConfigRecord] | None = None,
        seeds: list[str] | None = None,
        seed_key: str = "",
        document: Document | None = None,
        boot: str = "",
    ) -> None:
        """`records` is the config that was kept, `document` what the operator wrote, `seeds` whom to join by.

        `seed_key` is the public key of those who answer there, for a broker that has a key itself.

        `boot` names this run of the process for those who record what it does; without it nothing is recorded.
        """
        self.state = State(
            settings,
            now,
            wall_s,
            epoch,
            state,
            was_serving=was_serving,
            nonce=nonce,
            records=records,
            seeds=seeds,
            seed_key=seed_key,
            document=document,
            boot=boot,
        )
        config_service.begin(self.state, is_new=not records)
        self._by_route = self.state.sessions.by_route
        self._penalties = self.state.error_clients.records

    # --- the verbs ------------------------------------------------------------------------------------------------

    def _at(self, now: float) -> State:
        """So begins each verb that may give something out. Rule 31: after a pause the other of the pair may serve."""
        state = self.state
        state.now = now
        if now > state.doubt_at_s:
            doubt.look_at_pause(state)
        return state

    def receive(self, route: Route, dialect: Dialect, message: AnyMessage, now: float) -> list[Effect]:
        state = self.state
        state.now = now
        if now > state.doubt_at_s:
            doubt.look_at_pause(state)
        if self._penalties and state.error_clients.ignores(route, now):
            return []
        session = self._by_route.get(route)
        handler = HANDLERS[dialect].get(type(message))
        if handler and session and session.dialect is dialect and state.mode != "disabled":
            session.last_seen_s = now
            is_back = session.is_absent and not _turns_away(message)
            if is_back and dialect is PEER:
                is_back = not dialing.is_moving(state, session)
            is_ping = type(message) is Ping  # rule 24: PONG and 426 leave before what was held fills the pipe
            if is_back and not is_ping:
                connections.deliver_held(state, session)
            if dialect.is_req:
                turns.open_turn(state, session, message)
            handler(state, session, message)
            if is_back and self._by_route.get(route) is session:  # not before: it may say that it has no room
                if is_ping:
                    connections.deliver_held(state, session)
                (peers if dialect is PEER else connections).take_up(state, session)
        else:
            self._receive_other(route, dialect, message, session)
        if state.mode != "active":
            modes.step(state)
        effects = state.effects
        state.effects = []
        return effects

    def malformed(self, route: Route, dialect: Dialect | None, error: ProtocolError, now: float) -> list[Effect]:
        """Bytes that are no message: answered where the sender can be, counted, and held against its connection."""
        state = self.state
        state.now = now
        if state.mode == "disabled" or state.error_clients.ignores(route, now):
            return []
        if not access.is_admitted(state, route):
            return []
        state.counters["malformed"] += 1
        state.error_clients.blame(route, error.text, now)
        if dialect is None:
            return []
        if dialect.majordomo:
            majordomo.malformed(state, route, dialect, error.code)
        else:
            state.effects.append(Send(route, dialect, Error(code=error.code, text=error.text)))
        return state.take_effects()

    def send_failed(self, send: Send, reason: str, now: float) -> list[Effect]:
        """Rule 10: a send that fails is an input. A TASK goes back; what is for a client is held under its cap."""
        state = self._at(now)
        state.counters[f"sends_{reason}"] += 1
        session = state.sessions.by_route.get(send.route)
        if session is not None:
            failed_sends.take_back(state, session, send.message, reason)
        return state.take_effects()

    def tick(self, now: float, wall_s: float) -> list[Effect]:
        """Time has passed: deadlines, silence, heartbeats, and our own clock."""
        state = self._at(now)
        liveness.look_at_clock(state, wall_s)
        if state.mode == "passive":  # whoever is known here is the other broker's, and it counts their time
            state.ledger.grow_up(now)
        else:
            self._tick_participants()
        peers.look_at_silent(state)
        dialing.tick(state)
        afar.spill(state)
        membership.tick(state)
        groups.tick(state)
        binary_star.tick(state)
        peer_status.tick(state)
        config_service.tick(state)
        if state.mode != "active":
            modes.step(state)
        if state.hints.by_worker:
            hints.tick(state)
        if state.own.asked:
            broker_tasks.look(state)
        if state.snapshots.walks:
            snapshots.drop_old(state)
        vitals.tick(state)
        if state.journal is not None:
            recording.tick(state)
        return state.take_effects()

    def _tick_participants(self) -> None:
        state = self.state
        routing.expire_overdue(state)
        liveness.look_at_silent(state)
        for session in turns.pong_held(state):
            if session.worker is not None:
                delist(session.worker)
        majordomo.beat(state)
        liveness.push_config(state)
        if not state.has_settled and not state.is_settling:
            admission.end_settling(state)

    def flush(self, now: float) -> list[Effect]:
        """A burst of messages is over: a fallback that follows hears what has changed."""
        state = self.state
        if state.stream is None or not state.stream.changes:
            return []
        state.now = now
        replication.flush(state)
        return state.take_effects()

    def take_records(self) -> Records | None:
        """What is to be recorded since this was last asked, if anything is."""
        journal = self.state.journal
        return journal.take() if journal is not None else None

    def next_deadline(self) -> float:
        state = self.state
        network = state.network
        times = [config_service.next_s(state), network.address_at_s]
        if state.pair is not None or state.stream is not None:
            times.append(binary_star.next_s(state))
        if network.peers:
            times.append(peers_due.next_s(state))
        if network.seeds:
            times.append(dialing.next_seed_s(state))
        if state.mode in ("disabled", "passive"):
            return min(times)
        if network.peers:
            times += (afar.next_spill_s(state), groups.next_s(state))
        if state.mode != "active":
            times.append(modes.next_step_s(state))
        if not state.has_settled:
            times.append(state.settled_at_s)
        if state.config.to_push:
            times.append(state.config.push_at_s)
        times += (
            state.ledger.next_s(),
            state.sessions.liveness.next_s,
            state.turns.next_s,
            state.majordomo_beats.next_s,
        )
        return min(times)

    def manage(self, command: str, arguments: dict[str, Any], now: float) -> tuple[Any, list[Effect]]:
        """An operator's command through a door of this process; an unknown one raises `ProtocolError`."""
        self._at(now)
        result = management.run(self.state, command, arguments)
        return result, self.state.take_effects()

    def answer(self, key: int, result: Any, now: float) -> list[Effect]:
        """The shell's answer to an effect `FromFiles`, `Reload` or `Asked`; a `ProtocolError` if it refuses."""
        self._at(now)
        management_door.answer(self.state, key, result)
        return self.state.take_effects()

    def pass_on(
        self, request: ManagementReq, brokers: list[str] | Literal["all"], for_s: float, now: float
    ) -> tuple[Passed, list[Effect]]:
        """Have other brokers carry out a command too; their answers come as effects `Answered`."""
        self._at(now)
        passed = management_door.pass_on(self.state, request, brokers, for_s)
        return passed, self.state.take_effects()

    def configure(self, document: Document, now: float, author: str = "file", key: int = 0) -> list[Effect]:
        """The operator's file was read again, for an effect `Reload` or a signal. Raises `ProtocolError` if refused."""
        self._at(now)
        management.configure(self.state, document, author, key)
        return self.state.take_effects()

    def heard_version(self, identity: str, version: bytes, now: float) -> list[Effect]:
        """A publisher says which config it has."""
        self._at(now)
        config_service.heard(self.state, identity, version)
        return self.state.take_effects()

    def link_broken(self, route: Route, now: float) -> list[Effect]:
        """The connection of a dialed link ended."""
        self._at(now)
        dialing.broken(self.state, route)
        return self.state.take_effects()

    def link_refused(self, route: Route, now: float) -> list[Effect]:
        """Nobody listens where this link was dialed: the process that was there has ended."""
        self._at(now)
        dialing.nobody_there(self.state, route)
        return self.state.take_effects()

    def takes_bundles(self, route: Route) -> bool:
        """Whether several messages for this connection may leave as one."""
        session = self._by_route.get(route)
        return session is not None and session.takes_bundles

    def introduce(self, route: Route, key: str) -> None:
        """A connection that was not seen before has proven this key."""
        access.introduce(self.state, route, key)

    def allow(self, permissions: Iterable[Permission], next_key: str, now: float) -> list[Effect]:
        """The keys that are allowed from now on; `next_key` is what this broker's own will be."""
        self._at(now)
        revocation.allow(self.state, permissions, next_key)
        return self.state.take_effects()

    def stop(self, now: float) -> list[Effect]:
        """The process ends now."""
        self._at(now)
        modes.say_goodbye(self.state)
        return self.state.take_effects()

    def census(self) -> Census:
        return census(self.state)

    def check(self, route: Route | None = None) -> None:
        """Assert what must hold between any two verbs; with `route`, of the session there alone."""
        if route is None:
            check(self.state)
        else:
            check_session(self.state, route)

    # --- who handles what -----------------------------------------------------------------------------------------

    def _receive_other(self, route: Route, dialect: Dialect, message: AnyMessage, session: Session | None) -> None:
        state = self.state
        if state.access is not None and not access.hears(state, route, dialect, message):
            return
        if isinstance(message, ManagementReq):
            management_door.receive(state, route, dialect, message)
        elif (dialect is not PEER and route[0] == DIALED) or (
            session is not None and (session.dialect is PEER) != (dialect is PEER)
        ):
            self._unexpected(route, dialect, message)  # a connection between brokers is nothing else
        elif dialect is PEER:
            peer_dialect.receive_other(state, route, message, session)
        elif state.mode == "disabled":
            state.counters["unheard_while_disabled"] += 1
        elif state.mode == "passive" and _is_asking(message) and not binary_star.asked(state):
            standby.refuse(state, route, dialect, message)
        elif isinstance(message, MdpMessage):
            majordomo.receive(state, route, dialect, message)
        elif isinstance(message, Connect):
            connections.connect(state, route, dialect, message)
        elif isinstance(message, NeedBroker):
            if session is not None and session.dialect is dialect:  # rule 17: any traffic counts as life
                session.last_seen_s = state.now
                if session.is_absent:
                    connections.heard_again(state, session)
            groups.need_broker(state, route, dialect, message)
        elif session is None:
            if not isinstance(message, Disconnect):
                connections.stranger(state, route, dialect)
        else:
            self._unexpected(route, dialect, message)

    def _unexpected(self, route: Route, dialect: Dialect, message: AnyMessage) -> None:
        """501: a command that this broker does not expect from this role."""
        state = self.state
        name = type(message).__name__.upper()
        text = f"{name} is not expected from a {dialect.role.value} here"
        state.counters["refused_501"] += 1
        state.error_clients.blame(route, text, state.now)
        state.effects.append(Send(route, dialect, Error(code=Code.UNEXPECTED, text=text)))


def _is_asking(message: AnyMessage) -> bool:
    """Whether its sender wants to be served. Any other message without a session is answered FORCENEGOTIATE."""
    return isinstance(message, Connect | NeedBroker | MdpMessage)


def _turns_away(message: AnyMessage) -> bool:
    """Whether its sender says that it has no session with us: it leaves, or, a peer, refuses CONNECT."""
    return type(message) is Disconnect or (type(message) is Error and not message.id and not message.seq)
