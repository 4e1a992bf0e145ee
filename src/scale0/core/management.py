"""One command vocabulary for operators: disable, enable, drain, reload_config, list, and clearing.

MANAGEMENTREQ is one door to it, the process's own signals are another; each only translates. Rule 25 says what the
broker's states mean:

    joining    until it has its config; TASK gets 503            active     serves
    draining   finishes what it holds, takes nothing new         disabling  queued tasks get 503, `grace` for the rest
    disabled   silent to all but an authorised enable; kept over restarts
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Callable
from typing import Any

from scale0.core import connections, listings, routing
from scale0.core.effects import Persist, Reload, Route, Send, Stopped
from scale0.core.state import State
from scale0.errors import ProtocolError
from scale0.protocol.codes import Code
from scale0.protocol.dialects import Dialect
from scale0.protocol.majordomo import MdpDisconnect
from scale0.protocol.messages import Disconnect, Error, ManagementRep, ManagementReq

Arguments = dict[str, Any]


def receive(state: State, route: Route, dialect: Dialect, message: ManagementReq) -> None:
    """MANAGEMENTREQ: authenticate, run, answer. A disabled broker hears only an authorised enable."""
    is_silent = state.mode == "disabled"
    refusal = _why_refused(state, message)
    if refusal is not None:
        state.error_clients.blame(route, "management without authority", state.now)
        if not is_silent:
            _answer(state, route, dialect, refusal)
        return
    if is_silent and message.command != "enable":
        return
    try:
        result = run(state, message.command, message.arguments)
    except ProtocolError as error:
        _answer(state, route, dialect, Error(code=error.code, text=error.text, seq=message.seq))
        return
    _answer(state, route, dialect, ManagementRep(seq=message.seq, result=result))


def run(state: State, command: str, arguments: Arguments) -> Any:
    """Run one command; an unknown one, or a bad argument, raises `ProtocolError`."""
    known = COMMANDS.get(command)
    if known is None:
        raise ProtocolError(Code.UNEXPECTED, f"no command {command!r}; there are {', '.join(COMMANDS)}")
    state.counters[f"command_{command}"] += 1
    return known(state, arguments)


def step(state: State) -> None:
    """Disabling and draining end when nothing is held, or when `grace` has passed."""
    if state.mode == "disabling":
        is_over = state.now - state.mode_since_s >= state.settings.grace_s
        if is_over:
            for entry in list(state.ledger.entries.values()):
                text = "outcome unknown: the broker was disabled while it ran"
                routing.settle_error(state, entry, Code.WORKER_LOST, text)
        if not state.ledger.entries:
            _fall_silent(state)
    elif state.mode == "draining" and not state.ledger.entries and not state.is_stopped:
        state.is_stopped = True
        state.effects.append(Stopped())


def next_step_s(state: State) -> float:
    """When `step` has something to do at the latest."""
    return state.mode_since_s + state.settings.grace_s if state.mode == "disabling" else math.inf


def disable(state: State, arguments: Arguments) -> Any:
    if state.mode in ("disabled", "disabling"):
        return {"state": state.mode}
    _enter(state, "disabling")
    for entry in [entry for entry in state.ledger.entries.values() if entry.is_queued]:
        routing.settle_error(state, entry, Code.NOT_ACCEPTING, "the broker was disabled before the task was dispatched")
    state.effects.append(Persist("disabled"))
    step(state)
    return {"state": state.mode}


def enable(state: State, arguments: Arguments) -> Any:
    if state.mode == "active":
        return {"state": "active"}
    _enter(state, "active")
    state.started_s = state.now  # everybody has to come back first: unknown services wait
    state.has_settled = False
    state.is_stopped = False
    state.effects.append(Persist("active"))
    for session in list(state.sessions.by_identity.values()):
        if session.worker is not None:
            routing.feed(state, session.worker)
    return {"state": "active"}


def drain(state: State, arguments: Arguments) -> Any:
    if state.mode in ("disabled", "disabling"):
        raise ProtocolError(Code.NOT_ACCEPTING, f"the broker is {state.mode}; enable it first")
    if state.mode != "draining":
        _enter(state, "draining")
    step(state)
    return {"state": state.mode, "queued": state.ledger.queued, "in_flight": state.ledger.in_flight}


def reload_config(state: State, arguments: Arguments) -> Any:
    state.effects.append(Reload())
    return {"config_version": str(state.config.version)}


def show(state: State, arguments: Arguments) -> Any:
    what = arguments.get("what", "brokers")
    listing = LISTINGS.get(str(what))
    if listing is None:
        raise ProtocolError(Code.MALFORMED, f"no listing {what!r}; there are {', '.join(LISTINGS)}")
    return listings.document(state, f"scale0.{what}", listing(state))


def clear_error_client(state: State, arguments: Arguments) -> Any:
    connection = arguments.get("connection")
    if connection is None:
        return {"cleared": state.error_clients.clear()}
    try:
        route = Route(bytes.fromhex(str(connection)))
    except ValueError:
        raise ProtocolError(Code.MALFORMED, "connection is written in hex, as list shows it") from None
    return {"cleared": state.error_clients.clear(route)}


def clear_dead_letters(state: State, arguments: Arguments) -> Any:
    return {"cleared": state.dead_letters.clear()}


COMMANDS: dict[str, Callable[[State, Arguments], Any]] = {
    "disable": disable,
    "enable": enable,
    "drain": drain,
    "reload_config": reload_config,
    "list": show,
    "clear_error_client": clear_error_client,
    "clear_dead_letters": clear_dead_letters,
}
LISTINGS: dict[str, Callable[[State], list[listings.Row]]] = {
    "services": listings.services,
    "workers": listings.workers,
    "clients": listings.clients,
    "brokers": listings.brokers,
    "config": listings.config,
    "dead_letters": listings.dead_letters,
    "error_clients": listings.error_clients,
}


def say_goodbye(state: State) -> None:
    """The process ends: everybody is told, so that nobody has to wait for silence."""
    for session in state.sessions.by_identity.values():
        if not session.dialect.is_req and not session.is_absent:
            farewell = MdpDisconnect() if session.dialect.majordomo else Disconnect(reason="the broker stops")
            if session.worker is not None or not session.dialect.majordomo:
                state.post(session.route, session, farewell)


def _why_refused(state: State, message: ManagementReq) -> Error | None:
    passwords = state.config.settings.management.passwords
    if not passwords:
        text = "management over MANAGEMENTREQ is off: no password is configured (management.passwords)"
        return Error(code=Code.NOT_ALLOWED, text=text, seq=message.seq)
    given = hashlib.sha256(message.auth_password.encode()).hexdigest()
    expected = passwords.get(message.auth_id, "")
    if not hmac.compare_digest(given.encode(), expected.lower().encode()):
        return Error(code=Code.NOT_AUTHENTICATED, text="auth_id and auth_password do not match", seq=message.seq)
    return None


def _fall_silent(state: State) -> None:
    """From now on nobody is known; who speaks after an enable is asked to negotiate."""
    _enter(state, "disabled")
    for session in list(state.sessions.by_identity.values()):
        connections.close(state, session, "the broker is disabled")


def _enter(state: State, mode: str) -> None:
    state.mode = mode
    state.mode_since_s = state.now


def _answer(state: State, route: Route, dialect: Dialect, message: Error | ManagementRep) -> None:
    session = state.sessions.by_route.get(route)
    if session is not None and session.dialect.is_req:
        session.turn = None
    state.effects.append(Send(route, dialect, message))
