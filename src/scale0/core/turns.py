"""REQ mode: a socket that must hear exactly one answer before it may speak again.

Rule 3: the empty frame is mirrored, exactly one message answers each request, nothing is pushed, and partial replies
are joined (in `routing`). A session's `turn` is its open request: a task's id, or `b""` for any other; while it is None
nothing may be sent. A REQ worker's READY, PING or TASKREPLY is answered by a TASK, or within an interval by PONG, so
its turn stays open until one of them goes out.
"""

from __future__ import annotations

from scale0.core.sessions import Session
from scale0.core.state import State
from scale0.protocol.codec import AnyMessage
from scale0.protocol.dialects import Role
from scale0.protocol.messages import Error, Pong, Task, TaskReply

HELD_SHARE = 0.7  # of the interval, after which a waiting REQ worker gets PONG


def open_turn(state: State, session: Session, message: AnyMessage) -> None:
    """It has asked: one answer may go out."""
    end_turn(state, session)
    session.turn = message.id if type(message) is Task else b""


def end_turn(state: State, session: Session) -> None:
    """It was answered, or asks anew: nothing may be sent, and no PONG is due."""
    session.turn = None
    if session.turn_bucket:
        state.turns.remove(session.identity, session.turn_bucket)
        session.turn_bucket = 0


def hold(state: State, session: Session) -> None:
    """Its answer will be a TASK, or PONG when most of an interval has passed."""
    if session.turn == b"" and not session.turn_bucket:
        at_s = state.now + HELD_SHARE * session.interval_s
        session.turn_bucket = state.turns.add(session.identity, session, at_s)


def answer(state: State, session: Session, message: AnyMessage) -> None:
    """Send `message` if it answers the open request; what cannot be sent is dropped, for a resend will ask again."""
    turn = session.turn
    if turn is None:
        state.counters["req_not_asked"] += 1
        return
    if session.role is Role.CLIENT and isinstance(message, TaskReply | Error) and message.id not in (b"", turn):
        state.counters["req_not_asked"] += 1
        return
    end_turn(state, session)
    state.post(session.route, session, message)


def pong_held(state: State) -> list[Session]:
    """Answer the REQ workers that have waited for most of an interval; they are not ready until they ask again."""
    told = []
    for session in state.turns.due(state.now):
        session.turn_bucket = 0
        if session.turn == b"":
            session.turn = None
            echo_us = state.wall_us()
            pong = Pong(echo_us, echo_us, state.config.packed_version, state.epoch)
            state.post(session.route, session, pong)
            told.append(session)
    return told
