"""What a broker is told: its part of the config, with a default for everything.

Each limit is named here, with what happens when it is reached (rule 33).
"""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The most that each table, queue and buffer may hold, in messages and in bytes."""

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


class ServiceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the config says of one service; `None` leaves it to the workers' READY (rule 15)."""

    idempotent: bool | None = None
    max_attempts: int | None = None
    timeout_s: float = 60.0


class ManagementSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who may send MANAGEMENTREQ: auth_id → SHA-256 of the password, in hex. Empty: nobody."""

    passwords: dict[str, str] = {}


class BrokerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One broker's settings."""

    identity: str = "broker"
    group: str = ""
    services: list[str] | None = None  # the services it manages; None means all
    default_heartbeat_interval_s: float = 2.5  # the floor: longer may be agreed, shorter is raised to it
    liveness: int = 3  # silence for that many intervals means gone
    max_clock_skew_s: float = 30.0
    grace_s: float = 5.0  # how long a disabling broker waits for what is in flight; how long outcomes outlive deadlines
    ageing_s: float = 5.0  # a waiting task gains one priority level each time this passes
    default_timeout_s: float = 60.0
    service: dict[str, ServiceSettings] = {}
    limits: Limits = Limits()
    management: ManagementSettings = ManagementSettings()
    advertise: list[str] = []  # endpoints named in CHANGEBROKER and in the config

    def timeout_s(self, service: str) -> float:
        known = self.service.get(service)
        return known.timeout_s if known else self.default_timeout_s
