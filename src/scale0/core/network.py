"""What a broker knows of the other brokers: who they are, how each is linked, and what it last said.

    unlinked ── Dial, CONNECT ──▶ dialing ── CONNECT ──▶ linked ── silence, a broken link ──▶ unlinked

A pair of brokers has one link, whoever dialed it: the one whose identity sorts higher dials, so that two do not dial
one another; the other one waits, and dials too only if nobody has come for a while. `peers.py` has the rules of links,
`afar.py` and `forwarding.py` those of the tasks that cross them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from scale0.core.effects import DIALED, Route
from scale0.core.sessions import Session
from scale0.core.workers import Worker
from scale0.protocol.dialects import Dialect
from scale0.protocol.messages import PeerService, PeerStatus, TaskId

NEVER_TIER = 99  # of a peer that is in neither the own group nor a fallback group: no task goes there


@dataclass(slots=True, eq=False, kw_only=True)
class Dialing:
    """One address that is dialed until somebody answers there."""

    endpoint: str
    public_key: str = ""
    next_public_key: str = ""  # the other one that it may have: tried in turn
    is_next: bool = False  # that one is tried now
    route: Route | None = None  # of the link that is under way, or up
    dialed: str = ""  # the address where that link leads
    at_s: float = 0.0  # when to dial next
    until_s: float = 0.0  # how long the present one is waited for
    failures: int = 0
    refusal: str = ""  # what was told to the operator last: why whoever answers there does not take us

    @property
    def key(self) -> str:
        """The key that whoever answers there must have."""
        return (self.next_public_key if self.is_next else "") or self.public_key


@dataclass(slots=True, eq=False, kw_only=True)
class Peer:
    """Another broker."""

    identity: str
    dialing: Dialing
    tier: int = NEVER_TIER  # 0: of our group; 1, 2, …: of our fallback groups, in order
    is_linked: bool = False
    is_joining: bool = False  # it has asked to be entered into the document
    is_proven: bool = False  # its connection has the key that the document names for it
    entry: dict[str, Any] = field(default_factory=dict)  # as it described itself
    join_at_s: float = 0.0  # when its entry is proposed again
    session: Session | None = None  # of its last process that was linked
    status: PeerStatus | None = None  # the last, while it is linked
    unlinked_s: float = 0.0  # since when it has no link
    active_since_s: float = 0.0
    # tasks
    workers: dict[str, Worker] = field(default_factory=dict)  # it as a worker, one a service that it has credit for
    held: dict[TaskId, str] = field(default_factory=dict)  # its tasks here that it has not given up: id → service
    forwarded: int = 0
    received: int = 0
    # what it was told
    offers: dict[str, PeerService] = field(default_factory=dict)  # what it can do, as it told
    queued: dict[str, int] = field(default_factory=dict)  # its tasks that wait, by service
    visited: bytes = b""  # what stands before the options of a task that comes straight from it
    excused_until_s: float = -math.inf  # we stood still, and may not have read yet what it said
    told: dict[str, PeerService] = field(default_factory=dict)
    told_s: float = 0.0
    looked_s: float = 0.0  # when it was last looked whether there is news for it
    told_shape: tuple[object, ...] = ()  # our state, epoch, fallback's condition and config version
    is_told_all: bool = False
    assigned_workers: int = 0  # sent there, and not yet in the counts that it tells
    assigned_clients: int = 0
    assigned_s: float = 0.0
    asked_version: bytes = b""  # the config version that was asked of it last
    asked_s: float = 0.0
    # heartbeat tables (rule 30)
    table: dict[str, dict[str, Any]] = field(default_factory=dict)  # its workers, as it told
    table_s: float = 0.0
    table_due: dict[str, None] = field(default_factory=dict)  # our workers of which it has not heard the newest
    table_at_s: float = 0.0  # when the next of them are told
    table_seq: int = 0

    @property
    def is_linked_now(self) -> bool:
        """Its link is up, and its connection stands."""
        return self.is_linked and self.session is not None and not self.session.is_absent


@dataclass(slots=True, eq=False, kw_only=True)
class Asker:
    """Who waits for an answer that comes later (`askers.py`)."""

    route: Route | None  # None: a door of this process
    dialect: Dialect | None
    seq: int
    until_s: float
    whom: str = "the sequencer"  # whose answer it is
    is_silent: bool = False  # a refusal is not sent: the broker is disabled
    is_patient: bool = False  # it proposes again by itself: that it came too late is no news


class Network:
    """All other brokers."""

    def __init__(self, identity: str, nonce: bytes, seeds: list[str], now: float, seed_key: str = "") -> None:
        self.identity = identity
        self.nonce = nonce
        self.peers: dict[str, Peer] = {}
        self.seeds: dict[str, Dialing] = {
            endpoint: Dialing(endpoint=endpoint, at_s=now, public_key=seed_key) for endpoint in seeds
        }
        self.has_told_key = False  # that our key is not the one in the document
        self.has_warned = False  # that everybody who answers is joining too
        self.is_joining = False  # it asks to be entered into the document
        self.links = 0  # dialed so far
        self.serial = 0  # of the last CONNECT
        self.is_dirty = False  # something changed that peers should hear soon
        self.looked_at = (0, 0)  # accepted and settled tasks when credits were last counted
        self.listens_to: list[str] = []
        self.listens_by: dict[str, list[str]] = {}  # the keys of those publishers
        self.publish_at_s = now
        self.next_seq = 1
        self.askers: dict[int, Asker] = {}  # by the seq of our CONFIGCHANGE
        # moving sessions
        self.address_at_s = now  # when our own entry in the document is looked at
        self.move_at_s = 0.0
        self.balance_until_s = 0.0
        self.balance_at_s = 0.0
        self.fail_back_at_s = 0.0
        self.failing_back: dict[str, float] = {}  # broker → until when its people are looked for, by command

    def linked(self) -> list[Peer]:
        return [peer for peer in self.peers.values() if peer.is_linked]

    def dialings(self) -> list[Dialing]:
        return [*self.seeds.values(), *(peer.dialing for peer in self.peers.values())]

    def by_route(self, route: Route) -> Peer | None:
        """The peer whose link, up or under way, is this one."""
        for peer in self.peers.values():
            if peer.dialing.route == route or (peer.session is not None and peer.session.route == route):
                return peer
        return None

    def of(self, session: Session) -> Peer:
        peer = self.peers[session.identity]
        assert peer.session is session, "a peer's session is known by its identity"
        return peer

    def mark(self, identity: str) -> None:
        """Something about this worker changed: peers that share the heartbeat table hear it."""
        for peer in self.peers.values():
            if peer.is_linked:
                peer.table_due[identity] = None

    def new_route(self) -> Route:
        self.links += 1
        return Route(bytes((DIALED,)) + b"L" + self.links.to_bytes(4, "big"))
