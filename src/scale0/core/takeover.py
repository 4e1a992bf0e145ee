"""A copy becomes the state: its broker serves in its partner's place (rule 31).

Nothing is moved, for the copy is the broker's own tables. What changes is what may be believed of them. Who is in it
has the usual time to come, and says then what it holds; what was with others is lost. How old the copy is decides the
rest: of what a young one does not know, nothing can have been dispatched; what waits in an old one may have been.
"""

from __future__ import annotations

import math

from scale0.core import admission, changes, endings, replication, routing
from scale0.core.state import State
from scale0.protocol.codes import Code

_UNKNOWN = "outcome unknown: the other broker of the pair may have given it out meanwhile"


def wake(state: State, *, trusted_until_s: float) -> None:
    """The copy is the state from now on. Everybody in it has the usual time to come."""
    now = state.woke_s = state.now
    for session in state.sessions.by_identity.values():
        session.last_seen_s = session.connected_s = now
        session.paces = ((now, session.highest),)  # what it sent to the other one is no pace of now
        session.copied_until_s = trusted_until_s
        session.is_doubted = trusted_until_s <= now
        state.sessions.watch(session, now + state.allowed_silence_s(session))
    for service in state.services.by_name.values():
        if service.queue.count:  # the other has taken tasks for it: it is no unknown one, though nobody offers it now
            service.is_announced = True
    elsewhere, state.elsewhere = state.elsewhere, None
    lost = list(elsewhere.slots) if elsewhere is not None else []
    for task_id in lost:
        why = "it was with another broker, or with a worker that is not known here"
        routing.lose_attempt(state, state.ledger.entries[task_id], why)
    for service in state.services.by_name.values():
        admission.count_unseen(state, service)
    if now >= trusted_until_s:
        _doubt_waiting(state)
    routing.expire_overdue(state)  # the other one had to keep these deadlines, and was silent


def distrust(state: State) -> None:
    """Somebody else may have gone on from our state: what has not left may have been dispatched there."""
    replication.take_all_back(state)
    _doubt_sessions(state)
    _doubt_waiting(state)


def distrust_all(state: State) -> None:
    """The other has served meanwhile, and has lost its state: what it had, or was sent then, may have been dispatched.

    It began with a copy of what waits here. Nobody here knows what else it was sent; so a follower must not take what
    its copy lacks for new either.
    """
    _doubt_sessions(state)
    _doubt_waiting(state)  # first: a slot that becomes free is for nothing of that
    for held in list(state.stream.held.values()) if state.stream is not None else ():
        if not held.entry.service.idempotent and replication.recall(state, held.entry):
            endings.settle_error(state, held.entry, Code.WORKER_LOST, _UNKNOWN)
    if state.stream is not None and not state.stream.is_lost:
        replication.begin(state)  # no change says this alone: who follows already gets a new copy


def _doubt_sessions(state: State) -> None:
    for session in state.sessions.by_identity.values():
        session.copied_until_s, session.is_doubted = -math.inf, True


def _doubt_waiting(state: State) -> None:
    """What waits may have been dispatched by the other since, so it waits on only if it may be repeated.

    What is in flight may have come back since, and been dispatched elsewhere: it must not wait here again.
    """
    for entry in list(state.ledger.entries.values()):
        if not entry.is_queued:
            entry.is_rivalled = changes.is_streamed(entry)
        elif not entry.service.idempotent:
            endings.settle_error(state, entry, Code.WORKER_LOST, _UNKNOWN)
