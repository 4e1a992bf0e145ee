"""What a worker is told, checked once and in words: addresses, identity, capacity, time limits."""

from __future__ import annotations

import math
import os
import secrets
import socket
from pathlib import Path

import msgspec

from scale0.core.held_config import SavedConfig
from scale0.core.link import LinkSettings
from scale0.errors import UsageError
from scale0.protocol import limits
from scale0.transport.addresses import this_process
from scale0.transport.key_files import KeyPair, own_pair, server_keys


class WorkerOptions(msgspec.Struct, kw_only=True):
    """Everything that `Worker` takes, with its default."""

    brokers: list[str]
    identity: str | None = None
    capacity: int = 1
    processes: bool = False
    heartbeat_interval_s: float = 2.5
    adapt: bool = True
    retry_forever: bool = False
    connect_timeout_s: float = 3.0
    drain_timeout_s: float = 30.0
    save_config: Path | None = None  # the file that keeps the last config
    key: str | None = None  # its own, by name or path; None: as the environment says
    server_key: str | None = None  # the brokers' public keys; None: as the environment says

    def check(self) -> None:
        """Raise `UsageError` for what cannot be right."""
        check_capacity(self.capacity)
        for name in ("heartbeat_interval_s", "connect_timeout_s", "drain_timeout_s"):
            seconds = getattr(self, name)
            if not (isinstance(seconds, int | float) and 0 < seconds < math.inf):
                raise UsageError(f"{name.removesuffix('_s')} is a number of seconds above 0, not {seconds!r}")
        self.link_settings([], SavedConfig())

    @property
    def pair(self) -> KeyPair | None:
        """The key as its file says now."""
        return own_pair(self.key)

    def link_settings(self, services: list[str], saved: SavedConfig) -> LinkSettings:
        """Settings of a new session. Its nonce is fresh, for a session belongs to one life of a worker."""
        return LinkSettings(
            endpoints=self.brokers,
            identity=self.identity if self.identity is not None else _made_identity(),
            nonce=os.urandom(limits.NONCE_BYTES),
            services=services,
            process=this_process(),
            heartbeat_interval_s=self.heartbeat_interval_s,
            connect_timeout_s=self.connect_timeout_s,
            retry_forever=self.retry_forever,
            saved=saved,
            keeps_config=self.save_config is not None,
            public_keys=server_keys(self.server_key, self.brokers, is_needed=self.pair is not None),
        )


def check_capacity(capacity: int) -> int:
    if not isinstance(capacity, int) or not 1 <= capacity <= limits.CAPACITY_MAX:
        raise UsageError(f"capacity is a whole number from 1 to {limits.CAPACITY_MAX:,}, not {capacity!r}")
    return capacity


def _made_identity() -> str:
    host = socket.gethostname().split(".")[0][:40] or "host"
    return f"{host}-{os.getpid()}-{secrets.token_hex(4)}"
