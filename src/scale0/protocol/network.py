"""The network's config: one document that says what every broker, worker and client is told.

Operators write it as TOML, JSON or ZPL; brokers pass it on whole, workers and clients get the part that they need
(`Part`), each in the format that it asked for (`documents.py`). The keys are those of the drafts; a duration's key has
no unit in the document and is in seconds, and its field here ends in `_s`. It holds no secrets: passwords and private
keys stay with each broker.

Every field has a default and every map is a list of entries with a name, so that JSON, XML and ZPL carry the same
document and convert to one another without loss.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

ALL: Final = "all"  # in place of a list of services: every one


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The most that each table, queue and buffer may hold, in messages and in bytes, and what happens then."""

    sessions: int = 20_000  # CONNECT → 503
    services: int = 10_000  # a name more → 429
    queued_per_service: int = 50_000  # TASK → 429
    queued_bytes_per_service: int = 128 * 1024 * 1024  # TASK → 429
    accepted: int = 200_000  # tasks queued and in flight together → 429
    accepted_bytes: int = 512 * 1024 * 1024  # → 429
    accepted_per_client: int = 50_000  # → 429
    undelivered_bytes_per_client: int = 16 * 1024 * 1024  # held for an absent client; then it must ask again
    outcomes: int = 100_000  # settled outcomes kept for resends; the oldest is forgotten
    outcomes_bytes: int = 128 * 1024 * 1024  # of those over 1 KiB; the oldest is forgotten
    dead_letters: int = 1_000  # the oldest is forgotten
    dead_letter_bytes: int = 16 * 1024 * 1024  # the oldest is forgotten
    error_clients: int = 10_000  # the least recently bad is forgotten
    strangers: int = 10_000  # routing ids that were told FORCENEGOTIATE; the oldest is forgotten
    joined_bytes: int = 16 * 1024 * 1024  # partial replies joined for one REQ or Majordomo 0.1 client → 413
    brokers: int = 64  # in one network; a broker more → 429
    config_history: int = 100  # versions kept; the oldest is forgotten
    table_rows: int = 20_000  # workers known from peers' heartbeat tables; more are not learned


class ServiceEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What the config says of one service; `None` leaves it to the workers' READY (rule 15)."""

    name: str
    idempotent: bool | None = None
    max_attempts: int | None = None
    timeout_s: float | None = msgspec.field(default=None, name="timeout")
    policy: Literal["lru"] = "lru"


class PeerEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One peer as a broker is told of it. Rule 30: its heartbeat table is shared by push or pull, or not at all."""

    identity: str
    table: Literal["push", "pull", "off"] = "push"


class BrokerEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One broker.

    Where it listens comes from `bind` and the ports, for whoever starts it; where it is reached comes from `endpoints`
    if they are given, else from `advertise`, or `bind`, and the same ports.
    """

    identity: str
    group: str = ""
    services: list[str] | Literal["all"] = ALL  # the services that it manages, or "all"
    endpoints: list[str] = []
    bind: str = ""  # tcp://host:port, or only the host when the ports are given
    advertise: str = ""  # the host that others use to reach it
    frontend_port: int = 0
    backend_port: int = 0  # 0: the same as frontend_port
    peer_port: int = 0  # 0: the same as frontend_port
    config_pub_port: int = 0  # 0: it publishes nothing
    config_pub: str = ""  # where its publisher is reached; empty: from config_pub_port
    config_sub_ports: list[str] = []  # publishers that it listens to; empty: those of every other broker
    public_key: str = ""  # CURVE, in Z85: who dials it, and whom it dials, knows it by this
    next_public_key: str = ""  # the one that it will have after its key is rotated: either is accepted
    max_role: Literal["view", "operate", "admin"] = "operate"  # the most that commands which it passes on may do
    state: Literal["active", "disabled"] = "active"  # what it starts as
    joined: bool = False  # it entered itself: it keeps its address here up to date, and stays until it is forgotten
    peers: list[PeerEntry] = []  # brokers that it links with; empty: every other one
    fallback_groups: list[str] = []  # in order; empty: those of its group
    fallback_broker: str = ""  # the standby that takes over when this one is gone; it serves nobody before


class GroupEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A group of brokers that stand in for one another, and the groups that are tried when it cannot serve."""

    name: str
    fallback_groups: list[str] = []


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The config of a whole network."""

    network: str = "scale0"
    config_brokers: list[str] = []  # who sequences changes, in order of succession; empty: every broker, as listed
    join: Literal["open", "listed"] = "open"  # whether a broker that is not listed may join by itself
    default_heartbeat_interval_s: float = msgspec.field(default=2.5, name="default_heartbeat_interval")
    liveness: int = 3
    takeover_timeout_s: float | None = msgspec.field(default=None, name="takeover_timeout")  # None: three intervals
    max_clock_skew_s: float = msgspec.field(default=30.0, name="max_clock_skew")
    grace_s: float = msgspec.field(default=5.0, name="grace")
    ageing_s: float = msgspec.field(default=5.0, name="ageing")
    default_timeout_s: float = msgspec.field(default=60.0, name="default_timeout")
    fallback_after_s: float = msgspec.field(default=1.0, name="fallback_after")  # a busy group is given so much time
    failback: Literal["manual", "automatic"] = "manual"
    failback_after_s: float = msgspec.field(default=30.0, name="failback_after")  # a returned broker must settle first
    groups: list[GroupEntry] = []
    brokers: list[BrokerEntry] = []
    service: list[ServiceEntry] = []
    limits: Limits = Limits()

    def broker(self, identity: str) -> BrokerEntry | None:
        return next((entry for entry in self.brokers if entry.identity == identity), None)

    def pair_of(self, identity: str) -> tuple[str, str] | None:
        """The primary and the fallback broker of the pair that this broker belongs to; None if it has no partner."""
        for entry in self.brokers:
            if entry.fallback_broker and identity in (entry.identity, entry.fallback_broker):
                return entry.identity, entry.fallback_broker
        return None

    def over(self, current: Document) -> Document:
        """What comes of applying this document: brokers stay as they are if it lists none, and who joined stays."""
        if not self.brokers:
            return msgspec.structs.replace(self, brokers=current.brokers)
        listed = {entry.identity for entry in self.brokers}
        joined = [entry for entry in current.brokers if entry.joined and entry.identity not in listed]
        return msgspec.structs.replace(self, brokers=[*self.brokers, *joined]) if joined else self

    def group_of(self, name: str) -> list[BrokerEntry]:
        """The brokers of group `name`, as listed. Brokers without a group form one together."""
        return [entry for entry in self.brokers if entry.group == name]

    def fallback_groups(self, entry: BrokerEntry) -> list[str]:
        """The groups that stand in for this broker's own, in order."""
        own = next((group.fallback_groups for group in self.groups if group.name == entry.group), [])
        return [name for name in entry.fallback_groups or own if name != entry.group]


class GroupBroker(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A broker as its group's config names it to workers and clients."""

    identity: str
    services: list[str] | Literal["all"] = ALL
    endpoints: list[str] = []
    config_pub: str = ""
    public_key: str = ""
    next_public_key: str = ""  # tried when the handshake with the other one fails
    partner: str = ""  # the other one of its pair, which holds its state and stands in for it


class GroupConfig(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    name: str
    brokers: list[GroupBroker] = []


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker or client gets: its own group first in `group_config`, then the fallback groups in order."""

    identity: str
    services: list[str] = []
    preferred_broker: str = ""
    group_config: list[GroupConfig] = []
    default_heartbeat_interval_s: float = msgspec.field(default=2.5, name="default_heartbeat_interval")
    liveness: int = 3


class ConfigRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One version of the document, with where it came from. Brokers keep and exchange these."""

    version: bytes  # packed ConfigVersion
    document: bytes  # canonical JSON
    author: str = ""
    comment: str = ""
    time_us: int = 0
    state: Literal["past", "lost"] = "past"  # lost: sequenced on the losing side of a partition
