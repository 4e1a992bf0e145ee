"""The config service: how the document changes, and how a change reaches every broker and participant.

Rule 21: the first reachable broker in `config_brokers` sequences changes, so that versions form one line; any other
passes a change on to it. If none can be reached a change is refused, unless it is forced: that opens a new epoch, which
wins over all others. On both sides of a partition there may be a sequencer. When they meet the higher version wins; the
other stays in the history, with an alarm.

Rule 23: versions are heard from many sources, and a newer one is fetched from whoever has it. Rule 22: a document that
does not validate changes nothing, wherever it comes from.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from scale0.core import askers, liveness, membership, recording
from scale0.core.askers import Later
from scale0.core.config import NOBODY, content_hash
from scale0.core.effects import KeepConfig, Listen, Publish
from scale0.core.network import Peer
from scale0.core.settings import settings_for
from scale0.core.state import State
from scale0.errors import ProtocolError, SettingsError
from scale0.protocol import documents, network_rules
from scale0.protocol.codes import Code
from scale0.protocol.messages import (
    ConfigAck,
    ConfigChange,
    ConfigVersion,
    Error,
    ManagementRep,
    Snapshot,
    SnapshotReq,
)
from scale0.protocol.network import ConfigRecord, Document
from scale0.protocol.network_addresses import publishes_at

SNAPSHOT_BYTES_MAX = 512 * 1024  # of records in one SNAPSHOT; the newest is always in it
ASKED_S = 5.0  # how long the sequencer's word is waited for
FETCH_AGAIN_S = 1.0
LISTENED_MAX = 8  # publishers


class ConfigState(msgspec.Struct):
    """What SNAPSHOT carries of the config."""

    records: list[ConfigRecord]  # the newest last
    ancestors: list[bytes] = []  # all versions that led to it, as far as they are remembered


def begin(state: State, *, is_new: bool) -> None:
    """At the start: a broker that joins has no config yet; any other follows the one that it has."""
    is_alone = is_new or [entry.identity for entry in state.config.document.brokers] == [state.local.identity]
    if is_alone and state.network.seeds:
        state.network.is_joining = True
        state.config.forget()
        if state.mode == "active":
            state.mode = "joining"
        return
    state.settings = settings_for(state.config.document, state.local)
    state.set_limits(state.settings.limits)
    state.services.reconfigure(state.settings, state.now)
    state.network.is_joining = bool(state.network.seeds) and not state.config.entry.identity
    if state.network.is_joining and state.mode == "active":
        state.mode = "joining"  # it was taken out of the document, and asks to be entered again
    state.effects.append(KeepConfig(state.config.records()))  # it may be new, by the operator's file
    membership.follow_document(state, NOBODY)


def tick(state: State) -> None:
    if state.network.askers:
        askers.give_up(state)
    publish(state)


def next_s(state: State) -> float:
    """When `tick` has something to do at the latest."""
    network = state.network
    publish_s = network.publish_at_s if state.settings.config_pub else math.inf
    return min(publish_s, askers.next_s(state)) if network.askers else publish_s


# --- a change -----------------------------------------------------------------------------------------------------


def propose(
    state: State, document: Document, *, base: bytes, author: str, comment: str = "", is_forced: bool = False
) -> ConfigRecord | Later:
    """A change, from an operator or from a broker that joins. `base` empty: made from whatever is current."""
    if not state.config.version.number:
        text = "this broker is joining and has no config yet; ask one that belongs to the network"
        raise ProtocolError(Code.NOT_ACCEPTING, text)
    _check(document)
    if content_hash(documents.canonical(document)) == state.config.version.hash and not is_forced:
        return state.config.record
    chosen = sequencer(state)
    is_ours = chosen == state.settings.identity
    if is_ours and not is_forced and not knows_newest(state):
        unheard = ", ".join(peer.identity for peer in state.network.peers.values() if peer.status is None)
        text = f"this broker has just started and has not heard {unheard or 'the newest config'} yet"
        raise ProtocolError(Code.NOT_ACCEPTING, f"{text}; try again in a few seconds, or use --force")
    if is_ours or is_forced:
        opens_epoch = is_forced and not (is_ours and knows_newest(state))  # so that it wins, whatever others have made
        return _sequence(state, document, base, author, comment, opens_epoch)
    if chosen is None:
        asked = ", ".join(_succession(state)) or "none"
        text = f"no config broker can be reached ({asked}); wait for one, or use --force, which opens a new epoch"
        raise ProtocolError(Code.NOT_ACCEPTING, text)
    return _pass_on(state, state.network.peers[chosen], document, base, author, comment)


def knows_newest(state: State) -> bool:
    """Whether others can have a newer config: after a start each is heard first, as long as settling lasts.

    A sequencer that was away, and made a version before it has heard what its successor made, would conflict with that.
    """
    listed = [peer for peer in state.network.peers.values() if state.config.document.broker(peer.identity) is not None]
    told = [peer.status.config_version if peer.status else b"" for peer in listed]
    return max(told, default=b"") <= state.config.packed_version and (all(told) or not state.is_settling)


def propose_patiently(state: State, document: Document, author: str, comment: str) -> None:
    """A change that a broker makes by itself, and proposes again until it is done."""
    done = propose(state, document, base=state.config.packed_version, author=author, comment=comment)
    if isinstance(done, Later):
        state.network.askers[done.key].is_patient = True


def sequencer(state: State) -> str | None:
    """The first reachable broker in the order of succession; of a pair the one that serves.

    A standby is linked with its partner only. If it sequenced changes, no other broker could make one.
    """
    document = state.config.document
    passive: str | None = None
    for identity in _succession(state):
        pair = document.pair_of(identity)
        for one in (identity, *pair) if pair is not None else (identity,):
            mode = _mode_of(state, one)
            if mode == "passive":
                passive = passive or one
            elif mode not in ("", "joining"):
                return one
    return passive


def _succession(state: State) -> list[str]:
    document = state.config.document
    return document.config_brokers or [entry.identity for entry in document.brokers]


def _mode_of(state: State, identity: str) -> str:
    """What a broker says that it is; empty if it cannot be reached. To itself it can be the sequencer in any mode."""
    if identity == state.settings.identity:
        return "passive" if state.mode == "passive" else "active"
    peer = state.network.peers.get(identity)
    return peer.status.state if peer is not None and peer.is_linked and peer.status is not None else ""


def _check(document: Document) -> None:
    """Rule 22: a config that does not validate is refused, with each key."""
    try:
        network_rules.check(document)
    except SettingsError as error:
        raise ProtocolError(Code.MALFORMED, str(error)) from None


def _sequence(
    state: State, document: Document, base: bytes, author: str, comment: str, opens_epoch: bool
) -> ConfigRecord:
    config = state.config
    if base and base != config.packed_version:
        text = f"the config is at {config.version} by now, the change was made from {ConfigVersion.unpack(base)}; look"
        raise ProtocolError(Code.IDENTITY_IN_USE, f"{text} at scale0 config show, and apply it again")
    record = config.make(document, config.version, author, comment, state.wall_us(), 1 if opens_epoch else 0)
    _apply(state, record, document)
    return record


def _pass_on(state: State, peer: Peer, document: Document, base: bytes, author: str, comment: str) -> Later:
    assert peer.session is not None, "a linked peer has a session"
    seq = askers.wait(state, f"{peer.identity}, the sequencer,", ASKED_S)
    text = documents.canonical(document)
    change = ConfigChange(seq=seq, base=base, document=text, author=author, comment=comment)
    state.post(peer.session.route, peer.session, change)
    return Later(seq)


def change(state: State, peer: Peer, message: ConfigChange) -> None:
    """CONFIGCHANGE: a peer holds us for the sequencer."""
    assert peer.session is not None, "a linked peer has a session"
    try:
        if sequencer(state) != state.settings.identity:
            raise ProtocolError(Code.NOT_ACCEPTING, f"{state.settings.identity} is not the sequencer now; try again")
        document = documents.decode(message.document, "JSON", Document)
        if not message.base:  # whoever joined since the sender last heard stays
            document = document.over(state.config.document)
        record = propose(state, document, base=message.base, author=message.author, comment=message.comment)
    except (ProtocolError, SettingsError) as error:
        code = error.code if isinstance(error, ProtocolError) else Code.MALFORMED
        text = error.text if isinstance(error, ProtocolError) else str(error)
        state.post(peer.session.route, peer.session, Error(code=int(code), text=text, seq=message.seq))
        return
    assert isinstance(record, ConfigRecord), "the sequencer passes nothing on"
    state.post(peer.session.route, peer.session, ManagementRep(seq=message.seq, result=describe(record)))


def describe(record: ConfigRecord) -> dict[str, object]:
    return {"version": str(ConfigVersion.unpack(record.version)), "changed": True}


# --- from broker to broker ----------------------------------------------------------------------------------------


def heard(state: State, identity: str, version: bytes) -> None:
    """Somebody has this version. Rule 23: any newer one is fetched, from whoever has it."""
    if version <= state.config.packed_version:
        return
    peer = state.network.peers.get(identity)
    if peer is None or not peer.is_linked:
        peer = next(iter(state.network.linked()), None)
    if peer is None or (peer.asked_version >= version and state.now - peer.asked_s < FETCH_AGAIN_S):
        return
    assert peer.session is not None, "a linked peer has a session"
    peer.asked_version, peer.asked_s = version, state.now
    state.post(peer.session.route, peer.session, SnapshotReq(what="config"))


def snapshot(state: State, peer: Peer) -> None:
    """SNAPSHOTREQ: the newest records, and the versions before them."""
    assert peer.session is not None, "a linked peer has a session"
    config = state.config
    if not config.version.number:
        return  # it has none yet itself
    records = [config.record]
    size = len(config.record.document)
    for record in reversed(config.history):
        size += len(record.document)
        if size > SNAPSHOT_BYTES_MAX:
            break
        records.insert(0, record)
    ancestors = [record.version for record in config.history if record.state != "lost"]
    body = msgspec.msgpack.encode(ConfigState(records, ancestors))
    state.post(peer.session.route, peer.session, Snapshot(what="config", seq=config.version.number, state=body))


def take_snapshot(state: State, peer: Peer, message: Snapshot) -> None:
    """SNAPSHOT: take it if it is newer and validates."""
    try:
        told = msgspec.msgpack.decode(message.state, type=ConfigState)
        for record in told.records:
            _check_record(record)
        if message.what == "lost":
            _remember_lost(state, peer, told.records)
            return
        newest = told.records[-1]
        if newest.version <= state.config.packed_version:
            return
        document = documents.decode(newest.document, "JSON", Document)
        network_rules.check(document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, SettingsError, IndexError) as error:
        recording.note(state, "config", "", "refused", None, sender=peer.identity, why=str(error))
        state.alarm("config_refused", f"the config that {peer.identity} sent is refused: {error}; the last good stays")
        return
    _adopt(state, peer, told, newest, document)


def _check_record(record: ConfigRecord) -> None:
    """Its hash fits, and it can be kept: in the file of configs each document stands as it is, as one JSON object."""
    version = ConfigVersion.unpack(record.version)
    if content_hash(record.document) != record.version[8:] or len(record.version) != 16:
        raise SettingsError(f"the hash of version {version} does not fit")
    msgspec.json.decode(record.document, type=dict[str, Any])
    if record.document[:1] + record.document[-1:] != b"{}":
        raise SettingsError(f"the document of version {version} has blanks around it")


def _adopt(state: State, peer: Peer, told: ConfigState, newest: ConfigRecord, document: Document) -> None:
    """A newer version. If ours is not among those that led to it, ours has lost (rule 21)."""
    config = state.config
    known = {*told.ancestors, *(record.version for record in told.records if record.state != "lost")}
    has_lost = config.version.number > 0 and config.packed_version not in known and bool(known - {newest.version})
    is_long = len(told.ancestors) >= document.limits.config_history
    if is_long and config.packed_version < min(known):  # older than they remember
        has_lost = False
    before = config.record
    losers = _losers(state, known) if has_lost else []
    if has_lost:  # before it is kept: whoever crashes between the two says it again
        lost, won = ConfigVersion.unpack(before.version), ConfigVersion.unpack(newest.version)
        text = f"config {lost} by {before.author or 'unknown'} lost against {won}; see scale0 config history"
        state.alarm("config_lost", f"{text}, and apply it again if it is still wanted")
    if config.version.number:
        _say_lost(state, _unknown(state, [record for record in told.records if record.state == "lost"]))
    config.remember([*told.records[:-1], *losers])
    _apply(state, newest, document, is_lost=has_lost)
    if has_lost:
        _tell_lost(state, losers, None)


def _tell_lost(state: State, losers: list[ConfigRecord], teller: Peer | None) -> None:
    """All that are linked hear of it, but for who told us; each passes on what is new to it, to those linked there."""
    body = msgspec.msgpack.encode(ConfigState(losers))
    for other in state.network.linked():
        if other is not teller:
            assert other.session is not None, "a linked peer has a session"
            state.post(other.session.route, other.session, Snapshot(what="lost", seq=0, state=body))


def _losers(state: State, known: set[bytes]) -> list[ConfigRecord]:
    """What was sequenced on our side since the last version that both sides have."""
    ours = state.config.records()
    # One that we hold as lost may be among theirs: it never was a version of both sides.
    common = max((record.version for record in ours if record.version in known and record.state != "lost"), default=b"")
    lost = [record for record in ours if record.version > common and record.version not in known]
    return [msgspec.structs.replace(record, state="lost") for record in lost]


def _remember_lost(state: State, teller: Peer, records: list[ConfigRecord]) -> None:
    """Kept beside our config. Who joins has none yet, and hears of it with the first that it gets."""
    if not state.config.version.number:
        return
    fresh = _unknown(state, records)
    if fresh:
        state.config.remember([msgspec.structs.replace(record, state="lost") for record in fresh])
        _say_lost(state, fresh)
        state.effects.append(KeepConfig(state.config.records()))
        _tell_lost(state, fresh, teller)


def _unknown(state: State, records: list[ConfigRecord]) -> list[ConfigRecord]:
    known = {record.version for record in state.config.records()}
    return [record for record in records if record.version not in known]


def _say_lost(state: State, records: list[ConfigRecord]) -> None:
    """Rule 21: every broker says it aloud, also one that never had what has lost."""
    if records:
        versions = ", ".join(str(ConfigVersion.unpack(record.version)) for record in records)
        state.alarm("config_lost", f"config {versions} lost against a newer one; see scale0 config history")


# --- taking effect ------------------------------------------------------------------------------------------------


def _apply(state: State, record: ConfigRecord, document: Document, *, is_lost: bool = False) -> None:
    """It holds from now on: kept, published, told to peers, and pushed to sessions."""
    config = state.config
    before, entry_before = config.record, config.entry
    had_one = config.version.number > 0
    config.take(record, document)
    if had_one:
        config.remember([msgspec.structs.replace(before, state="lost") if is_lost else before])
    liveness.reconfigure(state, settings_for(document, state.local))
    state.effects.append(KeepConfig(config.records()))
    detail = {"author": record.author, "comment": record.comment, "former": str(ConfigVersion.unpack(before.version))}
    recording.note(state, "config", str(config.version), "applied", None, **detail)
    state.network.publish_at_s = state.now
    membership.follow_document(state, entry_before)


def publish(state: State) -> None:
    """Each interval, and at each change: the version and nothing more. Documents go to sessions only."""
    if state.now < state.network.publish_at_s:
        return
    state.network.publish_at_s = state.now + state.settings.default_heartbeat_interval_s
    if state.config.version.number and state.settings.config_pub:
        message = ConfigAck(config_version=state.config.packed_version, identity=state.settings.identity)
        state.effects.append(Publish(message))


def listen(state: State) -> None:
    """Rule 23: subscribe first, to several publishers; then a snapshot is asked, as each link comes up."""
    own = state.config.entry
    brokers = [entry for entry in state.config.document.brokers if entry.identity != state.settings.identity]
    others = [publishes_at(entry) for entry in brokers]
    wanted = [endpoint for endpoint in own.config_sub_ports or others if endpoint][:LISTENED_MAX]
    keys = {publishes_at(e): [e.public_key, *filter(None, [e.next_public_key])] for e in brokers if e.public_key}
    by = {endpoint: keys[endpoint] for endpoint in wanted if endpoint in keys}
    if state.access is not None:  # who has a key listens to nobody without one
        wanted = list(by)
    if wanted != state.network.listens_to or by != state.network.listens_by:
        state.network.listens_to, state.network.listens_by = wanted, by
        state.effects.append(Listen(wanted, by))
