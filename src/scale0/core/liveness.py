"""Liveness: who lives, whose clock is off, who runs an old config.

Rule 17: any traffic counts as life, and silence for `liveness` intervals means gone. So a heartbeat sets no timer: a
session is looked at when its time has come, and if it was heard meanwhile it is looked at again later. Liveness uses
the monotonic clock alone; wall clocks are compared to find the one that is off (rule 19).
"""

from __future__ import annotations

import math

from scale0.core import changes, config_service, connections, readiness, recording, replication, routing, turns
from scale0.core.effects import Send
from scale0.core.sessions import LATE_S, Session
from scale0.core.settings import BrokerSettings
from scale0.core.state import State
from scale0.core.workers import Worker
from scale0.protocol.codes import Code
from scale0.protocol.messages import Ping, Pong, ServiceOffer

CLOCK_JUMP_S = 1.0  # a change of wall against monotonic clock that is more than drift
FORMER_CLOCKS_MAX = 8  # jumps that are remembered
SKEWED_IN_A_ROW = 3
PUSHES_MIN = 5  # that leave together
PUSH_S = 0.01  # between two such lots
PUSH_INTERVALS = 1.0  # in which all are sent: tasks do not wait behind them, and two intervals are allowed
SKEWED_TOGETHER_MIN = 2  # of so many sessions, and of a third of all, it is our clock that is doubted


def ping(state: State, session: Session, message: Ping) -> None:
    """PING: alive. PONG tells both clocks."""
    if message.heartbeat_interval_ms:
        asked_s = message.heartbeat_interval_ms / 1000
        interval_s = max(state.settings.default_heartbeat_interval_s, asked_s)
        if interval_s != session.interval_s:
            session.interval_s = interval_s
            if state.stream is not None:
                changes.opened(state, session)
    if message.oldest_unanswered > session.floor:
        state.outcomes.forget_below(session, message.oldest_unanswered)
        if state.stream is not None:
            changes.forgotten(state, session)
    if message.has_offset and _is_clock_off(state, session, message):
        return
    worker = session.worker
    if worker is not None:
        _hear_worker(state, session, worker)
    if session.dialect.is_req and worker is not None:
        turns.hold(state, session)
    else:
        session.turn = None
        pong = Pong(state.wall_us(), message.time_us, state.config.packed_version, state.epoch)
        state.effects.append(Send(session.route, session.dialect, pong))
    if message.config_version != state.config.packed_version:
        check_version(state, session, message.config_version)
    elif session.config_version != message.config_version:
        session.config_version = message.config_version
        if worker is not None:
            state.network.mark(session.identity)


def _hear_worker(state: State, session: Session, worker: Worker) -> None:
    """A worker that spoke is no longer paused.

    The newest draft: a PING from a connected worker that has sent no READY puts it into the LRU queue, with one slot.
    Rule 5: PING never puts a full worker back.
    """
    if worker.is_negotiating and (worker.services or session.services):
        worker.is_negotiating = False
        if not worker.services:
            offers, _ = readiness.sort_offers(state, session, [ServiceOffer(name) for name in session.services])
            worker.capacity = 1
            readiness.change_services(state, worker, offers)
    worker.is_paused = False
    if not worker.is_listed:
        routing.feed(state, worker)


def _is_clock_off(state: State, session: Session, message: Ping) -> bool:
    """Rule 19: three measurements in a row beyond max_clock_skew, and the session ends with 498, both clocks named."""
    session.offset_us = message.offset_us
    session.offset_bits = message.offset_bits
    session.name_no = 0
    if abs(message.offset_us) <= state.settings.max_clock_skew_s * 1e6 or not _is_beyond(state, message):
        session.skewed = 0
        return False
    session.skewed += 1
    if session.skewed < SKEWED_IN_A_ROW:
        return False
    # If a third of all sessions shift together nobody is sent away: an alarm is raised.
    off, measured = _clock_census(state)
    if off >= SKEWED_TOGETHER_MIN and off * 3 >= measured:
        if session.skewed == SKEWED_IN_A_ROW:
            state.alarm("clock", f"{off} of {measured} clocks differ from this broker's: check this broker's clock")
        return False
    offset_s = message.offset_us / 1e6
    text = (
        f"the clock of {session.identity} is {abs(offset_s):.1f} s {'ahead' if offset_s > 0 else 'behind'}: "
        f"it says {message.time_us / 1e6:.3f}, this broker {state.wall_us() / 1e6:.3f} (UTC, s since 1970); "
        f"{state.settings.max_clock_skew_s:g} s are allowed"
    )
    connections.deliver_held(state, session)
    connections.close(state, session, "its clock is off", is_heard=True)
    state.refuse(session, Code.CLOCK_OFF, text, fatal=True)
    return True


def _is_beyond(state: State, message: Ping) -> bool:
    """Whether its clock differs by more than is allowed, from our clock as it is *and* as it was before each jump.

    If our own clock jumped, whoever agrees with one before is right. A measurement that is older than the last jump, of
    either clock, is told by the message's own time, which was read just now.
    """
    told_us = (message.offset_us, message.time_us - state.wall_us())
    most_us = state.settings.max_clock_skew_s * 1e6
    return all(abs(us + behind_s * 1e6) > most_us for us in told_us for behind_s in (0.0, *state.former_clocks_s))


def look_at_clock(state: State, wall_s: float) -> None:
    """Rule 19: if the broker's own clock jumped, it raises an alarm and disconnects nobody."""
    offset_s = wall_s - state.now
    jump_s = offset_s - state.wall_offset_s
    state.wall_offset_s = offset_s
    if abs(jump_s) > CLOCK_JUMP_S:
        former = [0.0, *state.former_clocks_s[: FORMER_CLOCKS_MAX - 1]]
        state.former_clocks_s = [behind_s + jump_s for behind_s in former]
        for session in state.sessions.by_identity.values():
            session.skewed = 0
        recording.note(state, "anchor", "", "", round(jump_s * 1e6), wall_offset_s=offset_s)
        state.alarm("clock_jumped", f"this broker's clock jumped by {jump_s:+.3f} s; nobody is sent away for it")


def _clock_census(state: State) -> tuple[int, int]:
    """How many clocks are off, of how many that were measured; counted at most once a second."""
    if state.now - state.clocks_counted_s >= 1.0:
        state.clocks_counted_s = state.now
        measured = [session for session in state.sessions.by_identity.values() if session.offset_us is not None]
        state.clocks = (sum(1 for session in measured if session.skewed), len(measured))
    return state.clocks


def check_version(state: State, session: Session, named: bytes) -> None:
    """Rule 24: 426 answers only PING and READY, once per session and version, two intervals after the push."""
    current = state.config.packed_version
    session.config_version = named
    if named > current:  # rule 23: any newer version heard is fetched
        config_service.heard(state, "", named)
        return
    if session.warned_version == current or session.dialect.is_req or session.identity in state.config.to_push:
        return
    if not any(named) or state.now - max(session.config_pushed_s, session.connected_s) < 2 * session.interval_s:
        return
    session.warned_version = current
    text = f"config {state.config.version} is current; send CONNECT to get it"
    state.refuse(session, Code.CONFIG_DIFFERS, text)


# --- the config's version ------------------------------------------------------------


def reconfigure(state: State, settings: BrokerSettings) -> None:
    """New settings: sessions are sent the new config, paced by `push_config`. Limits and services hold at once."""
    state.settings = settings
    state.set_limits(settings.limits)
    state.services.reconfigure(settings, state.now)
    state.config.to_push = dict.fromkeys(state.sessions.by_identity)
    lots = settings.default_heartbeat_interval_s * PUSH_INTERVALS / PUSH_S
    state.config.push_lot = max(PUSHES_MIN, math.ceil(len(state.config.to_push) / lots))


def push_config(state: State) -> None:
    """Rule 24: pushes are paced. Nothing is pushed to a REQ socket, and Majordomo has no config."""
    if not state.config.to_push or state.now < state.config.push_at_s:
        return
    state.config.push_at_s = state.now + PUSH_S
    for _ in range(min(state.config.push_lot, len(state.config.to_push))):
        identity = next(iter(state.config.to_push))
        del state.config.to_push[identity]
        session = state.sessions.by_identity.get(identity)
        if session is not None and session.dialect.is_native and not session.dialect.is_req and session.route:
            session.config_pushed_s = state.now
            state.post(session.route, session, state.config.answer(session, session.config_version))


# --- silence ------------------------------------------------------------


def look_at_silent(state: State, *, is_late: bool = False) -> None:
    """Rule 17: silence for `liveness` intervals means gone; what was heard meanwhile moves the next look.

    Our own pause is nobody's silence. A look that comes late shows that we stood still, and then what was said
    meanwhile is yet to be read: who seems silent gets no tasks, and has one interval more.
    """
    is_late = is_late or state.now > state.sessions.liveness.next_s + LATE_S
    for session in state.sessions.unheard(state.now):
        allowed_s = state.allowed_silence_s(session)
        until_s = session.last_seen_s + allowed_s
        if state.now < until_s:
            state.sessions.watch(session, until_s)
        elif _may_be_silent(state, session):
            state.sessions.watch(session, state.now + allowed_s)
        elif is_late and not session.is_absent:
            connections.set_absent(state, session)
            state.sessions.watch(session, state.now + session.interval_s)
        elif session.worker is not None:
            state.counters["workers_expired"] += 1
            connections.close(state, session, f"silent for {state.now - session.last_seen_s:.1f} s")
        else:
            _look_at_silent_client(state, session)


def _may_be_silent(state: State, session: Session) -> bool:
    """Rule 18: a worker that agreed to no heartbeat, and a Majordomo or REQ worker while it holds a task.

    A task that waits for the standby's word has not left, so a Majordomo worker does not hold it yet. To a REQ worker
    it is the answer that it waits for.
    """
    worker = session.worker
    if worker is None or session.is_absent:  # whose connection is gone will not speak again
        return False
    if session.dialect.majordomo:
        return any(not replication.is_held(state, task_id) for task_id in worker.slots)
    if session.dialect.is_req:
        return bool(worker.slots)
    return not worker.has_heartbeat


def _look_at_silent_client(state: State, session: Session) -> None:
    """Rule 2: replies for an absent client wait until their deadline; then nothing is left to keep it for."""
    settled_by_s = max(session.last_seen_s + session.longest_timeout_s, session.settled_s)
    until_s = settled_by_s + state.settings.grace_s if session.kept else 0.0
    if session.open_tasks or state.now < until_s:
        if session.dialect.is_native and not session.dialect.is_req:
            connections.set_absent(state, session)
        state.sessions.watch(session, max(until_s, state.now + state.allowed_silence_s(session)))
    else:
        connections.close(state, session, "silent, and nothing of it is left")
