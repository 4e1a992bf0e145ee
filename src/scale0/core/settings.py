"""What a broker is told: its part of the network's document, and what only its own process knows.

`document_for` makes the document of a network that is this broker alone; `settings_for` finds one broker's settings in
a document. Who may manage it and the addresses that were really bound are the process's own and come from no document.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from scale0.protocol.network import ALL, BrokerEntry, Document, Limits, ServiceEntry
from scale0.protocol.network_addresses import publishes_at, reached_at

__all__ = ["BrokerSettings", "Limits", "ManagementSettings", "ServiceSettings", "document_for", "settings_for"]


TAKEOVER_INTERVALS = 3  # of silence, unless the document has another figure


class ServiceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the config says of one service; `None` leaves it to the workers' READY (rule 15)."""

    idempotent: bool | None = None
    max_attempts: int | None = None
    timeout_s: float | None = None  # None: default_timeout_s


class ManagementSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How this broker is managed. Who may is in the file `users`; without one nobody is let in by a password."""

    http: str = ""  # HOST:PORT of the page and the API; empty: none
    users: str = ""
    audit: str = ""  # empty: in the state directory, or beside the users
    allowed_hosts: list[str] = []  # names of the page, besides its address and those of this machine
    trusted_proxies: list[str] = []  # whose word on a request's source is taken
    tls_cert: str = ""
    tls_key: str = ""
    scrape_token_file: str = ""
    colour: str = ""  # of the stripe in the page's header
    webhook: str = ""  # an address that hears of alarms
    otlp: str = ""  # an address that metrics are pushed to
    plain_peers: Literal["none", "view", "operate", "admin"] = "view"  # the most that is done for peers without a key


class BrokerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One broker's settings."""

    identity: str = "broker"
    group: str = ""
    services: list[str] | None = None  # the services it manages; None means all
    default_heartbeat_interval_s: float = 2.5  # the floor: longer may be agreed, shorter is raised to it
    liveness: int = 3  # silence for that many intervals means gone
    takeover_timeout_s: float | None = None  # silence for so long, and a fallback may take over; None: three intervals
    max_clock_skew_s: float = 30.0
    grace_s: float = 5.0  # how long a disabling broker waits for what is in flight; how long outcomes outlive deadlines
    ageing_s: float = 5.0  # a waiting task gains one priority level each time this passes
    default_timeout_s: float = 60.0
    fallback_after_s: float = 1.0  # how long a busy group is given before fallback groups are asked
    failback: str = "manual"  # or automatic: those who came from a broker that is back are sent to it again
    failback_after_s: float = 30.0
    service: dict[str, ServiceSettings] = {}
    limits: Limits = Limits()
    management: ManagementSettings = ManagementSettings()
    advertise: list[str] = []  # endpoints named in CHANGEBROKER and in the config
    config_pub: str = ""  # where it publishes its config's version
    network: str = "scale0"
    join: str = "open"
    process: str = ""  # host:number of the process that this broker is
    public_key: str = ""  # its own; with one, every connection is encrypted and has a key (`access`)

    @property
    def takeover_s(self) -> float:
        return self.takeover_timeout_s or TAKEOVER_INTERVALS * self.default_heartbeat_interval_s

    def timeout_s(self, service: str) -> float:
        known = self.service.get(service)
        return known.timeout_s if known and known.timeout_s is not None else self.default_timeout_s


_SHARED = (
    "default_heartbeat_interval_s",
    "liveness",
    "takeover_timeout_s",
    "max_clock_skew_s",
    "grace_s",
    "ageing_s",
    "default_timeout_s",
    "fallback_after_s",
    "failback",
    "failback_after_s",
    "limits",
    "network",
    "join",
)
"""What a document says for all brokers alike, under the same names."""


def entry_for(settings: BrokerSettings) -> BrokerEntry:
    """How this broker enters itself into a document."""
    return BrokerEntry(
        identity=settings.identity,
        group=settings.group,
        services=ALL if settings.services is None else settings.services,
        endpoints=settings.advertise,
        config_pub=settings.config_pub,
        public_key=settings.public_key,
        joined=True,
    )


def document_for(settings: BrokerSettings) -> Document:
    """The document of a network that is this broker alone."""
    shared = {name: getattr(settings, name) for name in _SHARED}
    service = [
        ServiceEntry(name=name, idempotent=told.idempotent, max_attempts=told.max_attempts, timeout_s=told.timeout_s)
        for name, told in settings.service.items()
    ]
    return Document(brokers=[entry_for(settings)], service=service, **shared)


def settings_for(document: Document, local: BrokerSettings) -> BrokerSettings:
    """This broker's settings by `document`; what it alone knows stays as it is in `local`."""
    shared = {name: getattr(document, name) for name in _SHARED}
    service = {
        told.name: ServiceSettings(told.idempotent, told.max_attempts, told.timeout_s) for told in document.service
    }
    entry = document.broker(local.identity)
    if entry is None:  # not entered yet, or no longer
        return msgspec.structs.replace(local, service=service, **shared)
    return msgspec.structs.replace(
        local,
        service=service,
        group=entry.group,
        services=None if isinstance(entry.services, str) else entry.services,
        advertise=local.advertise or reached_at(entry),
        config_pub=local.config_pub or publishes_at(entry),
        **shared,
    )
