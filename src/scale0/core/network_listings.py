"""What people and programs may see of the network: its brokers and their links, its config, and all its workers.

A standby is linked with its partner only (rule 31). So what its row says comes from the partner, to everybody else.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from scale0.core import config_service, heartbeat_table, standby
from scale0.core.groups import reach
from scale0.core.listings import Row
from scale0.core.network import Peer
from scale0.core.star import Star
from scale0.core.state import State
from scale0.protocol.messages import ConfigVersion, PeerStatus
from scale0.protocol.network import BrokerEntry, ConfigRecord

HISTORY_BYTES_MAX = 4 * 1024 * 1024  # of documents in one listing


def network(state: State) -> list[Row]:
    """A row a broker: those of the document, and linked ones that are not in it yet."""
    document = state.config.document
    own = state.settings.identity
    listed = {entry.identity: entry for entry in document.brokers}
    strangers = [identity for identity in (own, *state.network.peers) if identity not in listed]
    entries = [*document.brokers, *(BrokerEntry(identity=identity) for identity in strangers)]
    sequencer = config_service.sequencer(state)
    rows = []
    for entry in entries:
        row = _own(state) if entry.identity == own else _other(state, entry.identity)
        rows.append(
            {
                "identity": entry.identity,
                "group": entry.group,
                "endpoints": reach(state, entry),
                "fallback_broker": entry.fallback_broker,
                "fallback_groups": document.fallback_groups(entry),
                "is_self": entry.identity == own,
                "is_sequencer": entry.identity == sequencer,
                **row,
            }
        )
    return rows


def _own(state: State) -> Row:
    is_passive = state.mode == "passive"  # whoever is known here is the partner's
    served = {name: len(s.workers) for name, s in sorted(state.services.by_name.items()) if s.workers}
    return {
        "state": state.mode,
        "star": state.pair.star.value if state.pair is not None else None,
        "epoch": state.epoch,
        "fallback": standby.condition(state) or None,
        "config_version": _version(state.config.packed_version),
        "is_behind": False,
        "workers": 0 if is_passive else state.sessions.workers,
        "clients": 0 if is_passive else state.sessions.clients,
        "queued": 0 if is_passive else state.ledger.queued,
        "services": {} if is_passive else served,
        "link": "self",
        "heard_us": None,
        "forwarded": 0,
        "received": 0,
    }


def _other(state: State, identity: str) -> Row:
    """Another broker, by its own word; a standby that is not linked with us, by its partner's."""
    row = _peer(state, state.network.peers.get(identity))
    told = standby.told_of(state, identity)
    if not told or row["link"] == "up":
        return row
    if told == "lost":
        return {**row, "state": "gone"}
    return {**row, "state": "passive", "star": Star.PASSIVE.value, "link": "none", "heard_us": None}


def _peer(state: State, peer: Peer | None) -> Row:
    row: Row = {"star": None, "epoch": None, "fallback": None, "config_version": None, "is_behind": False}
    row |= {"workers": None, "clients": None, "queued": None, "services": {}}
    row |= {"heard_us": None, "forwarded": 0, "received": 0}
    if peer is None:
        return {**row, "state": "unknown", "link": "down"}
    row |= {"forwarded": peer.forwarded, "received": peer.received}
    if peer.session is not None:
        row["heard_us"] = round((state.now - peer.session.last_seen_s) * 1e6)
    status = peer.status
    is_there = peer.is_linked and peer.session is not None and not peer.session.is_absent
    link = "up" if is_there else "dialing" if peer.dialing.route is not None else "down"
    if status is None:
        return {**row, "state": "gone" if peer.session is not None else "unknown", "link": link}
    return {
        **row,
        "state": status.state,
        "link": link,
        "star": _star(status),
        "epoch": status.epoch,
        "fallback": status.fallback or None,
        "config_version": _version(status.config_version),
        "is_behind": status.config_version < state.config.packed_version,
        "workers": status.workers,
        "clients": status.clients,
        "queued": sum(peer.queued.values()),
        "services": {name: word.workers for name, word in sorted(peer.offers.items()) if word.workers},
    }


def _star(status: PeerStatus) -> str | None:
    """What it says that it is: to its partner; to all others it says only how its standby is."""
    return status.star or (Star.ACTIVE.value if status.fallback else None)


def network_workers(state: State) -> Iterator[Row]:
    """All workers that this broker knows of: its own, and those in its peers' heartbeat tables."""
    known = [session.identity for session in state.sessions.by_identity.values() if session.worker is not None]
    for identity in known:
        row = heartbeat_table.row(state, identity)
        if len(row) > 1:
            yield _worker(state.settings.identity, row, 0.0)
    for peer in list(state.network.peers.values()):
        if peer.is_linked:
            heartbeat_table.ask(state, peer)
        for row in list(peer.table.values()):
            yield _worker(peer.identity, row, state.now - peer.table_s)


def workers_known(state: State) -> int:
    return state.sessions.workers + sum(len(peer.table) for peer in state.network.peers.values())


def _worker(broker: str, row: dict[str, object], age_s: float) -> Row:
    age_ms, interval_ms, version = row.get("age_ms"), row.get("interval_ms"), row.get("version")
    return {
        "identity": row["identity"],
        "broker": broker,
        "state": row.get("state"),
        "services": row.get("services"),
        "busy": row.get("busy"),
        "capacity": row.get("capacity"),
        "heard_us": round(age_ms * 1000 + age_s * 1e6) if isinstance(age_ms, int) else None,
        "interval_us": interval_ms * 1000 if isinstance(interval_ms, int) else None,
        "config_version": _version(version) if isinstance(version, bytes) and any(version) else None,
    }


def config(state: State) -> list[Row]:
    """The current config, and who runs it."""
    config, settings = state.config, state.settings
    others = [entry.identity for entry in config.document.brokers if entry.identity != settings.identity]
    statuses = {name: peer.status for name in others if (peer := state.network.peers.get(name)) is not None}
    behind = [name for name, status in statuses.items() if status and status.config_version < config.packed_version]
    return [
        {
            **_record(config.record),
            "identity": settings.identity,
            "group": settings.group,
            "services": "all" if settings.services is None else settings.services,
            "default_heartbeat_interval_us": round(settings.default_heartbeat_interval_s * 1e6),
            "liveness": settings.liveness,
            "sequencer": config_service.sequencer(state),
            "brokers": len(config.document.brokers),
            "behind": behind,
            "unknown": [name for name in others if statuses.get(name) is None],
        }
    ]


def config_history(state: State) -> list[Row]:
    """The newest first; documents of old versions are left out when all would be too large for one answer."""
    rows: list[Row] = []
    size = 0
    for record in reversed(state.config.records()):
        row = _record(record)
        size += len(record.document)
        if rows and size > HISTORY_BYTES_MAX:
            row["document"] = None
        rows.append({**row, "state": record.state if rows else "current"})
    return rows


def is_version(record: ConfigRecord, asked: str) -> bool:
    """Whether `asked` means this record: its number, epoch.number, or the whole version."""
    version = ConfigVersion.unpack(record.version)
    return asked in (str(version.number), f"v{version.number}", f"{version.epoch}.{version.number}", str(version))


def _record(record: ConfigRecord) -> Row:
    return {
        "version": _version(record.version),
        "author": record.author,
        "comment": record.comment,
        "time_us": record.time_us,
        "document": msgspec.json.decode(record.document),
    }


def _version(packed: bytes) -> str | None:
    return str(ConfigVersion.unpack(packed)) if any(packed) else None
