"""One command vocabulary for operators: states, config, shares, lists, and clearing.

MANAGEMENTREQ is one door to it, the process's own signals are another; each only translates. A change of config may be
answered by another broker, the sequencer: its answer is passed on to whoever asked.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Callable
from typing import Any

import msgspec

from scale0.core import config_service, groups, handover, hints, listings, modes, network_listings
from scale0.core.effects import Cut, FromFiles, Heal, Reload, Route, Send
from scale0.core.network import Asker
from scale0.core.state import State
from scale0.core.workers import delist
from scale0.errors import ProtocolError, SettingsError
from scale0.protocol import documents
from scale0.protocol.codes import Code
from scale0.protocol.dialects import Dialect
from scale0.protocol.messages import ConfigVersion, Error, ManagementRep, ManagementReq
from scale0.protocol.network import Document

Arguments = dict[str, Any]
CUT_S_MAX = 600.0  # a drill that is longer is an outage


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
        result = run(state, message.command, {**message.arguments, "author": message.auth_id})
    except ProtocolError as error:
        _answer(state, route, dialect, Error(code=error.code, text=error.text, seq=message.seq))
        return
    if isinstance(result, config_service.Later):  # another broker answers
        asker = state.network.askers[result.key]
        asker.route, asker.dialect, asker.seq = route, dialect, message.seq
        return
    _answer(state, route, dialect, ManagementRep(seq=message.seq, result=result))


def run(state: State, command: str, arguments: Arguments) -> Any:
    """Run one command; an unknown one, or a bad argument, raises `ProtocolError`."""
    known = COMMANDS.get(command)
    if known is None:
        raise ProtocolError(Code.UNEXPECTED, f"no command {command!r}; there are {', '.join(COMMANDS)}")
    state.counters[f"command_{command}"] += 1
    return known(state, arguments)


def reload_config(state: State, arguments: Arguments) -> Any:
    state.effects.append(Reload())
    return {"config_version": str(state.config.version)}


def config_apply(state: State, arguments: Arguments) -> Any:
    """A new document for the network, made from version `base`."""
    text = arguments.get("document")
    if not isinstance(text, str | bytes):
        raise ProtocolError(Code.MALFORMED, "document: the JSON text of the network's config is needed")
    try:
        document = documents.decode(text.encode() if isinstance(text, str) else text, "JSON", Document)
    except SettingsError as error:
        raise ProtocolError(Code.MALFORMED, str(error)) from None
    return _propose(state, document, arguments)


def config_rollback(state: State, arguments: Arguments) -> Any:
    """Rule 21: a rollback is a new number."""
    asked = str(arguments.get("version", ""))
    found = [record for record in state.config.history if network_listings.is_version(record, asked)]
    if not found:
        raise ProtocolError(Code.MALFORMED, f"no version {asked!r} in the history; see scale0 config history")
    document = documents.decode(found[-1].document, "JSON", Document)
    comment = str(arguments.get("comment") or f"back to {ConfigVersion.unpack(found[-1].version)}")
    return _propose(state, document, {**arguments, "comment": comment, "base": None})


def _propose(state: State, document: Document, arguments: Arguments) -> Any:
    named = arguments.get("base")
    if named is not None and str(named) != str(state.config.version):
        text = f"the config is at {state.config.version} by now, the change was made from {named}"
        raise ProtocolError(Code.IDENTITY_IN_USE, f"{text}; look at scale0 config diff, and apply it again")
    before = state.config.packed_version
    done = config_service.propose(
        state,
        document.over(state.config.document),
        base=b"" if named is None else state.config.packed_version,
        author=str(arguments.get("author", "")),
        comment=str(arguments.get("comment") or ""),
        is_forced=bool(arguments.get("force")),
    )
    if isinstance(done, config_service.Later):
        return done
    return {**config_service.describe(done), "changed": done.version != before}


def forget_broker(state: State, arguments: Arguments) -> Any:
    """A broker that joined and will not come back leaves the document."""
    named = str(arguments.get("broker", ""))
    document = state.config.document
    if document.broker(named) is None:
        known = ", ".join(entry.identity for entry in document.brokers)
        raise ProtocolError(Code.MALFORMED, f"no broker {named!r} in the config; there are {known}")
    alone = {"fallback_broker": ""}  # whose standby it was has none from now on
    brokers = [
        msgspec.structs.replace(entry, **alone) if entry.fallback_broker == named else entry
        for entry in document.brokers
        if entry.identity != named
    ]
    left = msgspec.structs.replace(document, brokers=brokers)
    author = str(arguments.get("author", ""))
    done = config_service.propose(
        state, left, base=state.config.packed_version, author=author, comment=f"{named} is forgotten"
    )
    return done if isinstance(done, config_service.Later) else config_service.describe(done)


def balance(state: State, arguments: Arguments) -> Any:
    groups.start_balance(state)
    return {"workers": state.sessions.workers}


def failback(state: State, arguments: Arguments) -> Any:
    """Those whose home is back are sent to it again; a fallback broker that serves hands over to its primary."""
    named, pair = arguments.get("broker"), state.pair
    if pair is not None and named in (None, pair.name) and (not pair.is_primary or state.mode == "passive"):
        return handover.hand_over(state)
    homes = {session.home for session in state.sessions.by_identity.values() if session.home}
    chosen = {str(named)} if named else homes
    for identity in chosen:
        if identity not in state.network.peers:
            raise ProtocolError(Code.MALFORMED, f"no broker {identity!r} in this network")
    groups.fail_back(state, chosen)
    return {"brokers": sorted(chosen)}


def partition(state: State, arguments: Arguments) -> Any:
    """A drill: no word passes between this broker and a peer, for so long. Its shell drops them; the rules go on."""
    peer, for_s, lost = str(arguments.get("peer", "")), arguments.get("for_s"), arguments.get("lost", "both")
    _check_peer(state, peer)
    if not isinstance(for_s, int | float) or not 0 < for_s <= CUT_S_MAX:
        raise ProtocolError(Code.MALFORMED, f"for_s: a drill lasts more than 0 and at most {CUT_S_MAX:g} seconds")
    if lost not in ("both", "sent", "received"):
        raise ProtocolError(Code.MALFORMED, "lost: what is to be lost is sent, received or both")
    what = {"both": "nothing passes", "sent": "nothing goes", "received": "nothing is heard"}[lost]
    link = f"between it and {peer}" if lost == "both" else f"to {peer}" if lost == "sent" else f"from {peer}"
    by = f", by {arguments['author']}" if arguments.get("author") else ""
    state.alarm("drill", f"a drill is on{by}: {what} {link} for {for_s:g} s; scale0 manage heal ends it")
    state.effects.append(Cut(peer, float(for_s), lost != "received", lost != "sent"))
    return {"peer": peer, "for_s": for_s, "lost": lost}


def heal(state: State, arguments: Arguments) -> Any:
    """The drill with this peer is over, or all of them."""
    peer = str(arguments.get("peer", ""))
    if peer:
        _check_peer(state, peer)
    state.effects.append(Heal(peer))
    return {"peer": peer or None}


def _check_peer(state: State, peer: str) -> None:
    if peer not in state.network.peers:
        known = ", ".join(state.network.peers) or "none"
        raise ProtocolError(Code.MALFORMED, f"no peer {peer!r} of this broker; there are {known}")


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


def recorded(state: State, command: str, arguments: Arguments) -> config_service.Later:
    """What was recorded lies in files, and files are the shell's: its answer is passed on like a sequencer's."""
    network = state.network
    if state.journal is None:
        raise ProtocolError(Code.UNEXPECTED, "this broker records nothing; start it with --telemetry")
    if len(network.askers) >= config_service.ASKERS_MAX:
        raise ProtocolError(Code.OVER_LIMIT, f"{config_service.ASKERS_MAX} commands wait for their answer")
    key = network.next_seq
    network.next_seq += 1
    network.askers[key] = Asker(route=None, dialect=None, seq=key, until_s=math.inf)
    state.effects.append(FromFiles(key, command, arguments))
    return config_service.Later(key)


COMMANDS: dict[str, Callable[[State, Arguments], Any]] = {
    "disable": lambda state, arguments: modes.disable(state),
    "enable": lambda state, arguments: modes.enable(state),
    "drain": lambda state, arguments: modes.drain(state),
    "reload_config": reload_config,
    "list": show,
    "config_apply": config_apply,
    "config_rollback": config_rollback,
    "forget_broker": forget_broker,
    "balance": balance,
    "failback": failback,
    "handover": lambda state, arguments: handover.hand_over(state),
    "takeover": lambda state, arguments: handover.take_over(state),
    "partition": partition,
    "heal": heal,
    "clear_error_client": clear_error_client,
    "clear_dead_letters": clear_dead_letters,
    "segments": lambda state, arguments: recorded(state, "segments", arguments),
    "segment": lambda state, arguments: recorded(state, "segment", arguments),
    "hints": hints.hear,
}
LISTINGS: dict[str, Callable[[State], list[listings.Row]]] = {
    "services": listings.services,
    "workers": listings.workers,
    "clients": listings.clients,
    "brokers": listings.brokers,
    "network": network_listings.network,
    "network_workers": network_listings.network_workers,
    "config": network_listings.config,
    "config_history": network_listings.config_history,
    "dead_letters": listings.dead_letters,
    "error_clients": listings.error_clients,
    "hints": hints.listing,
}


def _why_refused(state: State, message: ManagementReq) -> Error | None:
    passwords = state.settings.management.passwords
    if not passwords:
        text = "management over MANAGEMENTREQ is off: no password is configured (management.passwords)"
        return Error(code=Code.NOT_ALLOWED, text=text, seq=message.seq)
    given = hashlib.sha256(message.auth_password.encode()).hexdigest()
    expected = passwords.get(message.auth_id, "")
    if not hmac.compare_digest(given.encode(), expected.lower().encode()):
        return Error(code=Code.NOT_AUTHENTICATED, text="auth_id and auth_password do not match", seq=message.seq)
    if message.auth_id == hints.KEY and message.command not in hints.KEY_MAY:
        text = f"{hints.KEY} may send {' and '.join(hints.KEY_MAY)}, not {message.command}"
        return Error(code=Code.NOT_ALLOWED, text=text, seq=message.seq)
    return None


def _answer(state: State, route: Route, dialect: Dialect, message: Error | ManagementRep) -> None:
    session = state.sessions.by_route.get(route)
    if session is not None and session.dialect.is_req:
        session.turn = None
        if session.worker is not None:  # it has been answered: it gets a task when it asks again
            delist(session.worker)
    state.effects.append(Send(route, dialect, message))
