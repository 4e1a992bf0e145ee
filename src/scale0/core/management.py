"""One command vocabulary for operators: states, config, shares, lists, and clearing.

Every door leads here: MANAGEMENTREQ (`management_door.py`), the page, and the process's own signals. A change of config
may be answered by another broker, the sequencer: its answer is passed on to whoever asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from scale0.core import (
    access,
    askers,
    config_check,
    config_service,
    groups,
    handover,
    hints,
    listings,
    modes,
    network_listings,
    operations,
    overview,
    snapshots,
    task_listings,
)
from scale0.core.effects import Cut, FromFiles, Heal, Reload, Route
from scale0.core.state import State
from scale0.errors import ProtocolError
from scale0.protocol import documents
from scale0.protocol.codes import Code
from scale0.protocol.messages import ConfigVersion, ManagementRep
from scale0.protocol.network import Document

Arguments = dict[str, Any]
FILE_S = 5.0  # how long the settings file is waited for
CUT_S_MAX = 600.0  # a drill that is longer is an outage


def run(state: State, command: str, arguments: Arguments) -> Any:
    """Run one command; an unknown one, or a bad argument, raises `ProtocolError`."""
    known = COMMANDS.get(command)
    if known is None:
        raise ProtocolError(Code.UNEXPECTED, f"no command {command!r}; there are {', '.join(COMMANDS)}")
    state.counters[f"command_{command}"] += 1
    return known(state, arguments)


def reload_config(state: State, arguments: Arguments) -> askers.Later:
    """The shell reads the file; what came of it, a refusal with its line too, is for whoever asked."""
    key = askers.wait(state, "the reader of the settings file", FILE_S)
    state.effects.append(Reload(key))
    return askers.Later(key)


def configure(state: State, document: Document, author: str, key: int) -> None:
    """The settings file, read: a change like any other. Whoever waits with `key` is told what came of it.

    Among several brokers a file without a word on the network's config holds what its process needs, and proposes
    nothing: else a signal that is meant for that process would set the whole network back to defaults.
    """
    before = state.config.packed_version
    if document == Document() and len(state.config.document.brokers) > 1:
        note = "the file says nothing of the network's config"
        result = {"version": str(state.config.version), "changed": False, "note": note}
        askers.answered(state, ManagementRep(seq=key, result=result))
        return
    wanted = document.over(state.config.document)
    done = config_service.propose(state, wanted, base=b"", author=author, comment="read again")
    if isinstance(done, askers.Later):
        askers.hand_on(state, key, done.key)
    else:
        result = {**config_service.describe(done), "changed": done.version != before}
        askers.answered(state, ManagementRep(seq=key, result=result))


def config_apply(state: State, arguments: Arguments) -> Any:
    """A new document for the network, made from version `base`."""
    return _propose(state, config_check.read(arguments), arguments)


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
    if isinstance(done, askers.Later):
        return done
    return {**config_service.describe(done), "changed": done.version != before}


def forget_broker(state: State, arguments: Arguments) -> Any:
    """A broker that joined and will not come back leaves the document."""
    named = str(arguments.get("broker", ""))
    document = state.config.document
    if document.broker(named) is None:
        known = ", ".join(entry.identity for entry in document.brokers)
        raise ProtocolError(Code.MALFORMED, f"no broker {named!r} in the config; there are {known}")
    if len(document.brokers) == 1:
        text = f"{named} is the only broker of this network: nobody would be left to serve, nor to take it in again"
        raise ProtocolError(Code.MALFORMED, f"{text}; to end it, stop its process")
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
    return done if isinstance(done, askers.Later) else config_service.describe(done)


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
    state.alarm("drill", f"a drill is on{by}: {what} {link} for {for_s:g} s; scale0 ctl heal ends it")
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
    """A listing: all of it, or `limit` rows after the first `after`."""
    what = operations.text_of(arguments, "what", "the name of a listing", default="brokers")
    begun = _begin(state, what)
    if isinstance(begun, dict):
        return {"schema": f"scale0.{what}/1", **listings.heading(state), "complete": True, **begun}
    rows = [row for row in begun[0] if row is not None]
    after, limit = _place(arguments, "after", 0), _place(arguments, "limit", listings.ROWS_MAX)
    total = max(len(rows), begun[1])
    if arguments.get("after") is None and arguments.get("limit") is None:
        return listings.document(state, f"scale0.{what}", rows, total)
    shown = rows[after : after + limit]
    next_after = str(after + len(shown)) if after + len(shown) < len(rows) else None
    return {**listings.document(state, f"scale0.{what}", shown, total), "after": next_after}


def _place(arguments: Arguments, name: str, default: int) -> int:
    value = arguments.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | str) or not str(value).isdecimal() or len(str(value)) > 9:
        raise ProtocolError(Code.MALFORMED, f"{name}: a number of rows is needed, 0 or more")
    return int(value)


def snapshot(state: State, arguments: Arguments) -> Any:
    """The first piece of several listings, or the next piece of one: see `snapshots`."""
    parts, after = arguments.get("parts"), arguments.get("after")
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise ProtocolError(Code.MALFORMED, "parts: a list of names of listings is needed")
    if after is not None and not isinstance(after, str):
        raise ProtocolError(Code.MALFORMED, "after: a cursor is text, as the last piece gave it")
    return {**listings.heading(state), **snapshots.take(state, parts, after, _begin)}


def _begin(state: State, what: str) -> tuple[Iterator[listings.Row | None], int] | listings.Row:
    """A listing from its beginning: its rows and their number; the overview has no rows, and comes whole."""
    if what == "overview":
        return overview.overview(state)
    listing = LISTINGS.get(what)
    if listing is None:
        known = ", ".join(("overview", *LISTINGS))
        raise ProtocolError(Code.MALFORMED, f"no listing {what[:100]!r}; there are {known}")
    rows = listing(state)
    return iter(rows), len(rows) if isinstance(rows, list) else TOTALS[what](state)


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


def recorded(state: State, command: str, arguments: Arguments) -> askers.Later:
    """What was recorded lies in files, and files are the shell's: its answer is passed on like a sequencer's."""
    if state.journal is None:
        raise ProtocolError(Code.UNEXPECTED, "this broker records nothing; start it with --telemetry")
    key = askers.wait(state, "the reader of recorded files")
    state.effects.append(FromFiles(key, command, arguments))
    return askers.Later(key)


COMMANDS: dict[str, Callable[[State, Arguments], Any]] = {
    "disable": lambda state, arguments: modes.disable(state),
    "enable": lambda state, arguments: modes.enable(state),
    "drain": lambda state, arguments: modes.drain(state),
    "reload_config": reload_config,
    "list": show,
    "snapshot": snapshot,
    "kick_worker": operations.kick_worker,
    "cancel_task": operations.cancel_task,
    "retry_dead_letter": operations.retry_dead_letter,
    "test_task": operations.test_task,
    "config_check": config_check.check,
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
LISTINGS: dict[str, Callable[[State], listings.Rows]] = {
    "services": listings.services,
    "workers": listings.workers,
    "clients": listings.clients,
    "brokers": listings.brokers,
    "network": network_listings.network,
    "network_workers": network_listings.network_workers,
    "tasks": task_listings.tasks,
    "dead_letters": task_listings.dead_letters,
    "error_clients": listings.error_clients,
    "config": network_listings.config,
    "config_history": network_listings.config_history,
    "hints": hints.listing,
    "keys": access.rows,
}
"""All that are lists of rows; `overview` is none."""
TOTALS: dict[str, Callable[[State], int]] = {
    "services": lambda state: len(state.services.by_name),
    "workers": lambda state: state.sessions.workers,
    "clients": lambda state: state.sessions.clients,
    "network_workers": network_listings.workers_known,
    "tasks": lambda state: len(state.ledger.entries),
    "dead_letters": lambda state: len(state.dead_letters.letters),
}
"""How many rows there are of those listings that are made row by row."""
