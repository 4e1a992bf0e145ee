"""How sessions begin, move, change, and end: CONNECT, READY, PING, DISCONNECT, silence.

Who lives is told by traffic (rule 17). Who is unknown is asked to negotiate, once per connection and interval, and that
never counts as misbehaviour (rule 4): after a broker's restart everybody is unknown.
"""

from __future__ import annotations

from scale0.core import routing, turns
from scale0.core.config import PUSHES_PER_TICK
from scale0.core.effects import Route, Send
from scale0.core.services import why_unfit
from scale0.core.sessions import Session
from scale0.core.settings import BrokerSettings
from scale0.core.state import State
from scale0.core.workers import ANY_ATTEMPT, Worker, assign, delist
from scale0.protocol import limits
from scale0.protocol.codes import Code
from scale0.protocol.dialects import Dialect, Role
from scale0.protocol.messages import (
    NO_VERSION,
    Connect,
    Error,
    ForceNegotiate,
    Ping,
    Pong,
    Ready,
    ReadyOk,
    ServiceOffer,
    TaskId,
)

SKEWED_IN_A_ROW = 3
SKEWED_TOGETHER_MIN = 2  # of so many sessions, and of a third of all, it is our clock that is doubted


# --- beginning --------------------------------------------------------------------------------------------------


def connect(state: State, route: Route, dialect: Dialect, message: Connect) -> None:
    """CONNECT starts or renews a session; CONFIG, CONFIGACK or ERROR answers it."""
    refusal = _why_refused(state, message)
    if refusal is not None:
        state.counters[f"refused_{refusal.code}"] += 1
        state.effects.append(Send(route, dialect, refusal))
        return
    known = state.sessions.by_identity.get(message.identity)
    speaker = state.sessions.by_route.get(route)
    if speaker is not None and speaker is not known:
        close(state, speaker, "its connection took another identity")
    begin = _begin if known is None else _renew
    session = begin(state, route, dialect, message)
    session.config_version = message.config_version
    session.turn = None
    state.post(route, session, state.config.answer(session, message.config_version))
    deliver_held(state, session)


def _why_refused(state: State, message: Connect) -> Error | None:
    size = len(message.identity.encode())
    if not 0 < size <= limits.IDENTITY_BYTES_MAX or not message.identity.isprintable():
        text = f"an identity has 1 to {limits.IDENTITY_BYTES_MAX} bytes, all printable"
        return Error(code=Code.MALFORMED, text=text, fatal=True)
    if len(message.nonce) != limits.NONCE_BYTES:
        return Error(code=Code.MALFORMED, text=f"a nonce has {limits.NONCE_BYTES} bytes", fatal=True)
    if message.config_type.upper() != "JSON":
        text = f"this broker serves config as JSON, not as {message.config_type!r}"
        return Error(code=Code.UNEXPECTED, text=text, fatal=True)
    if len(message.in_flight) > limits.IN_FLIGHT_IDS_MAX:
        return Error(code=Code.TOO_LARGE, text=f"at most {limits.IN_FLIGHT_IDS_MAX} ids may be in flight", fatal=True)
    known = state.sessions.by_identity.get(message.identity)
    if known is None:
        if state.mode != "active":
            return Error(code=Code.NOT_ACCEPTING, text=f"this broker is {state.mode}; ask another, or later")
        if len(state.sessions) >= state.limits.sessions:
            return Error(
                code=Code.NOT_ACCEPTING, text=f"this broker holds {state.limits.sessions:,} sessions, its limit"
            )
        return None
    # Rule 2: another nonce means another process; 409 only if the old session spoke within one interval.
    if known.nonce != message.nonce and state.now - known.last_seen_s <= known.interval_s:
        text = (
            f"{message.identity} is in use by another process that was heard {state.now - known.last_seen_s:.1f} s ago"
        )
        return Error(code=Code.IDENTITY_IN_USE, text=text, fatal=True)
    return None


def _begin(state: State, route: Route, dialect: Dialect, message: Connect) -> Session:
    interval_s = state.settings.default_heartbeat_interval_s
    session = state.sessions.open(message.identity, message.nonce, dialect, route, state.now, interval_s)
    if dialect.role is Role.WORKER:
        session.services = list(message.services)
        session.worker = Worker(session=session)
    state.sessions.watch(session, state.now + state.allowed_silence_s(session))
    return session


def _renew(state: State, route: Route, dialect: Dialect, message: Connect) -> Session:
    session = state.sessions.by_identity[message.identity]
    if session.nonce != message.nonce or session.role is not dialect.role:
        close(state, session, "another process took its identity")
        return _begin(state, route, dialect, message)
    session.last_seen_s = state.now
    if session.route == route:
        return session  # rule 24: CONNECT for a new config changes neither LRU place nor tasks
    state.counters["sessions_moved"] += 1
    state.sessions.move(session, dialect, route)
    worker = session.worker
    if worker is not None:
        delist(worker)
        worker.is_negotiating = True
        reconcile(state, worker, message.in_flight)
    return session


def reconcile(state: State, worker: Worker, listed: list[bytes]) -> None:
    """Rule 9: entries of the wait queue that the worker does not list count as lost; unknown ids still take slots."""
    held = {TaskId(task_id): worker.slots.get(TaskId(task_id), 0) for task_id in listed}
    missing = [task_id for task_id in worker.slots if task_id not in held]
    for task_id in missing:
        entry = state.ledger.entries.get(task_id)
        attempt = worker.slots.pop(task_id)
        worker.stuck.pop(task_id, None)
        if entry is not None and entry.worker is worker and entry.attempt == attempt:
            routing.lose_attempt(state, entry, f"{worker.session.identity} lost it with its connection")
    worker.slots = {task_id: attempt or _attempt_of(state, task_id, worker) for task_id, attempt in held.items()}


def _attempt_of(state: State, task_id: TaskId, worker: Worker) -> int:
    """A held task that this broker never sent, or sent in another life: its attempt is told by its reply."""
    entry = state.ledger.entries.get(task_id)
    return entry.attempt if entry is not None and entry.worker is worker else ANY_ATTEMPT


# --- READY ------------------------------------------------------------------------------------------------------


def ready(state: State, session: Session, message: Ready) -> None:
    """READY: enter the LRU queue, or change services and capacity at run time."""
    worker = session.worker
    assert worker is not None, "a worker's session has a worker"
    if len(message.services) > limits.SERVICES_PER_WORKER_MAX or not 0 <= message.capacity <= limits.CAPACITY_MAX:
        text = f"at most {limits.SERVICES_PER_WORKER_MAX} services and a capacity of 0 to {limits.CAPACITY_MAX}"
        state.refuse(session, Code.MALFORMED, text)
        return
    offers, refused = _sort_offers(state, message.services)
    if worker.is_negotiating:
        reconcile(state, worker, message.in_flight)
    session.config_version = message.config_version
    session.interval_s = max(state.settings.default_heartbeat_interval_s, message.heartbeat_interval_ms / 1000)
    worker.has_heartbeat = message.heartbeat and not session.dialect.is_req
    worker.capacity = min(message.capacity, 1) if session.dialect.is_req else message.capacity
    worker.is_negotiating = False
    worker.is_paused = False
    change_services(state, worker, offers)
    state.sessions.watch(session, state.now + state.allowed_silence_s(session))
    all_unmanaged = refused and not offers and not any(map(state.services.manages, refused))
    if all_unmanaged:  # rule 29: 301 only if all are refused
        state.refuse(session, Code.MOVED, "this broker manages none of these services; ask NEEDBROKER")
    elif session.dialect.is_req:
        turns.hold(state, session)
    else:
        interval_ms = round(session.interval_s * 1000)
        answer = ReadyOk(
            heartbeat_interval_ms=interval_ms,
            time_us=state.wall_us(),
            capacity=worker.capacity,
            refused=refused,
            epoch=state.epoch,
        )
        state.post(session.route, session, answer)
    routing.feed(state, worker)


def _sort_offers(state: State, offered: list[ServiceOffer]) -> tuple[dict[str, ServiceOffer], dict[str, str]]:
    offers: dict[str, ServiceOffer] = {}
    refused: dict[str, str] = {}
    names = {offer.name for offer in offered}
    unknown = 0
    for offer in offered:
        why = why_unfit(offer.name)
        if why is None and not state.services.manages(offer.name):
            why = "this broker does not manage it"
        if why is None and offer.name not in state.services.by_name:
            unknown += 1
            if not state.services.has_room(unknown, sparing=names):
                unknown -= 1
                why = f"this broker knows {state.limits.services:,} services, its limit"
        if why is None:
            offers[offer.name] = offer
        else:
            refused[offer.name] = why
    return offers, refused


def change_services(state: State, worker: Worker, offers: dict[str, ServiceOffer]) -> None:
    """From now on it offers these, which were found fit; who relied on its word is told by `settle_terms`."""
    before = worker.services
    services = [state.services.by_name.get(name) or state.services.add(name, state.now) for name in offers]
    for service in services:
        service.is_announced = True
    assign(worker, services, offers)
    for service in {service.name: service for service in (*before, *services)}.values():
        state.services.settle_terms(service)


# --- heartbeats -------------------------------------------------------------------------------------------------


def ping(state: State, session: Session, message: Ping) -> None:
    """PING: alive. PONG tells both clocks."""
    if message.heartbeat_interval_ms:
        asked_s = message.heartbeat_interval_ms / 1000
        session.interval_s = max(state.settings.default_heartbeat_interval_s, asked_s)
    if message.oldest_unanswered > session.floor:
        state.outcomes.forget_below(session, message.oldest_unanswered)
    if message.has_offset and _is_clock_off(state, session, message):
        return
    worker = session.worker
    if worker is not None:
        _hear_worker(state, session, worker)
    if session.dialect.is_req and worker is not None:
        turns.hold(state, session)
    else:
        pong = Pong(state.wall_us(), message.time_us, state.config.packed_version, state.epoch)
        state.post(session.route, session, pong)
    _check_version(state, session, message.config_version)


def _hear_worker(state: State, session: Session, worker: Worker) -> None:
    """A worker that spoke is no longer paused.

    The newest draft: a PING from a connected worker that has sent no READY puts it into the LRU queue, with one slot.
    Rule 5: PING never puts a full worker back.
    """
    if worker.is_negotiating and (worker.services or session.services):
        worker.is_negotiating = False
        if not worker.services:
            offers, _ = _sort_offers(state, [ServiceOffer(name) for name in session.services])
            worker.capacity = 1
            change_services(state, worker, offers)
    worker.is_paused = False
    if not worker.is_listed:
        routing.feed(state, worker)


def _is_clock_off(state: State, session: Session, message: Ping) -> bool:
    """Rule 19: three measurements in a row beyond max_clock_skew, and the session ends with 498, both clocks named."""
    session.offset_us = message.offset_us
    if abs(message.offset_us) <= state.settings.max_clock_skew_s * 1e6:
        session.skewed = 0
        return False
    session.skewed += 1
    if session.skewed < SKEWED_IN_A_ROW:
        return False
    # If our own clock jumped, or a third of all sessions shift together, nobody is sent away: an alarm is raised.
    off, measured = _clock_census(state)
    is_ours = off >= SKEWED_TOGETHER_MIN and off * 3 >= measured
    if is_ours or state.now < state.clock_doubted_until_s:
        if session.skewed == SKEWED_IN_A_ROW:
            state.alarm("clock", f"{off} of {measured} clocks differ from this broker's: check this broker's clock")
        return False
    offset_s = message.offset_us / 1e6
    text = (
        f"the clock of {session.identity} is {abs(offset_s):.1f} s {'ahead' if offset_s > 0 else 'behind'}: "
        f"it says {message.time_us / 1e6:.3f}, this broker {state.wall_us() / 1e6:.3f} (UTC, s since 1970); "
        f"{state.settings.max_clock_skew_s:g} s are allowed"
    )
    state.refuse(session, Code.CLOCK_OFF, text, fatal=True)
    close(state, session, "its clock is off")
    return True


def _clock_census(state: State) -> tuple[int, int]:
    """How many clocks are off, of how many that were measured; counted at most once a second."""
    if state.now - state.clocks_counted_s >= 1.0:
        state.clocks_counted_s = state.now
        measured = [session for session in state.sessions.by_identity.values() if session.offset_us is not None]
        state.clocks = (sum(1 for session in measured if session.skewed), len(measured))
    return state.clocks


def _check_version(state: State, session: Session, named: bytes) -> None:
    """Rule 24: 426 answers only PING and READY, once per session and version, two intervals after the push."""
    current = state.config.packed_version
    session.config_version = named
    if named == current or session.warned_version == current or session.dialect.is_req:
        return
    if not any(named) or state.now - max(session.config_pushed_s, session.connected_s) < 2 * session.interval_s:
        return
    session.warned_version = current
    text = f"config {state.config.version} is current; send CONNECT to get it"
    state.refuse(session, Code.CONFIG_DIFFERS, text)


def reconfigure(state: State, settings: BrokerSettings) -> None:
    """New settings: sessions are sent the new config, paced by `push_config`. Limits and services hold at once."""
    if not state.config.replace(settings):
        return
    state.settings = settings
    state.limits = settings.limits
    state.services.reconfigure(settings, state.now)
    state.config.to_push = dict.fromkeys(state.sessions.by_identity)


def push_config(state: State) -> None:
    """Rule 24: pushes are paced. Nothing is pushed to a REQ socket, and Majordomo has no config."""
    for _ in range(min(PUSHES_PER_TICK, len(state.config.to_push))):
        identity = next(iter(state.config.to_push))
        del state.config.to_push[identity]
        session = state.sessions.by_identity.get(identity)
        if session is not None and session.dialect.is_native and not session.dialect.is_req:
            session.config_pushed_s = state.now
            state.post(session.route, session, state.config.answer(session, NO_VERSION))


# --- absence and ends -------------------------------------------------------------------------------------------


def stranger(state: State, route: Route, dialect: Dialect) -> None:
    """Someone without a session: FORCENEGOTIATE, once per connection and interval; a REQ socket needs each answer."""
    now = state.now
    told_s = state.strangers.get(route)
    if told_s is not None and now - told_s < state.settings.default_heartbeat_interval_s and not dialect.is_req:
        return
    state.strangers[route] = now
    state.strangers.move_to_end(route)
    if len(state.strangers) > state.limits.strangers:
        state.strangers.popitem(last=False)
    state.counters["forced_negotiations"] += 1
    reason = "this broker does not know this connection; send CONNECT"
    state.effects.append(Send(route, dialect, ForceNegotiate(reason=reason)))


def deliver_held(state: State, session: Session) -> None:
    """It can be reached again: what waited for it goes out, in order."""
    session.is_absent = False
    held = session.undelivered
    session.undelivered = []
    session.undelivered_bytes = 0
    for message in held:
        state.post(session.route, session, message)


def heard_again(state: State, session: Session) -> None:
    """An absent one spoke: what was held goes out, and a worker may get tasks."""
    deliver_held(state, session)
    if session.worker is not None:
        routing.feed(state, session.worker)


def set_absent(state: State, session: Session) -> None:
    """Nothing can be sent to it now; a worker gets no tasks until it is heard again."""
    session.is_absent = True
    if session.worker is not None:
        delist(session.worker)


def close(state: State, session: Session, why: str) -> None:
    """The session ends. A worker's tasks are lost with it; a client's are dropped, for nobody is there to answer."""
    state.counters["sessions_closed"] += 1
    state.sessions.close(session)
    worker = session.worker
    if worker is not None:
        lose_worker(state, worker, why)
        return
    state.outcomes.forget_all(session)
    session.undelivered.clear()
    if session.open_tasks:
        mine = [entry for entry in state.ledger.entries.values() if entry.client is session]
        session.is_absent = True
        for entry in mine:
            routing.abandon(state, entry)
        state.outcomes.forget_all(session)
        session.undelivered.clear()


def lose_worker(state: State, worker: Worker, why: str) -> None:
    """Rule 9: a lost worker's tasks are dispatched again if their service is idempotent, else 502."""
    services = worker.services
    assign(worker, [], {})
    slots = list(worker.slots.items())
    worker.slots.clear()
    worker.stuck.clear()
    worker.is_negotiating = True
    for task_id, attempt in slots:
        entry = state.ledger.entries.get(task_id)
        if entry is not None and entry.worker is worker and entry.attempt == attempt:
            routing.lose_attempt(state, entry, f"worker {worker.session.identity} is gone: {why}")
    for service in services:
        state.services.settle_terms(service)


def look_at_silent(state: State) -> None:
    """Rule 17: silence for `liveness` intervals means gone; what was heard meanwhile moves the next look."""
    for session in state.sessions.unheard(state.now):
        allowed_s = state.allowed_silence_s(session)
        quiet_s = state.now - session.last_seen_s
        if quiet_s < allowed_s:
            state.sessions.watch(session, session.last_seen_s + allowed_s)
        elif _may_be_silent(session):
            state.sessions.watch(session, state.now + allowed_s)
        elif session.worker is not None:
            state.counters["workers_expired"] += 1
            close(state, session, f"silent for {quiet_s:.1f} s")
        else:
            _look_at_silent_client(state, session)


def _may_be_silent(session: Session) -> bool:
    """Rule 18: a worker that agreed to no heartbeat, and a Majordomo or REQ worker while it holds a task."""
    worker = session.worker
    if worker is None:
        return False
    if session.dialect.majordomo or session.dialect.is_req:
        return bool(worker.slots)
    return not worker.has_heartbeat


def _look_at_silent_client(state: State, session: Session) -> None:
    """Rule 2: replies for an absent client wait until their deadline; then nothing is left to keep it for."""
    until_s = session.latest_deadline_s + state.settings.grace_s if session.open_tasks or session.kept else 0.0
    if session.open_tasks or state.now < until_s:
        if session.dialect.is_native and not session.dialect.is_req:
            set_absent(state, session)
        state.sessions.watch(session, max(until_s, state.now + state.allowed_silence_s(session)))
    else:
        close(state, session, "silent, and nothing of it is left")
