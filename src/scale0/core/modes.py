"""What state a broker is in, and how it gets from one to another (rule 25).

joining    until it has its config; TASK gets 503            active     serves
holding    serves, and dispatches nothing for a moment: it hands over to its partner, or must hear it first
passive    serves nobody: the other one of its pair does, or is waited for
draining   finishes what it holds, takes nothing new, and moves workers and clients to other brokers
disabling  forwards what is queued or answers it 503, moves everybody away, and waits `grace` for what is in flight
disabled   silent to all but an authorised enable; kept over restarts. Peers go on hearing that it is disabled
"""

from __future__ import annotations

import math
from typing import Any

from scale0.core import (
    afar,
    binary_star,
    connections,
    endings,
    groups,
    handover,
    recording,
    replica,
    replication,
    routing,
)
from scale0.core.effects import Persist, Stopped
from scale0.core.star import Star
from scale0.core.state import State
from scale0.errors import ProtocolError
from scale0.protocol.codes import Code
from scale0.protocol.majordomo import MdpDisconnect
from scale0.protocol.messages import Disconnect


def step(state: State) -> None:
    """Disabling and draining end when nothing is held, or when `grace` has passed."""
    if state.mode == "disabling":
        is_over = state.now >= state.mode_since_s + state.settings.grace_s  # as `next_step_s` rounds it
        if is_over:
            for entry in list(state.ledger.entries.values()):
                text = "outcome unknown: the broker was disabled while it ran"
                routing.strand(state, entry)
                endings.settle_error(state, entry, Code.WORKER_LOST, text)
        if not state.ledger.entries and (is_over or groups.has_moved_all(state)):
            _fall_silent(state)
    elif state.mode == "draining" and not state.ledger.entries and not state.is_stopped and _is_deserted(state):
        state.is_stopped = True
        state.effects.append(Stopped())


def _is_deserted(state: State) -> bool:
    """Whoever could go to another broker has gone, or was given the time for it."""
    return groups.has_moved_all(state) or state.now >= state.mode_since_s + 2 * state.settings.grace_s


def next_step_s(state: State) -> float:
    """When `step` has something to do at the latest."""
    if state.mode == "disabling":
        return state.mode_since_s + state.settings.grace_s
    if state.mode == "draining" and not state.is_stopped:
        deserted_s = state.mode_since_s + 2 * state.settings.grace_s
        return deserted_s if state.now < deserted_s else math.inf  # from then on the last outcome decides
    return math.inf


def disable(state: State) -> dict[str, Any]:
    if state.mode in ("disabled", "disabling"):
        return {"state": state.mode}
    if state.stream is not None:
        handover.hold(state)
        replication.take_all_back(state)
    may_run_yet = {task_id for task_id, entry in state.ledger.entries.items() if replication.may_run_yet(state, entry)}
    binary_star.withdraw(state)
    enter(state, "disabling")
    for entry in [entry for entry in state.ledger.entries.values() if entry.is_queued]:
        if entry.id in may_run_yet:
            text = "outcome unknown: the broker was disabled, and its fallback may run the task yet"
            endings.settle_error(state, entry, Code.WORKER_LOST, text)
            continue
        # Rule 25: disabling first forwards or refuses what is queued.
        peer = afar.pick(state, entry)
        if peer is not None:
            afar.take_from_queue(state, entry)
            afar.send(state, entry, peer)
            continue
        endings.settle_error(state, entry, Code.NOT_ACCEPTING, "the broker was disabled before the task was dispatched")
    state.effects.append(Persist("disabled", state.epoch))
    step(state)
    return {"state": state.mode}


def enable(state: State) -> dict[str, Any]:
    if state.mode in ("active", "holding", "passive"):
        return {"state": state.mode}
    if not state.config.version.number or not state.config.entry.identity:
        if not state.network.seeds:
            text = "this broker is not listed in the network's config; list it, or start it with --join"
            raise ProtocolError(Code.NOT_ALLOWED, text)
        enter(state, "joining")
        state.network.is_joining = True
        state.effects.append(Persist("active", state.epoch))
        return {"state": "joining"}
    if state.pair is not None:
        state.effects.append(Persist("active", state.epoch))
        binary_star.restart(state)
        return {"state": state.mode}
    state.effects.append(Persist("active", state.epoch))
    state.started_s = state.now  # everybody has to come back first: unknown services wait
    state.has_settled = False
    state.is_stopped = False
    enter(state, "active")
    return {"state": "active"}


def drain(state: State) -> dict[str, Any]:
    if state.mode in ("disabled", "disabling"):
        raise ProtocolError(Code.NOT_ACCEPTING, f"the broker is {state.mode}; enable it first")
    if handover.can_hand_over(state):  # its partner goes on from here; then there is nothing left to finish
        return handover.hand_over(state, then_stop=True)
    if state.pair is not None and state.pair.star in (Star.DOUBTFUL, Star.YIELDING):
        state.pair.is_stopping = True  # as soon as it knows who serves
        return {"state": state.mode, "queued": state.ledger.queued, "in_flight": state.ledger.in_flight}
    if state.mode == "passive":
        replica.clear(state)
    if state.mode != "draining":
        enter(state, "draining")
    step(state)
    return {"state": state.mode, "queued": state.ledger.queued, "in_flight": state.ledger.in_flight}


def say_goodbye(state: State) -> None:
    """The process ends: everybody is told, so that nobody has to wait for silence."""
    handover.say_goodbye(state)
    for session in state.sessions.by_identity.values():
        if not session.dialect.is_req and not session.is_absent:
            farewell = MdpDisconnect() if session.dialect.majordomo else Disconnect(reason="the broker stops")
            if session.worker is not None or not session.dialect.majordomo:
                state.post(session.route, session, farewell)
    for peer in state.network.linked():
        if peer.session is not None and not peer.session.is_absent:
            is_running = any(task_id in state.ledger.entries for task_id in peer.held)
            is_drained = not is_running and not peer.session.undelivered
            farewell = Disconnect(reason="the broker stops", is_drained=is_drained)
            state.post(peer.session.route, peer.session, farewell)


def _fall_silent(state: State) -> None:
    """From now on nobody is known; who speaks after an enable is asked to negotiate."""
    enter(state, "disabled")
    for session in list(state.sessions.by_identity.values()):
        connections.close(state, session, "the broker is disabled")


def enter(state: State, mode: str) -> None:
    recording.note(state, "state", "", mode, None, former=state.mode)
    state.mode = mode
    state.mode_since_s = state.now
    state.network.is_dirty = True  # peers hear it soon
    # What peers granted meanwhile counts from now on; one that joins gives out nothing.
    if mode in ("active", "joining"):
        afar.feed_all(state)
