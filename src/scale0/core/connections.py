"""How sessions begin, move from one connection to another, and end.

CONNECT begins a session or moves it (rule 2). Who speaks without one is asked to negotiate, once per connection and
interval, and that never counts as misbehaviour (rule 4): after a broker's restart everybody is unknown.
"""

from __future__ import annotations

from scale0.core import access, changes, delivery, doubt, groups, recording, replication, routing, turns, vitals
from scale0.core.effects import Route, Send
from scale0.core.sessions import Session
from scale0.core.state import State
from scale0.core.workers import ANY_ATTEMPT, NOTHING, Worker, assign, delist
from scale0.errors import ProtocolError
from scale0.protocol import documents, limits
from scale0.protocol.codes import Code
from scale0.protocol.dialects import Dialect, Role
from scale0.protocol.messages import Connect, Error, ForceNegotiate, TaskId

HELD_AT_ONCE = 1000  # held messages that go out each time an absent client is heard

# --- beginning --------------------------------------------------------------------------------------------------


def connect(state: State, route: Route, dialect: Dialect, message: Connect) -> None:
    """CONNECT starts or renews a session; CONFIG, CONFIGACK or ERROR answers it."""
    if message.epochs:
        doubt.told(state, message.epochs)
    refusal = _why_refused(state, route, dialect, message)
    if refusal is not None:
        state.counters[f"refused_{refusal.code}"] += 1
        state.effects.append(Send(route, dialect, refusal))
        return
    known = state.sessions.by_identity.get(message.identity)
    if is_overtaken(known, message):
        state.counters["connects_overtaken"] += 1
        return
    speaker = state.sessions.by_route.get(route)
    if speaker is not None and speaker is not known:
        close(state, speaker, "its connection took another identity")
    begin = _begin if known is None else _renew
    session = begin(state, route, dialect, message)
    access.bind(state, session, route)
    session.config_version = message.config_version
    state.config.to_push.pop(message.identity, None)  # the answer is the newest
    session.config_type = documents.config_type(message.config_type)
    session.home = message.home
    session.process = message.process
    session.serial = message.serial
    session.takes_bundles = message.bundles and not dialect.is_req  # rule 3: one message answers one
    if state.stream is not None:
        changes.opened(state, session)
    turns.end_turn(state, session)
    state.post(route, session, state.config.answer(session, message.config_version))
    heard_again(state, session)


def is_overtaken(known: Session | None, message: Connect) -> bool:
    """Rule 9: a CONNECT that comes after a later one, over a connection that its process has left, is not heard.

    What it lists is of the past. Were it believed, what was sent since would count as never received, and run twice;
    and what is sent next would go where nobody is.
    """
    return known is not None and known.nonce == message.nonce and 0 < message.serial < known.serial


def _why_refused(state: State, route: Route, dialect: Dialect, message: Connect) -> Error | None:
    size = len(message.identity.encode())
    if not 0 < size <= limits.IDENTITY_BYTES_MAX or not message.identity.isprintable():
        text = f"an identity has 1 to {limits.IDENTITY_BYTES_MAX} bytes, all printable"
        return Error(code=Code.MALFORMED, text=text, fatal=True)
    if len(message.nonce) != limits.NONCE_BYTES:
        return Error(code=Code.MALFORMED, text=f"a nonce has {limits.NONCE_BYTES} bytes", fatal=True)
    try:
        documents.config_type(message.config_type)
    except ProtocolError as error:
        return Error(code=error.code, text=error.text, fatal=True)
    if len(message.in_flight) > limits.IN_FLIGHT_IDS_MAX:
        return Error(code=Code.TOO_LARGE, text=f"at most {limits.IN_FLIGHT_IDS_MAX} ids may be in flight", fatal=True)
    refusal = access.why_refused(state, route, message)
    if refusal is not None:
        return refusal
    known = state.sessions.by_identity.get(message.identity)
    if known is None:
        return _why_nobody_new(state, dialect, message)
    # Rule 2: another nonce means another process; 409 only if the old session spoke within one interval.
    if known.nonce != message.nonce and state.now - known.last_seen_s <= known.interval_s:
        text = (
            f"{message.identity} is in use by another process that was heard {state.now - known.last_seen_s:.1f} s ago"
        )
        return Error(code=Code.IDENTITY_IN_USE, text=text, fatal=True)
    return None


def _why_nobody_new(state: State, dialect: Dialect, message: Connect) -> Error | None:
    """Rule 25: who comes to a broker that nobody can stay at is told of another one; it may know no other yet."""
    if state.mode not in ("active", "holding"):
        why, cure = f"this broker is {state.mode}", "ask another, or later"
    elif len(state.sessions) >= state.limits.sessions:
        most = state.limits.sessions
        why, cure = f"this broker has no room for more than {most:,} session{'s' * (most != 1)}", "ask another"
    else:
        return None
    moved = groups.moved(state, message.services, dialect.role, why) if state.mode != "joining" else None
    return moved or Error(code=Code.NOT_ACCEPTING, text=f"{why}; {cure}")


def _begin(state: State, route: Route, dialect: Dialect, message: Connect) -> Session:
    interval_s = state.settings.default_heartbeat_interval_s
    session = state.sessions.open(message.identity, message.nonce, dialect, route, state.now, interval_s)
    if dialect.role is Role.WORKER:
        session.services = list(message.services)
        session.worker = Worker(session=session)
        vitals.note_coming(state, session.identity)
    elif state.pair is not None and state.pair.name in message.epochs:
        # Rule 31: it was with this pair before, in a session that nobody knows any more. What it sent then may have
        # been dispatched, so of its tasks a copy's silence shows nothing.
        session.is_doubted = True
    state.sessions.watch(session, state.now + state.allowed_silence_s(session))
    recording.session(state, session, "opened", dialect=dialect.name, process=message.process)
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
    recording.session(state, session, "moved", dialect=dialect.name, process=message.process)
    worker = session.worker
    if worker is not None:
        vitals.note_coming(state, session.identity)
        delist(worker)
        worker.is_negotiating = True
        reconcile(state, worker, message.in_flight, message.covers_ms / 1000)
    return session


def reconcile(state: State, worker: Worker, listed: list[bytes], covers_s: float = 0.0) -> None:
    """Rule 9: entries of the wait queue that the worker does not list count as lost; unknown ids still take slots.

    What was sent within `covers_s` and is not listed never reached the worker: it lists all that it has had since then.
    """
    held = {TaskId(task_id): worker.slots.get(TaskId(task_id), 0) for task_id in listed}
    missing = [task_id for task_id in worker.slots if task_id not in held]
    for task_id in missing:
        entry = state.ledger.entries.get(task_id)
        attempt = worker.slots.pop(task_id)
        worker.stuck -= {task_id}
        if entry is None or entry.worker is not worker or entry.attempt != attempt:
            continue
        if state.now - entry.sent_s < covers_s:
            replication.unhold(state, entry)
            routing.take_back(state, entry)
        else:
            routing.lose_attempt(state, entry, f"{worker.session.identity} lost it with its connection")
    worker.listed = frozenset(held)
    slots = {task_id: attempt or _attempt_of(state, task_id, worker) for task_id, attempt in held.items()}
    worker.slots = slots or NOTHING


def _attempt_of(state: State, task_id: TaskId, worker: Worker) -> int:
    """A held task that this broker never sent, or sent in another life: its attempt is told by its reply."""
    entry = state.ledger.entries.get(task_id)
    return entry.attempt if entry is not None and entry.worker is worker else ANY_ATTEMPT


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
    for message in held[:HELD_AT_ONCE]:
        state.post(session.route, session, message)
    if len(held) > HELD_AT_ONCE:  # more at once would only fill its pipe: the rest when it is heard again
        session.is_absent = True
        for message in held[HELD_AT_ONCE:]:
            delivery.hold_back(state, session, message)


def heard_again(state: State, session: Session) -> None:
    """An absent one spoke, and not of work: what was held goes out, and a worker may get tasks."""
    deliver_held(state, session)
    take_up(state, session)


def take_up(state: State, session: Session) -> None:
    """It is there again, and its word was heard: its silence counts anew, and a worker may get tasks."""
    watch_anew(state, session)
    if session.worker is not None:
        routing.feed(state, session.worker)


def watch_anew(state: State, session: Session) -> None:
    """Its silence counts from now. An absent one was to be looked at when its tasks are due, maybe long after."""
    state.sessions.watch(session, state.now + state.allowed_silence_s(session))


def set_absent(state: State, session: Session) -> None:
    """Nothing can be sent to it now; a worker gets no tasks until it is heard again."""
    session.is_absent = True
    if session.worker is not None:
        delist(session.worker)


def close(state: State, session: Session, why: str, *, is_heard: bool = False) -> None:
    """The session ends. A worker's tasks are lost with it; a client's are settled, which it hears if it is there."""
    state.counters["sessions_closed"] += 1
    recording.session(state, session, "closed", why=why)
    state.sessions.close(session)
    turns.end_turn(state, session)
    worker = session.worker
    if worker is not None:
        lose_worker(state, worker, why)
    else:
        _lose_client(state, session, why, is_heard=is_heard)
    if state.stream is not None:
        changes.closed(state, session)


def _lose_client(state: State, session: Session, why: str, *, is_heard: bool) -> None:
    state.outcomes.forget_all(session)
    session.undelivered.clear()
    if session.open_tasks:
        mine = [entry for entry in state.ledger.entries.values() if entry.client is session]
        session.is_absent = not is_heard
        for entry in mine:
            routing.abandon(state, entry, f"the session ended: {why}")
        state.outcomes.forget_all(session)
        session.undelivered.clear()


def lose_worker(state: State, worker: Worker, why: str) -> None:
    """Rule 9: a lost worker's tasks are dispatched again if their service is idempotent, else 502."""
    services = worker.services
    state.network.is_dirty = True
    state.network.mark(worker.session.identity)
    assign(worker, (), {})
    slots = list(worker.slots.items())
    worker.slots.clear()
    worker.stuck = frozenset()
    worker.is_negotiating = True
    for task_id, attempt in slots:
        entry = state.ledger.entries.get(task_id)
        if entry is not None and entry.worker is worker and entry.attempt == attempt:
            routing.lose_attempt(state, entry, f"worker {worker.session.identity} is gone: {why}")
    for service in services:
        state.services.settle_terms(service)
