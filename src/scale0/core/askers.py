"""Who waits for an answer that comes later: from the sequencer, from another broker, or from this broker's own shell.

Each has a key. Whoever has the answer brings it with that key, and it goes where the question came from: to a route, or
to a door of this process as an effect `Answered`. Every wait is bounded, in number and in time.
"""

from __future__ import annotations

import math

import msgspec

from scale0.core.effects import Answered, Route, Send
from scale0.core.network import Asker
from scale0.core.state import State
from scale0.core.workers import delist
from scale0.errors import ProtocolError
from scale0.protocol.codes import Code
from scale0.protocol.dialects import Dialect
from scale0.protocol.messages import Error, ManagementRep

ASKERS_MAX = 100  # that wait at once → 429
DISTANT_MAX = 64  # of them, those that sent MANAGEMENTREQ: they cannot keep the broker's own questions out
REFUSED_BELOW = 500  # codes of a refusal; from here on it was tried, and failed
TRY_AGAIN = (Code.IDENTITY_IN_USE, Code.NOT_ACCEPTING, Code.DEADLINE_IN_FLIGHT)


class Later(msgspec.Struct):
    """The answer comes later: as an effect `Answered` with this key."""

    key: int


def wait(
    state: State,
    whom: str,
    for_s: float = math.inf,
    *,
    route: Route | None = None,
    dialect: Dialect | None = None,
    seq: int = 0,
    is_silent: bool = False,
) -> int:
    """Somebody waits for the word of `whom`; the key of its answer. `ProtocolError` if too many wait."""
    network = state.network
    distant = sum(asker.route is not None for asker in network.askers.values())
    if len(network.askers) >= ASKERS_MAX or (route is not None and distant >= DISTANT_MAX):
        raise ProtocolError(Code.OVER_LIMIT, f"{len(network.askers)} commands wait for their answer; try again soon")
    key = network.next_seq
    network.next_seq += 1
    network.askers[key] = Asker(
        route=route, dialect=dialect, seq=seq or key, until_s=state.now + for_s, whom=whom, is_silent=is_silent
    )
    return key


def answered(state: State, message: ManagementRep | Error) -> None:
    """An answer came; `seq` is its key. One that nobody waits for any more is passed over."""
    asker = state.network.askers.pop(message.seq, None)
    if asker is None:
        return
    if asker.is_patient:
        if isinstance(message, Error) and message.code not in TRY_AGAIN:
            state.alarm("config_refused", f"the sequencer refuses what this broker proposed: {message.text}")
    elif asker.route is None or asker.dialect is None:
        state.effects.append(Answered(asker.seq, msgspec.structs.replace(message, seq=asker.seq)))
    else:
        if isinstance(message, Error) and message.code == Code.NOT_AUTHENTICATED:
            state.error_clients.blame(asker.route, "management without authority", state.now)
        if not (asker.is_silent and isinstance(message, Error) and message.code < REFUSED_BELOW):
            send(state, asker.route, asker.dialect, msgspec.structs.replace(message, seq=asker.seq))


def hand_on(state: State, key: int, to: int) -> None:
    """What `to` is answered is the answer to `key`, too. If nobody waits for that, a refusal is an alarm."""
    asker, other = state.network.askers.pop(key, None), state.network.askers[to]
    if asker is None:
        other.is_patient = True
    else:
        asker.until_s, asker.whom = other.until_s, other.whom
        state.network.askers[to] = asker


def send(state: State, route: Route, dialect: Dialect, message: Error | ManagementRep) -> None:
    """The answer to MANAGEMENTREQ; who speaks in turns has had its answer with it."""
    session = state.sessions.by_route.get(route)
    if session is not None and session.dialect.is_req:
        session.turn = None
        if session.worker is not None:  # it gets a task when it asks again
            delist(session.worker)
    state.effects.append(Send(route, dialect, message))


def give_up(state: State) -> None:
    """Whoever did not answer in time is not waited for any longer."""
    late = [(key, asker) for key, asker in state.network.askers.items() if state.now >= asker.until_s]
    for key, asker in late:
        text = f"{asker.whom} did not answer in time; it may have been done all the same: look, then try again"
        answered(state, Error(code=Code.DEADLINE_IN_FLIGHT, text=text, seq=key))


def next_s(state: State) -> float:
    """When `give_up` has something to do at the latest."""
    return min((asker.until_s for asker in state.network.askers.values()), default=math.inf)
