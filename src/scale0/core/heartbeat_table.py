"""The heartbeat table: which workers a broker hears, shared with its peers by push or pull (rule 30).

Pushed: each change, soon and a batch at a time, and all of it after a link came up. Pulled: all of it, when it is asked
for. Which of the two, or neither, each broker's entry in the document says per peer; push is the default. A row holds
what a standby or an operator needs: who it is, what it offers, how busy it is, and how long ago it was heard.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from scale0.core.network import Peer
from scale0.core.sessions import Session
from scale0.core.state import State
from scale0.protocol.messages import Table, TableReq

Row = dict[str, Any]
ROWS_MAX = 2_000  # of one TABLE; more come in several
PUSHED_MAX = 200  # rows that are pushed at once
PUSH_S = 0.05


def mode_for(state: State, peer: Peer) -> str:
    """How our table reaches this peer: push, pull or off."""
    told = next((entry.table for entry in state.config.entry.peers if entry.identity == peer.identity), "push")
    return str(told)


def begin(state: State, peer: Peer) -> None:
    """The link came up: everything is news, also that there is nobody."""
    peer.table_seq = 0
    peer.table_due = {s.identity: None for s in state.sessions.by_identity.values() if s.worker is not None}


def push(state: State, peer: Peer) -> None:
    """What changed, a batch at a time."""
    if mode_for(state, peer) != "push":
        peer.table_due = {}
        peer.table_seq = max(1, peer.table_seq)
        return
    peer.table_at_s = state.now + PUSH_S
    due = list(islice(peer.table_due, PUSHED_MAX))
    for identity in due:
        del peer.table_due[identity]
    _send(state, peer, [row(state, identity) for identity in due], is_full=not peer.table_seq)


def tell_all(state: State, session: Session, message: TableReq) -> None:
    """TABLEREQ: all of it, unless this peer is to have none."""
    peer = state.network.of(session)
    if mode_for(state, peer) == "off":
        return
    table = rows(state)
    for start in range(0, max(1, len(table)), ROWS_MAX):
        _send(state, peer, table[start : start + ROWS_MAX], is_full=not start)


def ask(state: State, peer: Peer) -> None:
    """Pull its table, unless it came lately; the answer is there when somebody looks again."""
    if state.now - peer.table_s < state.settings.default_heartbeat_interval_s:
        return
    if peer.session is not None and not peer.session.is_absent:
        state.post(peer.session.route, peer.session, TableReq())


def take(state: State, session: Session, message: Table) -> None:
    """TABLE: its workers, whole or what changed."""
    peer = state.network.of(session)
    if message.is_full:
        peer.table.clear()
    room = state.limits.table_rows - sum(len(other.table) for other in state.network.peers.values())
    for row in message.rows:
        identity = row.get("identity")
        if not isinstance(identity, str):
            continue
        if len(row) == 1:
            peer.table.pop(identity, None)
        elif identity in peer.table or room > 0:
            room -= identity not in peer.table
            peer.table[identity] = row
    peer.table_s = state.now


def _send(state: State, peer: Peer, rows: list[Row], *, is_full: bool) -> None:
    assert peer.session is not None, "a linked peer has a session"
    peer.table_seq += 1
    state.post(peer.session.route, peer.session, Table(seq=peer.table_seq, is_full=is_full, rows=rows))


def rows(state: State) -> list[Row]:
    """Our own workers, as peers are told of them."""
    return [row(state, s.identity) for s in state.sessions.by_identity.values() if s.worker is not None]


def row(state: State, identity: str) -> Row:
    """One worker; nothing but its identity if it is gone."""
    session = state.sessions.by_identity.get(identity)
    if session is None or session.worker is None:
        return {"identity": identity}
    worker = session.worker
    return {
        "identity": identity,
        "state": worker.state,
        "services": [service.name for service in worker.services],
        "busy": len(worker.slots),
        "capacity": worker.capacity,
        "age_ms": round((state.now - session.last_seen_s) * 1000),
        "interval_ms": round(session.interval_s * 1000),
        "version": session.config_version,
    }
