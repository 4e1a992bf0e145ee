"""Majordomo 0.1 and 0.2 at the same ports (RFC 7, 8 and 18): unchanged clients and workers join the network.

A Majordomo worker is a worker with one slot and one service; a Majordomo client is a client whose ids the broker makes.
So they are balanced together with native ones. What differs stands here: no negotiation, heartbeats both ways, and
DISCONNECT as the only error.
"""

from __future__ import annotations

from scale0.core import access, admission, connections, readiness, recording, routing
from scale0.core.effects import Route, Send
from scale0.core.services import why_unfit
from scale0.core.sessions import Session
from scale0.core.state import State
from scale0.core.workers import Worker
from scale0.protocol.codes import Code
from scale0.protocol.dialects import Dialect, Role
from scale0.protocol.ids import make_id
from scale0.protocol.limits import PRIORITY_NORMAL
from scale0.protocol.majordomo import (
    MdpDisconnect,
    MdpHeartbeat,
    MdpMessage,
    MdpReady,
    MdpReply,
    MdpRequest,
)
from scale0.protocol.messages import UNKNOWN_US, ServiceOffer, Status, Task, TaskId, TaskReply


def receive(state: State, route: Route, dialect: Dialect, message: MdpMessage) -> None:
    """One message of a Majordomo client or worker, known or not."""
    session = state.sessions.by_route.get(route)
    if session is not None and session.dialect is not dialect:
        connections.close(state, session, "its connection speaks another dialect now")
        session = None
    if session is not None:
        session.last_seen_s = state.now
        if session.is_absent:  # it seemed silent when this broker had stood still
            session.is_absent = False
            connections.watch_anew(state, session)
    match message:
        case MdpRequest():
            if session is None and len(state.sessions) >= state.limits.sessions:
                state.counters["majordomo_errors_unsaid"] += 1
                return
            request(state, session or _begin(state, route, dialect), message)
        case MdpReady():
            ready(state, route, dialect, session, message)
        case MdpReply() if session is not None and session.worker is not None:
            reply(state, session, message)
        case MdpHeartbeat() if session is not None:
            _heard(state, session)
        case MdpDisconnect():
            if session is not None:
                connections.close(state, session, "it disconnected")
        case _:
            # RFC 7 and 18: a valid but unexpected command MUST be answered by DISCONNECT. So a worker that outlived
            # its broker learns to register again.
            disconnect(state, route, dialect, session, "an unexpected command")


def request(state: State, session: Session, message: MdpRequest) -> None:
    """A client's request, under an id that the broker makes; its deadline is the service's timeout."""
    session.made += 1
    task_id = make_id(session.prefix, session.made)
    task = Task(task_id, message.service, message.body, 0, 1, PRIORITY_NORMAL, 0, 0)
    admission.submit(state, session, task, session.made)


def ready(state: State, route: Route, dialect: Dialect, session: Session | None, message: MdpReady) -> None:
    """READY has no answer: from now on the worker may get REQUEST.

    One worker, one service, one READY: a second one is unexpected. RFC 8: who registers mmi.* is disconnected.
    """
    if session is not None:
        disconnect(state, route, dialect, session, "READY twice")
        return
    name = message.service
    if state.mode != "active" or why_unfit(name) or not state.services.manages(name):
        disconnect(state, route, dialect, None, f"{name} is not to be registered here")
        return
    if not access.may_serve(state, route, name):
        disconnect(state, route, dialect, None, f"its key may not serve {name}")
        return
    if name not in state.services.by_name and not state.services.has_room():
        disconnect(state, route, dialect, None, "too many services")
        return
    if len(state.sessions) >= state.limits.sessions:
        disconnect(state, route, dialect, None, "too many sessions")
        return
    session = _begin(state, route, dialect)
    session.services = [name]
    worker = session.worker = Worker(session=session, is_negotiating=False)
    readiness.change_services(state, worker, {name: ServiceOffer(name)})
    state.majordomo_beats.add(session.identity, session, state.now + session.interval_s)
    routing.feed(state, worker)


def reply(state: State, session: Session, message: MdpReply) -> None:
    """PARTIAL or FINAL. The address is the token that went out with the request (rule 7)."""
    if len(message.address) <= 17:
        state.counters["late_replies"] += 1
        return
    task_id = TaskId(message.address[:-1])
    attempt = message.address[-1]
    entry = state.ledger.entries.get(task_id)
    part = entry.parts if entry is not None else 0
    # The durations are absent for Majordomo workers, never guessed.
    native = TaskReply(
        task_id, message.body, attempt, Status.OK, part, message.final, state.wall_us(), UNKNOWN_US, UNKNOWN_US
    )
    routing.reply(state, session, native)
    _heard(state, session)


def beat(state: State) -> None:
    """Heartbeats go both ways after READY."""
    for session in state.majordomo_beats.due(state.now):
        if state.sessions.by_identity.get(session.identity) is session:
            state.effects.append(Send(session.route, session.dialect, MdpHeartbeat()))
            state.majordomo_beats.add(session.identity, session, state.now + session.interval_s)


def disconnect(state: State, route: Route, dialect: Dialect, session: Session | None, why: str) -> None:
    """Say DISCONNECT, and nothing more."""
    state.counters["majordomo_disconnects"] += 1
    if session is not None:
        connections.close(state, session, why)
    if dialect.role is Role.WORKER:
        state.effects.append(Send(route, dialect, MdpDisconnect()))


def malformed(state: State, route: Route, dialect: Dialect, code: int) -> None:
    """A valid but unexpected command gets DISCONNECT; what is invalid is dropped."""
    if code == Code.UNEXPECTED:
        session = state.sessions.by_route.get(route)
        is_its_own = session is not None and session.dialect is dialect  # not, say, that of a link between brokers
        disconnect(state, route, dialect, session if is_its_own else None, "an unexpected command")


def _heard(state: State, session: Session) -> None:
    worker = session.worker
    if worker is not None and not worker.is_listed:
        worker.is_paused = False
        routing.feed(state, worker)


def _begin(state: State, route: Route, dialect: Dialect) -> Session:
    """A session under a name that the broker makes: Majordomo has no identities."""
    identity = ""
    while not identity or identity in state.sessions.by_identity:
        state.majordomo_made += 1
        identity = f"mdp-{dialect.role.value}-{state.majordomo_made}"
    nonce = state.network.nonce  # of this process: ids must differ from those that other brokers make
    session = state.sessions.open(
        identity, nonce, dialect, route, state.now, state.settings.default_heartbeat_interval_s
    )
    access.bind(state, session, route)
    state.sessions.watch(session, state.now + state.allowed_silence_s(session))
    recording.session(state, session, "opened", dialect=dialect.name)
    return session
